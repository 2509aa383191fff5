"""Makes the folders that export commands write to."""

from pathlib import Path

from cse_platform.errors import OutputError


def make_empty(folder: Path) -> None:
    """Make a folder to write to. Raises OutputError if that fails, or it is not empty."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        taken = next(folder.iterdir(), None)
    except OSError as error:
        raise OutputError(f"cannot create the folder {folder}: {error.strerror}") from error
    if taken is not None:
        raise OutputError(f"the folder {folder} is not empty ({taken.name}); name another one")
