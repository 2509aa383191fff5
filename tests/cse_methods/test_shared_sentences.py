"""Pairs are grouped by the sentences that they share; the table has the groups of the test sets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cse_methods.data.shared_sentences import group_by_sentence, known_groups, number_by_appearance
from cse_methods.evaluation.test_sets.pairs import load_pair_set
from cse_methods.tasks import STS_TASKS

PAIRS = st.lists(st.tuples(st.sampled_from("abcdefg"), st.sampled_from("abcdefg")), max_size=30)


def test_a_chain_of_sentences_is_one_group() -> None:
    # a links the first two pairs, and d the last with them; e and f stand in one pair alone.
    pairs = [("a", "c"), ("b", "a"), ("e", "f"), ("g", "g"), ("d", "b"), ("h", "d")]
    assert group_by_sentence(*zip(*pairs, strict=True)).tolist() == [0, 0, 1, 2, 0, 0]


@given(PAIRS)
def test_no_sentence_stands_in_two_groups_and_no_group_falls_apart(pairs) -> None:
    groups = group_by_sentence([a for a, _ in pairs], [b for _, b in pairs])
    merged: list[set[str]] = []  # sentences, pair by pair
    for pair in pairs:
        touched = [sentences for sentences in merged if sentences & set(pair)]
        merged = [sentences for sentences in merged if sentences not in touched]
        merged.append(set(pair).union(*touched))
    place = [next(i for i, sentences in enumerate(merged) if a in sentences) for a, _ in pairs]
    assert np.array_equal(groups, number_by_appearance(np.array(place, dtype=np.intp)))


@pytest.mark.parametrize("source", ["builtin", "senteval"])
def test_the_table_has_the_groups_of_the_test_sets(source, request) -> None:
    data = "builtin" if source == "builtin" else str(request.getfixturevalue("shared") / "data")
    for task in STS_TASKS:
        pairs = load_pair_set(task, data)
        groups = known_groups(pairs.gold)
        assert groups is not None
        assert np.array_equal(groups, group_by_sentence(pairs.first, pairs.second)), task
    assert known_groups(np.arange(120.0)) is None  # another gold is not known
