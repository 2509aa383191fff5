"""Imports results from elsewhere, once, as events of journals, and so into the leaderboard."""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cse_methods.data.dev_selection import DEV_TASKS
from cse_methods.files.tables import read_table
from cse_platform.databases import expand_url, sqlite_url
from cse_platform.errors import ImportRefusedError
from cse_platform.imports.layout import NO_STEP, SCORED_BY, Layout, Run
from cse_platform.stores.sql.sink import LeaderboardSink, apply_journal
from cse_platform.stores.sql.store import Store, open_store
from cse_platform.stores.sql.tables import sweep_or_none
from cse_platform.stores.sql.trial_events import Rank, rank, read_attempt
from cse_platform.sweep.identity import canonical_hash
from cse_platform.sweep.problems import format_value
from cse_platform.sweep.stores import import_journal
from cse_platform.tracking import events
from cse_platform.tracking.events import IMPORTED, Event, TrialFinished, TrialStarted
from cse_platform.tracking.journal import Journal, read_journal, read_journal_id, refuse_deleted

if TYPE_CHECKING:
    import pandas as pd

_RECORD = "imported_record"
"""Key in a trial's provenance: the run that it was imported from."""
_MOST_PROBLEMS = 20


@dataclass(frozen=True)
class Imported:
    """What an import has added to the leaderboard."""

    new: int
    """Trials that are new, or better attempts at incomplete ones."""
    known: int
    """Trials that were here already."""
    left_out: dict[str, int]
    """How many runs were left out, by the reason."""


@dataclass(frozen=True)
class _Attempt:
    """A run as our events; the number of its trial in the sweep is still to be given."""

    label: str
    started: TrialStarted
    points: tuple[events.TrialPoint, ...]
    finished: TrialFinished
    evaluated: events.TrialEvaluated | None

    @property
    def rank(self) -> Rank:
        return _rank([self.started, *self.points, self.finished])


def import_runs(
    table: "pd.DataFrame | Path | str",
    *,
    sweep: str,
    runs: Path | str | None = None,
    store: str | None = None,
) -> Imported:
    """Import the runs of a table in the layout that docs/importing.md describes.

    A second import adds only the runs and test scores that are new, and completes an import that
    was interrupted. Of several runs of a trial, one configuration with one seed, the complete one
    counts, else the one that came furthest.

    Args:
        table: a frame, or a file: CSV, JSON lines or Parquet.
        sweep: the name that the trials come under. Those of several methods or backbones become
            several sweeps, such as NAME-METHOD.
        runs: the runs folder that gets a journal of the trials; default: `runs`.
        store: the URL of the leaderboard; default: CSE_STORE unless `runs` is given, else the
            leaderboard in the runs folder.

    Raises:
        ImportRefusedError: if the table or the sweep's name is refused; names every problem, with
            row and column. Nothing is written then.
        DataError: if the file cannot be read.
        StoreError, JournalError: if the leaderboard or a journal cannot be used.
    """
    if isinstance(table, str | Path):
        source, file = Path(table).name, read_table(Path(table)).headed()
        layout = Layout(file.names or (), file.rows)
    else:
        rows = enumerate(table.itertuples(index=False, name=None), 1)
        source = "a pandas frame"
        layout = Layout([*table.columns], ((f"row {number}", row) for number, row in rows))
    problems = layout.problems
    if re.fullmatch(r"[A-Za-z0-9][\w.-]{0,99}", sweep, re.ASCII) is None:
        wanted = "at most 100 letters, digits, '-', '_' and '.', the first a letter or digit"
        raise ImportRefusedError(f"a sweep's name has {wanted}, got {format_value(sweep)}")
    folder = Path(runs or "runs").absolute()
    sweeps = defaultdict[str, list[_Attempt]](list)
    names = {} if problems else _name_sweeps(sweep, layout.runs, folder)
    for run in layout.runs:
        name = names.get((run.facts["method"], run.facts["backbone"]), sweep)
        sweeps[name].append(_make_attempt(run, name, layout.climbed, base=sweep, source=source))
    writes = {}
    for name, attempts in sweeps.items():
        journal = import_journal(folder, name)
        refuse_deleted(journal)
        earlier = _read_events(journal)
        news, rivals = _find_news(attempts, earlier)
        problems += rivals
        if news or (earlier and not isinstance(earlier[-1], events.SweepFinished)):
            writes[journal] = _frame_news(news, attempts, source)
    _refuse(problems)
    url = store or (None if runs else os.environ.get("CSE_STORE"))
    with open_store(expand_url(url) if url else sqlite_url(folder / "leaderboard.db")) as board:
        for name, attempts in sweeps.items():
            journal = import_journal(folder, name)
            if journal.exists():  # what an interrupted import has left there comes first
                _apply(board, journal)
            problems += _check_name(board, attempts[0].started, journal)
        _refuse(problems)
        for journal, lines in writes.items():
            with Journal(journal) as written:
                for event in lines:
                    written.append(event)
            _apply(board, journal)
    new = sum(isinstance(event, TrialStarted) for lines in writes.values() for event in lines)
    trials = len({attempt.started.trial for of in sweeps.values() for attempt in of})
    outdone = len(layout.runs) - trials
    left_out = layout.left_out + Counter({"outdone by another attempt": outdone})
    return Imported(new, trials - new, dict(left_out))


