"""Tables as the hub keeps them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cse_methods.errors import DataError


def read_columns(path: Path, *columns: str) -> Iterator[tuple[Any, ...]]:
    """Read these columns of a parquet file, row by row; DataError if it lacks one or is damaged."""
    from pyarrow import ArrowInvalid, parquet

    try:
        table = parquet.read_table(path, columns=list(columns)).to_pydict()
        cells = [table[column] for column in columns]
    except (ArrowInvalid, KeyError) as error:
        raise DataError(
            f"{path}: no parquet file with the columns {', '.join(columns)}; fetch it again"
        ) from error
    return zip(*cells, strict=True)
