"""What `cse-sweep status` prints: how far each sweep is."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from cse_platform.leaderboard.api import open_leaderboard
from cse_platform.leaderboard.query.sweeps.overviews import SweepOverview
from cse_platform.render.formats import clock, percent, utc
from cse_platform.render.serialise import to_json
from cse_platform.render.table import text_table
from cse_platform.render.terminal import print_page
from cse_platform.tracking.journal import is_in_use

_HEADS = ("sweep", "method", "backbone", "state", "trials", "failed", "best dev", "started", "left")


def print_status(url: str, *, folder: Path | None, as_json: bool) -> None:
    """Print the sweeps of a leaderboard; `folder` is the runs folder with their journals."""
    with open_leaderboard(url) as board:
        found = [(one, _state(one, folder)) for one in board.sweeps()]
    if as_json:
        click.echo(to_json([_record(one, state) for one, state in found]), nl=False)
    elif not found:
        click.echo("no sweep yet")
    else:
        print_page([text_table(_HEADS, [_line(one, state) for one, state in found])])


def _state(sweep: SweepOverview, folder: Path | None) -> str:
    """Its state; a driver that was killed has left RUNNING behind, and holds no journal."""
    journal = None if folder is None else folder / "sweeps" / sweep.name / "journal.jsonl"
    if sweep.state != "RUNNING" or journal is None or not journal.exists():
        return sweep.state
    return "RUNNING" if is_in_use(journal) else "INTERRUPTED"


def _line(sweep: SweepOverview, state: str) -> tuple[str, ...]:
    runs = state == "RUNNING"
    return (
        sweep.name,
        sweep.method,
        sweep.backbone,
        state,
        f"{sweep.ended} of {sweep.planned}",
        str(sweep.counts["FAIL"] or ""),
        percent(sweep.best.value if sweep.best else None),
        utc(sweep.restarted),
        f"about {clock(sweep.left)}" if runs and sweep.left is not None else "",
    )


def _record(sweep: SweepOverview, state: str) -> dict[str, Any]:
    return asdict(sweep) | {"state": state}
