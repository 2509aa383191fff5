"""The journal of a sweep: an append-only file of JSON lines that survives its process.

The first line is a header with the journal's id and version; each further line is one event. An
offset is the byte position after a line; 0 is the beginning of the file.

Paths in the runs folder are written relative to it, and read as whole paths in the folder where
the journal lies now.

A version of this package whose events an older one would misread raises `JOURNAL_VERSION` and
writes it as `version` into each such event, so that older ones refuse these as too new.
"""

import errno
import json
import logging
import math
import os
import re
import threading
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any, BinaryIO, Self
from uuid import uuid4

from filelock import FileLock, Timeout
from pydantic import TypeAdapter, ValidationError
from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_exponential

from cse_platform.errors import JournalError
from cse_platform.safe_paths import find_link
from cse_platform.secrets import escape_values
from cse_platform.sweep.blocks import Slug
from cse_platform.sweep.problems import first_problem, format_value
from cse_platform.sweep.stores import JOURNAL_FILE
from cse_platform.tracking import events

JOURNAL_VERSION = 1
"""The version of the journals that this code writes and reads."""

LONGEST_LINE = 1 << 25
"""Most bytes of a line. The longest ones have the cosines of an evaluation: 7 bytes for a pair."""

SYNC_SECONDS = 0.2
"""Interval of syncs to disk: a power cut can lose the events of this many seconds."""

_OTHER_VERSION = (
    "a newer version wrote it, then upgrade this one, the file is sound; or a development version, "
    "whose journals cannot be read, then move it away, or run its sweep under another name: --set "
    "sweep=NEWNAME"
)

_ID = TypeAdapter(Slug)

_LONGEST_DELETION = 4096
"""Bytes at the end of a journal in which the line of a deletion lies."""

_UNWRITABLE = re.compile(rb"\\u(0000|d[89a-f])")
"""Escapes of characters that some store refuses: null and surrogates."""

_NULL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
"""The escape of a null character, which PostgreSQL cannot store; what is appended has none."""

_NAME = re.compile(rb'"\s*:')
"""The end of a name, or of what looks like one in a text."""

_LEAVES = frozenset({str, float, int, bool, type(None), datetime})
"""Types of values that have no names in them."""

_log = logging.getLogger(__name__)


