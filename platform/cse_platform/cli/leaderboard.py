"""cse-leaderboard: which method is better, from SQL."""

from datetime import datetime
from typing import Any

import click
from click.core import ParameterSource

from cse_platform.cli.annotate import annotate_command
from cse_platform.cli.audit import audit_command
from cse_platform.cli.common import (
    CONTEXT,
    CommandGroup,
    format_options,
    leaderboard_url,
    one_format,
    published_option,
    refuse_options_before,
    shows_errors,
    store_options,
    version_option,
)
from cse_platform.cli.findings import search_command
from cse_platform.cli.imports import import_command
from cse_platform.cli.papers import papers_command
from cse_platform.cli.stores import rebuild_command
from cse_platform.cli.trial import export_command, register_command, reproduce_command, show_command

_FAMILIES = ("sts", "transfer", "ranking", "long", "clean", "own")
_DATES = ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S")


_IMPORT = "cse-leaderboard import FILE|URL --mapping FILE"
_RENAMED = {f"import-{source}": _IMPORT for source in ("mlflow", "csv", "trackio", "log")}


@click.group(
    cls=CommandGroup, renamed=_RENAMED, invoke_without_command=True, context_settings=CONTEXT
)
@version_option
@click.option("--backbone", help="Only rows with this backbone, or with several: mini,bert-base.")
@click.option("--method", help="Only rows of this method, e.g. rankcse.")
@click.option("--sweep", help="Only trials of this sweep.")
@click.option("--tag", help="Only trials with this tag, or whose configuration or sweep has it.")
@click.option("--identity", help="Only rows whose dev or evaluation identity begins with this.")
@click.option(
    "--hardware", help="Only trials on machines whose GPU, CPU or host name contains this."
)
@click.option(
    "--since", type=click.DateTime(_DATES), help="Only trials that finished at this time or later."
)
@click.option("--tasks", type=click.Choice(_FAMILIES), help="Family of test scores to show.")
@click.option(
    "--all", "per_configuration", is_flag=True, help="Show all configurations, not only the best."
)
@click.option(
    "--sort",
    default="dev",
    show_default=True,
    help="Sort by this column: dev, avg_sts, rank, n, finished, …",
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
@click.option(
    "--compare",
    nargs=2,
    metavar="A B",
    default=None,
    help="Compare A with B: difference, interval, p value.",
)
@click.option(
    "--on",
    type=click.Choice(("test", "dev")),
    default="test",
    show_default=True,
    help="Scores that --compare uses; dev opens no test set.",
)
@click.option("--compare-all", is_flag=True, help="Compare every row with every other.")
@click.option(
    "--front", metavar="SWEEP", help="Show the Pareto front of a search with several objectives."
)
@click.option("--paper", help="Show your scores in a table of this paper, e.g. rankcse.")
@click.option("--table", help="With --paper: which table, e.g. 2.")
@format_options
@click.option("--wide", is_flag=True, help="Show one table with all columns.")
@store_options
@click.pass_context
@shows_errors
def main(context: click.Context, /, since: datetime | None, **asked: Any) -> None:
    """Rank methods by their mean dev score over seeds, best first.

    Each combination of method, backbone, dev set and evaluation has one row: the best configuration
    among those with more than one seed, or among all if none has more than one. Intervals are 95 %
    intervals over seeds. Rank intervals come from 2,000 resamples of seeds and pairs. JSON and CSV
    contain fractions; the other formats show scores x 100. A and B are METHOD,
    METHOD@CONFIGURATION, or a trial's key or its first digits.

    \b
    Examples:
        cse-leaderboard --backbone bert-base
        cse-leaderboard --backbone bert-base --published --format latex
        cse-leaderboard --backbone bert-base --published rankcse:2
        cse-leaderboard --compare rankcse simcse --backbone bert-base
        cse-leaderboard --compare rankcse simcse --on dev
        cse-leaderboard papers
        cse-leaderboard --paper rankcse --table 2
        cse-leaderboard show 10bba02b
    """
    if context.invoked_subcommand is not None:
        refuse_options_before(context, "cse-leaderboard")
        return
    _refuse_two_questions(context, asked)
    asked["format"] = one_format(context, asked)
    from cse_platform.cli.board import Question, answer
    from cse_platform.leaderboard.records import Filters

    url = leaderboard_url(asked.pop("runs"), asked.pop("store"))
    local = None if since is None else since.astimezone()
    filters = Filters(since=local, **{name: asked.pop(name) for name in _FILTERS})
    answer(Question(filters, **asked), url=url)


_FILTERS = ("backbone", "method", "sweep", "tag", "identity", "hardware")
_QUESTIONS = ("compare", "compare_all", "front", "paper")
_OF_THE_BOARD = ("published", "against", "sort")
"""Options that only affect the board, not the other questions."""


def _refuse_two_questions(context: click.Context, asked: dict[str, Any]) -> None:
    given = [name for name in _QUESTIONS if asked[name]]
    if len(given) > 1:
        options = " and ".join(map(_format_option, given))
        raise click.UsageError(f"{options} are two questions; ask one at a time")
    typed, source = ParameterSource.COMMANDLINE, context.get_parameter_source
    useless = " and ".join(_format_option(name) for name in _OF_THE_BOARD if source(name) is typed)
    if given and useless:
        raise click.UsageError(f"{_format_option(given[0])} has no use for {useless}")
    if asked["on"] == "dev" and (not asked["compare"] or asked["tasks"]):
        raise click.UsageError("--on dev goes with --compare A B, and without --tasks")
    if bool(asked["paper"]) != bool(asked["table"]):
        raise click.UsageError("--paper and --table go together, e.g. --paper rankcse --table 2")


def _format_option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


for command in (
    show_command,
    annotate_command,
    papers_command,
    audit_command,
    search_command,
    reproduce_command,
    export_command,
    register_command,
    import_command,
    rebuild_command,
):
    main.add_command(command)
