"""The settings that name a trial's training corpora."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from cse_methods.errors import SettingError
from cse_methods.files.named import absolute_name, is_file_name
from cse_methods.files.table_settings import ColumnName, TableSettings
from cse_methods.settings import setting
from cse_methods.tasks import STS_TASKS

TRANSDUCTIVE = " (transductive)"
"""Suffix of a corpus name where texts of test sets were trained on."""


def _is_none(value: object) -> bool:
    return value is None


class CorpusSpec(TableSettings):
    """A corpus: raw sentences, or columns of a table."""

    name: str = setting(
        ...,
        "a corpus name, a file of text or of a table, a folder of them, or a file of "
        "the hub: hf://datasets/OWNER/NAME/FILE",
        min_length=1,
    )
    drop_empty: bool = setting(False, "drop empty lines instead of refusing")
    split_at: int | None = setting(
        None, "longer sentences, in word pieces with special ones, are cut; null does not cut", ge=4
    )
    first: int | None = setting(
        None, "so many rows from its start, or all where it has fewer; null reads all", ge=1
    )
    transductive: bool = setting(
        False,
        "the texts of this STS test set, or of all seven as `sts`, without their gold "
        "scores; marks the trials, which then stand beside no others",
    )
    column: ColumnName | None = setting(None, "of a table, the column of the sentences")
    columns: tuple[ColumnName, ...] = setting(
        (), "of a table, the columns of sentences that belong together"
    )
    label: ColumnName | None = setting(
        None, "of a table, the column of labels, for losses that read one", exclude_if=_is_none
    )
    loss: str | None = setting(
        None, "the loss of this corpus, where it is not the method's", exclude_if=_is_none
    )
    weight: float | None = setting(
        None, "how often a batch is of this corpus, beside the others", gt=0, exclude_if=_is_none
    )
    prompt: str | tuple[str, ...] | None = setting(
        None,
        "the text before each of its texts in training, or a list of one for each of its columns; "
        "null: that of the method",
        exclude_if=_is_none,
    )

    @model_validator(mode="after")
    def _refuse_what_does_not_go_together(self) -> Self:
        if self.column is not None and self.columns:
            raise SettingError("columns", "excludes 'column'; keep one of the two")
        if len(self.columns) == 1 or len(set(self.columns)) < len(self.columns):
            raise SettingError(
                "columns", f"two columns or more, each once, got {list(self.columns)}"
            )
        all_columns = [*self.named_columns, *([] if self.label is None else [self.label])]
        if len({type(column) for column in all_columns}) > 1:
            raise SettingError("columns", f"all names or all numbers, got {all_columns}")
        if (self.columns or self.label is not None) and self.split_at is not None:
            has = "columns" if self.columns else "labels"
            raise SettingError("split_at", f"cuts single sentences, but this corpus has {has}")
        for name in (*TableSettings.model_fields, "label"):
            if getattr(self, name) and not self.named_columns:
                raise SettingError(name, "applies to tables; also name its column: or columns:")
        if isinstance(self.prompt, tuple) and len(self.prompt) != len(self.columns):
            raise SettingError(
                "prompt",
                f"one text, or one for each of the columns, got {len(self.prompt)} for "
                f"{len(self.columns)}",
            )
        if self.transductive and self.name not in ("sts", *STS_TASKS):
            raise SettingError(
                "name",
                f"no test set {self.name!r} whose texts can be trained on; expected sts, "
                f"{', '.join(STS_TASKS)}",
            )
        if self.transductive and self.named_columns:
            raise SettingError("column", "the texts of a test set are not a table; leave it out")
        return self

    @property
    def test_sets(self) -> tuple[str, ...]:
        """The test sets whose texts are this corpus; empty for other corpora."""
        if not self.transductive:
            return ()
        return STS_TASKS if self.name == "sts" else (self.name,)

    @property
    def named_columns(self) -> tuple[ColumnName, ...]:
        """The columns that are read; empty for a text."""
        return self.columns if self.column is None else (self.column,)

    @property
    def short_name(self) -> str:
        """The name on the leaderboard: that of the corpus, or of its file without the folder.

        If only the first rows are read, the name says so: `wiki1m[:30000]`.
        """
        is_file = is_file_name(self.name) or "://" in self.name
        name = Path(self.name).name if is_file else self.name
        name += TRANSDUCTIVE if self.transductive else ""
        return name if self.first is None else f"{name}[:{self.first}]"

    def from_folder(self, folder: Path) -> Self:
        """Return a copy with the file's absolute path; a relative path starts at the sweep file's
        `folder`.
        """
        return self.model_copy(update={"name": absolute_name(self.name, folder)})


def _as_corpora(value: Any) -> Any:
    entries = value if isinstance(value, (list, tuple)) else [value]
    return tuple({"name": entry} if isinstance(entry, str) else entry for entry in entries)


def test_sets_of(corpora: Iterable[CorpusSpec]) -> list[str]:
    """Return the test sets whose texts are among these corpora, in the papers' order."""
    read = {task for corpus in corpora for task in corpus.test_sets}
    return [task for task in STS_TASKS if task in read]


Corpora = Annotated[tuple[CorpusSpec, ...], BeforeValidator(_as_corpora), Field(min_length=1)]