class Journal:
    """A journal, opened by the one process that may write to it; thread-safe.

    The file and its folder are created if missing, and a last line that a crash has torn is
    removed. Raises JournalError if another process has it open, it cannot be opened, a line before
    the last is damaged, or its sweep is being deleted.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with ExitStack() as undo:
                undo.callback(lock_journal(path).release)
                self._fd = _open_to_append(path)
                undo.callback(os.close, self._fd)
                self.id = read_journal_id(path)
                self._paths = _find_runs_paths(path)
                with _open_journal(path) as file:
                    self._ends = array("q", [len(file.readline())])
                for end, event in read_journal(path):
                    self._ends.append(end)
                    self._note_best(event)
                self._opened_at = self._ends[-1]
                self._held = undo.pop_all()
        except OSError as error:
            raise JournalError(f"cannot open the journal {path}: {error.strerror}") from error
        self.durable = self._ends[0]
        """The offset up to which events survive a power cut; stores are filled up to here."""
        self.on_durable: Callable[[], None] = lambda: None
        """Called, from the journal's own thread, whenever `durable` has grown."""
        self._writing = threading.Lock()
        self._closing = threading.Event()
        self._syncer = threading.Thread(target=self._sync_forever, name="journal", daemon=True)
        self._syncer.start()

    @property
    def end(self) -> int:
        """Offset after the last event."""
        return self._ends[-1]

    def append(self, event: events.Event) -> tuple[int, events.Event]:
        """Write one event, after which it survives a kill of the process.

        Returns (end offset, event) as `read` does; characters that some store refuses are escaped.
        If the file cannot be written (disk full, read-only), this blocks and retries until it can.
        """
        self._note_best(event)
        line, event = _encode_event(self.path, self._paths, event)
        return _retry_until_writable(self.path)(self._write_line, line), event

    def read(self, offset: int = 0) -> Iterator[tuple[int, events.Event]]:
        """Yield (end offset, event) of everything after `offset`."""
        return read_journal(self.path, offset=offset)

    def slice_after(self, offset: int, most: int) -> "JournalSlice":
        """Return at most so many events after `offset`, all of which survive a power cut."""
        first = max(bisect_right(self._ends, offset), 1)
        after = min(bisect_right(self._ends, self.durable), first + most)
        end = self._ends[after - 1] if after > first else offset
        return JournalSlice(self.path, offset, end, max(after - first, 0))

    def count_after(self, offset: int) -> int:
        """Count the events after `offset`, which is 0 or the end offset of an event."""
        return len(self._ends) - max(bisect_right(self._ends, offset), 1)

    def refuse_older_copy(self, offset: int) -> None:
        """Raise JournalError unless an earlier process can have applied the journal up to `offset`.

        In an older copy of the journal, new events would get offsets that a store has applied
        already.
        """
        refuse_older_copy(self.path, offset, end=self._opened_at)

    def close(self) -> None:
        """Write everything to the disk and release the file; a second call does nothing."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._syncer.join()
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _note_best(self, event: events.Event) -> None:
        if isinstance(event, events.SweepStarted):
            best = self._paths.best.union(event.best.values())
            self._paths = replace(self._paths, best=best)

    def _write_line(self, line: bytes) -> int:
        """Try once to write a line. Returns its end offset.

        No lock is held between attempts, because the warning may wait for another thread that
        writes here.
        """
        with self._writing:
            _write_whole(self._fd, line, self.end)
            self._ends.append(self.end + len(line))
            return self.end

    def _sync_forever(self) -> None:
        """Sync the file to the disk at intervals, and a last time after `close`."""
        closing = False
        while not closing:
            closing = self._closing.wait(SYNC_SECONDS)
            if (end := self.end) == self.durable:
                continue
            try:
                os.fsync(self._fd)
            except OSError as error:
                _log.warning("%s cannot be written to the disk: %s", self.path, error.strerror)
                continue
            self.durable = end
            self.on_durable()


@dataclass(frozen=True)
class JournalSlice(Sequence[tuple[int, events.Event]]):
    """The (end offset, event) pairs of a part of a journal, read when they are first needed.

    Another process that it is sent to reads them itself.
    """

    path: Path
    start: int
    end: int
    """The end offset of the last event."""
    length: int
    """The number of events."""

    @cached_property
    def _entries(self) -> list[tuple[int, events.Event]]:
        return list(read_journal(self.path, offset=self.start, last=self.end))

    def __getitem__(self, index: Any) -> Any:
        return self._entries[index]

    def __len__(self) -> int:
        return self.length


def read_journal(
    path: Path, *, offset: int = 0, last: float = math.inf
) -> Iterator[tuple[int, events.Event]]:
    """Yield (end offset, event) of everything after `offset`, even while another process writes.

    With `last`, only what ends up to there. Raises JournalError, with file and line, for a line
    that is not an event.
    """
    paths = _find_runs_paths(path)
    with _open_journal(path) as file:
        end = file.seek(offset)
        for number, line in enumerate(iter(partial(file.readline, LONGEST_LINE), b"")):
            end += len(line)
            if end > last:
                return
            if not line.endswith(b"\n"):
                if len(line) < LONGEST_LINE:  # still being written
                    return
                error = ValueError(f"it is longer than {LONGEST_LINE} bytes")
                raise JournalError(_describe_damage(path, offset, number, b"", error))
            if end == len(line):
                _parse_header(path, line)
                continue
            try:
                event = events.EVENT.validate_json(line, strict=True, context=paths)
                _refuse_doubtful(line, event)
            except ValueError as error:
                damage = _describe_damage(path, offset, number, line, error)
                raise JournalError(damage) from error
            yield end, event


def _open_journal(path: Path) -> BinaryIO:
    """Open a journal for reading. Raises JournalError for any but a regular file, or for a link."""
    _refuse_link(path)
    return path.open("rb")


def _refuse_link(path: Path) -> None:
    """Raise JournalError for a file of a runs folder that is no regular file, or behind a link.

    A pipe would never end, and a link may lead a reader or writer to what somebody else chose.
    """
    runs = path.absolute().parents[2 if path.parent.parent.name == "sweeps" else 1]
    if path.is_dir() or find_link(path.absolute(), below=runs) is not None:
        raise JournalError(
            f"{path} is no regular file, or behind a link, so it is no journal; move it away, or "
            "put a copy in its place"
        )


def _refuse_doubtful(line: bytes, event: events.Event) -> None:
    """Raise ValueError if an object in a line has a name twice, or a text a null character.

    A line has no name twice if it has as many names as the event that was read from it; only
    others are parsed once more.
    """
    if b"\\u0000" in line and _NULL.search(line):
        raise ValueError("a text has a null character")
    is_spaced = b" " in line or b"\t" in line or b"\r" in line
    names = len(_NAME.findall(line)) if is_spaced else line.count(b'":')
    if names != _count_names(event):
        json.loads(line, object_pairs_hook=_make_object)


def _count_names(value: Any) -> int:
    """Count the names in an event, or in a part of one, that stood in its line."""
    kind = type(value)
    if kind is dict:
        number, inner = len(value), value.values()
    elif kind is list or kind is tuple:
        number, inner = 0, value
    else:
        number, inner = len(value.model_fields_set), vars(value).values()
    for each in inner:
        if type(each) not in _LEAVES:
            number += _count_names(each)
    return number


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of JSON. Raises ValueError if it has a name twice."""
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{format_value(twice)} is there twice")
    return made


