"""cse-leaderboard: which method is better, from SQL."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from cse_platform.cli.common import CONTEXT, leaderboard_url, shows_errors, store_options

if TYPE_CHECKING:
    from cse_platform.leaderboard.queries import Catalogue


@click.command(context_settings=CONTEXT)
@click.option("--backbone", help="Only rows of this encoder, e.g. bert-base.")
@click.option("--method", help="Only rows of this method, e.g. rankcse.")
@click.option("--sweep", help="Only configurations that this sweep has tried.")
@click.option(
    "--all", "per_configuration", is_flag=True, default=False, help="A row per configuration."
)
@store_options
@click.option("--json", "form", flag_value="json", help="Fractions, one array of objects.")
@click.option("--csv", "form", flag_value="csv", help="Fractions, one line a row.")
@shows_errors
def main(
    backbone: str | None,
    method: str | None,
    sweep: str | None,
    per_configuration: bool,
    runs: Path | None,
    store: str | None,
    form: Literal["json", "csv"] | None,
) -> None:
    """Rank methods by their mean dev score over seeds, best first.

    There is one row for each method, backbone and dev set: its best configuration among those
    with more than one seed, or among all where none has. The table shows Spearman x 100, and the
    averages over STS and transfer tests where these were opened for the shown configuration.

    \b
    Example:
        cse-leaderboard --backbone bert-base
    """
    from cse_platform.leaderboard.export import write
    from cse_platform.leaderboard.queries import catalogue, leaderboard
    from cse_platform.leaderboard.store import open_leaderboard

    with (
        open_leaderboard(leaderboard_url(runs, store), create=False) as board,
        board.session() as session,
    ):
        rows = leaderboard(
            session,
            backbone=backbone,
            method=method,
            sweep=sweep,
            per_configuration=per_configuration,
        )
        if not rows:
            filters = {"backbone": backbone, "method": method, "sweep": sweep}
            click.echo(_nothing(filters, catalogue(session)), err=True)
    write(rows, form=form or "table")


def _nothing(filters: dict[str, str | None], there: "Catalogue") -> str:
    asked = [f"{name} {value!r}" for name, value in filters.items() if value is not None]
    known = {"backbones": there.backbones, "methods": there.methods, "sweeps": there.sweeps}
    listed = [f"{name} {', '.join(values)}" for name, values in known.items() if values]
    return (
        f"No complete trial{' of ' + ', '.join(asked) if asked else ''}. "
        f"On this leaderboard: {'; '.join(listed) if listed else 'nothing yet'}."
    )
