"""Files as the readers of this package need them: lines, columns, checksums and versions."""

import bz2
import csv
import gzip
import hashlib
import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from cse_methods.errors import DataError
from cse_methods.files.named import nearest_file_hint


def read_lines(path: Path) -> list[str]:
    """Read the lines of a file, without their ends (LF or CRLF) and without a byte order mark.

    Only line feeds end a line: U+2028 and its like stand inside sentences of Wikipedia. The lines
    of a `.parquet` file, as the hub has them, are its column `text`.

    DataError if the file cannot be read, or names the first line that is not UTF-8.
    """
    if path.suffix == ".parquet":
        return [text for (text,) in read_columns(path, "text")]
    return decode_lines(read_content(path), path)


def read_content(path: Path) -> bytes:
    """Read a file's bytes, decompressed if its name says so. Raises DataError if that fails."""
    try:
        content = path.read_bytes()
    except OSError as error:
        hint = nearest_file_hint(path) or "; name a readable file"
        raise DataError(f"cannot read {path}: {error.strerror}{hint}") from error
    ending = path.suffix.lower()
    if ending not in _DECOMPRESS:
        return content
    try:
        return _DECOMPRESS[ending](content)
    except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error) as error:
        refuse_other_content(content, path, ending=ending)
        raise DataError(
            f"{path}: incomplete {ending} file ({error}); compress or fetch it again, or let its "
            "name end as its content is"
        ) from error


def refuse_other_content(content: bytes, path: Path, *, ending: str = "") -> None:
    """Raise a DataError if a file begins as no text does, but as one of other kinds.

    `ending` is that of the kind that its name promises.
    """
    content = content.removeprefix(b"\xef\xbb\xbf")
    for kind, what in _OTHER_CONTENT.items():
        if kind.match(content) and not (ending and f"{ending} file" in what):
            raise DataError(f"{path} is {what}")


_POINTER = "version https://git-lfs"
_POINTED = "a pointer of git-lfs, not the file; run `git lfs pull` or download it"
_OTHER_CONTENT: Mapping[re.Pattern[bytes], str] = {
    re.compile(begins, re.DOTALL | re.IGNORECASE): what
    for begins, what in {
        _POINTER.encode(): _POINTED,
        b"/annex/objects/": "a pointer of git-annex, not the file; run `git annex get`",
        rb"PK\x03\x04|PK\x05\x06": "a zip archive, as Excel's files are; unpack it, or save "
        "the table as CSV",
        rb".{257}ustar": "a tar archive; unpack it, and name the file or the folder in it",
        rb"7z\xbc\xaf|Rar!\x1a|\x04\x22\x4d\x18|\x1f\x9d": "packed by 7z, rar, lz4 or compress; "
        "unpack it, and compress it by gzip if it is large",
        **{
            begins: f"a {ending} file; let its name end in {ending}, once, or unpack it"
            for ending, begins in {
                ".gz": rb"\x1f\x8b",
                ".bz2": rb"BZh[1-9](1AY&SY|\x17rE8P\x90)",
                ".xz": rb"\xfd7zXZ\0",
                ".zst": rb"\x28\xb5\x2f\xfd",
                ".parquet": rb"PAR1",
            }.items()
        },
        rb"\xff\xfe|\xfe\xff|\0\0\xfe\xff": "UTF-16 or UTF-32; convert it to UTF-8, e.g. by "
        "`iconv -f UTF-16 -t UTF-8 FILE > NEW`",
        rb"\s*<(!doctype|html|!--|\?xml)": "a page of the web, or XML, not the file that it may "
        "show; download the file itself, or save its text",
        rb"\xd0\xcf\x11\xe0|\{\\rtf|%PDF-": "a document of Office, RTF or PDF; "
        "save it as CSV or text",
        rb"ARROW1|SQLite format 3\0|\x93NUMPY|\x80[\2-\5]": "data of Arrow, SQLite, NumPy or "
        "pickle; save it as CSV, JSON lines or Parquet",
    }.items()
}
"""How files of other kinds begin, and what they are with the way out."""


def _decompress_zstandard(content: bytes) -> bytes:
    from pyarrow import BufferReader, CompressedInputStream

    with CompressedInputStream(BufferReader(content), "zstd") as stream:
        whole: bytes = stream.read()
    return whole


