"""cse-leaderboard upgrade: what keeps the stores through the years."""

from pathlib import Path

import click

from cse_platform.cli.common import CONTEXT, leaderboard_url, shows_errors, store_options


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
