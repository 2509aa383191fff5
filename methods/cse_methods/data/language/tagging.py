"""What negation needs of a parser: tags, lemmas and two dependency roles of a sentence's words."""

from collections.abc import Iterable, Iterator
from importlib.metadata import version
from typing import Any, Literal, NamedTuple

WordRole = Literal["auxiliary", "root", "other"]

_ROLES: dict[str, WordRole] = {"aux": "auxiliary", "auxpass": "auxiliary", "ROOT": "root"}
_MODEL = "en_core_web_sm"


class Word(NamedTuple):
    """One word of a sentence; the parts of a contraction are words of their own ("he" and "'s")."""

    start: int
    """Index of its first character in the sentence."""
    end: int
    """Index after its last character."""
    tag: str
    """Part of speech, as in the Penn Treebank, e.g. "VBZ"."""
    lemma: str
    role: WordRole


class SpacyTagger:
    """spaCy with its small English model, which is not distributed through the package registry."""

    needs = ("spacy", _MODEL)

    @property
    def identity(self) -> str:
        return f"spacy {version('spacy')}, {_MODEL} {version(_MODEL)}"

    def read(self, sentences: Iterable[str]) -> Iterator[list[Word]]:
        import spacy

        pipeline = spacy.load(_MODEL, exclude=["ner"])
        return map(words_of, pipeline.pipe(sentences, batch_size=256))


def words_of(document: Any) -> list[Word]:
    return [
        Word(
            token.idx,
            token.idx + len(token),
            token.tag_,
            token.lemma_,
            _ROLES.get(token.dep_, "other"),
        )
        for token in document
    ]
