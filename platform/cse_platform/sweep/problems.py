"""Problems of a sweep file: how they are gathered, and formatted with their values."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from cse_methods.errors import CseError, nearest_names
from cse_platform.errors import NotInstalledError
from cse_platform.secrets import mask_values

_T = TypeVar("_T")

Steps = tuple[str | int, ...]
"""Keys and list positions from the top of a sweep down to a value."""

MAX_SHOWN = 80

_SAME_THING = {
    **dict.fromkeys(("min", "lower", "minimum", "start", "from"), "low"),
    **dict.fromkeys(("max", "upper", "maximum", "stop", "end", "to"), "high"),
    **dict.fromkeys(("values", "options", "categories"), "choices"),
    **dict.fromkeys(("hours", "time", "budget", "n_trials", "num_trials", "num_samples"), "trials"),
    **dict.fromkeys(("algorithm", "algo", "strategy"), "sampler"),
    **dict.fromkeys(("scheduler", "early_stopping"), "pruner"),
    **dict.fromkeys(("name", "study", "experiment_name"), "sweep"),
    **dict.fromkeys(("model", "encoder", "base_model"), "backbone"),
    **dict.fromkeys(("dataset", "train_file", "training_data"), "corpus"),
    **dict.fromkeys(("parameters", "search_space", "hyperparameters"), "space"),
    **dict.fromkeys(("gpus", "num_gpus"), "gpu"),
    **dict.fromkeys(("cpus", "num_cpus"), "cpu"),
    **dict.fromkeys(("lr", "eta"), "learning_rate"),
    **dict.fromkeys(("bs", "batch", "per_device_train_batch_size"), "batch_size"),
    **dict.fromkeys(("num_epochs", "num_train_epochs"), "epochs"),
    **dict.fromkeys(("steps", "num_steps", "num_train_steps"), "max_steps"),
    **dict.fromkeys(("max_seq_length", "max_seq_len", "seq_length"), "max_length"),
    **dict.fromkeys(("temp", "tau"), "temperature"),
    **dict.fromkeys(("warmup", "warmup_steps"), "warmup_ratio"),
    **dict.fromkeys(("pooling", "pooler_type"), "pooler"),
}
"""Words of other tools -> ours."""


@dataclass(frozen=True)
class Problem:
    """One problem of a sweep: what was refused, the value, and the way out."""

    path: Steps
    text: str
    place: int | str | None = None
    """Line (from 1) or `--set …`; None where the path leads to it."""

    def under(self, prefix: Steps) -> "Problem":
        """Return the problem with its path extended at the top."""
        return replace(self, path=prefix + self.path)


@dataclass
class Inspection:
    """Gathers problems of one sweep from checks, each run only where what it needs is sound.

    What a check raises becomes a problem of the keys that it is about. A later check that needs one
    of these does not run, and all others do.
    """

    problems: list[Problem] = field(default_factory=list)
    """Paths start at the sweep."""
    to_install: list[str] = field(default_factory=list)
    """Requirements that are not installed on this machine, a line each."""

    def copy(self) -> "Inspection":
        """Copy the inspection, to go on from it."""
        return Inspection(list(self.problems), list(self.to_install))

    @property
    def wrong_keys(self) -> set[str]:
        """Keys at the top of the sweep with a problem; one without a path counts as of `fixed`."""
        return {str(problem.path[0]) if problem.path else "fixed" for problem in self.problems}

    def is_sound(self, *keys: str) -> bool:
        """Return True if no problem of these keys is known."""
        return self.wrong_keys.isdisjoint(keys)

    def attempt(
        self, path: Steps, check: Callable[[], _T], *, needs: Sequence[str] = ()
    ) -> _T | None:
        """Run a check and return its result; None if it fails or a key that it needs is wrong.

        `path` says what the check is about.
        """
        if not self.is_sound(*needs):
            return None
        try:
            return check()
        except NotInstalledError as error:
            if str(error) not in self.to_install:
                self.to_install.append(str(error))
        except CseError as error:
            problem = Problem(path, str(error).removeprefix(f"{dotted_path(path)}: "))
            if problem not in self.problems:
                self.problems.append(problem)
        return None


class ProblemsError(ValueError):
    """Raised by a validator with all problems it found; paths start at the validated value."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(joined_problems(problems))
        self.problems = tuple(problems)


def dotted_path(path: Steps) -> str:
    """Format a path as `--set` takes it, e.g. `space.tau2.1`."""
    return ".".join(map(str, path))


def joined_problems(problems: Iterable[Problem]) -> str:
    """Join the problems in one line, each after its path."""
    return "; ".join(f"{dotted_path(p.path)}: {p.text}".removeprefix(": ") for p in problems)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Suggest the known name that was meant, as the end of a sentence; empty if none is near."""
    known = list(known)
    ours = _SAME_THING.get(name.lower())
    close = [ours] if ours in known else nearest_names(name, known)
    return f"; did you mean {close[0]!r}?" if close else ""


def our_words(keys: Iterable[Any], known: Iterable[str]) -> str:
    """Suggest our words for other tools' keys, as the end of a sentence; empty if none fits.

    `known` has the keys that are expected.
    """
    known = list(known)
    ours = {key: _SAME_THING.get(str(key).lower()) for key in keys}
    said = [f"{word!r} for {key!r}" for key, word in ours.items() if word in known]
    return f"; write {' and '.join(said)}" if said else ""


def format_value(value: Any) -> str:
    """Format a value on one short line, as YAML would have it, with secrets masked."""
    value = mask_values(value)
    quoted = isinstance(value, str)
    text = repr(value) if quoted else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"
