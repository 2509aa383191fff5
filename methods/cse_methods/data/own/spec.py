"""The settings that name a file of a lab's own pairs."""

from pathlib import Path
from typing import Self

from pydantic import Field, field_validator

from cse_methods.files.named import absolute_name, bare_name, is_file_name
from cse_methods.files.tables import ColumnName, TableSettings


class OwnPairs(TableSettings):
    """A file with two sentences and a score a row, named by the file's name without its endings."""

    file: str = Field(min_length=1, description="CSV, TSV, JSON lines or parquet; UTF-8")
    columns: tuple[ColumnName, ColumnName, ColumnName] | None = Field(
        default=None,
        description="of both sentences and the score: names, or numbers from 1; found if left out",
    )
    scale: tuple[float, float] | None = Field(
        default=None, description="the lowest and the highest score there can be; else found"
    )
    sha256: str | None = Field(
        default=None, description="of the pairs: a file with others is refused"
    )

    @field_validator("scale")
    @classmethod
    def _check_scale(cls, scale: tuple[float, float] | None) -> tuple[float, float] | None:
        if scale is not None and scale[0] >= scale[1]:
            raise ValueError(f"expected the lowest score, then the highest, got {list(scale)}")
        return scale

    @property
    def name(self) -> str:
        """Name of the set in metrics, on the leaderboard and in MLflow."""
        return bare_name(self.file)

    def from_folder(self, folder: Path) -> Self:
        """Return a copy with the file's absolute path; a relative path starts at the sweep file's
        `folder`.
        """
        return self.model_copy(update={"file": absolute_name(self.file, folder)})


def is_pairs_file(word: str) -> bool:
    """Whether a value in a sweep file names a file of pairs on this machine or on the hub."""
    return is_file_name(word) or word.startswith("hf://")
