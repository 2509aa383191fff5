"""An evaluation goes through the journal and comes back to the last bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cse_methods.evaluation.results import Evaluation, Score, Similarities
from cse_platform.tracking import events
from cse_platform.tracking.journal import Journal
from cse_platform.tracking.packing import (
    compressed,
    evaluation_event,
    pack,
    unpack_cosines,
    unpack_gold,
)

COSINES = np.array([0.1, -1.0, 1.0], dtype=np.float32)
GOLD = np.array([0.2, 3.6, 5.0])


def similarities(**changes: object) -> Similarities:
    given = {"task": "sts12", "split": "test", "identity": "e1", "cosines": COSINES, "gold": GOLD}
    subsets = {"MSRvid": 2, "MSRpar": 1}
    return Similarities(**(given | {"subsets": subsets, "data_sha256": "d1"} | changes))  # type: ignore[arg-type]


@settings(max_examples=20)
@given(
    arrays(np.float32, st.integers(0, 50), elements=st.floats(-1, 1, width=32)),
    arrays(np.float64, st.integers(0, 50), elements=st.floats(0, 5)),
)
def test_cosines_and_gold_come_back_to_the_last_bit_from_any_byte_order(cosines, gold) -> None:
    found = unpack_cosines(compressed(pack(cosines)))
    assert found.dtype == np.float32
    assert np.array_equal(found, cosines)
    for order in "<>":
        found = unpack_gold(compressed(pack(gold.astype(f"{order}f8"))))
        assert found.dtype == np.float64
        assert np.array_equal(found, gold)


def test_an_evaluation_survives_the_journal(tmp_path) -> None:
    evaluation = Evaluation(
        tasks=frozenset({"sts12", "geometry"}),
        scores=(
            Score("sts12", "test", "spearman", 0.1 + 0.2, "e1"),
            Score("stsb", "dev", "uniformity", float("nan"), "e2"),
        ),
        similarities=(similarities(),),
        identities={"e1": {"pooler": "cls", "lengths": [128]}},
        seconds={"encoding": 1.5},
    )
    event = evaluation_event(sweep="s", trial="t", evaluation=evaluation, source="hub")
    opened = events.TestAccessed(
        sweep="s", trial="t", tasks=("sts12",), source="hub", who="ann", command="cse-evaluate"
    )
    with Journal(tmp_path / "journal.jsonl") as journal:
        for one in (opened, event):
            journal.append(one)
        told, back = (one for _, one in journal.read())
    assert told == opened
    assert isinstance(back, events.TrialEvaluated)
    assert back.tasks == ("geometry", "sts12")
    assert repr(back.scores) == repr(event.scores)  # a NaN does not equal itself
    assert back.model_copy(update={"scores": event.scores}) == event
    assert back.scores[0].value == 0.30000000000000004
    [pairs] = back.similarities
    assert np.array_equal(unpack_cosines(compressed(pairs.cosines)), COSINES)
    assert np.array_equal(unpack_gold(compressed(pairs.gold)), GOLD)
    assert list(pairs.subsets.items()) == [("MSRvid", 2), ("MSRpar", 1)]


def test_counts_that_differ_are_refused() -> None:
    refused: list[tuple[dict[str, object], str]] = [
        ({"cosines": COSINES[:2]}, "2, 3, 3"),
        ({"gold": GOLD[:1]}, "3, 1, 3"),
        ({"subsets": {"MSRvid": 2}}, "3, 3, 2"),
    ]
    for changes, counts in refused:
        pairs = (similarities(**changes),)
        evaluation = Evaluation(tasks=frozenset(), scores=(), similarities=pairs)
        with pytest.raises(ValueError, match=rf"^sts12: .* must be as many, got {counts}$"):
            evaluation_event(sweep="s", trial="t", evaluation=evaluation, source="hub")
