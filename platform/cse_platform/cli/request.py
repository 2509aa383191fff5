"""The commands that control or follow a sweep that runs in another process."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import click

from cse_methods.reports import LAST_STEP
from cse_platform.cli.common import StoreOptions, StrictCommand, store_options
from cse_platform.numbers import read_count
from cse_platform.standard_streams import echo

if TYPE_CHECKING:
    from cse_platform.tracking.events import SweepAction

_P = ParamSpec("_P")
_R = TypeVar("_R")


def about_sweep(metavar: str) -> Callable[[Callable[_P, _R]], click.Command]:
    """Make a click command about a sweep or a trial, with the options that name its leaderboard."""

    def make(command: Callable[_P, _R]) -> click.Command:
        named = click.argument("sweep", metavar=metavar)(store_options(command))
        return click.command(cls=StrictCommand)(named)

    return make


@about_sweep("SWEEP|TRIAL")
@click.option(
    "--trial",
    "numbers",
    type=int,
    multiple=True,
    metavar="N",
    help="Stop only this trial of SWEEP; can be repeated.",
)
def stop(sweep: str, stores: StoreOptions, numbers: tuple[int, ...]) -> None:
    """Stop SWEEP as one Ctrl-C would, or stop only TRIAL.

    TRIAL is SWEEP#N, or a trial's key or its first 6 digits. Run the sweep's command again to
    resume the sweep. A stopped trial counts as pruned, or as failed if it has no dev score after
    step 0; `retry` runs it again.

    \b
    Examples:
        cse-sweep stop rankcse-bert-base
        cse-sweep stop rankcse-bert-base#7
        cse-sweep stop rankcse-bert-base --trial 7 --trial 9
    """
    _send_request(stores.url, sweep, "stop", numbers=numbers)


@about_sweep("SWEEP|TRIAL")
@click.argument("numbers", nargs=-1, type=int, metavar="[N]...")
def retry(sweep: str, stores: StoreOptions, numbers: tuple[int, ...]) -> None:
    """Retry all failed trials of SWEEP, only its trials with the numbers N, or only TRIAL.

    TRIAL is SWEEP#N, or a trial's key or its first 6 digits. A pruned trial is retried only if you
    name it.

    \b
    Examples:
        cse-sweep retry rankcse-bert-base
        cse-sweep retry rankcse-bert-base#3
        cse-sweep retry rankcse-bert-base 3 7
    """
    _send_request(stores.url, sweep, "retry", numbers=numbers)


@about_sweep("SWEEP")
@click.option(
    "--set",
    "settings",
    multiple=True,
    required=True,
    metavar="NAME=VALUE",
    help="Value of a hyperparameter; can be repeated.",
)
def enqueue(sweep: str, stores: StoreOptions, settings: tuple[str, ...]) -> None:
    """Let SWEEP try a configuration of your own next.

    The sampler draws the hyperparameters that you leave out. A configuration that SWEEP has already
    is refused.

    \b
    Example:
        cse-sweep enqueue rankcse-bert-base --set learning_rate=3e-5 --set tau2=0.05
    """
    _send_request(stores.url, sweep, "enqueue", settings=settings)


@about_sweep("SWEEP")
@click.argument("count", metavar="N|none")
def limit(sweep: str, stores: StoreOptions, count: str) -> None:
    """Let SWEEP, which is running, run at most N trials at once, or `none` for every free slot.

    With a smaller N, the trials that run go on, and the sweep gives up the slots of those that end.
    The sweep's next start takes `resources.at_most` of its file again.

    \b
    Examples:
        cse-sweep limit rankcse-bert-base 8
        cse-sweep limit rankcse-bert-base none
    """
    at_most = read_count(count, least=1)
    if at_most is None and count != "none":
        raise click.BadParameter(
            f"expected a number from 1 to {LAST_STEP}, or none, got {count!r}", param_hint="N"
        )
    _send_request(stores.url, sweep, "limit", at_most=at_most)


@about_sweep("SWEEP|TRIAL")
@click.option(
    "--trial",
    "number",
    type=click.IntRange(min=0),
    metavar="N",
    help="Print the output of this trial of SWEEP.",
)
@click.option("--follow", is_flag=True, help="Show the progress until the sweep or trial ends.")
def logs(sweep: str, stores: StoreOptions, number: int | None, follow: bool) -> None:
    """Print the messages of SWEEP so far, or the output of TRIAL.

    TRIAL is SWEEP#N, or a trial's key or its first 6 digits. Of a sweep, prints the driver's
    warnings and notes, and one line per finished trial. Of a trial, prints its output up to its
    last dev point; it is stored beside the sweep's journal.

    With --follow, shows the sweep's progress: a live table on a terminal, otherwise new lines.
    Ctrl-C stops the display, not the sweep. The exit code is the sweep's: 0 if it is complete, 1
    if it was refused or failed, 130 if it was interrupted.

    \b
    Examples:
        cse-sweep logs rankcse-bert-base
        cse-sweep logs rankcse-bert-base --follow
        cse-sweep logs rankcse-bert-base#3 --follow
        cse-sweep logs rankcse-bert-base --store postgresql+psycopg://lab@db.lab/leaderboard
    """
    from cse_platform.cli import following
    from cse_platform.leaderboard.trials import find_sweep_and_number
    from cse_platform.stores.sql.store import open_for_reading

    if number is None:
        with open_for_reading(stores.url) as board, board.session() as session:
            sweep, number = find_sweep_and_number(session, sweep)
    if number is not None:
        following.print_output(stores.url, f"{sweep}#{number}", runs=stores.folder, follow=follow)
    elif follow:
        raise click.exceptions.Exit(following.follow(stores.url, sweep))
    else:
        following.print_logs(stores, sweep)


def _send_request(url: str, sweep: str, action: "SweepAction", **content: Any) -> None:
    from cse_platform.control.requests import send_request

    echo(send_request(url, sweep, action, **content))
