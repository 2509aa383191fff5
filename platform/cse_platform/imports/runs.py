"""Imports results from elsewhere, once, as events of journals, and so into the leaderboard."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from cse_methods.files.tables import read_table
from cse_platform.databases import expand_url
from cse_platform.errors import ImportRefusedError, OtherSweepError
from cse_platform.imports.layout import NO_STEP, ImportedRun, Layout
from cse_platform.secrets import mask_text
from cse_platform.stores.disagreements import TrialResults
from cse_platform.stores.sql.keyed_rows import refuse_other_journal
from cse_platform.stores.sql.sink import LeaderboardSink, apply_journal
from cse_platform.stores.sql.store import Store, open_store
from cse_platform.stores.sql.tables import sweep_or_none
from cse_platform.sweep.blocks import Slug
from cse_platform.sweep.identity import canonical_hash
from cse_platform.sweep.problems import problems_in
from cse_platform.sweep.stores import import_journal, leaderboard_url
from cse_platform.tracking import events
from cse_platform.tracking.events import (
    IMPORTED,
    IMPORTED_FROM,
    Event,
    TrialFinished,
    TrialStarted,
)
from cse_platform.tracking.journal import Journal, read_journal, read_journal_id, refuse_deleted
from cse_platform.tracking.recorded_runs import (
    make_evaluation,
    make_sweep_start,
    make_trial_start,
)
from cse_platform.values import canonical_json

if TYPE_CHECKING:
    import pandas as pd

_RECORD = "imported_record"
"""Key in a trial's provenance: the run that it was imported from."""
_MOST_PROBLEMS = 20
_NAME: TypeAdapter[str] = TypeAdapter(Slug)

_Attempt = list[Any]
"""The events of a run: its start, its dev points, its end and, if it has test scores, these."""


@dataclass(frozen=True)
class Imported:
    """What an import has added to the leaderboard."""

    new: int
    """Trials that are new, or better attempts at incomplete ones."""
    known: int
    """Trials that were here already."""
    left_out: dict[str, int]
    """How many runs were left out, by the reason."""

    def __str__(self) -> str:
        lines = [f"Trials: {self.new} new, {self.known} already here"]
        if self.left_out:
            reasons = (f"{count} {reason}" for reason, count in self.left_out.items())
            lines.append(f"Runs left out: {', '.join(reasons)}")
        return "\n".join(lines)


