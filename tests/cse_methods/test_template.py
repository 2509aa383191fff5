"""Templates: the rows that a model reads of a sentence, plain and in a prompt."""

from cse_methods.encoders.template import SPACED_STOP, Template


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