def _apply(board: Store, journal: Path) -> None:
    sink = LeaderboardSink(board, file=journal)
    apply_journal(sink, journal, lambda _end: board.let_others_write())


def _refuse(problems: Sequence[str]) -> None:
    """Raise ImportRefusedError with the first of these problems, if there are any."""
    more = len(problems) - _MOST_PROBLEMS
    shown = [*problems[:_MOST_PROBLEMS], *([f"and {more} more"] if more > 0 else [])]
    if problems:
        raise ImportRefusedError("\n  ".join(["nothing is imported:", *shown]))


def _read_events(journal: Path) -> list[Event]:
    return [event for _, event in read_journal(journal)] if journal.exists() else []


def _name_sweeps(sweep: str, runs: Collection[Run], folder: Path) -> dict[tuple[str, str], str]:
    """Name the sweep of each method and backbone; those that were imported before keep theirs."""
    kinds = dict.fromkeys((run.facts["method"], run.facts["backbone"]) for run in runs)
    several = tuple(len({kind[place] for kind in kinds}) > 1 for place in (0, 1))
    names = {}
    for kind in kinds:
        for named in (*product((False, True), repeat=2), several):
            parts = [_make_slug(kind[place], 40) for place in (0, 1) if named[place]]
            names[kind] = _make_slug("-".join([sweep, *parts]), 100)
            earlier = _read_events(import_journal(folder, names[kind]))[:1]
            here = [(e.method, e.backbone) for e in earlier if isinstance(e, events.SweepStarted)]
            if here == [kind]:
                break
    return names


def _make_slug(text: str, most: int) -> str:
    """Make a sweep's name, or a part of one, of a text; unlike texts have unlike names."""
    slug = re.sub(r"[^A-Za-z0-9_.-]", "-", text)
    is_slug = slug == text and len(text) <= most
    return text if is_slug else f"{slug[: most - 7]}-{canonical_hash(text)[:6]}"


def _check_name(board: Store, first: TrialStarted, journal: Path) -> list[str]:
    """Return why a sweep cannot have its name, if it is another one's on the leaderboard."""
    with board.session() as session:
        taken = sweep_or_none(session, first.sweep)
    mine = (IMPORTED, first.method, first.backbone)
    if taken and (taken.spec.get("source"), taken.method, taken.backbone) != mine:
        other = f"a different one ({taken.method} on {taken.backbone})"
        return [f"sweep {first.sweep!r} is already here, but {other}; choose another name"]
    if taken and taken.journal != (read_journal_id(journal) if journal.exists() else ""):
        return [
            f"the journal of sweep {first.sweep!r} is not {journal}; name the runs folder with it "
            "by --runs, or write another name, or, if it is lost, take the sweep off the "
            f"leaderboard: cse-leaderboard rebuild --without {first.sweep}"
        ]
    return []


