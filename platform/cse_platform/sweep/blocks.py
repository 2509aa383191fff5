"""The blocks of a sweep file: seeds, evaluate, keep, stores, search and resources."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from cse_methods.data.own.naming import register_own_set
from cse_methods.errors import DataError, EvaluationError
from cse_methods.settings import Positive, Settings, WholeNumber
from cse_methods.tasks import OwnSet, Tasks, parse_tasks
from cse_platform.databases import expand_url
from cse_platform.secrets import hide
from cse_platform.sweep.problems import Problem, ProblemsError, Steps, did_you_mean, format_value
from cse_platform.sweep.samplers import Sampler, Tpe
from cse_platform.values import is_number


@lru_cache(maxsize=1024)  # most lines of a journal name the same sweep and few trials
def _check_slug(value: str) -> str:
    """Refuse a name that cannot be used for folders and URLs."""
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", value):
        return value
    raise ValueError(
        "expected at most 100 letters, digits, '-', '_' and '.', the first a letter or digit, "
        f"got {format_value(value)}"
    )


EXPECTED_URL = (
    "expected a URL as Apprise writes it, such as slack://TOKEN-A/TOKEN-B/TOKEN-C or "
    "mailto://lab@mail.lab?to=ann@mail.lab (docs/running.md, https://appriseit.com)"
)


def _hide_urls(value: Any) -> Any:
    """Register the URLs as secrets, so that every later message masks them.

    Refuses a text that is no URL, without showing it, as it may hold a token.
    """
    urls: dict[Steps, Any] = {(): value}
    if isinstance(value, (list, tuple)):
        urls = {(position,): url for position, url in enumerate(value)}
    problems = []
    for path, url in urls.items():
        if isinstance(url, str) and "://" in url:
            hide(url)
        elif isinstance(url, str):
            problems.append(Problem(path, EXPECTED_URL))
    if problems:
        raise ProblemsError(problems)
    return value


SecretUrls = Annotated[tuple[SecretStr, ...], BeforeValidator(_hide_urls)]
Slug = Annotated[str, Field(min_length=1), AfterValidator(_check_slug)]
Seed = Annotated[WholeNumber, Field(ge=0, lt=2**32)]
Share = Annotated[float, Field(strict=True, allow_inf_nan=False)]


class Confirmation(Settings):
    """Further seeds for the best configurations."""

    top: Positive = Field(description="how many configurations")
    seeds: tuple[Seed, ...] = Field(min_length=1, description="each distinct")
    race: bool = Field(
        default=False,
        strict=True,
        description="give a further seed only to configurations that can still be the best",
    )

    @field_validator("seeds")
    @classmethod
    def _check_distinct(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(seeds)) < len(seeds):
            raise ValueError(f"expected distinct seeds, got {format_value(list(seeds))}")
        return seeds


class TrialSeeds(Settings):
    """The seeds of trials."""

    search: Seed = Field(default=42, description="of every trial of the search")
    repeats: bool = Field(
        default=False,
        strict=True,
        description="give further seeds during the search to configurations that may be the best; "
        "they count in `search.trials`",
    )
    confirm: Confirmation | None = None

    @model_validator(mode="before")
    @classmethod
    def _refuse_bare_seeds(cls, value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | list) or value == []:
            return value
        got, (first, *further) = format_value(value), value if isinstance(value, list) else [value]
        block = (
            f"{{search: {format_value(first)}}} for the seed of the search; further seeds of the "
            "best 3 are `confirm: {top: 3, seeds: [0, 1]}` in it"
        )
        if further:
            block = (
                f"{{search: {format_value(first)}, confirm: {{top: 3, seeds: {got}}}}}: one seed "
                "for the search, and all of them for its best 3 configurations"
            )
        raise ValueError(f"expected a mapping, got {got}; write {block}")

    @property
    def further(self) -> tuple[int, ...]:
        """The seeds that the best configurations get in addition to the search's own."""
        seeds = () if self.confirm is None else self.confirm.seeds
        return tuple(seed for seed in seeds if seed != self.search)


