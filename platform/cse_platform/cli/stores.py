"""cse-leaderboard upgrade, backup, restore, catch-up, grants: long-term care of the stores."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cse_platform.cli.common import (
    CONTEXT,
    leaderboard_and_runs,
    leaderboard_url,
    shows_errors,
    store_options,
)

if TYPE_CHECKING:
    from cse_platform.upkeep.backup import Part


@click.command("upgrade", context_settings=CONTEXT)
@click.option(
    "--backed-up",
    is_flag=True,
    help="There is a copy of the database on PostgreSQL. Of a SQLite file the command makes one.",
)
@store_options
@shows_errors
def upgrade_command(backed_up: bool, runs: Path | None, store: str | None) -> None:
    """Upgrade a leaderboard that an older version made; nothing else does.

    All of it is upgraded, or nothing: after a kill, give the command again. A SQLite file is copied
    first, to a file beside it whose name has the old schema. While a driver holds a sweep, nothing
    is upgraded. Without it the leaderboard of the version before can still be read.

    \b
    Examples:
        cse-leaderboard upgrade
        cse-leaderboard upgrade --store postgresql+psycopg://lab@db.lab/leaderboard --backed-up
    """
    from cse_platform.leaderboard.schemas import HEAD_REVISION
    from cse_platform.leaderboard.store import upgrade_store

    upgraded = upgrade_store(leaderboard_url(runs, store), has_copy=backed_up)
    if not upgraded.changed:
        click.echo(f"The leaderboard is of this version's schema, {HEAD_REVISION}.")
        return
    click.echo(f"The leaderboard was of schema {upgraded.before}, and is of {HEAD_REVISION} now.")
    if upgraded.copy is not None:
        click.echo(f"As it was: {upgraded.copy}")


@click.command("backup", context_settings=CONTEXT)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@store_options
@shows_errors
def backup_command(folder: Path, runs: Path | None, store: str | None) -> None:
    """Back up leaderboard, search store, MLflow and journals into DIR, while sweeps run.

    DIR is new or empty. SQLite files are copied by SQLite's own backup, databases on PostgreSQL by
    pg_dump. CSE_SEARCH_STORE and CSE_MLFLOW_URI name stores that are elsewhere; an MLflow server
    has a backup of its own. Models and checkpoints are not in it. After a kill, give the command
    again.

    \b
    Example:
        cse-leaderboard backup /backup/cse/2026-11-25
    """
    from cse_platform.upkeep.backup import back_up, find_places

    places = find_places(*leaderboard_and_runs(runs, store))
    for line in back_up(places, folder):
        click.echo(line)
    click.echo(f"The backup is whole: {folder}")


@click.command("restore", context_settings=CONTEXT)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--only",
    multiple=True,
    type=click.Choice(("leaderboard", "search", "mlflow", "journals")),
    help="Restore this part alone; can be given again.",
)
@store_options
@shows_errors
def restore_command(
    folder: Path, only: tuple["Part", ...], runs: Path | None, store: str | None
) -> None:
    """Restore what `backup` has put into DIR, then fill the stores from the journals.

    Every file is checked by its SHA-256 first. Nothing is overwritten: what is in the way is named,
    and nothing is restored then. A journal that is there and goes on where that of the backup ends
    stays. Databases on PostgreSQL are restored into empty ones.

    \b
    Examples:
        cse-leaderboard restore /backup/cse/2026-11-25 --runs restored
        cse-leaderboard restore /backup/cse/2026-11-25 --only leaderboard
    """
    from cse_platform.upkeep.backup import PARTS, find_places, restore

    places = find_places(*leaderboard_and_runs(runs, store))
    for line in restore(folder, places, only=only or PARTS):
        click.echo(line)
    _catch_up(*leaderboard_and_runs(runs, store))


@click.command("catch-up", context_settings=CONTEXT)
@store_options
@shows_errors
def catch_up_command(runs: Path | None, store: str | None) -> None:
    """Fill leaderboard and MLflow from the journals of a runs folder, from where each stands.

    This is for a store that was put back from an older copy. A sweep that is started does it for
    itself, and its search store is filled then.

    \b
    Example:
        cse-leaderboard catch-up --store postgresql+psycopg://lab@db.lab/leaderboard
    """
    _catch_up(*leaderboard_and_runs(runs, store))


def _catch_up(url: str, runs: Path) -> None:
    from cse_platform.errors import StoreDownError
    from cse_platform.render.terminal import progress_bar
    from cse_platform.upkeep.catch_up import catch_up

    with progress_bar("journals") as move:
        lacking = catch_up(
            url, runs, progress=lambda done, total: move(completed=done, total=total)
        )
    if lacking:
        raise StoreDownError("\n  ".join(["not all of the journals is in the stores:", *lacking]))
    click.echo("The stores have all that the journals have.")


@click.command("grants", context_settings=CONTEXT)
@click.option("--owner", default="cse_owner", show_default=True, help="Makes and upgrades tables.")
@click.option(
    "--driver", default="cse_driver", show_default=True, help="Runs sweeps, writes notes."
)
@click.option("--reader", default="cse_reader", show_default=True, help="Only looks.")
def grants_command(owner: str, driver: str, reader: str) -> None:
    """Print the SQL by which several users share a database on PostgreSQL.

    A superuser runs it once in each database. OWNER is a login; DRIVER and READER are groups that
    people's logins are put into. Tables that are there are given to OWNER.

    \b
    Examples:
        cse-leaderboard grants | psql postgresql://postgres@db.lab/leaderboard
        psql -c "CREATE ROLE ann LOGIN PASSWORD '…' IN ROLE cse_driver" postgresql://postgres@db.lab
    """
    from cse_platform.postgres import grant_statements

    click.echo(grant_statements(owner=owner, driver=driver, reader=reader), nl=False)
