"""Store the texts of test sets, without gold scores, for trials that train on them.

ConSERT and BERT-flow do so in their papers. A trial itself cannot open a test set.
"""

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import IO

from cse_methods.data.corpora import handed_out_texts
from cse_methods.data.corpus_spec import CorpusSpec
from cse_methods.data.source import data_source
from cse_methods.errors import DataError
from cse_methods.evaluation.test_sets.pairs import load_pair_set
from cse_methods.files.cache import cannot_store, written_once


def hand_out_texts(corpora: Iterable[CorpusSpec], data: str | None) -> None:
    """Write the texts of the test sets among these corpora to where `load_corpus` reads them.

    Both sentences of each pair follow one another, pair by pair; repeats are kept. Texts that are
    already there are compared with the test sets, and replaced if they differ.

    Raises:
        DataError: as in `load_pair_set`, or if the texts cannot be stored.
    """
    for spec in corpora:
        if spec.transductive:
            file = handed_out_texts(spec, data_source(data))
            _store_texts(file, _read_texts(spec, data))


def _read_texts(spec: CorpusSpec, data: str | None) -> bytes:
    sets = [load_pair_set(task, data) for task in spec.test_sets]
    pairs = chain.from_iterable(zip(one.first, one.second, strict=True) for one in sets)
    return "".join(f"{text}\n" for text in chain.from_iterable(pairs)).encode()


def _store_texts(file: Path, texts: bytes) -> None:
    def read(stored: Path) -> bytes | None:
        return texts if stored.is_file() and stored.read_bytes() == texts else None

    def write(stream: IO[bytes]) -> None:
        stream.write(texts)

    try:
        written_once(file, read=read, write=write)
    except OSError as problem:
        raise DataError(cannot_store("the texts of test sets", file, problem)) from problem
