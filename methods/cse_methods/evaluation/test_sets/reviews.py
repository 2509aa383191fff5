"""Reviews of many sentences with a label: Yelp and IMDB, for encoders of long text.

HiCL (Wu, Xiao, Vydiswaran, EMNLP 2023 Findings, section 5.6, table 8) names the two sets and their
sizes, but not the metric of its numbers; so nothing here is that metric.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cse_methods.data.source import HubFile
from cse_methods.errors import DataError
from cse_methods.files.parquet import read_columns
from cse_methods.files.text import sha256_of
from cse_methods.tasks import ReviewTask


@dataclass(frozen=True, eq=False)
class Reviews:
    """Texts with what their writers felt."""

    task: ReviewTask
    texts: tuple[str, ...]
    labels: NDArray[np.int64]
    """Shape (texts,); 0 negative, 1 positive; read-only."""
    sha256: str
    """Checksum of the labels and texts."""


class _Table(NamedTuple):
    """A test split on the hub, as the hub's own parquet conversion."""

    file: HubFile
    reviews: int


_SPLIT, _REVISION = "plain_text/test/0000.parquet", "refs/convert/parquet"
REVIEW_TABLES: dict[ReviewTask, _Table] = {
    "yelp": _Table(HubFile("fancyzhx/yelp_polarity", _SPLIT, _REVISION), reviews=38_000),
    "imdb": _Table(HubFile("stanfordnlp/imdb", _SPLIT, _REVISION), reviews=25_000),
}


def load_reviews(task: ReviewTask) -> Reviews:
    """The test reviews of a set: 38,000 of yelp, 25,000 of imdb, always from the hub.

    White space is split and rejoined by single blanks.

    Raises:
        DataError: if the file cannot be fetched or is no such table, a review is empty or has
            another label than 0 and 1 (names the row), or there are not as many as are known.
    """
    table = REVIEW_TABLES[task]
    path = table.file.fetch()
    texts, labels = [], []
    for number, (text, label) in enumerate(read_columns(path, "text", "label"), start=1):
        if label not in (0, 1) or not (words := (text or "").split()):
            raise DataError(
                f"{path}, row {number}: expected a text and the label 0 or 1, found label "
                f"{label!r} and {len(text or '')} characters; fetch the file again"
            )
        texts.append(" ".join(words))
        labels.append(label)
    if len(texts) != table.reviews:
        raise DataError(
            f"{path}: expected {table.reviews} reviews, found {len(texts)}; fetch the file again"
        )
    array = np.array(labels, dtype=np.int64)
    array.flags.writeable = False
    lines = (f"{label}\t{text}" for label, text in zip(labels, texts, strict=True))
    return Reviews(task, tuple(texts), array, sha256_of(lines))


def missing_reviews(tasks: Iterable[ReviewTask]) -> list[str]:
    """What `load_reviews` would have to fetch from the hub first, for people; loads nothing."""
    files = {task: REVIEW_TABLES[task].file for task in tasks}
    return [f"{task} ({file.repository})" for task, file in files.items() if not file.cached]
