"""A trial's model as a folder to give away, with its card."""

import shutil
from pathlib import Path

from cse_platform.errors import OutputError
from cse_platform.export.folders import make_empty

CARD = "README.md"


def export_model(model: Path, folder: Path, *, card: str) -> None:
    """Copy a kept model into a folder that is new or empty, with its card (Markdown) as README.md.

    Raises:
        OutputError: if the folder cannot be used, or the model not be copied.
    """
    make_empty(folder)
    try:
        shutil.copytree(model, folder, dirs_exist_ok=True)
        (folder / CARD).write_text(card, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"{model} cannot be copied to {folder}: {error}") from error
