"""Adds trials that ran elsewhere to the journals of imports, and so to the leaderboard, once."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cse_platform.errors import ImportRefusedError
from cse_platform.stores.sql.sink import LeaderboardSink, apply_journal
from cse_platform.stores.sql.store import Store
from cse_platform.stores.sql.tables import sweep_or_none
from cse_platform.stores.sql.trial_events import Rank, rank, read_attempt
from cse_platform.sweep.stores import import_journal
from cse_platform.tracking.events import (
    IMPORTED,
    Event,
    SweepFinished,
    SweepStarted,
    TrialEvaluated,
    TrialEvent,
    TrialFinished,
    TrialPoint,
    TrialStarted,
)
from cse_platform.tracking.journal import Journal, read_journal, read_journal_id, refuse_deleted

RECORD = "imported_record"
"""Key in a trial's provenance: the run that it was imported from."""


@dataclass(frozen=True)
class ImportedTrial:
    """A run of another training script, as our events."""

    label: str
    """Its name in messages."""
    started: TrialStarted
    """Names the import's sweep. Its number in the sweep is still to be given."""
    points: tuple[TrialPoint, ...]
    finished: TrialFinished
    evaluated: TrialEvaluated | None

    @property
    def attempt(self) -> list[Event]:
        return [self.started, *self.points, self.finished]


def import_trials(
    board: Store, trials: Sequence[ImportedTrial], *, source: str, runs: Path
) -> tuple[int, int]:
    """Add trials to the journals of imports in a runs folder, and from there to the leaderboard.

    Returns the number of trials that are new or better attempts at incomplete ones, and of those
    that were already there.

    Nothing is written if anything is refused; an import that was interrupted is completed by
    running it again. Of the attempts at a trial, a complete one is shown, else the one that came
    furthest. All trials of a sweep have one method and backbone; `source` is where they come from,
    without passwords. Raises ImportRefusedError if a complete run is of a trial that another run
    has completed here, or a sweep's name is taken by another sweep; JournalError if a journal
    cannot be written.
    """
    sweeps: dict[str, list[ImportedTrial]] = defaultdict(list)
    for trial in trials:
        sweeps[trial.started.sweep].append(trial)
    problems: list[str] = []
    writes: dict[Path, list[Event]] = {}
    for sweep, runs_of_sweep in sweeps.items():
        journal = import_journal(runs.absolute(), sweep)
        refuse_deleted(journal)
        if journal.exists():  # what an interrupted import has left there comes first
            _apply(board, journal)
        earlier = [event for _, event in read_journal(journal)] if journal.exists() else []
        known: dict[str, list[Event]] = defaultdict(list)
        for event in earlier:
            if isinstance(event, TrialEvent):
                known[event.trial].append(event)
        first = runs_of_sweep[0].started
        with board.session() as session:
            taken = sweep_or_none(session, sweep)
        mine = (IMPORTED, first.method, first.backbone)
        if taken and (taken.spec.get("source"), taken.method, taken.backbone) != mine:
            problems.append(
                f"sweep {sweep!r} is already here, but a different one ({taken.method} on "
                f"{taken.backbone}); choose another name"
            )
        elif taken and taken.journal != (read_journal_id(journal) if journal.exists() else ""):
            problems.append(
                f"the journal of sweep {sweep!r} is not {journal}; name the runs folder with it "
                "by --runs, or write another name, or, if it is lost, take the sweep off the "
                f"leaderboard: cse-leaderboard rebuild --without {sweep}"
            )
        problems += find_rivals(runs_of_sweep, known)
        lines = _find_news(runs_of_sweep, known)
        if lines or (earlier and not isinstance(earlier[-1], SweepFinished)):
            encoder = {"method": first.method, "backbone": first.backbone}
            dev = {key: first.dev[key] for key in ("checkpoint", "search")}
            begun = SweepStarted(
                time=min(trial.started.time for trial in runs_of_sweep),
                sweep=sweep,
                **encoder,
                spec={"sweep": sweep, "source": IMPORTED, **encoder, "dev": dev},
                provenance={"imported_from": source},
            )
            ended = max(trial.finished.time for trial in runs_of_sweep)
            done = SweepFinished(time=ended, sweep=sweep, state="COMPLETE")
            writes[journal] = [begun, *lines, done]
    refuse(problems)
    for path, events in writes.items():
        with Journal(path) as written:
            for event in events:
                written.append(event)
        _apply(board, path)
    new = sum(isinstance(event, TrialStarted) for events in writes.values() for event in events)
    return new, len({trial.started.trial for trial in trials}) - new