def import_runs(
    table: "pd.DataFrame | Path | str",
    *,
    sweep: str,
    runs: Path | str | None = None,
    store: str | None = None,
) -> Imported:
    """Import the runs of a table in the layout that docs/importing.md describes.

    A second import adds only the runs and test scores that are new, refuses changed ones, and
    completes an import that was interrupted. Of several runs of a trial, one configuration with one
    seed, the complete one counts, else the one that came furthest.

    Args:
        table: a frame, or a file: CSV, JSON lines or Parquet.
        sweep: the name that the trials come under. Those of several methods or backbones become
            several sweeps, such as NAME-METHOD.
        runs: the runs folder that gets a journal of the trials; default: `runs`.
        store: the URL of the leaderboard; default: CSE_STORE, else the leaderboard in the runs
            folder.

    Raises:
        ImportRefusedError: if the table or the sweep's name is refused; names every problem, with
            row and column. Nothing is written then.
        DataError: if the file cannot be read.
        StoreError, JournalError: if the leaderboard or a journal cannot be used.
    """
    try:
        _NAME.validate_python(sweep)
    except ValidationError as error:
        raise ImportRefusedError(f"sweep: {problems_in(error, sweep)[0].text}") from None
    if isinstance(table, str | Path):
        path = Path(expand_url(str(table)))
        source, file = path.name, read_table(path).headed()
        layout = Layout(file.names or (), file.rows)
    elif not hasattr(table, "itertuples"):
        got = type(table).__name__
        raise ImportRefusedError(f"table: expected a frame of pandas or a file's path, got {got}")
    else:
        rows = enumerate(table.itertuples(index=False, name=None), 1)
        source = "a pandas frame"
        layout = Layout([*table.columns], ((f"row {number}", row) for number, row in rows))
    problems = layout.problems
    folder = Path(expand_url(str(runs or "runs"))).absolute()
    names = _name_sweeps(sweep, layout.runs, folder)
    labels, attempts = dict[str, str](), defaultdict[Path, list[_Attempt]](list)
    for run in layout.runs:
        name = names[run.facts["method"], run.facts["backbone"]]
        attempt = _make_attempt(run, name, layout.climbed, base=sweep, source=source)
        attempts[import_journal(folder, name)].append(attempt)
        labels[_find_record(attempt)] = run.label
    writes = dict[Path, list[Event]]()
    for journal, of_sweep in attempts.items():
        refuse_deleted(journal)
        earlier = _read_events(journal)
        news, rivals = _find_news(of_sweep, earlier, labels)
        problems += rivals
        if news or (earlier and not isinstance(earlier[-1], events.SweepFinished)):
            writes[journal] = _add_sweep(news, of_sweep, source)
    _refuse_problems(problems)
    with open_store(expand_url(store) if store else leaderboard_url(folder)) as board:
        for journal, of_sweep in attempts.items():
            if journal.exists():  # what an interrupted import has left there comes first
                _apply_to_leaderboard(board, journal)
            problems += _check_name(board, of_sweep[0][0], journal)
        _refuse_problems(problems)
        for journal, lines in writes.items():
            with Journal(journal) as written:
                for event in lines:
                    written.append(event)
            _apply_to_leaderboard(board, journal)
    new = sum(isinstance(event, TrialStarted) for lines in writes.values() for event in lines)
    trials = len({attempt[0].trial for of_sweep in attempts.values() for attempt in of_sweep})
    outdone = Counter({"outdone by another attempt": len(layout.runs) - trials})
    return Imported(new, trials - new, dict(layout.left_out + outdone))


def _apply_to_leaderboard(board: Store, journal: Path) -> None:
    apply_journal(LeaderboardSink(board), journal, lambda _end: board.let_others_write())


def _refuse_problems(problems: Sequence[str]) -> None:
    """Raise ImportRefusedError with the first of these problems, if there are any."""
    more = len(problems) - _MOST_PROBLEMS
    shown = [*problems[:_MOST_PROBLEMS], *([f"and {more} more"] if more > 0 else [])]
    if problems:
        raise ImportRefusedError("\n  ".join(["nothing is imported:", *shown]))


def _read_events(journal: Path) -> list[Event]:
    return [event for _, event in read_journal(journal)] if journal.exists() else []


def _name_sweeps(
    sweep: str, runs: Collection[ImportedRun], folder: Path
) -> dict[tuple[str, str], str]:
    """Name the sweep of each method and backbone; those that were imported before keep theirs."""
    kinds = dict.fromkeys((run.facts["method"], run.facts["backbone"]) for run in runs)
    several = tuple(len({kind[index] for kind in kinds}) > 1 for index in (0, 1))
    names = {}
    for kind in kinds:
        for named in (*product((False, True), repeat=2), several):
            parts = [_make_slug(kind[index], 40) for index in (0, 1) if named[index]]
            names[kind] = _make_slug("-".join([sweep, *parts]), 100)
            first = _read_events(import_journal(folder, names[kind]))[:1]
            imported = [(e.method, e.backbone) for e in first if isinstance(e, events.SweepStarted)]
            if imported == [kind]:
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
        try:
            own = read_journal_id(journal) if journal.exists() else ""
            refuse_other_journal(session, taken, own)
        except OtherSweepError as error:
            return [
                f"{error}, and its journal is not {journal}; name the runs folder with it by "
                "--runs, or write another name, or, if it is lost, take the sweep off the "
                f"leaderboard: cse-leaderboard rebuild --without {first.sweep}"
            ]
    return []


