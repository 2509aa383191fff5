"""cse-leaderboard compare: whether a difference is more than luck."""

from typing import TYPE_CHECKING, Literal

import click

from cse_platform.cli.common import (
    StoreOptions,
    StrictCommand,
    filter_options,
    format_options,
    print_document,
    store_options,
    tasks_option,
)

if TYPE_CHECKING:
    from cse_platform.leaderboard.families import FamilyName
    from cse_platform.leaderboard.filters import Filters
    from cse_platform.presentation.formats import Format


@click.command("compare", cls=StrictCommand)
@click.argument("a", required=False)
@click.argument("b", required=False)
@filter_options
@tasks_option
@click.option(
    "--all",
    "per_configuration",
    is_flag=True,
    help="Compare all configurations, not only the best; only without A and B.",
)
@click.option(
    "--on",
    type=click.Choice(("test", "dev")),
    default="test",
    show_default=True,
    help="Compare A and B on these scores; dev opens no test set.",
)
@format_options
@store_options
def compare_command(
    *,
    a: str | None,
    b: str | None,
    tasks: "FamilyName | None",
    per_configuration: bool,
    on: Literal["test", "dev"],
    filters: "Filters",
    format: "Format",
    stores: StoreOptions,
) -> None:
    """Compare A with B, or if you name none, every row with every other.

    A and B are METHOD, METHOD@CONFIGURATION, SWEEP, SWEEP#N, or a trial's key or its first 6
    digits. Shows difference, interval and p value.

    \b
    Examples:
        cse-leaderboard compare rankcse simcse --backbone bert-base
        cse-leaderboard compare rankcse simcse --on dev
        cse-leaderboard compare --backbone bert-base
    """
    if a and not b:
        raise click.UsageError(f"compare takes two names or none; compare {a} with what?")
    if a and per_configuration:
        raise click.UsageError("--all takes no names")
    if on == "dev" and (not a or tasks):
        raise click.UsageError("--on dev needs A and B, and excludes --tasks")
    from cse_platform.leaderboard.api import open_leaderboard
    from cse_platform.presentation.comparison import comparison_document, matrix_document
    from cse_platform.presentation.terminal import progress_bar

    family: FamilyName = tasks or "sts"
    with (
        open_leaderboard(stores.url) as reader,
        progress_bar("resampling") as move,
    ):

        def progress(done: int, total: int) -> None:
            move(advance=done, total=total)

        if a and b and on == "dev":
            from cse_platform.export.kept_model import dev_pairs

            comparison = reader.compare_on_dev(
                a, b, lambda key: dev_pairs(reader.trial(key)), filters, progress=progress
            )
            document = comparison_document(comparison)
        elif a and b:
            comparison = reader.compare(a, b, filters, tasks=family, progress=progress)
            document = comparison_document(comparison)
        else:
            matrix = reader.compare_all(
                filters, tasks=family, per_configuration=per_configuration, progress=progress
            )
            document = matrix_document(matrix)
    print_document(document, format=format)