def _describe_damage(path: Path, offset: int, number: int, line: bytes, error: ValueError) -> str:
    with path.open("rb") as file:
        number += file.read(offset).count(b"\n") + 1
    reason = str(error)
    if isinstance(error, ValidationError):
        first, unknown = error.errors()[0], {"union_tag_invalid", "extra_forbidden"}
        reason = first_problem(error)
        if first["loc"]:
            reason = f"{first['loc'][-1]}: {reason}"
        if first["loc"] and first["type"] not in ("value_error", "missing"):
            reason += f", got {format_value(first['input'])}"
        try:
            version = json.loads(line)["version"]
        except (ValueError, LookupError, TypeError, RecursionError):
            version = None
        is_newer = isinstance(version, int) and version > JOURNAL_VERSION
        if is_newer or {problem["type"] for problem in error.errors()} <= unknown:
            return f"{path}, line {number} is of another version of cse-platform: {_OTHER_VERSION}"
    return (
        f"{path}, line {number} is not an event ({reason}); put the newest copy of the file "
        "back; an older one lacks results that the stores have. Without a copy, run the sweep "
        "under another name, which reuses the complete trials: --set sweep=NEWNAME"
    )


def refuse_deleted(path: Path) -> None:
    """Raise JournalError if the deletion of a journal's sweep has begun."""
    if is_deleted(path):
        sweep = path.parent.name if path.parent.parent.name == "sweeps" else path.stem
        raise JournalError(
            f"sweep {sweep!r} is partly deleted ({path}); finish with cse-sweep delete {sweep}, "
            "or use another name: --set sweep=NEWNAME"
        )


def is_deleted(path: Path) -> bool:
    """Return whether the last event of a journal is that its sweep is deleted."""
    if not path.exists():
        return False
    with _open_journal(path) as file:
        file.seek(max(path.stat().st_size - _LONGEST_DELETION, 0))
        lines = file.read().splitlines(keepends=True)
    try:
        return isinstance(events.EVENT.validate_json(lines[-1]), events.SweepDeleted)
    except (LookupError, ValueError):  # there is no line, or it is longer or damaged
        return False


SHARING_SECONDS = 600.0
"""How long a process waits for the others that append to a shared journal, which write for
milliseconds each; the time lets a thousand of them begin at once on a slow disk."""


@contextmanager
def share_journal(
    path: Path, *, seconds: float = SHARING_SECONDS
) -> Iterator[Callable[[events.Event], None]]:
    """Lock a journal that several processes append to, for the time of one change.

    The file and its folder are created if missing, and a last line that a crash has torn is
    removed. Yields a function that appends one event, which then survives a kill of the process;
    at the end all of them survive a power cut. If the file cannot be written (disk full), the
    function blocks and retries until it can. What the journal has can be read meanwhile.

    Raises:
        JournalError: if another process holds the lock for so many seconds, the file cannot be
            opened or is not a journal, or its sweep is being deleted.
    """
    paths = _find_runs_paths(path)
    try:
        with ExitStack() as opened:
            with ExitStack() as locked:
                locked.callback(lock_journal(path, seconds=seconds).release)
                descriptor = _open_to_append(path)
                opened.callback(os.close, descriptor)
                read_journal_id(path)

                def append(event: events.Event) -> None:
                    line, _ = _encode_event(path, paths, event)
                    end = os.fstat(descriptor).st_size
                    _retry_until_writable(path)(_write_whole, descriptor, line, end)

                yield append
            os.fsync(descriptor)  # without the lock, so that the others need not wait for it
    except OSError as error:
        raise JournalError(f"cannot open the journal {path}: {error.strerror}") from error


def refuse_older_copy(path: Path, offset: int, *, end: float = math.inf) -> None:
    """Raise JournalError unless a line of a journal ends at `offset`, up to which it was applied.

    No line after `end` counts.
    """
    with _open_journal(path) as file:
        file.seek(max(offset - 1, 0))
        if offset and (offset > end or file.read(1) != b"\n"):
            raise JournalError(
                f"{path} has no event that ends at byte {offset}, where its application stopped: "
                "it is not the newest copy of this journal; put that back"
            )


def read_journal_id(path: Path) -> str:
    """Read the id of a journal. Raises JournalError if its first line is not a header."""
    with _open_journal(path) as file:
        return _parse_header(path, file.readline(LONGEST_LINE))


