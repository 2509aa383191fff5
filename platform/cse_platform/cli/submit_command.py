"""Handing a sweep to a cluster, which runs it when this machine is off: the command."""

from pathlib import Path

import click

from cse_platform.cli.common import CONTEXT, say, shows_errors


@click.command(context_settings=CONTEXT)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--address",
    envvar="RAY_API_SERVER_ADDRESS",
    show_envvar=True,
    required=True,
    help="Of the cluster's dashboard: http://HOST:8265.",
)
@click.option(
    "--runs",
    required=True,
    metavar="DIRECTORY",
    help="The runs folder, there: an absolute path that the nodes of the cluster share.",
)
@click.option("--set", "overrides", multiple=True, metavar="A.B=VALUE", help="Change the file.")
@click.option("--trials", type=click.IntRange(min=1), help="Same as --set search.trials=N.")
@click.option("--no-ship", is_flag=True, help="The cluster's nodes have all code and packages.")
@shows_errors
def submit(
    file: Path,
    address: str,
    runs: str,
    overrides: tuple[str, ...],
    trials: int | None,
    no_ship: bool,
) -> None:
    """Hand the sweep FILE to a Ray cluster, whose head runs it as a job that outlives this machine.

    The code, the file and the files that it names by relative paths travel. The URLs of the stores
    are in the environment of the head's Ray; what travels must hold no password. The same command
    again goes on with a sweep that was cut off. Afterwards status, logs, attach and stop follow
    the sweep by its leaderboard.

    \b
    Examples:
        cse-sweep submit sweeps/rankcse.yaml --address http://head.lab:8265 --runs /shared/runs
        cse-sweep submit sweeps/rankcse.yaml --address head.lab --runs /lab/runs --trials 60
    """
    say(f"reading {file} and loading its methods")
    from cse_platform.cli.submitting import submit_sweep

    budget = [] if trials is None else [f"search.trials={trials}"]
    submit_sweep(
        file, address=address, runs=runs, overrides=[*overrides, *budget], ship=not no_ship
    )
