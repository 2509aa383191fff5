"""Make the stores anew from the journals of runs folders."""

import logging
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from cse_platform.databases import sqlite_file
from cse_platform.errors import JournalError, OtherSweepError, StoreError, SweepRefusedError
from cse_platform.numbers import format_count
from cse_platform.stores.disagreements import Disagreement, Disagreements
from cse_platform.stores.mlflow.mirror import MLflowMirror
from cse_platform.stores.optuna.sink import SearchStoreSink, check_search_url, open_stored_study
from cse_platform.stores.source_journals import Damage, SourceJournal, damage_noted, gather_journals
from cse_platform.stores.sql.events import find_waiting, store_reused_trials
from cse_platform.stores.sql.replacement import Counts, LostJournal, open_replacement
from cse_platform.stores.sql.sink import LeaderboardSink, apply_journal
from cse_platform.stores.sql.store import Store
from cse_platform.sweep.spec import SweepSpec, best_references, with_best
from cse_platform.sweep.stores import mlflow_uri, search_url, sweep_stores
from cse_platform.tracking.events import MODEL_DIGITS, RECORDED, Event, SweepStarted
from cse_platform.tracking.history import History
from cse_platform.tracking.journal import lock_journal, read_journal

_log = logging.getLogger(__name__)

Progress = Callable[[int, int], None]
"""Called with the bytes of journals applied, and the total."""
SLICE = 2000
"""Events that are given to MLflow or the search store at once."""
_MOST_NAMED = 3
"""Trials of a sweep that are named of those whose scores wait."""


@dataclass(frozen=True)
class Rebuilt:
    """The outcome of a rebuild."""

    journals: int
    before: Counts
    after: Counts
    lost: Sequence[LostJournal]
    """The journals of which the old leaderboard had more."""
    disagreements: Sequence[Disagreement]
    kept: Path | None
    """The file in which the old leaderboard is kept; None if there is none."""


def rebuild(
    url: str,
    runs: Sequence[Path],
    *,
    without: Collection[str] = (),
    prefer_theirs: bool = False,
    dry_run: bool = False,
    damage: Damage | None = None,
    renamed: set[Path] | None = None,
    progress: Progress = lambda done, total: None,
) -> Rebuilt:
    """Fill a new leaderboard from all journals of runs folders, and replace the old one by it.

    The old one stays as it is until the new one is complete, and for good if anything is refused;
    if it is a SQLite file, it is kept under another name. It has a cursor for each journal, so
    nothing is lost if each of them was read at least that far. Of a damaged journal, what precedes
    the damage is applied.

    Args:
        url: the URL of the leaderboard; there may be none.
        runs: the runs folders whose journals are read; where two have different sweeps of one
            name, that of the first keeps it.
        without: sweeps of the old leaderboard, and ids of journals, of which the new one may lack
            something.
        prefer_theirs: whether of results that differ, those of the first folder are left out, and
            not those of the others.
        dry_run: whether to leave the old one in its place, and to refuse no loss.
        damage: gets the damaged journals.
        renamed: gets the journals whose sweep is shown under another name; those that it has are
            not logged again.
        progress: called as journals are applied.

    Raises:
        JournalError: if there is no journal, one goes meanwhile, or the old leaderboard has more
            of one than was read.
        SweepRefusedError: if a driver holds a sweep.
        StoreError: if the database does not answer, or is no leaderboard.
    """
    damage = {} if damage is None else damage
    renamed = set() if renamed is None else renamed
    journals = gather_journals(runs, damage, renamed)
    settled = Disagreements(journals, runs, prefer_theirs=prefer_theirs)
    with open_replacement(url, dry_run=dry_run) as new:
        sink, read = LeaderboardSink(new.store, warns_early=False), dict[str, int]()

        def apply(
            journal: SourceJournal, after_slice: Callable[[int], None] = lambda end: None
        ) -> None:
            change = settled.make_change(journal)

            def note_end(end: int, event: Event) -> Event | None:
                read[journal.id] = end  # also of an event that is left out
                return change(end, event)

            with damage_noted(damage, journal.path):
                try:
                    apply_journal(sink, journal.path, after_slice, change=note_end)
                except OtherSweepError as error:  # no first start: these have names of their own
                    raise JournalError(f"{journal.path}: {error}") from error

        for journal, move in _iterate_with_progress(journals, progress):
            apply(journal, move)
        store_reused_trials(new.store)
        lost, before, after = new.find_lost(read), new.count_rows("old"), new.count_rows("new")
        kept = None
        if not dry_run:
            refuse = partial(_refuse_to_lose, without, damage)
            refuse(lost)

            def apply_grown() -> Mapping[str, int]:
                """Apply what was written to the journals while they were read."""
                grown = gather_journals(runs, damage, renamed)
                present = {(journal.id, journal.sweep) for journal in grown}
                if gone := [str(j.path) for j in journals if (j.id, j.sweep) not in present]:
                    raise JournalError(
                        f"nothing was replaced: {', '.join(gone)} was removed or renamed while "
                        "journals were read; run the command again"
                    )
                for journal in grown:
                    apply(journal)
                store_reused_trials(new.store)
                _warn_of_waiting(new.store)
                return read

            kept = new.take_place(apply_grown, refuse)
        else:
            _warn_of_waiting(new.store)
    return Rebuilt(len(journals), before, after, lost, settled.disagreements, kept)


