"""Row templates: the word pieces that surround a sentence in a model's input row."""

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from cse_methods.errors import BackboneError, UnknownModelError

SENTENCE, MASK = "{}", "[MASK]"
"""In a prompt: the place of the sentence, and the piece at which its vector is read, which of
several is the last."""
STOPPED_SENTENCE = "{.}"
"""Used instead of `{}` if the full stop that is added has no space before it, as in PromptBERT."""
_ANY_SENTENCE = re.compile(r"\{\.?\}")


SPECIAL_PIECES = 2
"""[CLS] and [SEP], or the tokenizer's equivalents."""


class Stop(NamedTuple):
    """What is added to a sentence in a prompt if it has no final punctuation."""

    added: str
    marks: str
    """The final characters after which nothing is added."""


SPACED_STOP, JOINED_STOP = Stop(" .", string.punctuation), Stop(".", ".?\"'")
"""The stops of SNCSE, and of PromptBERT at test time."""


@dataclass(frozen=True)
class Template:
    """The word pieces before and after a sentence's, special ones included."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    prompted: bool = False
    """Whether words surround the sentence, which then starts a new word."""
    stop: Stop | None = None
    """What is added to a sentence without final punctuation; None adds nothing."""

    def __call__(self, content: Sequence[int]) -> list[int]:
        """Make the row of one sentence's word pieces."""
        return [*self.before, *content, *self.after]

    def __len__(self) -> int:
        return len(self.before) + len(self.after)

    def refuse_no_room(self, longest: int) -> None:
        """Raise BackboneError if a row of this many word pieces has no place for a sentence's."""
        if longest <= len(self):
            raise BackboneError(
                f"{longest} word pieces have no room for a sentence beside the {len(self)} of its "
                "prompt and special ones; raise max_length"
            )

    def text(self, sentence: str) -> str:
        """Return the text of a sentence that is to be tokenized.

        In a prompt a space precedes it, which tells byte-level tokenizers that a word begins.
        """
        stop = self.stop
        if stop and sentence and sentence[-1] not in stop.marks:
            sentence += stop.added
        return f" {sentence}" if self.prompted else sentence


def make_template(prompt: str | None, tokenizer: Any, *, masked: bool) -> Template:
    """Make the template of an encoder's prompt: words with [MASK] if `masked`, else a text before.

    BackboneError if it is no such prompt. UnknownModelError if the tokenizer joins the end of the
    text with a sentence.
    """
    first, last = (tokenizer.cls_token_id,), (tokenizer.sep_token_id,)
    if not prompt:
        return Template(first, last)
    if masked:
        return prompt_template(prompt, tokenizer)
    if mark := _ANY_SENTENCE.search(prompt):
        raise BackboneError(f"prompt {prompt!r}: it stands before each sentence, without {mark[0]}")
    if tokenizer.truncation_side == "left":
        raise UnknownModelError(
            f"prompt {prompt!r}: the tokenizer truncates from the left, and long texts would lose "
            'it; write "truncation_side": "right" into its tokenizer_config.json'
        )
    before = _cut_text(prompt.rstrip(), tokenizer)
    for spaced in (prompt != prompt.rstrip(), False):
        template = Template((*first, *before), last, prompted=spaced)
        if all(
            _cut_text(prompt + word, tokenizer)
            == before + _cut_text(template.text(word), tokenizer)
            for word in ("a", "A", *string.punctuation)
        ):
            return template
    raise UnknownModelError(
        f"prompt {prompt!r}: the tokenizer joins its end with a sentence; end it with a space"
    )


def _cut_text(text: str, tokenizer: Any) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def prompt_problem(prompt: str) -> str | None:
    """Explain why these words are not a valid prompt; None if they are."""
    before, *after = _ANY_SENTENCE.split(prompt)
    if len(after) == 1 and MASK not in before and MASK in after[0]:
        return None
    wanted = f"expected {SENTENCE} for the sentence and after it {MASK}"
    return f"prompt {prompt!r}: {wanted}, and no second {SENTENCE}"


def prompt_template(prompt: str, tokenizer: Any) -> Template:
    """Make the template of a prompt, with the tokenizer's own special pieces.

    The prompt contains `{}` or `{.}` once, for the sentence, and after it `[MASK]`. Of several
    masks the last one counts.

    BackboneError if the prompt lacks one of them, or the tokenizer has no mask token.
    """
    if problem := prompt_problem(prompt):
        raise BackboneError(problem)
    if tokenizer.mask_token_id is None:
        raise BackboneError(f"prompt {prompt!r}: the tokenizer has no mask to pool at")
    before, after = _ANY_SENTENCE.split(prompt)
    words = after.replace(MASK, tokenizer.mask_token)
    return Template(
        (tokenizer.cls_token_id, *_cut_text(before.rstrip(), tokenizer)),
        (*_cut_text(words, tokenizer), tokenizer.sep_token_id),
        prompted=True,
        stop=JOINED_STOP if STOPPED_SENTENCE in prompt else SPACED_STOP,
    )
