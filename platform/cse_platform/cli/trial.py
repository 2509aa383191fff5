"""cse-leaderboard show, reproduce, export, register: everything about one trial."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cse_platform.cli.common import StoreOptions, StrictCommand, UserPath, print_json, store_options
from cse_platform.standard_streams import echo

if TYPE_CHECKING:
    from cse_platform.leaderboard.trial_details import TrialDetails


@click.command(cls=StrictCommand)
@click.argument("trial")
@store_options
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON: scores as fractions, with code diffs."
)
@click.option(
    "--code",
    "shows_code",
    is_flag=True,
    help="Print the code that the trial ran: this package by version and commit, another package's "
    "method in full.",
)
@click.option(
    "--diff", "other", metavar="TRIAL", help="Print the changes in the code since this other trial."
)
def show_command(
    trial: str,
    stores: StoreOptions,
    as_json: bool,
    shows_code: bool,
    other: str | None,
) -> None:
    """Show everything about TRIAL.

    TRIAL is SWEEP#N, a trial's key or its first 6 digits, or SWEEP or METHOD@CONFIGURATION for the
    best one.

    \b
    Examples:
        cse-leaderboard show quickstart-simcse#3
        cse-leaderboard show quickstart-simcse#0
        cse-leaderboard show labcse-mini#3 --code
        cse-leaderboard show labcse-mini#3 --diff labcse-mini#0
    """
    if as_json + shows_code + (other is not None) > 1:
        raise click.UsageError("--json, --code and --diff exclude each other")
    details = _load_details(trial, stores)
    if shows_code or other is not None:
        from cse_platform.export.trial_code import format_code, format_code_changes, trial_code

        code = trial_code(details, runs=stores.folder)
        if other is None:
            echo(format_code(code), nl=False)
            return
        before = trial_code(_load_details(other, stores), runs=stores.folder)
        echo(format_code_changes(before, code), nl=False)
    elif as_json:
        print_json(details.as_record())
    else:
        from cse_platform.export.journal_files import has_output
        from cse_platform.presentation.terminal import print_page
        from cse_platform.presentation.trial import trial_page

        is_kept = has_output(details, stores.folder)
        print_page(trial_page(details, options=stores.options, has_output=is_kept))


@click.command(cls=StrictCommand)
@click.argument("trial")
@click.option(
    "--to",
    "folder",
    type=UserPath(),
    help="New or empty folder.  [default: reproduce-KEY, with 8 digits of the key]",
)
@store_options
def reproduce_command(trial: str, folder: Path | None, stores: StoreOptions) -> None:
    """Write a folder that reproduces TRIAL.

    TRIAL is named as for `show`. The folder contains a sweep file, the versions of the packages,
    and the code changes. Its README has the commands. It says what is unknown about how the trial
    ran, and so does this command.

    \b
    Example:
        cse-leaderboard reproduce quickstart-simcse#3 --to again
    """
    from cse_platform.export.reproduction import write_reproduction

    details = _load_details(trial, stores)
    folder = folder or Path(f"reproduce-{details.key[:8]}")
    files, unknowns = write_reproduction(details, folder, runs=stores.folder)
    echo(f"{folder}: {', '.join(files)}")
    for unknown in unknowns:
        echo(f"note: {unknown}", err=True)


@click.command(cls=StrictCommand)
@click.argument("trial")
@click.argument("folder", type=UserPath())
@click.option(
    "--results",
    "model_name",
    metavar="LAB/MODEL",
    help="Write the scores on tasks of mteb instead, as results of a model of that name.",
)
@store_options
def export_command(trial: str, folder: Path, model_name: str | None, stores: StoreOptions) -> None:
    """Export the model of TRIAL for sentence-transformers, or its results for mteb.

    Writes the model and a model card to FOLDER. TRIAL is named as for `show`: a sweep stands for
    its complete trial with the highest dev score.

    \b
    Examples:
        cse-leaderboard export quickstart-simcse simcse-mini
        cse-leaderboard export rankcse-bert-base rankcse-bert-base
        cse-leaderboard export rankcse-bert-base mteb-cache --results my-lab/rankcse
    """
    if model_name is not None:
        if model_name.count("/") != 1 or not all(model_name.split("/")):
            raise click.BadParameter("expected LAB/MODEL", param_hint="'--results'")
        from cse_platform.export.mteb_results import write_mteb_results

        written, left_out = write_mteb_results(stores.url, trial, folder, model=model_name)
        echo(f"{folder}: results of {', '.join(written)}; mteb.ResultCache({str(folder)!r})")
        for task in left_out:
            echo(f"note: without {task}: the mean over its subsets alone is stored", err=True)
        return
    from cse_platform.export import kept_model as kept
    from cse_platform.export.model_card import model_card

    details = _load_details(trial, stores)
    with kept.kept_model(details) as model:
        pooler = kept.pooler_of(model)
        kept.export_model(model, folder, card=model_card(details, pooler=pooler))
    echo(f"{folder}: the model of trial {details.key[:8]}, and its card, README.md")
    if pooler not in kept.COMMON_POOLERS:
        echo(
            f"note: it uses the pooler {pooler}, which sentence-transformers lacks; the model "
            "card says how to load it",
            err=True,
        )


@click.command(cls=StrictCommand)
@click.argument("trial")
@click.argument("name")
@store_options
def register_command(trial: str, name: str, stores: StoreOptions) -> None:
    """Register the model of TRIAL in MLflow's model registry.

    TRIAL is named as for `show`. The model becomes a new version of NAME, unless NAME already has a
    version of this trial. The MLflow store is that of CSE_MLFLOW_URI, else the one in the runs
    folder, else that of MLFLOW_TRACKING_URI.

    \b
    Example:
        cse-leaderboard register quickstart-simcse sentence-encoder
    """
    from cse_platform.export.kept_model import register_trial

    details = _load_details(trial, stores)
    version, is_new = register_trial(details, name, runs=stores.folder)
    is_version = "is now" if is_new else "was already registered as"
    echo(f"trial {details.key[:8]} {is_version} version {version} of {name}")
    echo(f'mlflow.sentence_transformers.load_model("models:/{name}/{version}")')


def _load_details(trial: str, stores: StoreOptions) -> "TrialDetails":
    from cse_platform.leaderboard.api import open_leaderboard

    with open_leaderboard(stores.url) as board:
        return board.trial(trial)
