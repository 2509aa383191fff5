"""Which dev sentences are shown where nobody names any."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cse_dashboards.encoded import Case, case_of, differing_pairs, some_of, spread_by_gold
from cse_methods.data.pairs import PairSet

HUB = [("hub", f"t{n}", float(n)) for n in range(5)]
"""A sentence in five pairs."""


def dev_of(*pairs: tuple[str, str, float]) -> PairSet:
    first, second, gold = zip(*pairs, strict=True)
    return PairSet("stsb", "builtin", first, second, np.array(gold), "", {})


def test_the_sentence_in_most_pairs_is_the_query() -> None:
    others = [("a", "b", 5.0), *(("less", f"u{n}", 1.0) for n in range(4))]
    assert case_of(dev_of(*others, *HUB)) == Case(
        "hub", tuple(("hub", f"t{n}") for n in (4, 3, 2, 1, 0)), (4, 3, 2, 1, 0)
    )


def test_a_named_query_is_found_on_either_side_and_a_target_counts_once() -> None:
    dev = dev_of(("q", "a", 1.0), ("b", "q", 3.0), ("q", "c", 2.0), ("a", "q", 5.0), ("q", "q", 5))
    assert case_of(dev, "  q ") == Case("q", (("q", "b"), ("q", "c"), ("q", "a")), (3, 2, 1))
    assert case_of(dev_of(*HUB), "t1") is None  # too few targets
    assert case_of(dev_of(*HUB), "nobody's") is None


def test_of_many_targets_eight_are_shown() -> None:
    case = case_of(dev_of(*(("hub", f"t{n}", n / 4) for n in range(20))))
    assert case is not None
    assert len(case.pairs) == 8 and (case.gold[0], case.gold[-1]) == (4.75, 0)


def test_without_any_query_pairs_are_ranked() -> None:
    case = case_of(dev_of(*((f"a{n}", f"b{n}", float(n)) for n in range(11))))
    assert case is not None and case.query is None
    assert case.gold == (10, 8, 6, 4, 2, 0)
    assert case.pairs[0] == ("a10", "b10")


def test_of_pairs_alike_in_gold_the_shortest_is_taken() -> None:
    dev = dev_of(("a long one", "b", 5.0), ("short", "b", 5.0), ("c", "d", 0.0))
    assert spread_by_gold(dev, range(3), 2) == [1, 2]


@settings(max_examples=50, deadline=None)
@given(gold=st.lists(st.floats(0, 5), min_size=1, max_size=30), count=st.integers(1, 10))
def test_a_spread_falls_from_the_highest_gold(gold: list[float], count: int) -> None:
    dev = dev_of(*((f"a{n}", f"b{n}", value) for n, value in enumerate(gold)))
    found = [gold[place] for place in spread_by_gold(dev, range(len(gold)), count)]
    assert len(found) == min(count, len(gold))
    assert found == sorted(found, reverse=True) and found[0] == max(gold)
    assert count == 1 or found[-1] == min(gold)


def test_some_are_taken_at_even_distances() -> None:
    assert some_of("abcdefgh", 4) == ["a", "c", "e", "g"]
    assert some_of("abc", 4) == ["a", "b", "c"]


def test_a_pair_that_differs_in_marks_alone_tells_nothing() -> None:
    assert differing_pairs(dev_of(("A dog .", "a dog", 5.0), ("a dog", "dog a", 4.0))) == [1]