class Evaluate(Settings):
    """Selects the trials to score on test sets, and the test sets."""

    top: Positive = Field(description="how many configurations, chosen on dev")
    files: dict[str, OwnSet] = Field(
        default={},
        exclude_if=lambda files: not files,
        description="own test sets by name; gathered from `tasks`",
    )
    tasks: tuple[str, ...] = Field(
        min_length=1,
        description="`sts`, `transfer`, `ranking`, `geometry`, `long`, single ones, own files, or "
        "tasks of mteb",
    )
    slicing_length: Annotated[WholeNumber, Field(ge=3)] | None = Field(
        default=None, description="read texts by segments of so many word pieces, as HiCL does"
    )

    @model_validator(mode="before")
    @classmethod
    def _gather_files(cls, values: Any) -> Any:
        if not isinstance(values, Mapping) or not isinstance(values.get("tasks"), (list, tuple)):
            return values
        files = dict(values.get("files") or {})
        words = [
            register_own_set(f"tasks.{number}", entry, files, dev=False)
            for number, entry in enumerate(values["tasks"])
        ]
        return {**values, "tasks": words, **({"files": files} if files else {})}

    def with_files(self, change: Callable[[OwnSet], OwnSet]) -> Self:
        """Return a copy with each own set changed, for example to an absolute path."""
        files = {name: change(own) for name, own in self.files.items()}
        return self.model_copy(update={"files": files})

    @property
    def parsed_tasks(self) -> Tasks:
        """The parsed tasks, own files included."""
        return parse_tasks(self.tasks, self.files)

    @field_validator("tasks")
    @classmethod
    def _check_known(cls, words: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        try:
            parse_tasks(words, info.data.get("files"))
        except EvaluationError as problem:
            raise ValueError(str(problem)) from None
        return words


class Keep(Settings):
    """Which models stay on disk when the sweep is complete."""

    models: Positive | Literal["all"] = Field(
        default=10,
        description="models are kept of the trials of so many configurations, the best on dev, or "
        "`all`",
    )


def _expand_written(written: str) -> str:
    try:
        return expand_url(written)
    except DataError as error:
        raise ValueError(str(error)) from None


PathOrUrl = Annotated[str, Field(min_length=1), AfterValidator(_expand_written)]
"""A folder or URL; `~` and `${NAME}` are expanded, so that a journal says where it was."""


class StoreUrls(Settings):
    """URLs of databases and servers; None stands for the environment's, or a file under `runs/`."""

    leaderboard: PathOrUrl | None = None
    search: PathOrUrl | None = None
    mlflow: PathOrUrl | None = None


_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86400}
LONGEST_DAYS = 36500
"""A time of the clock that is so far away still has a date."""
_DURATION = re.compile(rf"(?P<count>\d+(\.\d+)?) ?(?P<unit>{'|'.join(_UNITS)})")


_LONG_UNITS = re.compile(
    r"(?P<count>\d+(\.\d+)?) ?((?P<s>s\w*)|(?P<min>m|mins?|minutes?)|(?P<h>h\w*)|(?P<d>d\w*))",
    re.IGNORECASE,
)


def _parse_duration(value: Any) -> Any:
    """Parse a time of a file as seconds; a real number, as stored specs have it, is seconds."""
    if isinstance(value, str) and (match := _DURATION.fullmatch(value.strip())):
        seconds = float(match["count"]) * _UNITS[match["unit"]]
        if seconds > LONGEST_DAYS * _UNITS["d"]:
            raise ValueError(f"expected at most {LONGEST_DAYS}d, got {format_value(value)}")
        return seconds
    if isinstance(value, float):
        return value
    hint = ""
    if isinstance(value, str) and (match := _LONG_UNITS.fullmatch(value.strip())):
        unit = next(unit for unit in _UNITS if match[unit])
        hint = f"; write {match['count']}{unit}"
    elif is_number(value):
        hint = f"; write its unit: {value}s, {value}min or {value}h"
    raise ValueError(
        f"expected a time such as 90s, 20min, 2h or 1d, got {format_value(value)}{hint}"
    )


Duration = Annotated[float, BeforeValidator(_parse_duration), Field(gt=0)]
"""A time in seconds, written in a file as `90s`, `20min`, `2h` or `1d`."""
DurationOrZero = Annotated[
    float, BeforeValidator(_parse_duration), Field(ge=0, allow_inf_nan=False)
]
"""A `Duration` that may be zero: `0s`."""


def format_duration(seconds: float) -> str:
    """Format seconds in the largest unit that needs at most one decimal: `8h`, `1.5h`."""
    fitting = [unit for unit, size in _UNITS.items() if round(seconds / size, 1) * size == seconds]
    unit = fitting[-1] if fitting else "s"
    return f"{seconds / _UNITS[unit]:g}{unit}"


class Budget(Settings):
    """Limits of a search; it proposes no new trials once the first of them is reached.

    Running trials still finish. Further seeds and test scores are not included in the limits.
    """

    time: Duration | None = Field(
        default=None, description="how long trials of the search may run, all in all, e.g. `8h`"
    )
    gpu_hours: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None, description="hours of whole GPUs that trials of the search may take"
    )

    def describe(self) -> list[str]:
        """Describe each limit in words."""
        time = [] if self.time is None else [f"{format_duration(self.time)} of trials"]
        hours = [] if self.gpu_hours is None else [f"{self.gpu_hours:g} GPU-hours"]
        return [*time, *hours]

    @model_validator(mode="after")
    def _check_some(self) -> Self:
        if self.time is self.gpu_hours is None:
            raise ValueError("expected 'time', 'gpu_hours' or both")
        return self