def _make_attempt(run: ImportedRun, sweep: str, dev: str, *, base: str, source: str) -> _Attempt:
    """Make the events of a run. Without times, they stand at the time of the import."""
    facts = {key: run.facts[key] for key in ("method", "backbone", "seed")}
    configuration = canonical_hash(
        [IMPORTED, facts["method"], facts["backbone"], run.values, dev, base]
    )
    key = canonical_hash([IMPORTED, configuration, facts["seed"]])
    fields: Any = {"sweep": sweep, "trial": key}
    start, end = run.facts.get("started"), run.facts.get("finished")
    begun = start or end or events.now()
    started = make_trial_start(
        **fields,
        **facts,
        time=begun,
        number=0,
        configuration=configuration,
        values=run.values,
        source=IMPORTED,
        dev=dev,
        group=base,
    )
    values = {step: next(iter(metrics.values())) for step, metrics in run.points.items()}
    points = [
        events.TrialPoint(**fields, time=begun, step=step, value=values[step], metrics=metrics)
        for step, metrics in run.points.items()
        if step != NO_STEP
    ]
    # The earliest of the best trained steps counts.
    best = max(values.keys() - {0}, key=lambda step: (values[step], -step), default=None)
    curve = [f"{step}: {value:.12g}" for step, value in values.items()]
    record = f"run {mask_text(run.name)} ({canonical_hash([run.name, *curve])[:8]})"
    tested = {"test_scores": IMPORTED} if run.scores else {}
    finished = TrialFinished(
        **fields,
        time=end or begun,
        state=run.state,
        best_step=None if best == NO_STEP else best,
        best_value=None if best is None else values[best],
        best_metrics={} if best is None else run.points[best],
        error="its state is failed" if run.state == "FAIL" else None,
        wall_seconds=(end - start).total_seconds() if start and end else None,
        provenance={IMPORTED_FROM: source, _RECORD: record, **tested},
    )
    evaluated = make_evaluation(run.scores, source=IMPORTED, time=finished.time, **fields)
    return [started, *points, finished, *([evaluated] if run.scores else [])]


def _find_news(
    attempts: Sequence[_Attempt], earlier: Sequence[Event], labels: Mapping[str, str]
) -> tuple[list[Event], list[str]]:
    """Find what a journal lacks: trials that are new or better, and new scores.

    A trial that is running there is new, too: the import that began it was interrupted. Returns the
    events, and what is refused: complete runs that are attempts at one trial, and runs that are
    here with other results, or as another trial.
    """
    known, rivals = defaultdict[str, _Attempt](list), defaultdict[str, list[_Attempt]](list)
    for event in earlier:
        if isinstance(event, events.TrialEvent):
            known[event.trial].append(event)
    for attempt in sorted(attempts, key=lambda attempt: attempt[0].time):
        rivals[attempt[0].trial].append(attempt)
    numbers = {event.trial: event.number for event in earlier if isinstance(event, TrialStarted)}
    ended = {_name_run(of): of for of in known.values() if _rank_attempt(of)[0]}
    news, problems = list[Event](), list[str]()
    for trial, of_trial in rivals.items():
        stored, best = known[trial], max(of_trial, key=_rank_attempt)
        complete = dict.fromkeys(
            _find_record(a) for a in (*of_trial, stored) if _rank_attempt(a)[0]
        )
        same = [attempt for attempt in of_trial if _name_run(attempt) in ended]
        changes = [
            f"{labels[_find_record(attempt)]}, {change} is on the leaderboard, and an import "
            f"changes nothing; first delete it: cse-sweep delete {best[0].sweep}; another run of "
            "that name belongs under another name of the sweep"
            for attempt in same
            for change in _list_changes(attempt, ended[_name_run(attempt)])
        ]
        if changes:
            problems += changes
        elif len(complete) > 1:
            runs = (labels.get(run, f"{run}, which is on the leaderboard,") for run in complete)
            problems.append(
                f"{' and '.join(runs)} are complete, with equal seeds and hyperparameters; "
                "leave all but one out, or add the param.NAME that differs"
            )
        if not _find_record(stored) or (
            not _rank_attempt(stored)[0] and _rank_attempt(best) > _rank_attempt(stored)
        ):
            number = numbers.setdefault(trial, len(numbers))
            news.append(best[0].model_copy(update={"number": number}))
            news += [event for event in best[1:] if not isinstance(event, events.TrialEvaluated)]
        scored = {t for e in stored if isinstance(e, events.TrialEvaluated) for t in e.tasks}
        news += [e for e in best if isinstance(e, events.TrialEvaluated) and {*e.tasks} - scored]
    return news, problems


