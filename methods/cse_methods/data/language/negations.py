"""Soft negatives for SNCSE: each sentence negated by rules that keep its words."""

import logging
import re
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import IO

from cse_methods.data.corpus import Corpus, refuse_lacking
from cse_methods.data.language.lexicon_tagger import LexiconTagger
from cse_methods.data.language.tagging import SpacyTagger, Word
from cse_methods.errors import DataError
from cse_methods.files.cache import cache_folder, cache_key, written_once
from cse_methods.files.text import read_lines

_log = logging.getLogger(__name__)

Tagger = SpacyTagger | LexiconTagger
"""Tags English sentences; two taggers of the same identity give the same results."""

_CHUNK = 50_000
"""Number of sentences between two progress messages."""
_REVISION = 1
"""Increased when a change of the rules changes a negation."""

_SUPPORT = {"VBP": "do not", "VBZ": "does not", "VBD": "did not"}
_STEMS = {"ca": "can", "wo": "will", "sha": "shall", "ai": "is"}
_NOT = re.compile(
    r"\s+not(?![\w-])|(?<![\w-])not(?![\w-])\s*|(?<=\bcan)not\b"
    r"|(?:\b(?P<stem>ca|wo|sha|ai))?\s?n['’]t\b",
    re.IGNORECASE,
)


def negate(sentence: str, words: Sequence[Word]) -> str:
    """Negate a sentence, or affirm it if it is negated.

    The result is never empty, and never the sentence itself. The first rule that applies is used:
    1. The first "not" is dropped, also that of "cannot" and "n't".
    2. " not" is inserted after the first auxiliary if that is before the ROOT.
    3. " not" is inserted after the ROOT if it is a form of be or a modal.
    4. A ROOT in the present or past becomes "do not", "does not" or "did not" with its lemma.
    5. "Not " is put in front of the sentence.

    Source:
        Wang et al. 2022 (SNCSE), and its released code, where "n't" does not count as "not".
    """

    def restore_stem(match: re.Match[str]) -> str:
        part = match["stem"] or ""
        whole = _STEMS.get(part.lower(), "")
        return whole.capitalize() if part.istitle() else whole

    affirmed, count = _NOT.subn(restore_stem, sentence, count=1)
    if count and affirmed.strip():
        return affirmed.strip()
    auxiliary = next((word for word in words if word.role == "auxiliary"), None)
    root = next((word for word in words if word.role == "root"), None)
    if root is None:
        return f"Not {sentence}"
    if auxiliary is not None and auxiliary.start < root.start:
        return f"{sentence[: auxiliary.end]} not{sentence[auxiliary.end :]}"
    if root.lemma == "be" or root.tag == "MD":
        return f"{sentence[: root.end]} not{sentence[root.end :]}"
    if root.tag in _SUPPORT:
        support = _SUPPORT[root.tag]
        if sentence[root.start].isupper():
            support = support.capitalize()
        denied = f"{support} {root.lemma}"
        return f"{sentence[: root.start]}{denied}{sentence[root.end :]}"
    return f"Not {sentence}"


def read_negations(file: Path) -> dict[str, str]:
    """Read negations by sentence from lines of `sentence<TAB>negation`; white space around is
    dropped.

    DataError if the file cannot be read, a line is not such a pair, or a sentence has two different
    negations; the message names the first such line.
    """
    negations: dict[str, str] = {}
    for number, line in enumerate(read_lines(file), start=1):
        parts = [part.strip() for part in line.split("\t")]
        if len(parts) != 2 or not all(parts):
            raise DataError(
                f"{file}, line {number}: {line[:80]!r} is not a sentence and its negation; "
                "expected both, with one tab between them"
            )
        sentence, negation = parts
        if negations.setdefault(sentence, negation) != negation:
            raise DataError(
                f"{file}, line {number}: {sentence[:80]!r} has another negation on a line before; "
                "expected one line a sentence"
            )
    return negations


def negations_of(
    corpus: Corpus, *, file: str | Path | None, cache: Path | None = None
) -> list[str]:
    """Return the negation of every sentence of a corpus, in its order.

    With a file, the negations are read as by `read_negations`. Without one, they are computed once
    per machine: the first caller writes them to a file atomically, and the others wait for it. By
    default `cache` is the folder `negations` in CSE_CACHE, or in the user's cache.

    DataError if the file is invalid or lacks a sentence; or, without a file, if no tagger is
    installed or the negations cannot be stored.
    """
    if file is not None:
        negations = read_negations(Path(file))
        refuse_lacking(corpus, negations, Path(file), "leave the file out to negate by rules")
        return [negations[sentence] for sentence in corpus.sentences]
    tagger = find_tagger()
    parts = {"revision": _REVISION, "corpus": corpus.sha256, "tagger": tagger.identity}
    sentences = corpus.sentences

    def read_stored(stored: Path) -> list[str] | None:
        negations = read_lines(stored) if stored.is_file() else []
        return negations if len(negations) == len(sentences) else None

    def write(stream: IO[bytes]) -> None:
        tagged = tagger.read(sentences)
        for start in range(0, len(sentences), _CHUNK):
            _log.info("negations of %s: %d of %d sentences", corpus.name, start, len(sentences))
            for sentence, words in zip(sentences[start:], islice(tagged, _CHUNK), strict=False):
                stream.write(f"{negate(sentence, words)}\n".encode())

    file = (cache or cache_folder("negations")) / f"{cache_key(parts)}.txt"
    what = f"the negations of corpus {corpus.name}"
    return written_once(file, read=read_stored, write=write, what=what)


def find_tagger() -> Tagger:
    """Return spaCy's tagger if its English model is installed, else the lexicon's, else a
    DataError.
    """
    for kind in (SpacyTagger, LexiconTagger):
        if all(find_spec(package) for package in kind.needs):
            return kind()
    raise DataError(
        "negations need a tagger, and neither spaCy with en_core_web_sm nor textblob with "
        "lemminflect is installed; run pip install 'cse-platform[negation]', or set "
        "negations: FILE to a file of sentence<TAB>negation lines"
    )
