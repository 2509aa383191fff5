"""Which corpora a trial trains on, as a configuration names them."""

from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field

from cse_methods.files.named import absolute_name
from cse_methods.settings import Settings


class CorpusSpec(Settings):
    """One corpus of raw sentences."""

    name: str = Field(min_length=1, description="a corpus name, or a text file, a sentence a line")
    drop_empty: bool = Field(default=False, description="drop empty lines instead of refusing")
    split_at: int | None = Field(
        default=None,
        ge=4,
        description="sentences longer than this many word pieces, special ones included, are cut "
        "into several; null does not cut",
    )

    def from_folder(self, folder: Path) -> Self:
        """The same corpus for a process anywhere: its file is named as a sweep file in `folder`."""
        return self.model_copy(update={"name": absolute_name(self.name, folder)})


def _as_corpora(value: Any) -> Any:
    entries = value if isinstance(value, (list, tuple)) else [value]
    return tuple({"name": entry} if isinstance(entry, str) else entry for entry in entries)


Corpora = Annotated[tuple[CorpusSpec, ...], BeforeValidator(_as_corpora), Field(min_length=1)]
