from dataclasses import replace

from cse_methods.data.builtin.grammar import Scene, gold
from cse_methods.data.builtin.pairs import builtin_corpus, builtin_pairs
from cse_methods.data.dev_selection import DevTask

TASKS: tuple[DevTask, ...] = ("stsb", "sickr")
LOAN = Scene("doctor", "lend", "book", "pilot", "in the garden")


def test_gold_scores_count_agreeing_slots() -> None:
    table: list[tuple[Scene, float]] = [
        (LOAN, 5),
        (replace(LOAN, place="on the ship"), 4),
        (replace(LOAN, action="sell"), 4),
        (replace(LOAN, subject="pilot", role="doctor"), 3),
        (replace(LOAN, denied=True), 2),
        (replace(LOAN, denied=True, object="car"), 1.5),
        (replace(LOAN, action="sell", denied=True), 4),
        (Scene("king", "hide", "car", "cook", "on the ship"), 0),
    ]
    for other, expected in table:
        assert gold(LOAN, other) == expected


def test_corpus_and_dev_sets_share_no_sentence_and_are_drawn_alike() -> None:
    corpus = builtin_corpus()
    assert len(set(corpus)) == len(corpus) == 6000
    stsb, sickr = (
        {sentence for pair in builtin_pairs(task) for sentence in pair[:2]} for task in TASKS
    )
    assert not stsb & sickr
    assert not (stsb | sickr) & set(corpus)
    assert builtin_corpus.__wrapped__() == builtin_corpus()
    assert builtin_pairs.__wrapped__("stsb") == builtin_pairs("stsb")