def _warn_of_waiting(board: Store) -> None:
    for sweep, trials in find_waiting(board).items():
        named = ", ".join(key[:MODEL_DIGITS] for key in trials[:_MOST_NAMED])
        more = ", …" * (len(trials) > _MOST_NAMED)
        says = "sweep %s: the scores of %s wait for its runs folder: %s"
        _log.warning(says, sweep, format_count(len(trials), "trial"), named + more)


def fill_mlflow(
    runs: Sequence[Path],
    *,
    prefer_theirs: bool = False,
    damage: Damage | None = None,
    renamed: set[Path] | None = None,
    progress: Progress = lambda done, total: None,
) -> list[str]:
    """Bring MLflow up to date with the journals of runs folders; it keeps all that it has.

    It is not replaced, because it also holds registered models, which no journal has, and possibly
    the experiments of others. Its store is the one of the first folder; a SQLite file that cannot
    be read is renamed first. A journal that a driver has open is left to that driver. Returns the
    sweeps that are left out with a warning: MLflow has one of that name that is of another journal.
    `damage` and `renamed` are as in `rebuild`, and so is `prefer_theirs`, of the scores of
    evaluations alone: the run of a sweep has what its journal tells.

    Raises:
        JournalError: if there is no journal.
        StoreError: if MLflow does not answer.
    """
    uri, artifacts, left_out = mlflow_uri(runs[0]), runs[0].absolute() / "artifacts", list[str]()
    _rename_damaged(uri)
    damage = {} if damage is None else damage
    renamed = set() if renamed is None else renamed
    experiments: dict[str, str] = {}
    mirrors: dict[str, MLflowMirror] = {}
    journals = gather_journals(runs, damage, renamed)
    settled = Disagreements(journals, runs, prefer_theirs=prefer_theirs)
    for journal, move in _iterate_with_progress(journals, progress):
        if journal.kind == "sweeps" and isinstance(journal.first, SweepStarted):
            spec = _read_starts(journal, damage).spec or {}
            name = experiments[journal.sweep] = str(spec.get("experiment", "cse"))
            mirrors.setdefault(name, MLflowMirror(uri, experiment=name, artifacts=artifacts))
        about_all, experiment = journal.kind == "annotations", experiments.get(journal.sweep)
        with _hold_unless_written(journal.path) as is_held:
            for name, mirror in mirrors.items() if is_held else ():
                if about_all or name == experiment:
                    path, scores = journal.path, journal.kind == "evaluations"
                    change = (settled if scores else Disagreements()).make_change(journal)
                    try:
                        with damage_noted(damage, path):
                            apply_journal(mirror, path, move, change=change, rows=SLICE)
                    except OtherSweepError as error:
                        _log.warning("%s is left out: %s", path, error)
                        left_out.append(journal.sweep)
                        del experiments[journal.sweep]  # nor do its evaluations get into that one
    return left_out