def _apply(board: Store, journal: Path) -> None:
    sink = LeaderboardSink(board, file=journal)
    apply_journal(sink, journal, lambda _end: board.let_others_write())


def _find_news(trials: Sequence[ImportedTrial], known: Mapping[str, list[Event]]) -> list[Event]:
    """Find what the journal lacks: trials that are new or better, and new scores.

    A trial that is running there is new, too: the import that began it was interrupted.
    """
    best: dict[str, ImportedTrial] = {}
    for trial in trials:
        rivals = (best.get(trial.started.trial, trial), trial)  # of equal ones the first
        best[trial.started.trial] = max(rivals, key=lambda rival: _rank(rival.attempt))
    lines: list[Event] = []
    begun = [e for events in known.values() for e in events if isinstance(e, TrialStarted)]
    numbers = {event.trial: event.number for event in begun}
    for key, trial in sorted(best.items(), key=lambda item: item[1].started.time):
        earlier = known.get(key, [])
        ends = (e for e in reversed(earlier) if isinstance(e, TrialStarted | TrialFinished))
        last = next(ends, None)
        if isinstance(last, TrialFinished) and (
            last.state == "COMPLETE" or _rank(trial.attempt) <= _rank(earlier)
        ):
            if last.provenance[RECORD] != trial.finished.provenance[RECORD]:
                continue
        else:
            number = numbers.setdefault(key, len(numbers))
            started = trial.started.model_copy(update={"number": number})
            lines += [started, *trial.points, trial.finished]
        scored = {t for e in earlier if isinstance(e, TrialEvaluated) for t in e.tasks}
        if trial.evaluated and {*trial.evaluated.tasks} - scored:
            lines.append(trial.evaluated)
    return lines


def _rank(events: Sequence[Event]) -> Rank:
    attempt = read_attempt(events)
    return (False, -2, "") if attempt is None else rank(attempt.reached, attempt.completed)


def find_rivals(
    trials: Sequence[ImportedTrial], known: Mapping[str, Sequence[Event]]
) -> Iterator[str]:
    """Yield the complete runs that are attempts at one trial, those in `known` events included."""
    complete: dict[str, list[ImportedTrial]] = defaultdict(list)
    for trial in sorted(trials, key=lambda trial: trial.started.time):
        if trial.finished.state == "COMPLETE":
            complete[trial.started.trial].append(trial)
    for key, rivals in complete.items():
        finished = [event for event in known.get(key, ()) if isinstance(event, TrialFinished)]
        records = {event.provenance[RECORD] for event in finished if event.state == "COMPLETE"}
        records -= {trial.finished.provenance[RECORD] for trial in rivals}
        labels = [trial.label for trial in rivals]
        labels += [f"{record}, which is on the leaderboard," for record in sorted(records)]
        if len(labels) > 1:
            yield (
                f"{' and '.join(labels)} are all complete, with equal seeds and "
                "hyperparameters; leave all but one out, or name the hyperparameter that tells "
                "them apart"
            )


def refuse(problems: Sequence[str], head: str = "nothing is imported:", *, most: int = 20) -> None:
    """Raise ImportRefusedError with the first of these problems, if there are any."""
    more = [f"and {len(problems) - most} more"] if len(problems) > most else []
    if problems:
        raise ImportRefusedError("\n  ".join([head, *problems[:most], *more]))
