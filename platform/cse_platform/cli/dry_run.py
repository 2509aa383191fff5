"""`cse-sweep FILE --dry-run`: everything is checked, nothing is started."""

from pathlib import Path

import click

from cse_methods.registry import get_method
from cse_platform.cli.run import refuse_missing
from cse_platform.leaderboard.store.opening import open_store
from cse_platform.runner.launch import best_folders
from cse_platform.search.study import preview
from cse_platform.sweep.changes import refuse_changes
from cse_platform.sweep.identity import DevData
from cse_platform.sweep.prerequisites import references_to_resolve, with_data_source
from cse_platform.sweep.reading.problems import format_value
from cse_platform.sweep.space.start_points import start_points
from cse_platform.sweep.spec import SweepFile, SweepSpec
from cse_platform.sweep.stores import SweepStores, sweep_stores
from cse_platform.tracking.history import History
from cse_platform.tracking.journal import read_journal

SAMPLES = 10


def dry_run(sweeps: SweepFile, *, runs: Path, offline: bool) -> None:
    """Check data, encoders and stores of each stage; print ten configurations and the budget."""
    earlier: list[SweepSpec] = []
    for stage in sweeps.stages:
        spec = with_data_source(stage)
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
    wanted = references_to_resolve(spec, earlier)
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
    for line in missing:
        click.echo(f"  to fetch: {line}")
