"""Make the leaderboard anew from the journals of runs folders."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cse_platform.control.annotations import annotations_journal
from cse_platform.errors import JournalError
from cse_platform.leaderboard.ingest.journal_sink import LeaderboardSink, apply_journal
from cse_platform.leaderboard.replacement import Counts, open_replacement
from cse_platform.sweep.stores import JOURNAL_FILE
from cse_platform.tracking.journal import (
    is_deleted,
    read_journal,
)

Lacking = Mapping[str, Mapping[str, int]]
"""What a leaderboard has and the journals have not: counts by sweep and kind."""


@dataclass(frozen=True)
class Rebuilt:
    """The outcome of a rebuild."""

    journals: int
    before: Counts
    after: Counts
    lacking: Lacking
    """What the old leaderboard had and the new one has not."""


def rebuild(
    url: str,
    runs: Sequence[Path],
    *,
    without: Collection[str] = (),
    dry_run: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Rebuilt:
    """Fill a new leaderboard from all journals of runs folders, and replace the old one by it.

    The old one stays as it is until the new one is complete, and for good if anything is refused.

    Args:
        url: the URL of the leaderboard, which is created if it does not exist.
        runs: the runs folders whose journals are read.
        without: sweeps of the old leaderboard of which the new one may lack something.
        dry_run: whether to leave the old one in its place, and to refuse nothing that it lacks.
        progress: called with the bytes of journals applied, and the total.

    Raises:
        JournalError: if there is no journal, one cannot be read, or the old leaderboard has
            something of a sweep that none of them has.
        SweepRefusedError: if a driver holds a sweep.
        StoreError: if the database does not answer, or is no leaderboard.
    """
    journals = _sort_journals(find_journals(runs))
    if not journals:
        raise JournalError(
            f"there is no journal in {', '.join(map(str, runs))}; name the runs folder by --runs, "
            "and others by --from"
        )
    with open_replacement(url) as new:
        sink = LeaderboardSink(new.store)
        sizes = {path: path.stat().st_size for path in journals}
        done, total = 0, sum(sizes.values())
        progress(0, total)
        for path, size in sizes.items():
            apply_journal(sink, path, partial(_move, progress, done, size, total))
            done += size
        progress(total, total)
        lacking, before, after = new.find_lacking(), new.count_rows("old"), new.count_rows("new")
        if not dry_run:
            _refuse_to_lose({name: lacking[name] for name in lacking if name not in without})
            new.take_place(lambda: _apply_tails(sink, runs))
    return Rebuilt(len(journals), before, after, lacking)


def find_journals(runs: Sequence[Path]) -> Iterator[Path]:
    """Yield the journals of runs folders: of sweeps, imports, evaluations and annotations.

    Those of sweeps whose deletion has begun are left out.
    """
    for folder in runs:
        for sweep in sorted(folder.absolute().glob("sweeps/*")):
            if (journal := sweep / JOURNAL_FILE).exists() and not is_deleted(journal):
                yield journal
        imports = sorted(folder.absolute().glob("imports/*.jsonl"))
        yield from (journal for journal in imports if not is_deleted(journal))
        yield from sorted(folder.absolute().glob("evaluations/*.jsonl"))
        if (journal := annotations_journal(folder)).exists():
            yield journal


def describe_lacking(lacking: Lacking) -> Iterator[str]:
    """Yield a line for each sweep: what of it is lacking."""
    for name, counts in lacking.items():
        kinds = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        yield f"sweep {name}: {kinds or 'its start'}"


def _sort_journals(journals: Iterator[Path]) -> list[Path]:
    """Sort journals by the time of their first event, those of sweeps and imports first.

    So most events follow those that they refer to.
    """
    firsts = {}
    for path in journals:
        first = next(read_journal(path), None)
        if first is not None:
            is_later = path.parent.name in ("evaluations", "annotations")
            firsts[path] = is_later, first[1].time
    return sorted(firsts, key=lambda path: firsts[path])


def _apply_tails(sink: LeaderboardSink, runs: Sequence[Path]) -> None:
    """Apply what was written to the journals while they were read."""
    for path in find_journals(runs):
        apply_journal(sink, path)


def _refuse_to_lose(lacking: Lacking) -> None:
    if lacking:
        raise JournalError(
            "\n  ".join(
                [
                    "nothing is replaced: the leaderboard has what no journal has that was read:",
                    *describe_lacking(lacking),
                    "name the runs folders with their journals by --from; for an import that has "
                    "none, import it again; or go on without it: --without " + ",".join(lacking),
                ]
            )
        )


def _move(
    progress: Callable[[int, int], None], before: int, size: int, total: int, end: int
) -> None:
    """Report progress at an offset of a journal, which may have grown since it was measured."""
    progress(before + min(end, size), total)
