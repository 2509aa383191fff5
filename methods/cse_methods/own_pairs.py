"""The settings that name a file of a lab's own pairs."""

from collections.abc import Callable
from typing import Any, Self

from pydantic import field_validator

from cse_methods.files.named import bare_name, is_file_name
from cse_methods.files.table_settings import ColumnName, TableSettings
from cse_methods.settings import setting
from cse_methods.task_reference import is_reference

SENTENCE_NAMES = (
    ("sentence1", "sentence2"),
    ("sentence_A", "sentence_B"),
    ("text1", "text2"),
    ("text_a", "text_b"),
    ("sent1", "sent2"),
    ("s1", "s2"),
    ("question1", "question2"),
)
"""Usual names of the sentence columns; case and punctuation do not matter."""


class OwnPairs(TableSettings):
    """A file with two sentences and a score a row."""

    file: str = setting(..., "CSV, TSV, JSON lines or Parquet; UTF-8", min_length=1)
    name: str | None = setting(
        None,
        "of the set; else the file's without its endings",
        exclude_if=lambda name: name is None,
    )
    columns: tuple[ColumnName, ColumnName, ColumnName] | None = setting(
        None, "of both sentences and the score: names, or numbers from 1; found if left out"
    )
    scale: tuple[float, float] | None = setting(
        None, "the lowest and the highest score there can be; else found"
    )
    sha256: str | None = setting(None, "of the pairs: a file with others is refused")

    @field_validator("columns", mode="before")
    @classmethod
    def _check_three_columns(cls, columns: Any) -> Any:
        is_list = isinstance(columns, (list, tuple))
        if columns is not None and not (is_list and len(columns) == len({*map(str, columns)}) == 3):
            raise ValueError(
                "expected three columns, [FIRST, SECOND, SCORE], by name or by number from 1, each "
                f"once, got {columns!r}"
            )
        return columns

    @field_validator("scale")
    @classmethod
    def _check_scale(cls, scale: tuple[float, float] | None) -> tuple[float, float] | None:
        if scale is not None and scale[0] >= scale[1]:
            raise ValueError(f"expected the lowest score, then the highest, got {list(scale)}")
        return scale

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that are read: one."""
        return (self.file,)

    @property
    def scored_paths(self) -> tuple[str, ...]:
        """Those with what is scored."""
        return (self.file,)

    @property
    def set_name(self) -> str:
        """Name of the set in metrics, on the leaderboard and in MLflow."""
        return bare_name(self.file) if self.name is None else self.name

    def with_paths(self, change: Callable[[str], str]) -> Self:
        """Return a copy with the path changed."""
        return self.model_copy(update={"file": change(self.file)})


def is_pairs_file(word: str) -> bool:
    """Whether a value in a sweep file names a file of pairs on this machine or on the hub."""
    return word.startswith("hf://") or (is_file_name(word) and not is_reference(word))
