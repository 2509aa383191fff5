"""Adds trials that ran elsewhere to the journals of imports, and so to the leaderboard, once."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cse_platform.errors import ImportRefusedError
from cse_platform.stores.sql.sink import LeaderboardSink, apply_journal
from cse_platform.stores.sql.store import Store
from cse_platform.stores.sql.stored_sweeps import sweep_or_none
from cse_platform.stores.sql.trial_events import Rank, read_attempt
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
    def key(self) -> str:
        return self.started.trial

    @property
    def rank(self) -> Rank:
        return _rank([self.started, *self.points, self.finished])


@dataclass(frozen=True)
class Imported:
    """Counts of an import."""

    new: int
    """Trials that are new, or better attempts at incomplete ones."""
    already_here: int
    """Trials that were already in the journals."""
    gave_way: int
    """Attempts at a trial that were dropped for a better one."""


def import_trials(
    board: Store, trials: Sequence[ImportedTrial], *, source: str, runs: Path
) -> Imported:
    """Add trials to the journals of imports in a runs folder, and from there to the leaderboard.

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

    def pause(_end: int) -> None:
        board.let_others_write()

    problems: list[str] = []
    writes: dict[Path, list[Event]] = {}
    new = chosen = 0
    for sweep, runs_of_sweep in sweeps.items():
        journal = import_journal(runs.absolute(), sweep)
        refuse_deleted(journal)
        earlier: list[Event] = []
        if journal.exists():
            # What an interrupted import has left there comes first.
            apply_journal(LeaderboardSink(board, file=journal), journal, pause)
            earlier = [event for _, event in read_journal(journal)]
        known: dict[str, list[Event]] = defaultdict(list)
        for event in earlier:
            if isinstance(event, TrialEvent):
                known[event.trial].append(event)
        first = runs_of_sweep[0].started
        problems += _find_name_problems(board, sweep, first, journal)
        problems += find_rivals(runs_of_sweep, known)
        best: dict[str, ImportedTrial] = {}
        for trial in runs_of_sweep:
            if trial.key not in best or trial.rank > best[trial.key].rank:
                best[trial.key] = trial
        lines = _find_news(sorted(best.values(), key=lambda t: t.started.time), known)
        new += sum(isinstance(event, TrialStarted) for event in lines)
        chosen += len(best)
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
        apply_journal(LeaderboardSink(board, file=path), path, pause)
    return Imported(new, chosen - new, len(trials) - chosen)


def _find_news(trials: Sequence[ImportedTrial], known: Mapping[str, list[Event]]) -> list[Event]:
    """Find what the journal lacks: trials that are new or better, and new scores.

    A trial that is running there is new, too: the import that began it was interrupted.
    """
    lines: list[Event] = []
    begun = [e for events in known.values() for e in events if isinstance(e, TrialStarted)]
    numbers = {event.trial: event.number for event in begun}
    for trial in trials:
        earlier = known.get(trial.key, [])
        scored = {t for e in earlier if isinstance(e, TrialEvaluated) for t in e.tasks}
        match [event for event in earlier if isinstance(event, TrialStarted | TrialFinished)]:
            case [*_, TrialFinished() as last] if last.state == "COMPLETE" or trial.rank <= _rank(
                earlier
            ):
                if last.provenance[RECORD] != trial.finished.provenance[RECORD]:
                    continue
            case _:
                number = numbers.setdefault(trial.key, len(numbers))
                started = trial.started.model_copy(update={"number": number})
                lines += [started, *trial.points, trial.finished]
        if trial.evaluated and {*trial.evaluated.tasks} - scored:
            lines.append(trial.evaluated)
    return lines


def _rank(events: Sequence[Event]) -> Rank:
    attempt = read_attempt(events)
    return (False, -2, "") if attempt is None else attempt.rank("")


def _find_name_problems(
    board: Store, sweep: str, example: TrialStarted, journal: Path
) -> Iterator[str]:
    with board.session() as session:
        taken = sweep_or_none(session, sweep)
    mine = (IMPORTED, example.method, example.backbone)
    if taken and (taken.spec.get("source"), taken.method, taken.backbone) != mine:
        yield (
            f"sweep {sweep!r} on this leaderboard is another one "
            f"({taken.method} on {taken.backbone}); write another name"
        )
    elif taken and taken.journal != (read_journal_id(journal) if journal.exists() else ""):
        yield (
            f"the journal of sweep {sweep!r} is not {journal}; name the runs folder with it by "
            "--runs, or write another name, or, if it is lost, take the sweep off the leaderboard: "
            f"cse-leaderboard rebuild --without {sweep}"
        )


def find_rivals(
    trials: Sequence[ImportedTrial], known: Mapping[str, Sequence[Event]]
) -> Iterator[str]:
    """Yield the complete runs that are attempts at one trial.

    A run that is on the leaderboard is no rival of itself; `trials` are all different runs.
    """
    complete: dict[str, list[ImportedTrial]] = defaultdict(list)
    for trial in sorted(trials, key=lambda trial: trial.started.time):
        if trial.finished.state == "COMPLETE":
            complete[trial.key].append(trial)
    for key, rivals in complete.items():
        labels = [trial.label for trial in rivals]
        finished = [event for event in known.get(key, ()) if isinstance(event, TrialFinished)]
        records = {event.provenance[RECORD] for event in finished if event.state == "COMPLETE"}
        others = records - {trial.finished.provenance[RECORD] for trial in rivals}
        labels += [f"{record}, which is on the leaderboard," for record in sorted(others)]
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