def _find_record(attempt: Sequence[Event]) -> str:
    """Return the run that the last attempt came from; empty if that has not ended."""
    ends = [event for event in attempt if isinstance(event, TrialStarted | TrialFinished)]
    last = ends[-1] if ends else None
    return last.provenance.get(_RECORD, "a run") if isinstance(last, TrialFinished) else ""


def _name_run(attempt: Sequence[Event]) -> str:
    """Return the name that the import's table gave to the run; empty if it has not ended."""
    return _find_record(attempt).rpartition(" (")[0]


def _list_changes(attempt: Sequence[Event], stored: Sequence[Event]) -> Iterator[str]:
    """List what a complete run of the same name has otherwise: its seed or hyperparameters, else
    its scores; new test scores, and metrics beside the same curve, change nothing.
    """
    now, before = (_collect_settings(each) for each in (attempt, stored))
    if now == before:
        now, before = _collect_results(attempt), _collect_results(stored)
        if _find_record(attempt) == _find_record(stored):
            now = {name: value for name, value in now.items() if name in before}
            before = {name: value for name, value in before.items() if name in now}
    for name in dict.fromkeys((*now, *before)):
        if now.get(name) != before.get(name) and (name in now or not name.startswith("test.")):
            yield f"{name}: {now.get(name, 'nothing')}, but {before.get(name, 'nothing')}"


def _collect_settings(attempt: Sequence[Event]) -> dict[str, str]:
    """Collect the seed and the hyperparameters of the last start of a trial."""
    start = next(event for event in reversed(attempt) if isinstance(event, TrialStarted))
    values = {f"param.{name}": canonical_json(value) for name, value in start.values.items()}
    return {"seed": str(start.seed), **values}


def _collect_results(attempt: Sequence[Event]) -> dict[str, str]:
    """Collect the metrics and test scores since the last start of a trial, to 12 digits."""
    results = dict[str, float]()
    for event in attempt:
        match event:
            case TrialStarted():
                results = {}
            case events.TrialPoint():
                of_step = f"of step {event.step}"
                results |= {f"{name} {of_step}": value for name, value in event.metrics.items()}
            case TrialFinished() if event.best_step is None:
                results |= event.best_metrics
            case events.TrialEvaluated():
                results |= {f"test.{score.task}": score.value for score in event.scores}
    return {name: f"{value:.12g}" for name, value in results.items()}


def _rank_attempt(attempt: Sequence[events.TrialEvent]) -> tuple[bool, float]:
    results = TrialResults()
    for event in attempt:
        results.add_event(event)
    return results.rank


def _add_sweep(news: Sequence[Event], attempts: Sequence[_Attempt], source: str) -> list[Event]:
    """Put the start and the end of an import's sweep around its news."""
    first, times = attempts[0][0], [event.time for attempt in attempts for event in attempt]
    begun = make_sweep_start(
        sweep=first.sweep,
        method=first.method,
        backbone=first.backbone,
        source=IMPORTED,
        dev=first.dev["search"],
        time=min(times),
        provenance={IMPORTED_FROM: source},
    )
    ended = events.SweepFinished(sweep=first.sweep, time=max(times), state="COMPLETE")
    return [begun, *news, ended]
