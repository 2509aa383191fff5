"""cse-sweep delete, archive, unarchive and clean: they remove what has grown."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cse_platform.cli.common import RUNS, leaderboard_url
from cse_platform.cli.request import about_sweep

if TYPE_CHECKING:
    from cse_platform.upkeep.deletion import Deletion


@about_sweep
@click.option("--dry-run", is_flag=True, help="Say what would be removed, and remove nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(sweep: str, runs: Path | None, store: str | None, dry_run: bool, yes: bool) -> None:
    """Delete SWEEP everywhere: leaderboard, search store, MLflow, models, journal.

    It says what goes and who uses it, and asks. Trials that another sweep holds too stay. A
    deletion that was cut off goes on when the command is given again. An import is deleted in the
    same way.

    \b
    Examples:
        cse-sweep delete rankcse-bert-base --dry-run
        cse-sweep delete rankcse-bert-base
        cse-sweep delete wandb-import --yes
    """
    from cse_platform.leaderboard.store import open_store
    from cse_platform.upkeep.deletion import plan_deletion

    url = leaderboard_url(runs, store)
    with open_store(url, create=False) as board:
        deletion = plan_deletion(board, url, sweep, runs=runs or RUNS)
        _print_deletion(deletion)
        if dry_run:
            return
        _confirm(f"Delete sweep {sweep!r}?", yes=yes)
        deletion.carry_out(board)
    click.echo(f"deleted sweep {sweep!r}")


def _print_deletion(deletion: "Deletion") -> None:
    from cse_platform.render.page import Paragraph
    from cse_platform.render.table import text_table
    from cse_platform.render.terminal import print_page

    title = f"What goes with sweep {deletion.sweep}"
    table = text_table(("what", "how much", "where"), deletion.parts, title=title)
    print_page([table, *map(Paragraph, deletion.effects)])


def _confirm(question: str, *, yes: bool) -> None:
    """Ask on a terminal, and end the command unless the answer is yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask on; --yes goes on without asking")
    click.confirm(question, abort=True)
