"""Warnings about a corpus before a trial trains on it."""

import reprlib
from collections.abc import Iterator
from itertools import chain

from cse_methods.data.corpus import Corpus
from cse_methods.data.language.cutting import load_tokenizer
from cse_methods.encoders.backbones import explain_foreign, locate_backbone, resolve_backbone
from cse_methods.files.cells import NO_TEXTS

SAMPLED = 1000
"""Number of sentences whose word pieces are inspected, spread evenly over the corpus."""
MANY = 0.05
"""Share of unknown word pieces, or of repeated sentences, from which a warning is given."""
LONG = 10_000
"""Number of characters above which a line is unlikely to be a sentence."""


def corpus_doubts(corpus: Corpus, *, backbone: str) -> list[str]:
    """Describe what is allowed in a corpus but harms training, one sentence each; deterministic.

    Args:
        corpus: what `load_corpus` returned.
        backbone: the encoder that reads them. Its word pieces are not inspected if it would have
            to be fetched first.
    """
    if corpus.parts:
        return [text for part in corpus.parts for text in corpus_doubts(part, backbone=backbone)]
    doubts, name = list(corpus.notes), corpus.name
    if corpus.dropped:
        kept = corpus.dropped + len(corpus.sentences)
        are = "is" if corpus.dropped == 1 else "are"
        doubts.append(
            f"{corpus.dropped} of the {kept} lines of corpus {name} {are} empty, and dropped"
        )
    if nulls := sum(text in NO_TEXTS for text in corpus.sentences):
        doubts.append(
            f"{nulls} lines of corpus {name} are such as NULL or nan, read as text; remove them if "
            "they stand for no text"
        )
    if lost := sum("\ufffd" in text for text in corpus.sentences):
        doubts.append(
            f"{lost} lines of corpus {name} have U+FFFD for characters that a conversion lost; "
            "convert the original to UTF-8"
        )
    doubts += _describe_word_pieces(corpus, backbone)
    rows = list(zip(*corpus.columns, strict=True)) if corpus.columns else corpus.sentences
    number = len(rows) - len(set(rows))
    if number and number >= MANY * len(rows):
        what = "rows" if corpus.columns else "sentences"
        doubts.append(
            f"{_format_percent(number, len(rows))} of the {len(rows)} {what} of corpus {name} are "
            "duplicates, which are negatives of each other if they share a batch; keep one of "
            "each"
        )
    lengths = [len(text) for text in chain(*(corpus.columns or [corpus.sentences]))]
    if many := sum(length > LONG for length in lengths):
        are = "is" if many == 1 else "are"
        doubts.append(
            f"{many} of the {len(lengths)} sentences of corpus {name} {are} longer than {LONG} "
            f"characters, the longest has {max(lengths)}; write one sentence a line, or cut them "
            "by split_at"
        )
    return doubts


def _describe_word_pieces(corpus: Corpus, backbone: str) -> Iterator[str]:
    folder = locate_backbone(resolve_backbone(backbone))
    if folder is None or explain_foreign(folder):
        return
    columns = corpus.columns or (corpus.sentences,)
    # A whole book on one line would take as long as all other lines together.
    sentences = [
        text[:LONG]
        for column in columns
        for text in column[:: max(1, len(column) // SAMPLED)][:SAMPLED]
    ]
    tokenizer = load_tokenizer(backbone)
    rows = tokenizer(sentences, add_special_tokens=False, verbose=False)["input_ids"]
    pieces = sum(map(len, rows))
    unknown = sum(row.count(tokenizer.unk_token_id) for row in rows)
    if unknown >= MANY * pieces > 0:
        yield (
            f"{_format_percent(unknown, pieces)} of the word pieces of corpus {corpus.name} are "
            f"unknown to backbone {backbone}, which treats them all alike; use a backbone of "
            "the corpus's language"
        )
    if empty := [text for text, row in zip(sentences, rows, strict=True) if not row]:
        yield (
            f"{_format_percent(len(empty), len(rows))} of the sentences of corpus {corpus.name}, "
            f"such as {reprlib.repr(empty[0])}, have no word piece for backbone {backbone}; remove "
            "them"
        )


def _format_percent(part: int, whole: int) -> str:
    return f"{max(1, round(100 * part / whole))} %"
