"""A tagger without a model: tags by a lexicon and context rules, roles by rules on the tags."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.metadata import version

from cse_methods.data.language.tagging import Word, WordRole

_REVISION = 1
"""Increased when a change of the rules below changes the result."""

_WORD = re.compile(r"'(?:s|m|re|ve|ll|d)\b|\w+(?:[-.,]\w+)*|\S")
_CLITICS = {"'m": "VBP", "'re": "VBP", "'ve": "VBP", "'ll": "MD", "'d": "MD"}
_IS = ("he", "she", "it", "that", "this", "there", "here", "who", "what", "where")
"""Words before which 's is a verb; elsewhere it is the genitive."""
_SUBJECTS = ("i", "he", "she", "it", "we", "they")
_BE = frozenset(["am", "is", "are", "was", "were", "be", "been", "being", "'m", "'re"])
_HAVE = frozenset(["have", "has", "had", "having", "'ve"])
_DO = frozenset(["do", "does", "did"])
_SUBORDINATORS = frozenset(
    ["although", "because", "if", "though", "unless", "whereas", "whether", "while"]
)

_FINITE = ("MD", "VBZ", "VBP", "VBD")
_NOMINAL = ("NN", "NNS", "NNP", "NNPS", "PRP", "EX", "CD")
_WH = ("WP", "WP$", "WDT", "WRB")
_OBJECT = ("DT", "PRP", "PRP$", "CD")


class LexiconTagger:
    """Tags by TextBlob's lexicon and rules, lemmas by LemmInflect, roles by this module's rules.

    The ROOT is taken to be the first finite verb that does not belong to a relative pronoun or a
    subordinating conjunction. An auxiliary is a form of be, have or do, or a modal, that is
    followed by a verb. No other roles are assigned. Without a parse, a sentence of several clauses
    can be negated in another place than a parser would choose.
    """

    needs = ("textblob", "lemminflect")

    @property
    def identity(self) -> str:
        versions = ", ".join(f"{name} {version(name)}" for name in self.needs)
        return f"{versions}, rules {_REVISION}"

    def read(self, sentences: Iterable[str]) -> Iterator[list[Word]]:
        from textblob.en import parser

        for sentence in sentences:
            spans = [match.span() for match in _WORD.finditer(sentence.replace("’", "'"))]
            words = [sentence[a:b].replace("’", "'") for a, b in spans]
            tags = _correct_tags(words, [tag for _, tag in parser.find_tags(words)])
            roles = _find_roles(words, tags)
            yield [
                Word(a, b, tag, _find_lemma(word, tag) if role == "root" else word.lower(), role)
                for (a, b), word, tag, role in zip(spans, words, tags, roles, strict=True)
            ]


def _correct_tags(words: Sequence[str], tags: Sequence[str]) -> list[str]:
    """Correct the lexicon's most frequent errors about verbs."""
    mended = list(tags)
    for index, word in enumerate(words):
        # The word before, adverbs skipped.
        earlier = (words[i].lower() for i in range(index - 1, -1, -1) if mended[i] != "RB")
        before = next(earlier, "")
        after = tags[index + 1] if index + 1 < len(tags) else ""
        mended[index] = _correct_tag(word.lower(), mended, index, before=before, after=after)
    return mended if any(tag in _FINITE for tag in mended) else _tag_past_tense(words, mended)


def _tag_past_tense(words: Sequence[str], tags: list[str]) -> list[str]:
    """Tag the first participle after a noun as a past tense, if the sentence has no finite verb."""
    before = ""
    for index, tag in enumerate(tags):
        passive = words[index + 1 : index + 2] == ["by"]
        if tag == "VBN" and before in _NOMINAL and not passive:
            return [*tags[:index], "VBD", *tags[index + 1 :]]
        if tag != "RB":
            before = tag
    return tags


def _correct_tag(word: str, tags: Sequence[str], index: int, *, before: str, after: str) -> str:
    tag = tags[index]
    helped = before in _BE | _HAVE | _DO
    if word in _CLITICS:
        return _CLITICS[word]
    if word == "'s" and before in _IS:
        return "VBZ"
    # In "he served" and "the club won the cup", the neighbours rule out a participle.
    if tag == "VBN" and not helped and (before in _SUBJECTS or after in _OBJECT):
        return "VBD"
    if before in _SUBJECTS and tag in ("NN", "NNS", "VB") and _find_lemmas(word):
        return "VBZ" if tag == "NNS" else "VBP"
    previous = tags[index - 1] if index else ""
    if tag == "VB" and previous in ("NNS", "NNPS"):
        return "VBP"
    # As in "the primary covers", no verb follows an article, a possessive or an adjective.
    governed = before in ("a", "an", "the") or previous in ("PRP$", "JJ", "POS")
    if tag in ("VBZ", "VBP") and governed and word not in _BE | _HAVE | _DO:
        return "NNS" if tag == "VBZ" else "NN"
    return tag


def _find_roles(words: Sequence[str], tags: Sequence[str]) -> list[WordRole]:
    roles: list[WordRole] = ["other"] * len(words)
    verb = _find_main_verb(words, tags)
    if verb is None:
        return roles
    helps = tags[verb] == "MD" or words[verb].lower() in _BE | _HAVE | _DO | {"'s"}
    following = next((i for i in range(verb + 1, len(words)) if tags[i] != "RB"), None)
    if helps and following is not None and tags[following].startswith("VB"):
        roles[verb], verb = "auxiliary", following
    roles[verb] = "root"
    return roles


def _find_main_verb(words: Sequence[str], tags: Sequence[str]) -> int | None:
    """Return the position of the sentence's main verb; None if there is none."""
    finite = [index for index, tag in enumerate(tags) if tag in _FINITE]
    claims = 0
    for index, word in enumerate(words):
        if word == ",":
            claims = 0
        elif (
            word.lower() in _SUBORDINATORS
            or tags[index] in _WH
            or (word.lower() == "that" and index > 0 and tags[index - 1] in _NOMINAL)
        ):
            claims += 1
        elif index in finite:
            if not claims:
                return index
            claims -= 1
    return finite[0] if finite else None


@lru_cache(maxsize=100_000)
def _find_lemmas(word: str) -> tuple[str, ...]:
    """Return the lemmas of a word as a verb; empty if the dictionary does not have it as one."""
    from lemminflect import getLemma

    lemmas: tuple[str, ...] = getLemma(word, "VERB", lemmatize_oov=False)
    return lemmas


@lru_cache(maxsize=100_000)
def _find_lemma(word: str, tag: str) -> str:
    from lemminflect import getInflection, getLemma

    form = word.lower()
    if form in (*_BE, "'s"):
        return "be"
    lemmas = _find_lemmas(form) or getLemma(form, "VERB") or (form,)
    # "found" is a form of both "find" and "found", but a past tense of "find" only.
    return next((one for one in lemmas if form in getInflection(one, tag)), lemmas[0])
