"""The short names of pre-trained encoders, and the hub ids or packages that they stand for."""

from importlib.util import find_spec
from pathlib import Path

from cse_methods.files.text import file_sha256, read_own_table

HUB = {row["name"]: row for row in read_own_table(Path(__file__).with_name("short_names.csv"))}
"""The encoders on the hub by short name: the hub id; the pooler for which they were made; whether
their authors read them after the dense layer with tanh on [CLS], which is left out of the others;
and the commit, where one could be verified. Of the others the newest is used; the hash of the
weights still distinguishes versions."""

_PACKAGED = {row["name"]: row for row in read_own_table(Path(__file__).with_name("packaged.csv"))}
"""The Python packages that contain encoders: the module; the file of the weights in it; their hash,
which for an encoder on the hub equals that of the hub's file; and for others how to install it."""
ONLY_PACKAGED = {name: row["install"] for name, row in _PACKAGED.items() if row["install"]}
"""How to install the encoders that are not on the hub."""


def packaged_folder(name: str) -> Path | None:
    """Return the folder of an encoder in its installed package; None if there is none.

    A package with other weights does not count.
    """
    row = _PACKAGED.get(name)
    package = find_spec(row["module"]) if row else None
    if row is None or package is None or package.origin is None:
        return None
    weights = Path(package.origin).parent / row["weights"]
    known = weights.is_file() and file_sha256(weights) == row["sha256"]
    return weights.parent if known else None
