"""A lab's own dev sets in the folder that runs a trial again: carried, or named by their hash."""

import shutil
from pathlib import Path
from typing import Any

from cse_methods.data.own.reading import load_own_pairs, local_file
from cse_methods.data.own.spec import OwnPairs
from cse_methods.errors import DataError


def carry_own_sets(sweep: dict[str, Any], folder: Path) -> tuple[dict[str, Any], list[str]]:
    """Copy the files of own dev sets into the folder.

    Returns:
        The sweep with these files named from the folder, and what could not be carried, a sentence
        each. A file that is gone, or holds other pairs than the trial was judged by, is not.
    """
    dev, missing = sweep["dev"], []
    files = {name: OwnPairs.model_validate(own) for name, own in dev.get("files", {}).items()}
    if not files:
        return sweep, []
    for name, own in files.items():
        copy = Path(own.file).name
        try:
            load_own_pairs(own)
            shutil.copyfile(local_file(own), folder / copy)
        except (DataError, OSError) as problem:
            missing.append(
                f"The dev set {name} is not in this folder ({problem}). Put {copy} beside "
                f"sweep.yaml; its pairs have sha256 {own.sha256}, and others are refused."
            )
        files[name] = own.model_copy(update={"file": f"./{copy}"})
    carried = {name: own.model_dump(mode="json") for name, own in files.items()}
    return {**sweep, "dev": {**dev, "files": carried}}, missing