def _make_attempt(run: Run, sweep: str, dev: str, *, base: str, source: str) -> _Attempt:
    """Make the events of a run. Without times, they stand at the time of the import."""
    facts = {key: run.facts[key] for key in ("method", "backbone", "seed")}
    configuration = canonical_hash(
        [IMPORTED, facts["method"], facts["backbone"], run.values, dev, base]
    )
    of: Any = {"sweep": sweep, "trial": canonical_hash([IMPORTED, configuration, facts["seed"]])}
    start, end = run.facts.get("started"), run.facts.get("finished")
    begun = start or end or events.now()
    started = TrialStarted(
        **of,
        **facts,
        time=begun,
        number=0,
        role="search",
        search_number=None,
        revision=0,
        configuration=configuration,
        values=run.values,
        searched=tuple(run.values),
        # By its identity, imports of one dev set under one name are comparable, and no others.
        dev={"identity": canonical_hash([IMPORTED, "dev", dev, base]), "source": IMPORTED}
        | {"checkpoint": dev, "search": dev, "corpus": IMPORTED},
    )
    values = {step: next(iter(metrics.values())) for step, metrics in run.points.items()}
    points = tuple(
        events.TrialPoint(**of, time=begun, step=step, value=values[step], metrics=metrics)
        for step, metrics in run.points.items()
        if step != NO_STEP
    )
    # The earliest of the best trained steps counts.
    best = max(values.keys() - {0}, key=lambda step: (values[step], -step), default=None)
    curve = [f"{step}: {value:.12g}" for step, value in values.items()]
    record = f"run {run.name} ({canonical_hash([run.name, *curve])[:8]})"
    finished = TrialFinished(
        **of,
        time=end or begun,
        state=run.state,
        best_step=None if best == NO_STEP else best,
        best_value=None if best is None else values[best],
        best_metrics={} if best is None else run.points[best],
        error="its state is failed" if run.state == "FAIL" else None,
        wall_seconds=(end - start).total_seconds() if start and end else None,
        provenance={"imported_from": source, _RECORD: record}
        | ({"test_scores": IMPORTED} if run.scores else {}),
    )
    identity = canonical_hash([IMPORTED, "test"])
    scores = tuple(
        events.TrialScore(
            task=task, split="test", metric=SCORED_BY[task], value=value, identity=identity
        )
        for task, value in run.scores.items()
    )
    evaluated = events.TrialEvaluated(
        **of,
        time=finished.time,
        tasks=tuple(sorted(run.scores)),
        settings=IMPORTED,
        source=IMPORTED,
        scores=scores,
        similarities=(),
        identities={identity: {"source": IMPORTED}},
        seconds={},
    )
    return _Attempt(run.label, started, points, finished, evaluated if scores else None)


def _find_news(
    attempts: Sequence[_Attempt], earlier: Sequence[Event]
) -> tuple[list[Event], list[str]]:
    """Find what a journal lacks: trials that are new or better, and new scores.

    A trial that is running there is new, too: the import that began it was interrupted. Returns the
    events, and the complete runs that are attempts at one trial, which are refused.
    """
    known, rivals = defaultdict[str, list[Any]](list), defaultdict[str, list[_Attempt]](list)
    for event in earlier:
        if isinstance(event, events.TrialEvent):
            known[event.trial].append(event)
    for attempt in sorted(attempts, key=lambda attempt: attempt.started.time):
        rivals[attempt.started.trial].append(attempt)
    numbers = {e.trial: e.number for e in earlier if isinstance(e, TrialStarted)}
    news, problems = list[Event](), list[str]()
    for trial, runs in rivals.items():
        ends = [e for e in known[trial] if isinstance(e, TrialStarted | TrialFinished)]
        last = ends[-1] if ends and isinstance(ends[-1], TrialFinished) else None
        is_complete = last is not None and last.state == "COMPLETE"
        complete = {
            run.finished.provenance[_RECORD]: run.label
            for run in runs
            if run.finished.state == "COMPLETE"
        }
        if last is not None and is_complete:
            here = last.provenance[_RECORD]
            complete.setdefault(here, f"{here}, which is on the leaderboard,")
        if len(complete) > 1:
            problems.append(
                f"{' and '.join(complete.values())} are all complete, with equal seeds and "
                "hyperparameters; leave all but one out, or add the param.NAME that differs"
            )
        best = max(runs, key=lambda run: run.rank)
        if last is None or not (is_complete or best.rank <= _rank(known[trial])):
            number = numbers.setdefault(trial, len(numbers))
            started = best.started.model_copy(update={"number": number})
            news += [started, *best.points, best.finished]
        elif last.provenance[_RECORD] != best.finished.provenance[_RECORD]:
            continue
        scored = {t for e in known[trial] if isinstance(e, events.TrialEvaluated) for t in e.tasks}
        if best.evaluated and {*best.evaluated.tasks} - scored:
            news.append(best.evaluated)
    return news, problems


def _rank(attempt: Sequence[Event]) -> Rank:
    read = read_attempt(attempt)
    return (False, -2, "") if read is None else rank(read.reached, read.completed)


def _frame_news(news: Sequence[Event], attempts: Sequence[_Attempt], source: str) -> list[Event]:
    """Put the start and the end of an import's sweep around its news."""
    first = attempts[0].started
    encoder = {"method": first.method, "backbone": first.backbone}
    dev: dict[str, Any] = {key: first.dev[key] for key in ("checkpoint", "search")}
    if first.dev["search"] not in DEV_TASKS:
        dev["files"] = {first.dev["search"]: {"file": first.dev["search"]}}
    begun = events.SweepStarted(
        time=min(attempt.started.time for attempt in attempts),
        sweep=first.sweep,
        **encoder,
        spec={"sweep": first.sweep, "source": IMPORTED, **encoder, "dev": dev},
        provenance={"imported_from": source},
    )
    ended = max(attempt.finished.time for attempt in attempts)
    return [begun, *news, events.SweepFinished(time=ended, sweep=first.sweep, state="COMPLETE")]