def lock_journal(path: Path, *, seconds: float = 0) -> FileLock:
    """Lock the journal against other processes; the lock file holds the PID of the writer.

    Raises JournalError if another process holds the lock for so many seconds.
    """
    lock_file = path.with_name(path.name + ".lock")
    for file in (path, lock_file):
        _refuse_link(file)
    lock = FileLock(lock_file, thread_local=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        lock.acquire(timeout=seconds)
    except Timeout:
        owner = lock_file.read_text()
        hint = f", or end it with cse-sweep stop {path.parent.name}" * (path.name == JOURNAL_FILE)
        raise JournalError(
            f"{path} is in use by process {owner}; wait until it ends{hint}"
        ) from None
    lock_file.write_text(str(os.getpid()))
    return lock


def _open_to_append(path: Path) -> int:
    """Open a journal whose lock is held. Returns the file's descriptor.

    A missing file is created, and a last line that a crash has torn is removed. Raises JournalError
    if its sweep is being deleted.
    """
    refuse_deleted(path)
    path.touch()
    _cut_torn_line(path)
    if path.stat().st_size == 0:
        path.write_bytes(_encode_line({"journal": str(uuid4()), "version": JOURNAL_VERSION}))
    return os.open(path, os.O_RDWR | os.O_APPEND)


def _cut_torn_line(path: Path) -> None:
    """Remove the last line unless it is complete JSON; a crash can tear only that one."""
    with _open_journal(path) as file:
        before = max(path.stat().st_size - LONGEST_LINE, 0)
        file.seek(before)
        content = file.read()
    start = content.rfind(b"\n", 0, -1) + 1
    is_whole = content.endswith(b"\n") or not content
    with suppress(RecursionError):  # a bad line, and no torn one
        try:
            json.loads(content[start:] or b"{}")
        except ValueError:
            is_whole = False
    if not is_whole and (start or not before):  # a line that is too long is kept as it is
        os.truncate(path, before + start)


def _find_runs_paths(path: Path) -> events.RunsPaths:
    """Find the runs folder of a sweep's journal; the events of other journals name no places."""
    return events.RunsPaths(str(path.absolute().parent.parent.parent))


def _parse_header(path: Path, line: bytes) -> str:
    """Return the id in the first line of a journal. Raises JournalError if it has another version.

    The journals of development versions have other versions than those of released ones.
    """
    try:
        header = json.loads(line, object_pairs_hook=_make_object)
        journal, version = _ID.validate_python(header["journal"]), header.get("version", "unknown")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise JournalError(f"{path}, line 1 is not a header; this is not a journal") from error
    if version != JOURNAL_VERSION:
        raise JournalError(
            f"{path} is a journal of version {version}, and this version of cse-platform needs "
            f"{JOURNAL_VERSION}: {_OTHER_VERSION}"
        )
    return journal


def _encode_event(
    path: Path, paths: events.RunsPaths, event: events.Event
) -> tuple[bytes, events.Event]:
    """Encode an event as a line. Returns it with the event as it will be read.

    Characters that some store refuses are escaped. Raises JournalError for a line that is too long.
    """
    line = _encode_line(event.model_dump(mode="json", context=paths))
    if _UNWRITABLE.search(line):
        escaped = json.dumps(escape_values(json.loads(line)))
        event = events.EVENT.validate_json(escaped, context=paths)
        line = _encode_line(event.model_dump(mode="json", context=paths))
    if len(line) > LONGEST_LINE:
        raise JournalError(
            f"{path}: a {event.kind} of {len(line)} bytes is longer than a line may be "
            f"({LONGEST_LINE}); evaluate on fewer pairs at once"
        )
    return line, event


def _write_whole(descriptor: int, line: bytes, end: int) -> None:
    """Write a line at the end of a journal. Raises OSError if the disk is full."""
    if os.fstat(descriptor).st_size > end:  # part of a line, from a failed attempt
        os.ftruncate(descriptor, end)
    if os.write(descriptor, line) < len(line):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _retry_until_writable(path: Path) -> Retrying:
    def warn(attempt: RetryCallState) -> None:
        if attempt.attempt_number == 1 and attempt.outcome is not None:
            text = "%s cannot be written (%s); everything waits until it is writable"
            _log.warning(text, path, attempt.outcome.exception())

    return Retrying(
        retry=retry_if_exception_type(OSError),
        wait=wait_exponential(multiplier=0.1, max=5),
        before_sleep=warn,
    )


def _encode_line(content: dict[str, object]) -> bytes:
    # Not by pydantic, which writes NaN as null and cannot read it back.
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"
