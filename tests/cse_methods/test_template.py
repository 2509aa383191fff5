"""Templates: the rows that a model reads of a sentence, plain and in a prompt."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from transformers import AutoTokenizer

from cse_methods.encoders.template import (
    SPACED_STOP,
    Template,
    plain_template,
    prompt_problem,
    prompt_template,
)
from cse_methods.errors import BackboneError

PROMPT = 'This sentence : " {} " means [MASK] .'


def test_a_row_is_what_stands_before_the_sentence_and_after() -> None:
    template = Template((1, 2), (3,))
    assert template([7, 8]) == [1, 2, 7, 8, 3]
    assert template([]) == [1, 2, 3]
    assert len(template) == 3


def test_in_a_prompt_a_sentence_ends_and_begins_a_word() -> None:
    table: list[tuple[str, str]] = [
        ("Rain falls", " Rain falls ."),
        ("Rain falls.", " Rain falls."),
        ('"Rain"', ' "Rain"'),
        ("雨。", " 雨。 ."),  # the code's marks are those of ASCII
        ("", " "),
    ]
    for sentence, text in table:
        assert Template((), (), prompted=True, stop=SPACED_STOP).text(sentence) == text
        assert Template((), ()).text(sentence) == sentence


@pytest.mark.parametrize("family", ["tiny_bert", "tiny_roberta"])
def test_pieces_are_those_of_the_whole_text(family: str, request: pytest.FixtureRequest) -> None:
    folder: Path = request.getfixturevalue(family)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    template = prompt_template(PROMPT, tokenizer)
    text = template.text("The nurse thanks a dog")
    row = template(tokenizer(text, add_special_tokens=False)["input_ids"])
    whole = f'This sentence : " The nurse thanks a dog . " means {tokenizer.mask_token} .'
    assert row == tokenizer(whole)["input_ids"]
    assert row.count(tokenizer.mask_token_id) == 1


def test_the_plain_template_is_the_tokenizer_s_own(tiny_roberta: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_roberta)
    content = tokenizer("Rain falls.", add_special_tokens=False)["input_ids"]
    assert plain_template(tokenizer)(content) == tokenizer("Rain falls.")["input_ids"]


def test_what_is_no_prompt() -> None:
    for words in (
        "{}",
        "[MASK]",
        "[MASK] {}",
        "{} {} [MASK]",
        "{} [MASK] [MASK]",
        "[MASK] {} [MASK]",
        "",
    ):
        problem = "expected {} for the sentence and after it [MASK], each once"
        assert prompt_problem(words) == f"prompt {words!r}: {problem}"
        with pytest.raises(BackboneError, match="each once"):
            prompt_template(words, tokenizer=SimpleNamespace(mask_token_id=4))
        assert prompt_problem(PROMPT) is None


def test_a_prompt_needs_a_mask_to_pool_at() -> None:
    with pytest.raises(BackboneError, match="the tokenizer has no mask to pool at"):
        prompt_template(PROMPT, tokenizer=SimpleNamespace(mask_token_id=None))
