"""cse-sweep delete and clean: remove data that is no longer needed."""

import sys
from contextlib import ExitStack, suppress

import click

from cse_platform.cli.common import StoreOptions, StrictCommand, print_table, store_options
from cse_platform.cli.request import about_sweep
from cse_platform.standard_streams import echo

_PARTS = ("what", "how much", "where")
"""The heads of what is removed."""


@about_sweep("SWEEP")
@click.option("--dry-run", is_flag=True, help="Show what would be removed, but remove nothing.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def delete(sweep: str, stores: StoreOptions, dry_run: bool, yes: bool) -> None:
    """Delete SWEEP from all stores, with its models and journal.

    The stores are the leaderboard, the search store and MLflow. The command lists what will be
    deleted and what depends on it, and asks for confirmation. Trials that another sweep also holds
    stay. To finish a deletion that was cut off, run the command again. Imports are deleted in the
    same way.

    \b
    Examples:
        cse-sweep delete rankcse-bert-base --dry-run
        cse-sweep delete rankcse-bert-base
        cse-sweep delete wandb-import --yes
    """
    from cse_platform.stores.sql.store import open_store
    from cse_platform.upkeep.deletion import plan_deletion

    url, folder = stores.url_beside_runs, stores.folder
    with open_store(url, create=False) as board:
        deletion = plan_deletion(board, url, sweep, runs=folder)
        title = f"Deleting sweep {sweep} removes"
        print_table(_PARTS, deletion.parts, *deletion.effects(), title=title)
        if dry_run:
            return
        if not yes and not sys.stdin.isatty():
            raise click.UsageError("there is no terminal to confirm on; --yes skips the question")
        if not yes:
            click.confirm(f"Delete sweep {sweep!r}?", abort=True)
        deletion.carry_out(board)
    echo(f"deleted sweep {sweep!r}")


@click.command(cls=StrictCommand)
@click.option(
    "--older-than",
    default="90d",
    show_default=True,
    metavar="AGE",
    help="Remove what was not used for this long: a number with s, min, h or d.",
)
@store_options
@click.option("--dry-run", is_flag=True, help="Show what would be removed, but remove nothing.")
def clean(older_than: str, stores: StoreOptions, dry_run: bool) -> None:
    """Remove old messages, jobs, Ray folders and caches.

    Results stay, but leaderboards that rebuild has replaced and kept go. Jobs are the folders of
    submitted sweeps; those that an unfinished sweep needs stay. A cached file is removed if this
    machine has not used it for the given time; it is made again when needed.

    \b
    Examples:
        cse-sweep clean --dry-run
        cse-sweep clean --older-than 30d --runs /data/lab/runs
    """
    from pydantic import TypeAdapter, ValidationError

    from cse_platform.errors import NoStoreError
    from cse_platform.stores.sql.store import open_store
    from cse_platform.sweep.blocks import LONGEST_DAYS, Duration
    from cse_platform.upkeep.cleaning import plan_cleaning

    try:
        limit: float = TypeAdapter(Duration).validate_python(older_than)
    except ValidationError:
        raise click.UsageError(
            "--older-than takes a number above 0 with s, min, h or d, at most "
            f"{LONGEST_DAYS}d, got {older_than!r}"
        ) from None
    url, folder = stores.url_beside_runs, stores.folder
    with ExitStack() as opened:
        board = None
        with suppress(NoStoreError):
            board = opened.enter_context(open_store(url, create=False))
        plan = plan_cleaning(board, url, runs=folder, older_than=limit)
        if not plan.parts:
            echo(f"nothing is older than {older_than}")
            return
        print_table(_PARTS, plan.parts, title=f"Not used for {older_than}")
        if not dry_run:
            left = plan.carry_out(board)
            echo("removed" if not left else "removed, except:")
            for path in left:
                echo(f"  {path}")
