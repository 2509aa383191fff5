"""What `cse-sweep status` prints: how far each sweep is."""

from dataclasses import asdict

import click

from cse_platform.leaderboard.api import open_leaderboard
from cse_platform.leaderboard.query.sweeps.overviews import SweepOverview
from cse_platform.render.formats import clock, percent, utc
from cse_platform.render.serialise import to_json
from cse_platform.render.table import text_table
from cse_platform.render.terminal import print_page

_HEADS = ("sweep", "method", "backbone", "state", "trials", "failed", "best dev", "started", "left")


def print_status(url: str, *, as_json: bool) -> None:
    """Print the sweeps of a leaderboard."""
    with open_leaderboard(url) as board:
        found = board.sweeps()
    if as_json:
        click.echo(to_json([asdict(one) for one in found]), nl=False)
    elif not found:
        click.echo("no sweep yet")
    else:
        print_page([text_table(_HEADS, [_line(one) for one in found])])


def _line(sweep: SweepOverview) -> tuple[str, ...]:
    return (
        sweep.name,
        sweep.method,
        sweep.backbone,
        sweep.state,
        f"{sweep.ended} of {sweep.planned}",
        str(sweep.counts["FAIL"] or ""),
        percent(sweep.best.value if sweep.best else None),
        utc(sweep.restarted),
        f"about {clock(sweep.left)}" if sweep.left is not None else "",
    )
