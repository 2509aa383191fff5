"""Finds the journals in runs folders that the stores are made from."""

import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from cse_platform.errors import JournalError
from cse_platform.sweep.stores import JOURNAL_FILE, annotations_journal
from cse_platform.tracking.events import AnnotationWritten, Event, SweepStarted, TrialReused
from cse_platform.tracking.journal import is_deleted, read_journal, read_journal_id

_log = logging.getLogger(__name__)

Damage = dict[Path, str]
"""Why journals cannot be read, or not from some line on, by path."""
STARTING = ("sweeps", "imports")
"""The folders whose journals each start a sweep."""


@dataclass(frozen=True)
class SourceJournal:
    """A journal that the stores are made from."""

    path: Path
    id: str
    runs: Path
    """Its runs folder."""
    kind: str
    """The name of its folder in the runs folder: sweeps, imports, evaluations or annotations."""
    first: Event
    size: int
    names: dict[str, str] = field(default_factory=dict)
    """Other names for sweeps of its runs folder, whose own names others have."""
    earlier_copy: tuple[Path, int] | None = None
    """An earlier runs folder, and up to which offset it has the journal, too."""

    def folder_at(self, end: int) -> Path:
        """Return the first runs folder that has the event which ends at an offset."""
        if self.earlier_copy is not None and end <= self.earlier_copy[1]:
            return self.earlier_copy[0]
        return self.runs

    @property
    def sweep(self) -> str:
        """The sweep of its first event, as it is shown."""
        return self.names.get(self.first.sweep, self.first.sweep)

    def rename(self, event: Event) -> Event:
        """Replace the names of sweeps in an event."""
        if not self.names:
            return event
        changes: dict[str, Any] = {}
        if (name := self.names.get(event.sweep)) is not None:
            changes["sweep"] = name
            if isinstance(event, SweepStarted):
                changes["spec"] = {**event.spec, "sweep": name}
            if isinstance(event, AnnotationWritten) and event.about == "sweep":
                changes["name"] = name
        if isinstance(event, TrialReused) and event.reused_from in self.names:
            changes["reused_from"] = self.names[event.reused_from]
        return event.model_copy(update=changes) if changes else event


def gather_journals(
    runs: Sequence[Path], damage: Damage, renamed: set[Path]
) -> list[SourceJournal]:
    """Find the journals of runs folders, each once, in the order in which they are to be applied.

    Those of sweeps and imports come first, by folder and time, so that most events follow those
    that they refer to; sweeps whose deletion has begun are left out. A sweep whose name one in an
    earlier folder has gets another name, which is logged unless `renamed` has its journal; it gets
    it. Journals that cannot be read are left out; `damage` gets them.

    Raises:
        JournalError: if there is none, two are different copies of one, or two of one runs folder
            have one name.
    """
    known: dict[str, SourceJournal] = {}
    for folder in runs:
        if not folder.is_dir():
            raise JournalError(f"there is no runs folder {folder}; mount it, or name another one")
        names: dict[str, str] = {}
        root = folder.absolute()
        paths = sorted([*root.glob(f"sweeps/*/{JOURNAL_FILE}"), *root.glob("imports/*.jsonl")])
        paths += [*sorted(root.glob("evaluations/*.jsonl")), annotations_journal(root)]
        for path in paths:
            new, kind = None, path.relative_to(root).parts[0]
            with damage_noted(damage, path):
                if path.exists() and not (kind in STARTING and is_deleted(path)):
                    identity, size = read_journal_id(path), path.stat().st_size
                    for _, first in islice(read_journal(path), 1):
                        new = SourceJournal(path, identity, folder, kind, first, size, names)
            if new is not None:
                known[new.id] = _choose_copy(known[new.id], new) if new.id in known else new
    _choose_names(known.values(), renamed)
    if not known:
        none = (
            f"there is no journal in {', '.join(map(str, runs))}; name the runs folder with "
            "--runs, and others with --from"
        )
        raise JournalError("\n  ".join([none, *damage.values()]))
    order = list(runs)
    return sorted(
        known.values(), key=lambda j: (j.kind not in STARTING, order.index(j.runs), j.first.time)
    )


@contextmanager
def damage_noted(damage: Damage, path: Path) -> Iterator[None]:
    """Note that a journal is damaged instead of raising that."""
    try:
        yield
    except JournalError as error:
        damage[path] = str(error)
    except OSError as error:
        damage[path] = f"{path} cannot be read ({error.strerror})"


def _choose_copy(known: SourceJournal, new: SourceJournal) -> SourceJournal:
    """Choose the longer of two copies of a journal.

    Raises:
        JournalError: if the shorter one is not how the longer one begins.
    """
    short, long = sorted((known, new), key=lambda journal: journal.size)
    copy = known.runs, known.size
    with short.path.open("rb") as start, long.path.open("rb") as full:
        while block := start.read(1 << 20):
            if block != full.read(len(block)):
                raise JournalError(
                    f"{known.path} and {new.path} are copies of one journal that have continued "
                    "separately; leave out one of the runs folders"
                )
    if long.size == known.size:
        return known
    return replace(new, earlier_copy=known.earlier_copy or copy)


def _choose_names(journals: Collection[SourceJournal], renamed: set[Path]) -> None:
    """Give a sweep whose name one of another runs folder has another, made of its journal's id.

    Raises:
        JournalError: if two of one runs folder have one name, since nothing tells then to which
            of them an evaluation or a note belongs.
    """
    taken: dict[str, SourceJournal] = {}
    own: dict[tuple[Path, str], Path] = {}
    for journal in (journal for journal in journals if journal.kind in STARTING):
        name = journal.first.sweep
        if (other := own.setdefault((journal.runs, name), journal.path)) != journal.path:
            raise JournalError(
                f"{other} and {journal.path} both belong to a sweep {name}; move one of them to "
                "a runs folder of its own, and name that by --from"
            )
        if taken.setdefault(name, journal) is not journal:
            journal.names[name] = f"{name}.{journal.id[:4]}"
            if journal.path in renamed:
                continue
            renamed.add(journal.path)
            _log.warning(
                "sweep %s of %s is shown as %s, because %s belongs to another sweep of that name",
                name, journal.path, journal.names[name], taken[name].path,
            )  # fmt: skip
