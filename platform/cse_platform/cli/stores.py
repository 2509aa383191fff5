"""cse-leaderboard rebuild: the stores made anew."""

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cse_platform.cli.common import StoreOptions, StrictCommand, UserPath, store_options
from cse_platform.standard_streams import echo

if TYPE_CHECKING:
    from cse_platform.stores.rebuild import Rebuilt

_MOST_NAMED = 20
"""Trials that are named of those of which runs folders have different results."""


@click.command("rebuild", cls=StrictCommand)
@click.option(
    "--from",
    "others",
    multiple=True,
    metavar="RUNS",
    type=UserPath(file_okay=False),
    help="Another runs folder to read, such as a colleague's; can be repeated.",
)
@click.option(
    "--prefer",
    type=click.Choice(("ours", "theirs")),
    default="ours",
    show_default=True,
    help="Whose results of a trial to keep where they differ: the runs folder's, or those of the "
    "first --from that has it.",
)
@click.option(
    "--without",
    multiple=True,
    metavar="NAMES",
    help="Sweeps to drop from the old leaderboard, or ids of journals, separated by commas.",
)
@click.option(
    "--only",
    multiple=True,
    type=click.Choice(("leaderboard", "search", "mlflow")),
    help="Rebuild only this store; can be repeated.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Count what would change on the leaderboard, but change no store.",
)
@store_options
def rebuild_command(
    others: tuple[Path, ...],
    prefer: str,
    without: tuple[str, ...],
    only: tuple[str, ...],
    dry_run: bool,
    stores: StoreOptions,
) -> None:
    """Rebuild the stores from the journals.

    Reads the journals of all sweeps, imports, evaluations and annotations in the runs folder, and
    in those that --from names, into a new database, which then replaces the leaderboard in one
    step; an old SQLite file is kept as leaderboard.db.before-TIME. Use it if the leaderboard is
    lost, damaged, outdated or of another version, and to add the results of colleagues; run it
    again to update these. It refuses while a sweep runs, and if the old leaderboard has more of
    a journal than these folders. Of a damaged journal, it reads what precedes the damage, and
    exits with 1 in the end. If two different sweeps have the same name, the one in the runs
    folder keeps it. If folders have different results of one trial, the runs folder's are kept,
    and the trial is named.

    Then it adds to the search store and to MLflow what they lack. It deletes nothing there, because
    MLflow also holds registered models, and both can hold what others wrote.

    \b
    Examples:
        cse-leaderboard rebuild
        cse-leaderboard rebuild --from /mnt/ann/runs --from /mnt/bob/runs --only leaderboard
        cse-leaderboard rebuild --dry-run
    """
    from cse_platform.errors import JournalError
    from cse_platform.presentation.terminal import progress_lines
    from cse_platform.stores.rebuild import fill_mlflow, fill_search_store, rebuild

    if missing := [str(other) for other in others if not other.is_dir()]:
        raise JournalError(f"--from: no folder {', '.join(missing)}; name a runs folder")
    url, folder = stores.url_beside_runs, stores.folder
    if dry_run and not folder.is_dir():
        raise JournalError(
            f"there is no runs folder {folder}, and a dry run makes none; name another with --runs"
        )
    if others:
        with suppress(OSError):  # one that cannot be made is refused below
            folder.mkdir(parents=True, exist_ok=True)
    folders, parts = [folder, *others], only or ("leaderboard", "search", "mlflow")
    if dry_run and "leaderboard" not in parts:
        raise click.UsageError("--dry-run covers the leaderboard alone; add --only leaderboard")
    damage, renamed, prefer_theirs = dict[Path, str](), set[Path](), prefer == "theirs"
    with progress_lines("bytes of journals") as move:

        def progress(done: int, total: int) -> None:
            move("bytes of journals", completed=done, total=total)

        if "leaderboard" in parts:
            names = {name.strip() for some in without for name in some.split(",")}
            done = rebuild(
                url,
                folders,
                without=names,
                prefer_theirs=prefer_theirs,
                dry_run=dry_run,
                damage=damage,
                renamed=renamed,
                progress=progress,
            )
            _print_rebuilt(done, folder, prefers_theirs=prefer_theirs, dry_run=dry_run)
        for part, name, fill in (
            ("search", "The search store", fill_search_store),
            ("mlflow", "MLflow", partial(fill_mlflow, prefer_theirs=prefer_theirs)),
        ):
            if part in parts and not dry_run:
                left_out = fill(folders, damage=damage, renamed=renamed, progress=progress)
                exceptions = f", except for {', '.join(left_out)}" if left_out else ""
                echo(f"{name} is up to date with the journals{exceptions}.")
    if damage:
        raise JournalError(
            "\n  ".join(["the rest of these journals is in no store:", *damage.values()])
        )


def _print_rebuilt(done: "Rebuilt", runs: Path, *, prefers_theirs: bool, dry_run: bool) -> None:
    """Print where folders have different results, what is lost, and what the leaderboard has.

    `runs` is the runs folder of the command, and not one that --from names.
    """
    from cse_platform.numbers import percent
    from cse_platform.stores.rebuild import describe_lost
    from cse_platform.tracking.events import MODEL_DIGITS

    for each in done.disagreements[:_MOST_NAMED]:
        values = (each.kept, each.left)
        kept, left = map(percent if each.is_fraction else "{:g}".format, values)
        echo(
            f"Trial {each.trial[:MODEL_DIGITS]}: {each.name} is {kept} in {each.kept_in}, which is "
            f"kept, and {left} in {each.left_in}"
        )
    if (more := len(done.disagreements) - _MOST_NAMED) > 0:
        echo(f"… and {more} more")
    of_runs = {runs in (each.kept_in, each.left_in) for each in done.disagreements}
    ways_out = [
        *["leave out --prefer theirs" if prefers_theirs else "add --prefer theirs"]
        * (True in of_runs),
        *["name the other of two --from before"] * (False in of_runs),
    ]
    if ways_out:
        echo(f"To keep the other results instead, {' or '.join(ways_out)}")
    for line in describe_lost(done.lost):
        echo(f"{'Would lose' if dry_run else 'Left out'}: {line}")
    counts = ", ".join(
        f"{name}: {count} ({done.before[name]} before)" for name, count in done.after.items()
    )
    echo(f"{done.journals} journals; {counts}")
    if dry_run:
        echo("Counts alone are compared; a rebuild also takes changed values from the journals")
    if done.kept is not None:
        echo(f"The old leaderboard is kept as {done.kept}")
