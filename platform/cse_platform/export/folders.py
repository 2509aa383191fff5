"""Folders that commands make for a user."""

from pathlib import Path

from cse_platform.errors import OutputError


def make_empty(folder: Path) -> None:
    """Make a folder that is to be written to, unless it is there and empty.

    Raises:
        OutputError: if there is something in it, or it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        taken = next(folder.iterdir(), None)
    except OSError as error:
        raise OutputError(f"the folder {folder} cannot be made: {error.strerror}") from error
    if taken is not None:
        raise OutputError(f"the folder {folder} is not empty ({taken.name}); name another one")
