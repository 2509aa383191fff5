"""Keeps a trial's output in a compressed file beside the journal: its beginning and its end."""

import gzip
import zlib
from contextlib import suppress
from pathlib import Path

KEPT_BYTES = 2**18
"""Number of bytes that are kept at least from the beginning and from the end of a long output."""
MOST_BYTES = 2**26
"""Number of bytes that are read at most; a small file of others can unpack to any number."""
LEFT_OUT = f"… left out: everything between the first and the last {KEPT_BYTES >> 10} KiB …\n"


def output_file(folder: Path, number: int) -> Path:
    """Return the path of a trial's output file, inside the folder of its sweep."""
    return folder / "output" / f"trial-{number}.txt.gz"


class OutputFile:
    """The output file of one trial, opened by the driver that appends to it.

    It consists of complete gzip members, so that `zcat` can read it at any time. A file that was
    torn by a crash is repaired. Raises OSError if it cannot be read or written.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self.head = ""
        """The line before what the trial's current process has printed."""
        self.total = self.offset = 0
        """How many bytes that process has reported, and up to where in its own file."""
        content, is_complete = _read_members(file)
        self._size = len(content)
        if not is_complete:
            self._rewrite_file(content)

    def append(self, text: str) -> None:
        """Append text, and drop the middle of an output that has become too long."""
        content = text.encode(errors="replace")
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("ab") as stream:
            stream.write(gzip.compress(content, mtime=0))
        self._size += len(content)
        if self._size > 4 * KEPT_BYTES:
            # Whole lines are kept from both ends, with one line that marks the gap.
            content = _read_members(self._file)[0]
            oldest, _, _ = content.partition(LEFT_OUT.encode())
            first = oldest[:KEPT_BYTES].rpartition(b"\n")
            last = content[-KEPT_BYTES:].partition(b"\n")
            begin, end = first[0] + first[1] or first[2], last[2] or last[0]
            self._rewrite_file(begin + LEFT_OUT.encode() + end)

    def compress(self) -> None:
        """Rewrite the file as one member, which is much smaller than many short ones."""
        self._rewrite_file(_read_members(self._file)[0])

    def _rewrite_file(self, content: bytes) -> None:
        new = self._file.with_suffix(".part")
        new.write_bytes(gzip.compress(content, mtime=0))
        new.replace(self._file)
        self._size = len(content)


def read_output(file: Path) -> str:
    """Read a trial's output so far; empty if there is no such file."""
    content = _read_members(file)[0]
    end = f"\n… left out: everything after the first {MOST_BYTES >> 20} MiB …\n"
    return content.decode(errors="replace") + end * (len(content) == MOST_BYTES)


def _read_members(file: Path) -> tuple[bytes, bool]:
    """Read the members of a file, up to `MOST_BYTES`. Also returns whether the last is complete."""
    content = bytearray()
    if file.is_file():
        with gzip.open(file) as packed, suppress(EOFError, zlib.error, gzip.BadGzipFile):
            while block := packed.read1(min(2**16, MOST_BYTES - len(content))):
                content += block
            return bytes(content), True
    return bytes(content), not file.exists()
