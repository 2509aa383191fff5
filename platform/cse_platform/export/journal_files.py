"""Finds the files that drivers write beside the journals of a trial's sweeps."""

import os
from pathlib import Path

from cse_platform.errors import NotFoundError
from cse_platform.leaderboard.trial_details import TrialDetails
from cse_platform.numbers import HASH_DIGITS
from cse_platform.safe_paths import find_link
from cse_platform.sweep.stores import sweep_folder
from cse_platform.tracking.output import output_file


def journal_folders(trial: TrialDetails, runs: Path | None) -> dict[Path, int]:
    """List the folders on this machine where the journals of its sweeps may be, most likely first,
    with its number there.

    These are the folders that their drivers used, then those below `runs`, for copies.
    """
    folders = {Path(entry.folder): entry.number for entry in trial.sweeps if entry.folder}
    if runs is not None:
        folders |= {sweep_folder(runs, entry.sweep): entry.number for entry in trial.sweeps}
    return folders


def describe_journal_folders(trial: TrialDetails) -> str:
    """Name the journal folders of its sweeps and their hosts, in words."""
    known = [f"{entry.folder} on {entry.host}" for entry in trial.sweeps if entry.folder]
    return " or ".join(known) or "a folder that is not recorded"


def find_output(trial: TrialDetails, runs: Path | None) -> Path | None:
    """Find the file of the trial's output; None if it has printed nothing.

    Raises NotFoundError if no sweep of ours ran the trial, the file is a link or behind one, or no
    journal folder of its sweeps is on this machine, so that the file may be elsewhere.
    """
    if trial.origin is not None:
        raise NotFoundError(
            f"trial {trial.key[:HASH_DIGITS]} was {trial.origin}, without its output"
        )
    known = journal_folders(trial, runs)
    readable = [folder for folder in known if os.access(folder, os.X_OK)]
    for folder in readable:
        file = output_file(folder, known[folder])
        if (link := find_link(file, below=folder.parent.parent)) is not None:
            raise NotFoundError(
                f"{link} is a link or behind one, so it is not read: it may be a private "
                "file; put a copy in its place if it is yours"
            )
        if file.exists():
            return file
    if readable:
        return None
    raise NotFoundError(
        f"the output of trial {trial.key[:HASH_DIGITS]} is not here, but beside the journal of "
        f"its sweep, in {describe_journal_folders(trial)}; give the command there"
    )


def has_output(trial: TrialDetails, runs: Path | None) -> bool:
    """Whether `cse-sweep logs` shows on this machine what the trial has printed."""
    try:
        return find_output(trial, runs) is not None
    except NotFoundError:
        return False
