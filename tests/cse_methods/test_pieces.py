from hypothesis import given
from hypothesis import strategies as st

from cse_methods.encoders.template import SPACED_STOP, Template
from cse_methods.encoders.word_pieces import (
    RepetitionBounds,
    batched_by_length,
    cut_parts,
    cut_segments,
    most_repeats,
)


def test_the_most_repetitions_follow_the_bounds() -> None:
    table: list[tuple[RepetitionBounds, float, dict[int, int]]] = [
        ("released", 0.32, {2: 0, 3: 0, 6: 0, 7: 1, 32: 9, 64: 9}),
        ("paper", 0.32, {2: 0, 3: 1, 4: 2, 8: 2, 12: 3, 32: 10, 64: 20}),
        ("paper", 1.0, {5: 3, 32: 30}),
    ]
    for bounds, rate, by_length in table:
        found = {length: most_repeats(length, rate=rate, bounds=bounds) for length in by_length}
        assert found == by_length


def test_parts_differ_by_at_most_one_piece() -> None:
    assert cut_parts([1, 2, 3, 4, 5], 2) == [[1, 2, 3], [4, 5]]
    assert cut_parts([1, 2, 3, 4, 5], 3) == [[1, 2], [3, 4], [5]]
    assert cut_parts([1], 2) == [[1], [1]]
    assert cut_segments([], 4) == [[]]


@given(st.lists(st.integers(1, 40), max_size=30), st.integers(1, 60))
def test_every_row_is_in_one_batch_of_bounded_size(lengths: list[int], at_once: int) -> None:
    batches = list(batched_by_length(lengths, at_once=at_once))
    places = [place for batch in batches for place in batch]
    assert sorted(places) == list(range(len(lengths)))
    assert [lengths[place] for place in places] == sorted(lengths)
    for batch in batches:
        longest = max(lengths[place] for place in batch)
        assert len(batch) == 1 or longest * len(batch) <= at_once


def test_in_a_prompt_a_sentence_ends_and_begins_a_word() -> None:
    table: list[tuple[str, str]] = [
        ("Rain falls", " Rain falls ."),
        ("Rain falls.", " Rain falls."),
        ('"Rain"', ' "Rain"'),
        ("雨。", " 雨。 ."),  # the code's marks are those of ASCII
        ("", " "),
    ]
    for sentence, text in table:
        assert Template((), (), prompted=True, stop=SPACED_STOP).text(sentence) == text
        assert Template((), ()).text(sentence) == sentence
