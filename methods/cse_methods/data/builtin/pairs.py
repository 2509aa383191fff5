"""The built-in corpus and dev sets, generated from the grammar with fixed seeds, without files.

The dev sets consist of five kinds of pairs. `graded` pairs agree in none to all slots, mostly use
the same words, and have different sentence shapes. `near` pairs have the same shape and as many
words in common as possible, but differ in one to four slots. `far` pairs mean nearly the same, but
have no content word in common. In `traded` pairs the two people swap their parts, and in `opposed`
pairs the action is denied or reversed; both use the same words in both sentences.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Literal

from cse_methods.data.builtin.drawing import (
    change_event,
    draw_contrary_lexicon,
    draw_frame,
    draw_integer,
    draw_lexicon,
    draw_opposite,
    draw_scene,
    reword_lexicon,
)
from cse_methods.data.builtin.grammar import gold, sentence_of
from cse_methods.data.dev_selection import DevTask
from cse_methods.data.pairs import GradedPair, sha256_of_pairs
from cse_methods.errors import DataError
from cse_methods.files.text import read_own_table, sha256_of

PairKind = Literal["graded", "near", "far", "traded", "opposed"]

CORPUS_SENTENCES = 6000
CORPUS_SEED = 20
DEV_PAIR_SEEDS: dict[DevTask, int] = {"stsb": 21, "sickr": 22}
MIXES: dict[DevTask, dict[PairKind, int]] = {
    "stsb": {"graded": 330, "near": 40, "far": 10, "traded": 10, "opposed": 10},
    "sickr": {"graded": 200, "near": 25, "far": 5, "traded": 10, "opposed": 10},
}


@cache
def builtin_corpus() -> tuple[str, ...]:
    """Return 6000 different sentences in the styles of both dev sets, none of which is in a dev
    set.
    """
    rng = Random(CORPUS_SEED)
    dev = {sentence for task in MIXES for pair in builtin_pairs(task) for sentence in pair[:2]}
    sentences: dict[str, None] = {}
    while len(sentences) < CORPUS_SENTENCES:
        frame = draw_frame(rng, progressive=rng.random() < 0.5)
        sentence = sentence_of(draw_scene(rng), draw_lexicon(rng), frame)
        if sentence not in dev:
            sentences[sentence] = None
    refuse_other_draw("corpus", sha256_of(sentences))
    return tuple(sentences)


@cache
def builtin_pairs(task: DevTask) -> tuple[GradedPair, ...]:
    """Return 400 pairs in the simple present for stsb, 250 in the progressive for sickr.

    Gold scores are those of the grammar: 0 to 5 for stsb, rescaled to 1 to 5 for sickr.
    """
    pairs = draw_pairs(MIXES[task], like=task, seed=DEV_PAIR_SEEDS[task])
    refuse_other_draw(f"{task} pairs", sha256_of_pairs(pairs))
    return pairs


def draw_pairs(mix: Mapping[PairKind, int], *, like: DevTask, seed: int) -> tuple[GradedPair, ...]:
    """Draw different pairs of different sentences, kind by kind, as many of each kind as `mix`
    says.
    """
    rng = Random(seed)
    pairs: dict[tuple[str, str], GradedPair] = {}
    for kind, count in mix.items():
        wanted = len(pairs) + count
        while len(pairs) < wanted:
            pair = _draw_pair(rng, kind, like)
            if pair.first != pair.second:
                pairs[pair.first, pair.second] = pair
    return tuple(pairs.values())


def refuse_other_draw(what: str, found: str) -> None:
    """Raise a DataError if a built-in set has not the checksum that `checksums.csv` gives it."""
    expected = _read_checksums()[what]
    if found != expected:
        raise DataError(
            f"the sha256 of the built-in {what} is {found[:12]}, expected {expected[:12]}; the "
            "package is damaged or edited: install it again"
        )


@cache
def _read_checksums() -> dict[str, str]:
    rows = read_own_table(Path(__file__).with_name("checksums.csv"))
    return {row["set"]: row["sha256"] for row in rows}


def _draw_pair(rng: Random, kind: PairKind, task: DevTask) -> GradedPair:
    progressive = task == "sickr"
    event, words, frame = (
        draw_scene(rng),
        draw_lexicon(rng),
        draw_frame(rng, progressive=progressive),
    )
    other, other_words, other_frame = event, words, frame
    if kind == "graded":
        other = change_event(rng, event, slots=draw_integer(rng, 6))
        other_words = reword_lexicon(rng, words)
        other_frame = draw_frame(rng, progressive=progressive)
    elif kind == "near":
        other = change_event(rng, event, slots=1 + draw_integer(rng, 4))
    elif kind == "far":
        other = change_event(rng, event, slots=draw_integer(rng, 3))
        other_words = draw_contrary_lexicon(rng, words)
        other_frame = draw_frame(rng, progressive=progressive)
    elif kind == "traded":
        traded = replace(event, subject=event.role, role=event.subject)
        other = change_event(rng, traded, slots=draw_integer(rng, 2))
    else:
        other = change_event(rng, draw_opposite(rng, event), slots=draw_integer(rng, 2))
    score = gold(event, other)
    return GradedPair(
        sentence_of(event, words, frame),
        sentence_of(other, other_words, other_frame),
        1 + score * 4 / 5 if task == "sickr" else score,
    )
