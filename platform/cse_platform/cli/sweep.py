"""cse-sweep: run a sweep file, resume it, extend it; describe methods, create a new one."""

import os
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path

import click

from cse_methods.errors import nearest_names
from cse_platform.cli.common import (
    CONTEXT,
    CommandGroup,
    StoreOptions,
    UserPath,
    print_json,
    store_options,
    version_option,
)
from cse_platform.cli.request import enqueue, limit, logs, retry, stop
from cse_platform.cli.upkeep import clean, delete
from cse_platform.launch import RUNS
from cse_platform.standard_streams import announce, echo

_SECTIONS = {
    "Daily": "run status logs stop enqueue retry limit submit describe new-method",
    "Administration": "delete clean",
}


class FileOrCommand(CommandGroup):
    """A group whose first argument is a subcommand if one has that name, otherwise a file."""

    def put_command_first(self, context: click.Context, args: list[str]) -> list[str]:
        args = super().put_command_first(context, args)
        if not args or args[0] in (*self.commands, *context.help_option_names, "--version"):
            return args
        near = nearest_names(args[0], self.commands)
        if near and "." not in args[0] and not Path(args[0]).exists():
            context.fail(f"there is no file and no command {args[0]!r}; did you mean {near[0]!r}?")
        return ["run", *args]


@click.group(cls=FileOrCommand, sections=_SECTIONS, context_settings=CONTEXT)
@version_option
def main() -> None:
    """Run and manage hyperparameter searches, called sweeps.

    Each sweep is described in a YAML file. `cse-sweep FILE` means `cse-sweep run FILE`.

    \b
    Examples:
        cse-sweep sweeps/quickstart.yaml
        cse-sweep sweeps/rankcse.yaml --dry-run
        cse-sweep sweeps/rankcse.yaml --smoke
        cse-sweep submit sweeps/rankcse.yaml --address head.lab --runs /lab/runs
        cse-sweep status
        cse-sweep describe rankcse
        cse-sweep new-method labcse labcse
    """