def fill_search_store(
    runs: Sequence[Path],
    *,
    damage: Damage | None = None,
    renamed: set[Path] | None = None,
    progress: Progress = lambda done, total: None,
) -> list[str]:
    """Bring the search store up to date with the journals of sweeps in runs folders.

    Like `fill_mlflow`: it keeps the studies of others, unless it is a file in the first folder.
    Returns the sweeps that are left out with a warning: this version does not read their file,
    Optuna refuses their trials, or the store has a study of that name that is of another journal.
    `damage` and `renamed` are as in `rebuild`.

    Raises:
        JournalError: if there is no journal.
        StoreError: if the store's URL is invalid, or it does not answer.
    """
    url, left_out, damage = search_url(runs[0]), [], {} if damage is None else damage
    renamed = set() if renamed is None else renamed
    check_search_url(url)
    _rename_damaged(url)
    with open_stored_study(url, "", ()):  # if it does not answer, then for no sweep
        pass
    journals = [j for j in gather_journals(runs, damage, renamed) if j.kind == "sweeps"]
    for journal, move in _iterate_with_progress(journals, progress):
        with _hold_unless_written(journal.path) as is_held:
            try:
                if is_held:
                    history = _read_starts(journal, damage)
                    if (history.spec or {}).get("source") == RECORDED:
                        continue  # a person's own runs are no search
                    spec = SweepSpec.model_validate(history.spec)  # as the last start resolved it
                    best = {r: history.best.get(r.placeholder) for r in best_references(spec)}
                    spec = with_best(spec, {r: f for r, f in best.items() if f is not None})
                    stores = replace(sweep_stores(spec, runs=runs[0]), search=url)
                    sink = SearchStoreSink(stores, spec, file=journal.path)
                    change = Disagreements().make_change(journal)
                    with damage_noted(damage, journal.path):
                        apply_journal(sink, journal.path, move, change=change, rows=SLICE)
            except (StoreError, SweepRefusedError, ValueError, LookupError) as error:
                _log.warning("%s has no complete study: %s", journal.path, error)
                left_out.append(journal.sweep)
    return left_out


def _read_starts(journal: SourceJournal, damage: Damage) -> History:
    """Read the starts of a sweep alone: the last one says which file it has."""
    starts = list[Event]()
    with damage_noted(damage, journal.path):
        for _, event in read_journal(journal.path):
            if isinstance(event, SweepStarted):
                starts.append(journal.rename(event))
    return History(starts)


def describe_lost(lost: Sequence[LostJournal]) -> Iterator[str]:
    """Yield a line for each journal: which sweeps it belongs to, and how much of it was read."""
    for journal in lost:
        sweeps = ", ".join(journal.sweeps)
        owner = f"sweep {sweeps}" if sweeps else "notes or openings of test sets"
        read = "was not read"
        if journal.read is not None:
            read = f"was read up to byte {journal.read}, and applied up to {journal.applied}"
        yield f"{owner}: journal {journal.id} {read}"


def _iterate_with_progress(
    journals: Sequence[SourceJournal], progress: Progress
) -> Iterator[tuple[SourceJournal, Callable[[int], None]]]:
    """Yield each journal with a function that reports the offset up to which it is applied."""
    done, total = 0, sum(journal.size for journal in journals)
    for journal in journals:
        progress(done, total)
        before, size = done, journal.size

        def move(end: int, before: int = before, size: int = size) -> None:
            progress(before + min(end, size), total)  # it may have grown since it was measured

        yield journal, move
        done += size
    progress(total, total)


def _refuse_to_lose(without: Collection[str], damage: Damage, lost: Sequence[LostJournal]) -> None:
    """Raise JournalError if something is lost that is not to be left out."""
    owners = {journal.id: journal.sweeps or (journal.id,) for journal in lost}
    refused = [j for j in lost if j.id not in without and not {*owners[j.id]} <= {*without}]
    if refused:
        names = dict.fromkeys(name for journal in refused for name in owners[journal.id])
        raise JournalError(
            "\n  ".join(
                [
                    "nothing was replaced: the leaderboard has results of journals that are in "
                    "none of the runs folders, or shorter there:",
                    *describe_lost(refused),
                    *damage.values(),
                    "name the runs folders with their journals with --from, or drop them "
                    "(imports can be imported again): --without " + ",".join(names),
                ]
            )
        )


@contextmanager
def _hold_unless_written(path: Path) -> Iterator[bool]:
    """Lock a journal if its folder can be written to. Yields False if a driver has it open."""
    with ExitStack() as stack:
        try:
            stack.callback(lock_journal(path).release)
        except JournalError:
            _log.warning("%s is in use, so it is left to the process that writes to it", path)
            yield False
            return
        except OSError:  # a colleague's folder
            pass
        yield True


def _rename_damaged(url: str) -> None:
    """Rename a SQLite file that cannot be read, so that a new one can take its place."""
    file = sqlite_file(url) if url.startswith("sqlite") else None
    if file is None or not file.is_file():
        return
    try:
        with closing(sqlite3.connect(file)) as database:
            if database.execute("PRAGMA quick_check(1)").fetchone() == ("ok",):
                return
    except sqlite3.OperationalError:  # it is locked, or cannot be reached
        return
    except sqlite3.DatabaseError:
        pass
    kept = file.with_name(f"{file.name}.damaged")
    file.replace(kept)
    for end in ("-wal", "-shm"):
        file.with_name(f"{file.name}{end}").unlink(missing_ok=True)
    _log.warning("%s cannot be read; it is now %s", file, kept)