def trials_within(
    budget: Budget | None,
    *,
    each: float,
    at_once: int,
    gpu: float,
    count: int | None,
    seconds: float = 0.0,
    gpu_seconds: float = 0.0,
) -> float | None:
    """Estimate how many trials start before a budget is spent; None if nothing limits them.

    `each` is the seconds of a trial, `gpu` its share of a GPU, and `count` another limit; `seconds`
    and `gpu_seconds` are already spent.
    """
    limits = [] if count is None else [float(count)]
    if budget is not None and budget.time is not None:
        limits.append((budget.time - seconds) * at_once / each)
    if budget is not None and budget.gpu_hours is not None and gpu:
        limits.append((3600 * budget.gpu_hours - gpu_seconds) / (each * gpu))
    return max(min(limits), 0.0) if limits else None


def _check_start_point(value: Any) -> Any:
    words = ("published", "leaderboard")
    if value not in words and not isinstance(value, Mapping):
        hint = did_you_mean(value, words) if isinstance(value, str) else ""
        raise ValueError(
            "expected 'published', 'leaderboard' or a mapping name -> value, got "
            f"{format_value(value)}{hint}"
        )
    return value


StartPoint = Annotated[
    Literal["published", "leaderboard"] | dict[str, Any], PlainValidator(_check_start_point)
]


class Search(Settings):
    """How configurations are proposed, and when the search ends."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        "timeout": "write search: {budget: {time: …}}, such as {time: 2h}",
        "objectives": (
            "removed in 0.1.0: a search has one objective, which dev: {search: …} names; for "
            "several, read search.db with Optuna's own tools"
        ),
        "constraints": (
            "removed in 0.1.0: choose among the trials by their metrics, on the page, or read "
            "search.db with Optuna's own tools"
        ),
    }
    sampler: Sampler = Tpe()
    trials: Positive | None = Field(
        default=None,
        description="configurations to try; a grid may leave it out and try all, and so may a "
        "search with another budget",
    )
    budget: Budget | None = Field(
        default=None, description="what else ends the search: `time`, `gpu_hours`"
    )
    seed: Seed = Field(default=42, description="of the sampler")
    start_from: tuple[StartPoint, ...] = Field(
        default=(),
        description="configurations tried first: `published`, `leaderboard`, or values by name",
    )
    learn_from: tuple[Slug, ...] = Field(
        default=(), description="sweeps of the same method whose trials the sampler gets to know"
    )
    give_up_after: Positive = Field(
        default=3,  # failures with the same cause that are no longer a coincidence
        description="stop where so many trials have failed alike and no other has ended",
    )

    @model_validator(mode="after")
    def _check_counts(self) -> Self:
        if self.trials is None and self.budget is None and self.sampler.kind != "grid":
            raise ValueError(
                f"sampler {self.sampler.kind!r} needs 'trials', how many to try, or 'budget'"
            )
        return self


CHECKPOINT_EVERY = 60.0
"""Seconds. Losing a minute of work is cheap, and copying BERT-base's state took 1 to 3 s of it on a
CPU. Where steps are slow, dev points are further apart than this, and each has its checkpoint."""


class Resources(Settings):
    """The resources of one trial, which runs on one device, and how many trials run at once."""

    gpu: Annotated[Share, Field(ge=0, le=1)] = Field(default=0.0, description="share of a GPU")
    cpu: Annotated[Share, Field(gt=0)] = Field(default=1.0, description="CPU cores")
    at_most: Annotated[int, Field(ge=1, strict=True)] | None = Field(
        default=None,
        description="how many trials may run at once; by default as many as there is room for",
    )
    fresh_process: bool = Field(
        default=False,
        strict=True,
        description="start a process for every trial, as for a method that leaves something behind",
    )
    timeout: Duration | None = Field(
        default=None,
        description="how long a trial may take, e.g. `2h`; one that takes longer goes on once from "
        "its checkpoint, and then fails",
    )
    silent_for: Duration | None = Field(
        default=None,
        description="how long a trial may report nothing, e.g. `20min`; by default 20 times as "
        "long as ever before, and never less than 10 minutes",
    )
    checkpoint_every: DurationOrZero = Field(
        default=CHECKPOINT_EVERY,
        description="how much of a trial a killed process may cost, e.g. `5min`: a dev point has a "
        "checkpoint if the last one is older; `0s` writes one at each",
    )

    @property
    def threads(self) -> int:
        """CPU threads of a trial."""
        return max(1, int(self.cpu))
