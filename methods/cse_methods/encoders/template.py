"""Row templates: the word pieces around a sentence in a row that a model reads."""

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from cse_methods.errors import BackboneError

SENTENCE, MASK = "{}", "[MASK]"
"""In a prompt: where the sentence goes, and the piece whose vector stands for it."""
STOPPED_SENTENCE = "{.}"
"""In the place of `{}`: a stop that ends the sentence stands at its last word, as in PromptBERT."""
_ANY_SENTENCE = re.compile(r"\{\.?\}")


SPECIAL_PIECES = 2
"""[CLS] and [SEP], or what a tokenizer has for them."""


class Stop(NamedTuple):
    """What ends a sentence in a prompt that has no final mark of its own."""

    added: str
    marks: str
    """The final marks after which nothing is added."""


SPACED_STOP, JOINED_STOP = Stop(" .", string.punctuation), Stop(".", ".?\"'")
"""As SNCSE has it, and as PromptBERT has it at test time."""


@dataclass(frozen=True)
class Template:
    """The word pieces before and after those of a sentence, special ones included."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    prompted: bool = False
    """Whether words stand around the sentence, which then begins a word."""
    stop: Stop | None = None
    """What ends a sentence without a final mark; None leaves it as it is."""

    def __call__(self, content: Sequence[int]) -> list[int]:
        """The row of one sentence's word pieces."""
        return [*self.before, *content, *self.after]

    def __len__(self) -> int:
        return len(self.before) + len(self.after)

    def text(self, sentence: str) -> str:
        """The sentence as it is cut into word pieces.

        In a prompt a space stands before it, by which byte-level tokenizers know that a word
        begins.
        """
        stop = self.stop
        if stop and sentence and sentence[-1] not in stop.marks:
            sentence += stop.added
        return f" {sentence}" if self.prompted else sentence


def plain_template(tokenizer: Any) -> Template:
    return Template((tokenizer.cls_token_id,), (tokenizer.sep_token_id,))


def prompt_problem(prompt: str) -> str | None:
    """Why these words are no prompt; None if they are one."""
    before, *after = _ANY_SENTENCE.split(prompt)
    if len(after) == 1 and MASK not in before and after[0].count(MASK) == 1:
        return None
    return f"prompt {prompt!r}: expected {SENTENCE} for the sentence and after it {MASK}, each once"


def prompt_template(prompt: str, tokenizer: Any) -> Template:
    """The words of a prompt, with the tokenizer's own special pieces.

    The prompt holds `{}`, or `{.}`, for the sentence and, after it, `[MASK]`, each once.

    Raises:
        BackboneError: if the prompt lacks one of them, or the tokenizer has no mask.
    """
    if problem := prompt_problem(prompt):
        raise BackboneError(problem)
    if tokenizer.mask_token_id is None:
        raise BackboneError(f"prompt {prompt!r}: the tokenizer has no mask to pool at")

    def pieces(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    plain = plain_template(tokenizer)
    before, after = _ANY_SENTENCE.split(prompt)
    words = after.replace(MASK, tokenizer.mask_token)
    return Template(
        (*plain.before, *pieces(before.rstrip())),
        (*pieces(words), *plain.after),
        prompted=True,
        stop=JOINED_STOP if STOPPED_SENTENCE in prompt else SPACED_STOP,
    )
