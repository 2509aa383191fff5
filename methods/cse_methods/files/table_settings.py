"""What a sweep file says of a table: its format, its separator, its columns and rows."""

from typing import Annotated, Literal

from pydantic import Field

from cse_methods.settings import Positive, Settings

TableFormat = Literal["csv", "tsv", "unquoted", "jsonl", "parquet"]
ColumnName = Annotated[str, Field(min_length=1)] | Positive
"""Name of a column, or its number from 1."""
_Value = bool | int | float | str


class TableSettings(Settings):
    """How a table is read, beyond what the end of the file's name says."""

    format: TableFormat | None = Field(
        default=None,
        description="`csv` or `tsv` (quotes enclose cells, as in RFC 4180), `unquoted` (TSV whose "
        "quotes are characters), `jsonl` or `parquet`; else by the end of the file's name",
    )
    separator: str | None = Field(
        default=None,
        pattern=r'^[^"\r\n]+$',
        description="stands between the cells of CSV or TSV, such as `;` or `||`",
    )
    where: dict[str, _Value | tuple[_Value, ...]] = Field(
        default={},
        description="columns and the value, or the list of values, of the rows that are read, such "
        "as `{split: dev}`; all rows without it",
    )

    def __hash__(self) -> int:
        return hash(self.model_dump_json())  # a mapping has no hash of its own
