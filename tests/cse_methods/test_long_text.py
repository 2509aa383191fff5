from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from cse_methods.data.source import HubFile
from cse_methods.errors import DataError
from cse_methods.evaluation.test_sets.reviews import REVIEW_FILES, load_reviews, missing_reviews

Place = Callable[[HubFile], Path]


def keep(place: Place, **columns: list[Any]) -> None:
    parquet.write_table(pa.table(columns), place(REVIEW_FILES["imdb"]))


def test_reviews_of_the_hub_are_read_and_counted(kept_from_hub: Place) -> None:
    texts = ["Fine.\n <br />Really."] * 25_000
    keep(kept_from_hub, text=texts, label=[0, 1] * 12_500)
    reviews = load_reviews("imdb")
    assert (reviews.task, len(reviews.texts), reviews.labels.dtype) == ("imdb", 25_000, np.int64)
    assert (reviews.texts[0], list(reviews.labels[:3])) == ("Fine. <br />Really.", [0, 1, 0])
    assert missing_reviews(["yelp", "imdb"]) == ["yelp (fancyzhx/yelp_polarity)"]
    with pytest.raises(ValueError, match="read-only"):
        reviews.labels[0] = 1
    keep(kept_from_hub, text=texts, label=[1, 0] * 12_500)
    assert load_reviews("imdb").sha256 != reviews.sha256  # labels tell sets apart


def test_malformed_reviews_are_refused(kept_from_hub: Place) -> None:
    kept_from_hub(REVIEW_FILES["imdb"])
    assert missing_reviews(["imdb"]) == ["imdb (stanfordnlp/imdb)"]
    with pytest.raises(DataError, match=r"cannot fetch .* of stanfordnlp/imdb from the hub"):
        load_reviews("imdb")
    no_row = r"0000\.parquet, row 2: expected a text and the label 0 or 1, found label {} and"
    table: list[tuple[dict[str, list[Any]], str]] = [
        *(
            ({"text": ["Fine.", text], "label": [1, label]}, no_row.format(label))
            for text, label in (("Fine.", 2), ("Fine.", None), (" ", 1), (None, 0))
        ),
        ({"text": ["Fine."], "label": [1]}, "expected 25000 reviews, found 1; fetch"),
        ({"review": ["Fine."], "label": [1]}, "no column text, only review, label; fetch"),
    ]
    for columns, match in table:
        keep(kept_from_hub, **columns)
        with pytest.raises(DataError, match=match):
            load_reviews("imdb")