def override_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add `--set`, as `overrides`, and `--trials`."""
    values = click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="A.B=VALUE",
        help="Override a value in FILE; can be repeated. space.NAME=null drops NAME from the "
        "search.",
    )
    budget = click.option(
        "--trials", type=click.IntRange(min=1), help="Same as --set search.trials=N."
    )
    return values(budget(command))


def refuse_store(context: click.Context, option: click.Parameter, url: str | None) -> None:
    """Raise UsageError if `--store` was typed, which the commands that read a leaderboard have."""
    if url is not None:
        raise click.UsageError(
            "a sweep takes no --store: name its leaderboard by CSE_STORE or, in FILE, stores: "
            "{leaderboard: …}",
            context,
        )


@main.command()
@click.argument("file", type=UserPath())
@click.option("--dry-run", is_flag=True, help="Check everything, but start nothing.")
@click.option(
    "--smoke",
    is_flag=True,
    help="Rehearse all stages and evaluations on a small encoder, in minutes, in RUNS/smoke.",
)
@click.option("--offline", is_flag=True, help="Download nothing.")
@override_options
@click.option(
    "--address",
    envvar="RAY_ADDRESS",
    help="Address of a Ray cluster.  [default: RAY_ADDRESS, else this machine]",
)
@click.option("--no-ship", is_flag=True, help="Send no code: the nodes already have it.")
@click.option(
    "--runs",
    type=UserPath(file_okay=False),
    default=RUNS,
    show_default=True,
    help="Folder for journals, checkpoints and databases.",
)
@click.option("--store", hidden=True, expose_value=False, callback=refuse_store)
@click.option("--no-reuse", is_flag=True, help="Run also the trials that another sweep completed.")
def run(
    file: Path,
    dry_run: bool,
    smoke: bool,
    offline: bool,
    overrides: tuple[str, ...],
    trials: int | None,
    address: str | None,
    no_ship: bool,
    runs: Path,
    no_reuse: bool,
) -> None:
    """Run the sweep in FILE, or resume it where it stopped.

    FILE is a YAML file, `-` for standard input, or the name of a shipped sweep, such as quickstart
    or papers/rankcse-table4. Run the same command again to resume a sweep that was interrupted or
    killed, to extend it after you raised its budget, or to retry failed trials after you changed
    the file, the code, the data or a package. Trials that another sweep completed with the same
    code, hyperparameters, seed and data are reused.

    \b
    Examples:
        cse-sweep sweeps/rankcse.yaml --trials 60 --set resources.gpu=0.5
        cse-sweep run - --dry-run < sweeps/rankcse.yaml
    """
    if smoke and dry_run:
        raise click.UsageError("--smoke and --dry-run exclude each other")
    if offline:
        os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", HF_DATASETS_OFFLINE="1")
    # This takes seconds, because methods import torch.
    announce(f"reading {file} and loading its methods", log=None if dry_run else "stdout")
    from cse_platform.sweep.file import read_draft

    draft = read_draft(file, overrides=overrides, trials=trials)
    _warn_of_unused_claims(stage.spec.method for stage in draft.stages)
    if dry_run:
        from cse_platform.launch.plan import print_plans

        print_plans(draft, runs=runs, address=address, ship=not no_ship, offline=offline)
        return
    from cse_platform.launch.start import start_file

    start_file(
        draft, runs=runs, address=address, ship=not no_ship, offline=offline, reuse=not no_reuse,
        rehearse=smoke,
    )  # fmt: skip


@main.command()
@click.argument("file", type=UserPath())
@click.option(
    "--address",
    envvar="RAY_API_SERVER_ADDRESS",
    show_envvar=True,
    required=True,
    help="Address of the cluster's Ray dashboard: http://HOST:8265.",
)
@click.option(
    "--runs",
    required=True,
    metavar="DIRECTORY",
    help="Runs folder on the cluster: an absolute path that all nodes share.",
)
@override_options
@click.option("--no-ship", is_flag=True, help="Send no code: the nodes already have it.")
def submit(
    file: Path,
    address: str,
    runs: str,
    overrides: tuple[str, ...],
    trials: int | None,
    no_ship: bool,
) -> None:
    """Submit the sweep in FILE to a Ray cluster as a job.

    The job keeps running when this machine is off. The command sends the code, FILE, and the files
    that FILE names by relative paths; none of them may contain a password. The cluster's head reads
    the URLs of the stores from its own environment. Run the same command again to resume the sweep.
    Follow it with `status` and `logs --follow`; end it with `stop`.

    \b
    Examples:
        cse-sweep submit sweeps/rankcse.yaml --address head.lab --runs /lab/runs
        cse-sweep submit sweeps/rankcse.yaml --address http://head.lab:8265 \\
            --runs /lab/runs --trials 60
    """
    announce(f"reading {file} and loading its methods")
    from cse_platform.launch.submit import submit_sweep

    submit_sweep(
        file, address=address, runs=runs, overrides=overrides, trials=trials, ship=not no_ship
    )


for command in (stop, retry, enqueue, limit, logs, delete, clean):
    main.add_command(command)


@main.command()
@click.argument("sweep", required=False)
@store_options
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON: one object per sweep, scores as fractions."
)
def status(sweep: str | None, stores: StoreOptions, as_json: bool) -> None:
    """List sweeps and their progress, most recently started first.

    A sweep whose driver was killed is INTERRUPTED, and one that ended without a complete trial is
    FAILED. If you name SWEEP, the command shows only that
    sweep: the process and host that run it, pending requests, the latest messages, the trials that
    have not ended, its best configuration with seeds and test scores, and what to do next.

    \b
    Examples:
        cse-sweep status
        cse-sweep status rankcse-bert-base
        cse-sweep status --runs /data/lab/runs --json
    """
    from cse_platform.launch.outcome import outcome_lines
    from cse_platform.leaderboard.api import open_leaderboard
    from cse_platform.presentation.sweeps import sweep_page, sweeps_table
    from cse_platform.presentation.terminal import print_page

    with open_leaderboard(stores.url) as board:
        overviews = board.sweeps() if sweep is None else [board.sweep(sweep)]
        if as_json:
            print_json([overview.as_record() for overview in overviews])
        elif sweep is not None:
            outcome = outcome_lines(board, sweep, runs=stores.folder, options=stores.options)
            print_page(sweep_page(overviews[0], board.running(sweep), board.messages(sweep)))
            for line in outcome:
                echo(line)
        elif overviews:
            print_page([sweeps_table(overviews)])
        else:
            echo("no sweep yet")


@main.command()
@click.argument("methods", nargs=-1, metavar="[METHOD]...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--base", metavar="NAME", help="Show METHOD with this method as its base.")
def describe(methods: tuple[str, ...], as_json: bool, base: str | None) -> None:
    """List the methods, or show the hyperparameters of each METHOD.

    Hyperparameters are shown with bounds, defaults, and the paper's symbols and values.

    \b
    Examples:
        cse-sweep describe
        cse-sweep describe rankcse
        cse-sweep describe rankcse --base promptbert
    """
    from cse_methods.describe import describe_method
    from cse_methods.errors import BrokenMethodError
    from cse_methods.registry import available_methods, get_method
    from cse_platform.presentation.methods import methods_overview, methods_page
    from cse_platform.presentation.terminal import print_page
    from cse_platform.sweep.checks import get_method_on_base

    if base is not None and not methods:
        raise click.UsageError("--base needs a METHOD")
    descriptions = []
    for name in methods or available_methods():
        try:
            method = get_method(name) if base is None else get_method_on_base(name, base)
            descriptions.append(describe_method(method))
        except BrokenMethodError as error:
            if methods:
                raise
            echo(f"Warning: {error}", err=True)  # the others are listed all the same
    _warn_of_unused_claims(methods or None)
    if as_json:
        print_json(descriptions)
    elif methods:
        print_page(methods_page(descriptions), width=100)
    else:
        print_page(methods_overview(descriptions))


@main.command("new-method")
@click.argument("name")
@click.argument("folder", metavar="DIR", type=UserPath(file_okay=False))
def new_method(name: str, folder: Path) -> None:
    """Create a package for your own method NAME in the folder DIR.

    The package contains a working method: a module, its tests, an entry point and a sweep file.
    Edit the module to make it yours.

    \b
    Example:
        cse-sweep new-method labcse labcse
    """
    from cse_methods.new_method.package import write_package

    for file in write_package(name, folder):
        echo(file)
    with_pytest = shlex.quote(f"{folder}[test]")
    echo(f"Install it:  pip install --editable {with_pytest}")
    echo(f"Test it:     pytest {shlex.quote(str(folder))}")
    echo(f"Search it:   cse-sweep {shlex.quote(str(folder / name))}.yaml")


def _warn_of_unused_claims(methods: Iterable[str] | None) -> None:
    from cse_methods.registry import unused_claims

    for claim in unused_claims(methods):
        echo(f"Warning: {claim}", err=True)
