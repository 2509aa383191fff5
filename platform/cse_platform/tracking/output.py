"""Keeps what a trial prints in a file beside the journal: compressed, the oldest and the newest."""

import gzip
import zlib
from pathlib import Path

KEPT_BYTES = 2**18
"""So much of the oldest and as much of the newest is kept; what is between them can go."""
LEFT_OUT = f"… left out: all between the first and the last {KEPT_BYTES >> 10} KiB …\n"


def output_file(folder: Path, number: int) -> Path:
    """Return the file of what a trial prints, inside the folder of its sweep."""
    return folder / "output" / f"trial-{number}.txt.gz"


class OutputFile:
    """The file of one trial, opened by the driver that appends to it.

    It consists of whole gzip members, so that `zcat` reads it at any time. One that was torn by a
    crash is written anew. OSError if it cannot be read or written.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        content, whole = _read_members(file)
        self._size = len(content)
        if not whole:
            self._rewrite_file(content)

    def append(self, text: str) -> None:
        """Append text, and leave out the middle of what has become too long."""
        content = text.encode(errors="replace")
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("ab") as stream:
            stream.write(gzip.compress(content, mtime=0))
        self._size += len(content)
        if self._size > 4 * KEPT_BYTES:
            self._rewrite_file(_drop_middle(_read_members(self._file)[0]))

    def compress(self) -> None:
        """Write all of it as one member, which takes a fraction of many small ones."""
        self._rewrite_file(_read_members(self._file)[0])

    def _rewrite_file(self, content: bytes) -> None:
        new = self._file.with_suffix(".part")
        new.write_bytes(gzip.compress(content, mtime=0))
        new.replace(self._file)
        self._size = len(content)


def read_output(file: Path) -> str:
    """Read what a trial has printed so far; empty if there is no such file."""
    return _read_members(file)[0].decode(errors="replace")


def _drop_middle(content: bytes) -> bytes:
    """Keep whole lines from the beginning and from the end, and say once what is left out."""
    oldest, _, _ = content.partition(LEFT_OUT.encode())
    first = oldest[:KEPT_BYTES].rpartition(b"\n")
    last = content[-KEPT_BYTES:].partition(b"\n")
    return (first[0] + first[1] or first[2]) + LEFT_OUT.encode() + (last[2] or last[0])


def _read_members(file: Path) -> tuple[bytes, bool]:
    """Read all members of a file, and whether the last one is whole."""
    if not file.exists():
        return b"", True
    rest, content = file.read_bytes(), b""
    while rest:
        member = zlib.decompressobj(wbits=31)  # with gzip's header
        try:
            content += member.decompress(rest)
        except zlib.error:
            return content, False
        if not member.eof:
            return content, False
        rest = member.unused_data
    return content, True
