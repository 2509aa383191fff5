"""The errors of this package form one tree.

`SettingError` stands apart: validators raise it, and pydantic gathers it with the other
problems of a configuration.
"""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest_names(word: str, known: Iterable[str]) -> list[str]:
    """Find the known word that is nearest to a word, ignoring case; empty if none is near.

    A near word that begins with the word wins over all others.
    """
    word, by_lower_case = word.lower(), {name.lower(): name for name in known}
    near = get_close_matches(word, by_lower_case)
    return [by_lower_case[name] for name in sorted(near, key=lambda n: not n.startswith(word))[:1]]


def nearest_hint(word: str, known: Iterable[str]) -> str:
    """Ask after the nearest of the known words, with a blank in front; empty if none is near."""
    nearest = nearest_names(word, known)
    return f" Did you mean {nearest[0]!r}?" if nearest else ""


class CseError(Exception):
    """Base of every error that a user can cause; the commands print it without a traceback."""


class UnknownMethodError(CseError):
    """No method of that name is registered."""


class BrokenMethodError(UnknownMethodError):
    """A package claims a method that it cannot give: its code raises, or does not register it."""


class NewMethodError(CseError):
    """A package for a new method cannot be written: its name is taken, its folder is not empty."""


class BackboneError(CseError):
    """An encoder is unknown, missing or cannot be used."""


class UnknownModelError(BackboneError):
    """An encoder is of a family, or has modules, that this package does not read itself."""


class DataError(CseError):
    """A corpus or dev set is missing, damaged or of the wrong size."""


class TableError(DataError):
    """A table that is damaged, or that other settings would read.

    Args:
        problem: what is wrong with it, and how to mend the file.
        setting: what else could be stated of it: its `format`, its `separator`, or that it is
            `unquoted`.
        advice: how a sweep file states that; empty where no sweep file names the table.
    """

    def __init__(self, problem: str, *, setting: str, advice: str) -> None:
        super().__init__(problem + advice)
        self.problem, self.setting = problem, setting


class CheckpointError(CseError):
    """A checkpoint is not whole or belongs to another trial."""


class TrainingError(CseError):
    """Training cannot go on: too few sentences for a batch."""


class DivergenceError(TrainingError):
    """The loss of a configuration is no longer a number."""


class EvaluationError(CseError):
    """An encoder cannot be scored: NaN in its embeddings, an unknown task."""


class GuardError(CseError):
    """A process that trains tried to open a test set."""


class SettingError(ValueError):
    """A setting that is fine alone but not beside the others.

    Args:
        setting: the name of the setting to blame, so that a file's line can be shown; for a part of
            it the path, such as `also.1`.
        problem: what was refused, why, and the way out.
    """

    def __init__(self, setting: str, problem: str) -> None:
        super().__init__(problem)
        self.setting = setting
