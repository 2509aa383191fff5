"""Labelled reviews of many sentences, Yelp and IMDB, for encoders of long texts.

HiCL (Wu, Xiao, Vydiswaran, EMNLP 2023 Findings, section 5.6, table 8) names the two sets and their
sizes, but not its metric, so scores here need not be comparable with it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from cse_methods.data.builtin.pairs import refuse_other_draw
from cse_methods.data.builtin.transfer import draw_rows
from cse_methods.data.source import HubFile, data_source
from cse_methods.errors import DataError
from cse_methods.files.text import read_columns, sha256_of
from cse_methods.tasks import ReviewTask


@dataclass(frozen=True, eq=False)
class Reviews:
    """Texts with the sentiment of their writers."""

    task: ReviewTask
    texts: tuple[str, ...]
    labels: NDArray[np.int64]
    """Shape (texts,); 0 is negative, 1 is positive; read-only."""
    sha256: str
    """Checksum of the labels and texts."""


_SPLIT, _REVISION = "plain_text/test/0000.parquet", "refs/convert/parquet"
REVIEW_FILES: dict[ReviewTask, HubFile] = {
    "yelp": HubFile("fancyzhx/yelp_polarity", _SPLIT, _REVISION),
    "imdb": HubFile("stanfordnlp/imdb", _SPLIT, _REVISION),
}
"""The test splits on the hub, in the hub's own parquet conversion."""
_REVIEWS: dict[ReviewTask, int] = {"yelp": 38_000, "imdb": 25_000}
"""The numbers of their reviews."""
# The built-in sets are for rehearsals and offline tests only.
BUILTIN_REVIEWS, BUILTIN_SENTENCES = 60, 8
BUILTIN_CLASSES: dict[ReviewTask, tuple[str, int]] = {"yelp": ("mr", 61), "imdb": ("cr", 62)}
"""The transfer task with whose classes the sentences are drawn, and the seed of the draw."""


def load_reviews(task: ReviewTask, data: str | None = None) -> Reviews:
    """Load the test reviews of a set from the hub: 38,000 of yelp, 25,000 of imdb.

    With `builtin` data there are 60 texts of eight sentences each; the two classes are those of the
    built-in mr or cr. White space is replaced by single blanks.

    DataError if the file is unavailable, a review is not one (names the row), or one is missing.
    """
    if data_source(data) == "builtin":
        return builtin_reviews(task)
    path = REVIEW_FILES[task].fetch()
    texts, labels = [], []
    for number, (text, label) in enumerate(read_columns(path, "text", "label"), start=1):
        if label not in (0, 1) or not (words := (text or "").split()):
            raise DataError(
                f"{path}, row {number}: expected a text and the label 0 or 1, found label "
                f"{label!r} and {len(text or '')} characters; fetch the file again"
            )
        texts.append(" ".join(words))
        labels.append(label)
    if len(texts) != (known := _REVIEWS[task]):
        raise DataError(
            f"{path}: expected {known} reviews, found {len(texts)}; fetch the file again"
        )
    return _make_reviews(task, texts, labels)


@cache
def builtin_reviews(task: ReviewTask) -> Reviews:
    """Draw 60 texts from the grammar; all sentences of a text are of the same class."""
    kind, seed = BUILTIN_CLASSES[task]
    rows = draw_rows(kind, BUILTIN_REVIEWS * BUILTIN_SENTENCES, seed=seed)
    half = BUILTIN_REVIEWS // 2
    sentences = {label: iter([row.first for row in rows if row.label == label]) for label in (0, 1)}
    labels = [0, 1] * half
    texts = [" ".join(next(sentences[label]) for _ in range(BUILTIN_SENTENCES)) for label in labels]
    reviews = _make_reviews(task, texts, labels)
    refuse_other_draw(f"{task} reviews", reviews.sha256)
    return reviews


def _make_reviews(task: ReviewTask, texts: Sequence[str], labels: Sequence[int]) -> Reviews:
    array = np.array(labels, dtype=np.int64)
    array.flags.writeable = False
    lines = (f"{label}\t{text}" for label, text in zip(labels, texts, strict=True))
    return Reviews(task, tuple(texts), array, sha256_of(lines))


def missing_reviews(tasks: Iterable[ReviewTask], data: str | None = None) -> list[str]:
    """List what `load_reviews` would have to download from the hub, without loading anything."""
    if data_source(data) == "builtin":
        return []
    files = {task: REVIEW_FILES[task] for task in tasks}
    return [f"{task} ({file.repository})" for task, file in files.items() if not file.cached]