_DECOMPRESS: Mapping[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".bz2": bz2.decompress,
    ".xz": lzma.decompress,
    ".zst": _decompress_zstandard,
}


def decode_text(content: bytes, path: Path, *, encoding: str = "utf-8") -> str:
    """Decode a file's content, without its byte order mark.

    DataError if it is of another kind, holds a NUL, or names the first line that is not UTF-8.
    """
    refuse_other_content(content, path)
    try:
        text = content.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}, line {line}: byte {content[error.start]:#04x} is not UTF-8; convert the file "
            "to UTF-8, e.g. from Windows' encoding by `iconv -f WINDOWS-1252 -t UTF-8 FILE > NEW`"
        ) from error
    if b"\0" in content and "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise DataError(
            f"{path}, line {line}: a NUL, which no text has; remove it, or convert the file if it "
            "is UTF-16, e.g. by `iconv -f UTF-16LE -t UTF-8 FILE > NEW` (or UTF-16BE)"
        )
    return text


def decode_lines(content: bytes, path: Path, *, encoding: str = "utf-8") -> list[str]:
    """Split a file's content into lines.

    DataError as `decode_text`, or names the first line that ends in CR alone, holds an escape
    character, or, after the first, begins with a byte order mark.
    """
    text = decode_text(content, path, encoding=encoding)
    if b"\r" in content:  # bytes are searched several times as fast as text
        text = text.replace("\r\n", "\n")
    has_stray = b"\x1b" in content or "\r" in text or "\ufeff" in text
    if has_stray and (stray := _STRAY.search(text)):
        line = text.count("\n", 0, stray.start()) + 1
        raise DataError(f"{path}, line {line}: {_STRAYS[stray[0]]}")
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


_STRAY = re.compile(r"\x1b|\r|^\ufeff", re.MULTILINE)
_STRAYS = {
    "\x1b": "an escape character, as of ISO-2022-JP; convert the file to UTF-8, e.g. by `iconv -f "
    "ISO-2022-JP -t UTF-8 FILE > NEW`",
    "\r": "ends in \\r alone, as lines of old Macs do; save the file with \\n, e.g. by "
    "`tr '\\r' '\\n' < FILE > NEW`",
    "\ufeff": "begins with a byte order mark (U+FEFF), as where files were joined; remove it",
}
"""Characters that make a line doubtful, and what to do about them."""


def explain_pointer(file: Path) -> str | None:
    """Explain that a file is what git-lfs leaves in its place; None if it is not."""
    with file.open("rb") as stream:
        is_pointer = stream.read(64).startswith(_POINTER.encode())
    return f"{file} is {_POINTED}" if is_pointer else None


def sha256_of(lines: Iterable[str]) -> str:
    """Hash lines of UTF-8, each ended by one line feed, in hex digits."""
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line.encode() + b"\n")
    return digest.hexdigest()


def read_own_table(file: Path) -> list[dict[str, str]]:
    """Read a CSV table that comes with the package: a mapping by the names of columns per row."""
    with file.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream, strict=True))


def read_columns(path: Path, *columns: str) -> Iterator[tuple[Any, ...]]:
    """Read these columns of a parquet file, row by row; DataError if it lacks one or is damaged."""
    from pyarrow import ArrowException, parquet

    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            if lacking := [column for column in columns if column not in names]:
                raise DataError(
                    f"{path}: there is no column {lacking[0]}, only {', '.join(names)}; fetch the "
                    "file again, or name the column of a corpus of your own: {name: …, column: …}"
                )
            table = file.read(columns=list(columns)).to_pydict()
    except (OSError, ArrowException) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{path} cannot be read ({reason}); fetch it again") from error
    return zip(*(table[column] for column in columns), strict=True)


FileVersion = tuple[Path, int, int, int]
"""A file with its time, size and inode: while these are the same, its content is."""


def file_version(file: Path) -> FileVersion:
    """Return the current version of a file."""
    state = file.stat()
    return file.absolute(), state.st_mtime_ns, state.st_size, state.st_ino


def file_sha256(file: Path) -> str:
    """Hash a file's bytes, in hex digits; they are read again only if its version has changed."""
    return _hash_version(file_version(file))


@lru_cache
def _hash_version(version: FileVersion) -> str:
    with version[0].open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
