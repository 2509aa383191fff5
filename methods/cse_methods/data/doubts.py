"""Warnings about a corpus before a trial trains on it."""

from collections.abc import Iterator, Sequence
from itertools import chain

from cse_methods.data.corpora import Corpus
from cse_methods.data.language.cutting import load_tokenizer
from cse_methods.encoders.backbones import locate_backbone, resolve_backbone
from cse_methods.encoders.static_files import is_static

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
    return [
        *corpus.notes,
        *_dropped(corpus),
        *_unread(corpus, backbone),
        *_repeated(corpus),
        *_long(corpus),
    ]


def _dropped(corpus: Corpus) -> Iterator[str]:
    if corpus.dropped:
        kept = corpus.dropped + len(corpus.sentences)
        are = "is" if corpus.dropped == 1 else "are"
        yield (
            f"{corpus.dropped} of the {kept} lines of corpus {corpus.name} {are} empty, and dropped"
        )


def _unread(corpus: Corpus, backbone: str) -> Iterator[str]:
    folder = locate_backbone(resolve_backbone(backbone))
    if folder is None or is_static(folder):
        return
    columns = corpus.columns or (corpus.sentences,)
    sentences = [text for column in columns for text in _spread(column)]
    tokenizer = load_tokenizer(backbone)
    rows = tokenizer(sentences, add_special_tokens=False, verbose=False)["input_ids"]
    pieces = sum(map(len, rows))
    unknown = sum(row.count(tokenizer.unk_token_id) for row in rows)
    if unknown >= MANY * pieces > 0:
        yield (
            f"{_percent(unknown, pieces)} of the word pieces of corpus {corpus.name} are "
            f"unknown to backbone {backbone}, which treats them all alike; use a backbone of "
            "the corpus's language"
        )
    if empty := [text for text, row in zip(sentences, rows, strict=True) if not row]:
        yield (
            f"{_percent(len(empty), len(rows))} of the sentences of corpus {corpus.name}, such as "
            f"{_short(empty[0])}, have no word piece for backbone {backbone}; remove them"
        )


def _repeated(corpus: Corpus) -> Iterator[str]:
    rows = list(zip(*corpus.columns, strict=True)) if corpus.columns else corpus.sentences
    number = len(rows) - len(set(rows))
    if number and number >= MANY * len(rows):
        what = "rows" if corpus.columns else "sentences"
        yield (
            f"{_percent(number, len(rows))} of the {len(rows)} {what} of corpus {corpus.name} "
            "are duplicates, which are negatives of each other if they share a batch; keep one "
            "of each"
        )


def _long(corpus: Corpus) -> Iterator[str]:
    lengths = [len(text) for text in chain(*(corpus.columns or [corpus.sentences]))]
    if many := sum(length > LONG for length in lengths):
        are = "is" if many == 1 else "are"
        yield (
            f"{many} of the {len(lengths)} sentences of corpus {corpus.name} {are} longer than "
            f"{LONG} characters, the longest has {max(lengths)}; write one sentence a line, or cut "
            "them by split_at"
        )


def _spread(sentences: Sequence[str]) -> list[str]:
    step = max(1, len(sentences) // SAMPLED)
    # A whole book on one line would take as long as all other lines together.
    return [text[:LONG] for text in sentences[::step][:SAMPLED]]


def _percent(part: int, whole: int) -> str:
    return f"{max(1, round(100 * part / whole))} %"


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:39]}…")
