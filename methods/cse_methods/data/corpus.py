"""What a corpus is: the sentences that a trial trains on."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from cse_methods.errors import DataError

Label = float | tuple[float, ...]
"""A number, or a list of them."""


@dataclass(frozen=True)
class Corpus:
    """Sentences to train on, in file order."""

    name: str
    """As in the configuration; the names of joined corpora are `a+b`."""
    sentences: Sequence[str]
    sha256: str
    """Checksum of the sentences, each followed by a line feed; with columns, of the JSON rows."""
    columns: tuple[Sequence[str], ...] = ()
    """All columns if several are named, else empty; the first one equals `sentences`."""
    labels: Sequence[Label] = ()
    """What stands beside the texts of each row, where a column of labels is named."""
    parts: tuple["Corpus", ...] = ()
    """The corpora that are joined, where they are trained on in different ways; else empty."""
    dropped: int = 0
    """Number of rows that were dropped because a sentence in them was empty."""
    notes: tuple[str, ...] = ()
    """Sentences on files that were read in a way that may not be meant, without a full stop."""


def refuse_lacking(corpus: Corpus, present: Collection[str], file: Path, way: str) -> None:
    """Raise a DataError if a sentence of a corpus is not among those that a file speaks of."""
    known = set(present)
    lacking = [sentence for sentence in corpus.sentences if sentence not in known]
    if lacking:
        raise DataError(
            f"{file} lacks {len(lacking)} of the {len(corpus.sentences)} sentences of corpus "
            f"{corpus.name}, the first is {lacking[0][:80]!r}; add a line for each, or {way}"
        )
