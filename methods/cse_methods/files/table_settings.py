"""The settings by which a sweep file says how a table is read: format, separator, rows."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from cse_methods.errors import DataError
from cse_methods.files.named import kind_of_file
from cse_methods.settings import Positive, Settings, setting

TableFormat = Literal["csv", "tsv", "unquoted", "jsonl", "parquet"]
ColumnName = Annotated[str, Field(min_length=1)] | Positive
"""Name of a column, or its number from 1."""
_Value = bool | int | float | str
_FORMATS: Mapping[str, TableFormat] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
}
SEPARATORS: Mapping[TableFormat, str] = {"csv": ",", "tsv": "\t", "unquoted": "\t"}
"""What stands between cells where nothing else is stated."""


_NAMED_SEPARATORS = {
    "tab": '"\\t"',
    "comma": '","',
    "semicolon": '";"',
    "pipe": '"|"',
    "space": '" "',
}


def _read_separator(text: str) -> str:
    """Take `\\t`, as YAML leaves it outside double quotes, for a tab."""
    if named := _NAMED_SEPARATORS.get(text.lower()):
        raise ValueError(f"expected the characters themselves, got {text!r}; write {named}")
    if not text or set(text) & set('"\r\n'):
        raise ValueError(f"expected characters other than quotes and line ends, got {text!r}")
    return text.replace("\\t", "\t")


class TableSettings(Settings):
    """How a table is read, beyond what the end of the file's name says."""

    format: TableFormat | None = setting(
        None,
        "`csv` or `tsv` (quotes enclose cells, as in RFC 4180), `unquoted` (TSV whose "
        "quotes are characters), `jsonl` or `parquet`; else by the end of the file's name",
    )
    separator: Annotated[str, AfterValidator(_read_separator)] | None = setting(
        None, "stands between the cells of CSV or TSV, such as `;` or `||`"
    )
    where: dict[str, _Value | tuple[_Value, ...]] = setting(
        {},
        "columns with the value, or list of values, of the rows to read: `{split: dev}`; else all",
    )

    def __hash__(self) -> int:
        return hash(self.model_dump_json())  # a mapping has no hash of its own

    def format_of(self, path: Path) -> TableFormat | None:
        """Return the format of a file; None if neither these settings nor its name tell it.

        Raises DataError if a separator is stated, and the format has none.
        """
        kind = self.format or _FORMATS.get(kind_of_file(path.name))
        kind = "csv" if kind is None and self.separator else kind
        if kind not in (None, *SEPARATORS) and self.separator:
            raise DataError(f"{path}: {kind} has no separator {self.separator!r}; leave it out")
        return kind
