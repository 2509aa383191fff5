"""cse-leaderboard: which method is better, from SQL."""

from typing import Any

import click

from cse_platform.cli.annotate import annotate_command
from cse_platform.cli.audit import audit_command
from cse_platform.cli.common import (
    CONTEXT,
    CommandGroup,
    LeaderboardPlace,
    filter_options,
    format_options,
    published_option,
    shows_errors,
    store_options,
    tasks_option,
    version_option,
    without_subcommand,
)
from cse_platform.cli.compare import compare_command
from cse_platform.cli.findings import search_command
from cse_platform.cli.imports import import_command
from cse_platform.cli.paper import paper_command
from cse_platform.cli.stores import rebuild_command
from cse_platform.cli.trial import export_command, register_command, reproduce_command, show_command

_IMPORT = "cse-leaderboard import FILE|URL --mapping FILE"
_RENAMED = {
    **{f"import-{source}": _IMPORT for source in ("mlflow", "csv", "trackio", "log")},
    **dict.fromkeys(("papers", "--paper", "--table"), "cse-leaderboard paper [NAME [TABLE]]"),
    **dict.fromkeys(("--compare", "--on"), "cse-leaderboard compare A B"),
    "--compare-all": "cse-leaderboard compare",
    "--front": "cse-leaderboard compare --front SWEEP",
}
_SECTIONS = {
    "Daily": "compare paper audit search show annotate export register reproduce",
    "Results from elsewhere": "import",
    "Administration": "rebuild",
}


@click.group(
    cls=CommandGroup,
    sections=_SECTIONS,
    renamed=_RENAMED,
    invoke_without_command=True,
    context_settings=CONTEXT,
)
@without_subcommand
@version_option
@filter_options
@tasks_option
@click.option(
    "--all", "per_configuration", is_flag=True, help="Show all configurations, not only the best."
)
@click.option(
    "--sort",
    help="Sort by this column, not by the score that ranks: dev, sts12, rank, n, finished, …",
)
@click.option(
    "--published",
    is_flag=False,
    flag_value="",
    metavar="[PAPER:TABLE]",
    help="Also show the papers' own numbers, or those of one table: rankcse:2.",
)
@published_option
@click.option("--against", metavar="A", help="Mark test scores significantly above those of A.")
@format_options
@click.option("--wide", is_flag=True, help="Show one table with all columns.")
@store_options
@shows_errors
def main(*, place: LeaderboardPlace, **options: Any) -> None:
    """Rank methods by their mean test score over seeds, or if there is none, by dev.

    Each combination of method, backbone, dev set and evaluation has one row: the best configuration
    on dev among those with more than one seed, or among all if none has more than one. Intervals
    are 95 % intervals over seeds. Rank intervals come from 2,000 resamples of seeds and pairs. JSON
    and CSV contain fractions; the other formats show scores x 100. The row A of --against is
    METHOD, METHOD@CONFIGURATION, SWEEP, SWEEP#N, or a trial's key or its first 6 digits.

    \b
    Examples:
        cse-leaderboard --backbone bert-base
        cse-leaderboard --backbone bert-base --published --format latex
        cse-leaderboard --backbone bert-base --published rankcse:2
        cse-leaderboard compare rankcse simcse --backbone bert-base
        cse-leaderboard paper rankcse 2
        cse-leaderboard show 10bba02b
    """
    from cse_platform.cli.board import Question, answer

    answer(Question(**options), url=place.url)


for command in (
    show_command,
    annotate_command,
    compare_command,
    paper_command,
    audit_command,
    search_command,
    reproduce_command,
    export_command,
    register_command,
    import_command,
    rebuild_command,
):
    main.add_command(command)
