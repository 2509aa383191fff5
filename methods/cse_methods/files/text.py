"""Text as the readers of this package need it: lines of a file, and the checksum of lines."""

import bz2
import gzip
import hashlib
import lzma
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Literal

from cse_methods.errors import DataError


def read_lines(path: Path) -> list[str]:
    """The lines of a file, without their ends (LF or CRLF) and without a byte order mark.

    Only line feeds end a line: U+2028 and its like stand inside sentences of Wikipedia. The lines
    of a `.parquet` file, as the hub has them, are its column `text`.

    Raises:
        DataError: if the file cannot be read, or names the first line that is not UTF-8.
    """
    if path.suffix == ".parquet":
        return _read_column(path)
    return decode_lines(read_content(path), path)


def read_content(path: Path) -> bytes:
    """The bytes of a file, decompressed if its name says that they are; or a DataError."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}; name a readable file") from error
    ending = path.suffix.lower()
    if ending not in _DECOMPRESS:
        return content
    try:
        return _DECOMPRESS[ending](content)
    except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error) as error:
        raise DataError(
            f"{path}: incomplete {ending} file ({error}); compress or fetch it again"
        ) from error


def _zstandard(content: bytes) -> bytes:
    from pyarrow import BufferReader, CompressedInputStream

    with CompressedInputStream(BufferReader(content), "zstd") as stream:
        whole: bytes = stream.read()
    return whole


_DECOMPRESS: Mapping[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".bz2": bz2.decompress,
    ".xz": lzma.decompress,
    ".zst": _zstandard,
}


def decode_lines(
    content: bytes, path: Path, *, encoding: Literal["utf-8", "latin-1"] = "utf-8"
) -> list[str]:
    """The lines of a file's content; a DataError names the first line that is not UTF-8."""
    try:
        text = content.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}, line {line}: byte {content[error.start]:#04x} is not UTF-8; "
            "convert the file to UTF-8"
        ) from error
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]


def _read_column(path: Path) -> list[str]:
    from pyarrow import ArrowException
    from pyarrow.parquet import read_table

    try:
        column: list[str] = read_table(path, columns=["text"]).column("text").to_pylist()
    except (OSError, KeyError, ArrowException) as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"cannot read the column `text` of {path}: {reason}") from error
    return column


def sha256_of(lines: Iterable[str]) -> str:
    """Hex digest of the lines, each ended by one line feed, as UTF-8."""
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line.encode() + b"\n")
    return digest.hexdigest()
