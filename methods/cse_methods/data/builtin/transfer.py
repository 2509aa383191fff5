"""Seven small labelled sets, generated from the grammar with fixed seeds, without files.

They are for offline tests and the quickstart only. Their classes depend on the event or on the
shape of the sentence, so scores on them say nothing about sentiment, questions or paraphrases.
"""

from collections.abc import Iterable, Set
from dataclasses import replace
from functools import cache
from random import Random
from typing import NamedTuple

from cse_methods.data.builtin.drawing import (
    change_event,
    draw_contrary_lexicon,
    draw_frame,
    draw_lexicon,
    draw_scene,
    pick,
)
from cse_methods.data.builtin.grammar import Frame, Scene, sentence_of
from cse_methods.data.builtin.pairs import refuse_other_draw
from cse_methods.data.builtin.vocabulary import OPENINGS
from cse_methods.files.text import sha256_of

PARTS = {"train": 120, "dev": 60}
"""Number of sentences in each part that training may see; folded tasks have `train` only."""
LABELLED_SEEDS = {"mr": 41, "cr": 42, "subj": 43, "mpqa": 44, "sst2": 45, "trec": 46, "mrpc": 47}
KIND, UNKIND = ("give", "promise", "show", "return"), ("steal", "refuse", "hide")
CLASSES = ("lend", "sell", "give", "steal", "show", "send")
"""The action of each class of trec."""


class LabelledSentence(NamedTuple):
    first: str
    second: str
    """Empty if there is only one sentence."""
    label: int


@cache
def builtin_rows(task: str, part: str) -> tuple[LabelledSentence, ...]:
    """Return a part that training may see; its classes are of equal size."""
    seen = {row.first for row in builtin_rows(task, "train")} if part == "dev" else frozenset()
    seed = LABELLED_SEEDS[task] + (100 if part == "dev" else 0)
    rows = draw_rows(task, PARTS[part], seed=seed, without=seen)
    refuse_other_draw(f"{task} {part}", sha256_of_rows(rows))
    return rows


def draw_rows(
    task: str, count: int, *, seed: int, without: Set[str] = frozenset()
) -> tuple[LabelledSentence, ...]:
    """Draw rows with different first sentences, none of them in `without`; the classes alternate.

    The class depends on the task: for mr on whether the event is denied, for cr on whether the
    action is kind, for subj on whether the sentence has no opening, for mpqa on whether the place
    is in front, for sst2 on whether the voice is active, for trec on which of six actions it is,
    for mrpc on whether two sentences without a common content word mean the same.
    """
    rng, classes = Random(seed), len(CLASSES) if task == "trec" else 2
    rows: dict[str, LabelledSentence] = {}
    while len(rows) < count:
        label = len(rows) % classes
        event, words = draw_scene(rng), draw_lexicon(rng)
        frame = draw_frame(rng, progressive=task == "mrpc")
        second = ""
        if task == "mrpc":
            other = event if label else change_event(rng, event, slots=2)
            second = sentence_of(other, draw_contrary_lexicon(rng, words), frame)
        else:
            event, frame = _fit_class(rng, task, event, frame, label)
        row = LabelledSentence(sentence_of(event, words, frame), second, label)
        if row.first not in without:
            rows.setdefault(row.first, row)
    return tuple(rows.values())


def sha256_of_rows(rows: Iterable[LabelledSentence]) -> str:
    return sha256_of(f"{row.first}\t{row.second}\t{row.label}" for row in rows)


def _fit_class(
    rng: Random, task: str, event: Scene, frame: Frame, label: int
) -> tuple[Scene, Frame]:
    """Change the event and the shape of its sentence so that they belong to this class."""
    if task == "mr":
        return replace(event, denied=not label), frame
    if task == "cr":
        return replace(event, action=pick(rng, KIND if label else UNKIND), denied=False), frame
    if task == "subj":
        return event, replace(frame, opening="" if label else pick(rng, OPENINGS))
    if task == "mpqa":
        return event, replace(frame, place_first=bool(label))
    if task == "sst2":
        return event, replace(frame, clause="active" if label else "passive")
    return replace(event, action=CLASSES[label]), frame
