"""The command that hands a sweep to a cluster, which runs it even when this machine is off."""

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
    help="Address of the cluster's dashboard: http://HOST:8265.",
)
@click.option(
    "--runs",
    required=True,
    metavar="DIRECTORY",
    help="Runs folder on the cluster: an absolute path that its nodes share.",
)
@click.option(
    "--set", "overrides", multiple=True, metavar="A.B=VALUE", help="Override a value of the file."
)
@click.option("--trials", type=click.IntRange(min=1), help="Same as --set search.trials=N.")
@click.option("--no-ship", is_flag=True, help="Send no code: the nodes have it and its packages.")
@shows_errors
def submit(
    file: Path,
    address: str,
    runs: str,
    overrides: tuple[str, ...],
    trials: int | None,
    no_ship: bool,
) -> None:
    """Submit the sweep in FILE to a Ray cluster, as a job that outlives this machine.

    The code, FILE, and the files that it names by relative paths are sent; they must hold no
    password. The cluster's head reads the URLs of the stores from its own environment. Run the same
    command again to resume the sweep. Follow it with status, logs, attach and stop.

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
