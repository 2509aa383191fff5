"""What `cse-sweep FILE` and `cse-sweep FILE --dry-run` do and print, stage by stage."""

from collections import Counter
from functools import partial
from pathlib import Path

import click
from rich.console import Console

from cse_methods.registry import get_method
from cse_platform.cli.common import say
from cse_platform.cli.progress import watching
from cse_platform.errors import StoreError, SweepRefusedError
from cse_platform.leaderboard.api import open_leaderboard
from cse_platform.leaderboard.query.board.filters import Filters
from cse_platform.leaderboard.render.board import Board
from cse_platform.leaderboard.render.document import print_document
from cse_platform.leaderboard.row import family_of
from cse_platform.leaderboard.store.opening import open_store
from cse_platform.render.formats import percent, short_settings
from cse_platform.runner.launch import Outcome, best_folders, run_sweep
from cse_platform.runner.state import Again
from cse_platform.search.study import preview
from cse_platform.secrets import mask_url
from cse_platform.sweep import prerequisites
from cse_platform.sweep.changes import refuse_changes
from cse_platform.sweep.identity import DevData
from cse_platform.sweep.reading.problems import format_value
from cse_platform.sweep.space.start_points import start_points
from cse_platform.sweep.spec import SweepFile, SweepSpec
from cse_platform.sweep.stores import SweepStores, sweep_stores
from cse_platform.tracking.history import History
from cse_platform.tracking.journal import read_journal

SAMPLES = 10
"""Configurations that a dry run shows."""
HEAD = 5
"""Rows of the leaderboard shown at the end."""


def run_stages(
    sweeps: SweepFile, *, runs: Path, address: str | None, offline: bool, again: Again
) -> None:
    """Run each sweep of a file in order; print the leaderboard's head and how to open MLflow.

    After a KeyboardInterrupt the stores and the journal of the sweep are closed.
    """
    console = Console(markup=False, highlight=False)  # what a trial says is no markup
    stages = [prerequisites.with_data_source(stage) for stage in sweeps.stages]
    for spec in stages:
        say(f"{spec.sweep}: checking what it needs")
        refuse_missing(spec, offline=offline)
    for line in dict.fromkeys(line for spec in stages for line in prerequisites.own_sets(spec)):
        console.print(line, soft_wrap=True)
    for spec in stages:
        where = sweep_stores(spec, runs=runs)
        say(f"{spec.sweep}: opening the stores, reading weights and data")
        watch = partial(watching, console=console, errors=where.errors)
        outcome = run_sweep(spec, where, address=address, again=again, watch=watch)
        _print_outcome(spec, outcome, console)
        if outcome.state == "INTERRUPTED":
            raise KeyboardInterrupt
        if not outcome.history.configurations():
            raise SweepRefusedError(_nothing_completed(spec, outcome.history))
    _print_leaderboard(stages[-1], sweep_stores(stages[-1], runs=runs), console)


def refuse_missing(spec: SweepSpec, *, offline: bool) -> list[str]:
    """What must be fetched for a sweep, a line each; SweepRefusedError if `offline` forbids it."""
    missing = prerequisites.missing_downloads(spec, get_method(spec.method))
    if missing and offline:
        listed = "; ".join(missing)
        raise SweepRefusedError(f"sweep {spec.sweep!r} must fetch, and is offline: {listed}")
    return missing


def _print_outcome(spec: SweepSpec, outcome: Outcome, console: Console) -> None:
    trials = list(outcome.history.trials.values())
    counts = Counter(trial.state.lower() for trial in trials)
    listed = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    state = {"COMPLETE": "complete", "INTERRUPTED": "interrupted"}.get(
        outcome.state, "is complete already; a larger --trials extends it"
    )
    console.print(f"{spec.sweep}: {state}, {len(trials)} trials ({listed})", soft_wrap=True)
    complete = [trial for trial in trials if trial.state == "COMPLETE"]
    best = max(complete, key=lambda trial: trial.best_value or 0.0, default=None)
    if best is not None and best.best_value is not None:
        settings = ", " * bool(best.searched) + short_settings(best.searched_values)
        console.print(
            f"best dev {spec.dev.search}: {percent(best.best_value)} at step {best.best_step} "
            f"(trial {best.number}, seed {best.seed}{settings})",
            soft_wrap=True,
        )
    for sink in outcome.behind:
        click.echo(
            f"{sink.name} lacks {sink.behind} events ({sink.error}); nothing is lost: "
            "the same command brings them over when it is back",
            err=True,
        )


def _print_leaderboard(spec: SweepSpec, where: SweepStores, console: Console) -> None:
    console.print()
    try:
        with open_leaderboard(where.leaderboard) as board:
            rows = board.rows(Filters(backbone=spec.backbone), limit=HEAD)
    except StoreError as error:
        click.echo(f"the leaderboard cannot be shown: {error}", err=True)
    else:
        print_document(Board(rows, family=family_of(rows)), format="table")
    console.print()
    uri = mask_url(where.mlflow)
    target = uri if uri.startswith("http") else f"mlflow ui --backend-store-uri {uri}"
    console.print(f"Compare runs: {target}", soft_wrap=True)


def _nothing_completed(spec: SweepSpec, history: History) -> str:
    errors = Counter(trial.error for trial in history.trials.values() if trial.error)
    reason = f"; {errors.most_common(1)[0][0]}" if errors else ""
    return f"no trial of sweep {spec.sweep!r} was completed{reason}"


def dry_run(sweeps: SweepFile, *, runs: Path, offline: bool) -> None:
    """Check data, encoders and stores of each stage; print ten configurations and the budget."""
    earlier: list[SweepSpec] = []
    for stage in sweeps.stages:
        spec = prerequisites.with_data_source(stage)
        missing = refuse_missing(spec, offline=offline)
        where = sweep_stores(spec, runs=runs)
        _check_changes(spec, where)
        _check_best(spec, earlier, where)
        _print_plan(spec, missing)
        earlier.append(spec)


def _check_changes(spec: SweepSpec, where: SweepStores) -> None:
    if where.journal.exists():
        stored = History(event for _, event in read_journal(where.journal)).spec
        refuse_changes(stored, spec.model_dump(mode="json"))


def _check_best(spec: SweepSpec, earlier: list[SweepSpec], where: SweepStores) -> None:
    wanted = prerequisites.references_to_resolve(spec, earlier)
    if not wanted:
        return
    with open_store(where.leaderboard, create=False) as leaderboard:
        best_folders(spec, DevData(spec), leaderboard, wanted)


def _print_plan(spec: SweepSpec, missing: list[str]) -> None:
    points = start_points(spec, get_method(spec.method))
    drawn = preview(spec, start_points=points, count=min(SAMPLES, spec.budget))
    confirm, asked = spec.seeds.confirm, spec.evaluate
    further = f" and {len(confirm.seeds)} seeds of the best {confirm.top}" if confirm else ""
    tested = f"; test sets for the best {asked.top}: {' '.join(asked.tasks)}" if asked else ""
    head = f"{spec.sweep}: {spec.method} on {spec.backbone}, {spec.budget} trials"
    click.echo(head + further + tested)
    for assignment in drawn:
        spec.config(assignment)
        settings = " ".join(f"{name}={format_value(value)}" for name, value in assignment.items())
        click.echo(f"  {settings or 'nothing is searched'}")
    for line in prerequisites.own_sets(spec):
        click.echo(f"  {line}")
    for line in missing:
        click.echo(f"  to fetch: {line}")
