"""Splits sentences into phrases, and builds the phrase pairs that CompCSE adds for training."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

from cse_methods.data.corpus import Corpus, refuse_lacking
from cse_methods.errors import DataError
from cse_methods.files.text import read_lines, sha256_of

Subsampling = Literal["none", "adjacent", "overlapping", "subsuming"]
"""Which pairs of a sentence's phrases become training examples of their own."""

_SHORTEST = 3
"""Minimum number of words in a phrase."""
_MARKS = (",", ";", ":", "—", "–")
_CONJUNCTIONS = (
    "and but or nor so yet although though because since unless until while whereas if when where"
)
_RELATIVES = "who whom whose which that"
_PREPOSITIONS = (
    "about above across after against along among around as at before behind below between by "
    "despite during for from in inside into near on onto over through throughout under upon via "
    "with within without"
)
_OPENERS = frozenset(f"{_CONJUNCTIONS} {_RELATIVES} {_PREPOSITIONS}".split())


def split_clauses(sentence: str) -> tuple[str, ...]:
    """Split an English sentence into its phrases, in order, by rules of this module.

    A phrase ends after a comma, semicolon, colon or dash, and before a conjunction, a relative
    pronoun or a preposition, except `of` and `to`, which bind the words around them. Cuts are made
    from left to right, and only where both sides keep at least three words; a shorter sentence
    stays whole.

    Returns:
        Phrases that, joined by single spaces, are the sentence with normalised white space; none
        for a sentence without words.

    Source:
        Replaces the discourse parser of Chanchani and Huang 2023 (CompCSE), section 3, whose units
        are simple phrases and clauses.
    """
    words = sentence.split()
    starts = [0] if words else []
    for index in range(1, len(words)):
        wide = min(index - starts[-1], len(words) - index) >= _SHORTEST
        opens = words[index].lstrip("\"'“‘([").lower() in _OPENERS
        if wide and (words[index - 1].endswith(_MARKS) or opens):
            starts.append(index)
    ends = [*starts[1:], len(words)]
    return tuple(" ".join(words[a:b]) for a, b in zip(starts, ends, strict=False))


def read_phrases(file: Path) -> dict[str, tuple[str, ...]]:
    """Read phrases by sentence from a file; each line holds the phrases of a sentence between tabs.

    The sentence is its phrases joined by single spaces, with normalised white space.

    DataError if the file cannot be read, a phrase is empty, or a sentence is split in two different
    ways; the message names the first such line.
    """
    phrases: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(read_lines(file), start=1):
        parts = tuple(" ".join(part.split()) for part in line.split("\t"))
        if not all(parts):
            raise DataError(
                f"{file}, line {number}: an empty phrase in {line[:80]!r}; expected the phrases "
                "of one sentence, in order, with one tab between two of them"
            )
        sentence = " ".join(parts)
        if phrases.setdefault(sentence, parts) != parts:
            raise DataError(
                f"{file}, line {number}: {sentence[:80]!r} is cut otherwise on a line before; "
                "expected one line a sentence"
            )
    return phrases


def subsamples(phrases: Sequence[str], strategy: Subsampling) -> list[tuple[str, str]]:
    """Return pairs of neighbouring spans of a sentence; each pair (left, right) is a training
    example.

    Args:
        phrases: the phrases c_1 to c_c, in the order of the sentence.
        strategy: `none` gives no pairs; `adjacent` gives pairs that share no phrase, (c_1, c_2),
            (c_3, c_4), …, and leaves an odd last phrase out; `overlapping` gives all neighbours,
            (c_1, c_2), (c_2, c_3), …; `subsuming` gives both halves of the list (the left one is
            the longer one), then the pairs of the left half, then those of the right half, down to
            single phrases.

    Returns:
        c // 2 pairs for `adjacent`, c - 1 for the other two; no pair if c < 2.

    Source:
        Chanchani and Huang 2023 (CompCSE), section 3 and figure 1a. The text does not say that
        pairs are neighbours, nor how odd numbers are treated.
    """
    if strategy == "adjacent":
        return list(zip(phrases[::2], phrases[1::2], strict=False))
    if strategy == "overlapping":
        return list(pairwise(phrases))
    if strategy == "none" or len(phrases) < 2:
        return []
    middle = (len(phrases) + 1) // 2
    left, right = phrases[:middle], phrases[middle:]
    halves = " ".join(left), " ".join(right)
    return [halves, *subsamples(left, strategy), *subsamples(right, strategy)]


def composition_examples(
    corpus: Corpus, strategy: Subsampling, phrases: Path | None
) -> tuple[Corpus, list[tuple[str, ...]]]:
    """Expand a corpus by the subsamples of its sentences.

    Phrases are read from a file as by `read_phrases`; without one, `split_clauses` finds them.

    Returns:
        The anchors as a corpus of the same name, and for each anchor the parts whose composition
        is its positive: (sentence,) for a sentence, which is still to be partitioned, and
        (left, right) for a subsample, whose anchor is `left right`.
    """
    if strategy == "none":
        return corpus, [(sentence,) for sentence in corpus.sentences]
    known = None if phrases is None else read_phrases(phrases)
    normal = {sentence: " ".join(sentence.split()) for sentence in corpus.sentences}
    if phrases is not None and known is not None:
        covered = [sentence for sentence in corpus.sentences if normal[sentence] in known]
        refuse_lacking(corpus, covered, phrases, "leave the file out to cut by rules")
    examples: list[tuple[str, ...]] = []
    for sentence in corpus.sentences:
        own = split_clauses(sentence) if known is None else known[normal[sentence]]
        examples += [(sentence,), *subsamples(own, strategy)]
    anchors = [" ".join(parts) for parts in examples]
    return Corpus(corpus.name, anchors, sha256_of(anchors)), examples
