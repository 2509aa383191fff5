"""What a person asks of a sweep from another terminal, or another machine: the commands."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import click

from cse_platform.cli.common import CONTEXT, leaderboard_url, shows_errors, store_options

if TYPE_CHECKING:
    from cse_platform.tracking.events import SweepAction

_P = ParamSpec("_P")
_R = TypeVar("_R")


def about_sweep(command: Callable[_P, _R]) -> click.Command:
    """A command about the sweep SWEEP of a leaderboard."""
    named = click.argument("sweep")(store_options(shows_errors(command)))
    return click.command(context_settings=CONTEXT)(named)


@about_sweep
@click.option("--trial", "numbers", type=int, multiple=True, metavar="N", help="This one alone.")
def stop(sweep: str, runs: Path | None, store: str | None, numbers: tuple[int, ...]) -> None:
    """Stop SWEEP as one Ctrl-C does: its command, run again, goes on; or stop single trials.

    What a stopped trial has reported counts as of a pruned one; `retry` runs it again.

    \b
    Examples:
        cse-sweep stop rankcse-bert-base
        cse-sweep stop rankcse-bert-base --trial 7
    """
    _ask(leaderboard_url(runs, store), sweep, "stop", numbers=numbers)


@about_sweep
def pause(sweep: str, runs: Path | None, store: str | None) -> None:
    """Let SWEEP start no further trials, until `resume`; those that run go on to their ends.

    \b
    Example:
        cse-sweep pause rankcse-bert-base
    """
    _ask(leaderboard_url(runs, store), sweep, "pause")


@about_sweep
@click.option("--trials", type=click.IntRange(min=1), help="The search takes so many from now on.")
def resume(sweep: str, runs: Path | None, store: str | None, trials: int | None) -> None:
    """Let SWEEP start trials again after `pause`, or raise its budget.

    \b
    Examples:
        cse-sweep resume rankcse-bert-base
        cse-sweep resume rankcse-bert-base --trials 60
    """
    _ask(leaderboard_url(runs, store), sweep, "resume", trials=trials)


@about_sweep
@click.argument("numbers", nargs=-1, type=int, metavar="[N]...")
def retry(sweep: str, runs: Path | None, store: str | None, numbers: tuple[int, ...]) -> None:
    """Try failed trials of SWEEP again: all of them, or those of these numbers.

    A trial that was pruned or stopped is tried again where its number is given.

    \b
    Examples:
        cse-sweep retry rankcse-bert-base
        cse-sweep retry rankcse-bert-base 3 7
    """
    _ask(leaderboard_url(runs, store), sweep, "retry", numbers=numbers)


@about_sweep
@click.option(
    "--set", "settings", multiple=True, required=True, metavar="NAME=VALUE", help="A dimension."
)
def enqueue(sweep: str, runs: Path | None, store: str | None, settings: tuple[str, ...]) -> None:
    """Let SWEEP try a configuration next, beside those that its search takes.

    The sampler draws the dimensions that are left out.

    \b
    Example:
        cse-sweep enqueue rankcse-bert-base --set learning_rate=3e-5 --set tau2=0.05
    """
    _ask(leaderboard_url(runs, store), sweep, "enqueue", settings=settings)


def _ask(url: str, sweep: str, action: "SweepAction", **what: Any) -> None:
    from cse_platform.cli.requesting import send_request

    click.echo(send_request(url, sweep, action, **what))
