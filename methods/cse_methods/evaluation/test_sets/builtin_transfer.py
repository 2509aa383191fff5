"""The test parts of the built-in labelled sets: for offline tests and the quickstart only."""

from functools import cache

from cse_methods.data.builtin.pairs import refuse_other_draw
from cse_methods.data.builtin.transfer import (
    LABELLED_SEEDS,
    PARTS,
    LabelledSentence,
    builtin_rows,
    draw_rows,
    sha256_of_rows,
)

TEST_ROWS = 60
TEST_LABELLED_SHA256 = {
    "sst2": "4d015f52040489bb2e319edfb72655e64b0a6dba7891a5a7f96ca82457714f1e",
    "trec": "ec73eeaf89e10b2bc51010a1344aa0da2f72a000116bdb90c1a37aa827c1806a",
    "mrpc": "3cea5bc3a47f7e20ab012cd31d776843531a58a694e2bebeb533feeb3f933571",
}


@cache
def builtin_test_rows(task: str) -> tuple[LabelledSentence, ...]:
    """60 sentences or pairs of sst2, trec or mrpc; none stands in a part that training may see."""
    parts = PARTS if task == "sst2" else ["train"]
    seen = {row.first for part in parts for row in builtin_rows(task, part)}
    rows = draw_rows(task, TEST_ROWS, seed=LABELLED_SEEDS[task] + 200, without=seen)
    refuse_other_draw(f"{task} test", sha256_of_rows(rows), TEST_LABELLED_SHA256[task])
    return rows
