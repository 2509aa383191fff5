"""The commands that control or follow a sweep that runs in another process."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import click

from cse_platform.cli.common import CONTEXT, RUNS, leaderboard_url, shows_errors, store_options
from cse_platform.standard_streams import echo

if TYPE_CHECKING:
    from cse_platform.tracking.events import SweepAction

_P = ParamSpec("_P")
_R = TypeVar("_R")


def about_sweep(command: Callable[_P, _R]) -> click.Command:
    """Make a click command with the argument SWEEP and the options that name its leaderboard."""
    named = click.argument("sweep")(store_options(shows_errors(command)))
    return click.command(context_settings=CONTEXT)(named)


@about_sweep
@click.option(
    "--trial",
    "numbers",
    type=int,
    multiple=True,
    metavar="N",
    help="Stop only this trial; can be repeated.",
)
def stop(sweep: str, runs: Path | None, store: str | None, numbers: tuple[int, ...]) -> None:
    """Stop SWEEP as one Ctrl-C would, or stop single trials.

    Run the sweep's command again to resume it. A stopped trial counts as pruned; `retry` runs it
    again.

    \b
    Examples:
        cse-sweep stop rankcse-bert-base
        cse-sweep stop rankcse-bert-base --trial 7
    """
    _send_request(leaderboard_url(runs, store), sweep, "stop", numbers=numbers)


@about_sweep
def pause(sweep: str, runs: Path | None, store: str | None) -> None:
    """Pause SWEEP: running trials finish, but no new ones start.

    `cse-sweep resume SWEEP` lets it start trials again.

    \b
    Example:
        cse-sweep pause rankcse-bert-base
    """
    _send_request(leaderboard_url(runs, store), sweep, "pause")


@about_sweep
@click.option("--trials", type=click.IntRange(min=1), help="New, larger number of trials.")
def resume(sweep: str, runs: Path | None, store: str | None, trials: int | None) -> None:
    """Resume SWEEP after `pause`, or raise its number of trials.

    To resume a sweep that was stopped or interrupted, run its command again.

    \b
    Examples:
        cse-sweep resume rankcse-bert-base
        cse-sweep resume rankcse-bert-base --trials 60
    """
    _send_request(leaderboard_url(runs, store), sweep, "resume", trials=trials)


@about_sweep
@click.argument("numbers", nargs=-1, type=int, metavar="[N]...")
def retry(sweep: str, runs: Path | None, store: str | None, numbers: tuple[int, ...]) -> None:
    """Retry all failed trials of SWEEP, or the trials numbered N.

    A pruned or stopped trial is retried only if its number is given.

    \b
    Examples:
        cse-sweep retry rankcse-bert-base
        cse-sweep retry rankcse-bert-base 3 7
    """
    _send_request(leaderboard_url(runs, store), sweep, "retry", numbers=numbers)


@about_sweep
@click.option(
    "--set",
    "settings",
    multiple=True,
    required=True,
    metavar="NAME=VALUE",
    help="Value of a hyperparameter; can be repeated.",
)
def enqueue(sweep: str, runs: Path | None, store: str | None, settings: tuple[str, ...]) -> None:
    """Let SWEEP try a configuration of your own next.

    The sampler draws the hyperparameters that you leave out.

    \b
    Example:
        cse-sweep enqueue rankcse-bert-base --set learning_rate=3e-5 --set tau2=0.05
    """
    _send_request(leaderboard_url(runs, store), sweep, "enqueue", settings=settings)


@about_sweep
@click.option(
    "--trial",
    "number",
    type=click.IntRange(min=0),
    metavar="N",
    help="Print the output of this trial instead.",
)
@click.option(
    "--follow", is_flag=True, help="With --trial: print until the trial or its sweep ends."
)
def logs(
    sweep: str, runs: Path | None, store: str | None, number: int | None, follow: bool
) -> None:
    """Print the messages of SWEEP so far, or the output of a trial.

    Without --trial, prints the driver's warnings and notes, and one line per finished trial. With
    --trial, prints that trial's output up to its last dev point; it is stored beside the sweep's
    journal.

    \b
    Examples:
        cse-sweep logs rankcse-bert-base
        cse-sweep logs rankcse-bert-base --trial 3 --follow
        cse-sweep logs rankcse-bert-base --store postgresql+psycopg://lab@db.lab/leaderboard
    """
    if number is None:
        if follow:
            raise click.UsageError("--follow goes with --trial N; cse-sweep attach follows a sweep")
        from cse_platform.cli.following import print_logs

        print_logs(leaderboard_url(runs, store), sweep)
    else:
        from cse_platform.cli.following import print_output

        url = leaderboard_url(runs, store)
        print_output(url, f"{sweep}#{number}", runs=runs or RUNS, follow=follow)


@about_sweep
def attach(sweep: str, runs: Path | None, store: str | None) -> None:
    """Show the progress of SWEEP until it ends.

    Shows a live table on a terminal, otherwise one line per trial. Ctrl-C stops the display, not
    the sweep. The exit code is the sweep's: 0 if it is complete, 1 if it was refused or failed, 130
    if it was interrupted.

    \b
    Example:
        cse-sweep attach rankcse-bert-base
    """
    from cse_platform.cli.following import follow

    raise click.exceptions.Exit(follow(leaderboard_url(runs, store), sweep))


def _send_request(url: str, sweep: str, action: "SweepAction", **what: Any) -> None:
    from cse_platform.control.requests import send_request

    echo(send_request(url, sweep, action, **what))
