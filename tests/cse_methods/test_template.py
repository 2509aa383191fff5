"""Templates: the rows that a model reads of a sentence, plain and in a prompt."""

from pathlib import Path

from transformers import AutoTokenizer

from cse_methods.encoders.template import SPACED_STOP, Template, plain_template, prompt_template

PROMPT = 'This sentence : " {} " means [MASK] .'


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


def test_pieces_are_those_of_the_whole_text(tiny_folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    template = prompt_template(PROMPT, tokenizer)
    text = template.text("The nurse thanks a dog")
    row = template(tokenizer(text, add_special_tokens=False)["input_ids"])
    whole = f'This sentence : " The nurse thanks a dog . " means {tokenizer.mask_token} .'
    assert row == tokenizer(whole)["input_ids"]
    assert row.count(tokenizer.mask_token_id) == 1
    content = tokenizer("Rain falls.", add_special_tokens=False)["input_ids"]
    plain = plain_template(tokenizer)
    assert plain(content) == tokenizer("Rain falls.")["input_ids"]
    assert len(plain) == len(plain([])) == 2
