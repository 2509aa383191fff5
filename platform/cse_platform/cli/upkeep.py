"""cse-sweep delete, archive, unarchive and clean: they remove what has grown."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from cse_platform.cli.common import RUNS, leaderboard_url
from cse_platform.cli.request import about_sweep


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
        _print_plan(f"What goes with sweep {sweep}", deletion.parts, deletion.effects)
        if dry_run:
            return
        _confirm(f"Delete sweep {sweep!r}?", yes=yes)
        deletion.carry_out(board)
    click.echo(f"deleted sweep {sweep!r}")


@about_sweep
@click.option("--dry-run", is_flag=True, help="Say what would be removed, and remove nothing.")
def archive(sweep: str, runs: Path | None, store: str | None, dry_run: bool) -> None:
    """Archive SWEEP: compress its journal, and remove what can come back from that.

    Dev curves are thinned, the driver's messages and checkpoints are removed. Scores, similarities,
    models, sources and what trials printed stay. `unarchive` undoes it, but for the checkpoints.

    \b
    Examples:
        cse-sweep archive rankcse-bert-base --dry-run
        cse-sweep archive rankcse-bert-base
    """
    from cse_platform.leaderboard.store import open_store
    from cse_platform.upkeep.archive import plan_archiving
    from cse_platform.upkeep.held_sweep import format_size

    url = leaderboard_url(runs, store)
    with open_store(url, create=False) as board:
        plan = plan_archiving(board, url, sweep, runs=runs or RUNS)
        _print_plan(f"What goes as sweep {sweep} is archived", plan.parts, plan.effects)
        if dry_run:
            return
        before = plan.size
        plan.archive(board)
    sizes = f"its journal has {format_size(plan.size)} now, {format_size(before)} before"
    click.echo(f"archived sweep {sweep!r}; {sizes}")


@about_sweep
def unarchive(sweep: str, runs: Path | None, store: str | None) -> None:
    """Put an archived SWEEP back as it was, from its journal, so that it can go on.

    \b
    Example:
        cse-sweep unarchive rankcse-bert-base
    """
    from cse_platform.leaderboard.store import open_store
    from cse_platform.upkeep.archive import plan_restoring

    url = leaderboard_url(runs, store)
    with open_store(url, create=False) as board:
        plan_restoring(board, url, sweep, runs=runs or RUNS).restore(board)
    click.echo(f"sweep {sweep!r} is as it was; its checkpoints are gone")


def _print_plan(title: str, parts: Sequence[Sequence[str]], effects: Sequence[str]) -> None:
    from cse_platform.render.page import Paragraph
    from cse_platform.render.table import text_table
    from cse_platform.render.terminal import print_page

    table = text_table(("what", "how much", "where"), parts, title=title)
    print_page([table, *map(Paragraph, effects)])


def _confirm(question: str, *, yes: bool) -> None:
    """Ask on a terminal, and end the command unless the answer is yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask on; --yes goes on without asking")
    click.confirm(question, abort=True)
