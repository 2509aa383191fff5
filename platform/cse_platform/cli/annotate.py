"""cse-leaderboard annotate: a note, tags and a star for a trial, a configuration or a sweep."""

import click

from cse_platform.cli.common import StoreOptions, StrictCommand, store_options
from cse_platform.standard_streams import echo


@click.command("annotate", cls=StrictCommand)
@click.argument("subject")
@click.option("--note", metavar="TEXT", help="Replace the note; '' removes it.")
@click.option("--tag", "tags", multiple=True, metavar="WORD", help="Add a tag; can be repeated.")
@click.option(
    "--untag", "untags", multiple=True, metavar="WORD", help="Remove a tag; can be repeated."
)
@click.option("--star/--no-star", default=None, help="Add or remove the star.")
@store_options
def annotate_command(
    *,
    subject: str,
    note: str | None,
    tags: tuple[str, ...],
    untags: tuple[str, ...],
    star: bool | None,
    stores: StoreOptions,
) -> None:
    """Add a note, tags or a star to SUBJECT.

    SUBJECT is SWEEP, SWEEP#N, METHOD@CONFIGURATION, or a trial's key or its first 6 digits.
    Everyone who uses the leaderboard sees the annotations, with their author and time:
    `cse-leaderboard`, `show`, `cse-sweep status` and `cse-dashboard` show them. In MLflow they are
    tags of the runs.

    \b
    Examples:
        cse-leaderboard annotate quickstart-simcse#3 --note "diverges after step 500" --tag unstable
        cse-leaderboard annotate rankcse-bert-base --star
        cse-leaderboard --tag unstable
    """
    if note is None and star is None and not tags and not untags:
        raise click.UsageError("nothing to write: give --note, --tag, --untag or --star")
    if both := sorted({*tags} & {*untags}):
        raise click.UsageError(f"--tag {both[0]} and --untag {both[0]} exclude each other")
    from cse_platform.control.annotations import annotate, describe_place

    target, lacking = annotate(
        stores.url_beside_runs,
        stores.folder,
        subject,
        note=note,
        star=star,
        tags=dict.fromkeys(tags, True) | dict.fromkeys(untags, False),
    )
    echo(f"annotated {target}")
    for sentence in (*describe_place(stores.folder, target), *lacking):
        echo(sentence, err=True)
