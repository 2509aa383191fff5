"""Averaged word vectors: the golden case, the rule of words, and GloVe's text format."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from cse_methods.encoders.static_vectors import average_words, find_words, read_glove_text
from cse_methods.errors import BackboneError
from cse_methods.metrics import cosines

Values = dict[str, Tensor]
VOCABULARY = {word: row for row, word in enumerate(["dog", "the", "u.s.", "Dog", ".", "it's"])}


def average(inputs: Values, params: dict[str, Any]) -> Values:
    del params
    words = [[row for row in rows if row >= 0] for rows in inputs["words"].tolist()]
    embedding = average_words(inputs["table"], words)
    return {"embedding": embedding, "cosine": cosines(embedding[0::2], embedding[1::2])}


def test_golden_value(golden: Callable[[str], Any]) -> None:
    golden("static_average_a").is_reproduced_by(average)


def test_a_mean_by_hand() -> None:
    table = torch.tensor([[1.0, 2.0], [4.0, 8.0]])
    means = average_words(table, [[0, 1, 0], [], [1]])
    assert means.tolist() == [[2, 4], [0, 0], [4, 8]]
    assert average_words(table, []).shape == (0, 2)
    assert average_words(table, [[]]).tolist() == [[0, 0]]


def test_the_rule_of_words_by_hand() -> None:
    table: list[tuple[str, list[int]]] = [
        ("the Dog dog", [1, 3, 0]),  # as it is comes before lower case
        ("THE (dog), U.S. it's", [1, 0, 5]),  # U.S. loses its last dot, and u.s is not known
        ("a cat", []),
        ("dog . ...", [0, 4]),
        ("", []),
    ]
    for sentence, rows in table:
        assert find_words(sentence, VOCABULARY) == rows


def test_a_stop_word_is_dropped_in_any_form() -> None:
    assert find_words("The dog, the. cat", VOCABULARY, stop_words={"the"}) == [0]
    assert find_words("Dog", VOCABULARY, stop_words={"dog"}) == [3]  # found before it is lowered


def test_a_file_by_hand(tmp_path: Path) -> None:
    file = tmp_path / "glove.txt"
    file.write_text("the 0.5 -1\nat name@domain 2 3e-1\nx\x85 1 2\n", encoding="utf-8")
    words, table = read_glove_text(file)
    assert words == ["the", "at name@domain", "x\x85"]
    np.testing.assert_allclose(table, [[0.5, -1], [2, 0.3], [1, 2]], rtol=1e-6)
    assert table.dtype == torch.float32


def test_what_is_no_such_file(tmp_path: Path) -> None:
    table: list[tuple[str, str]] = [
        ("", "is empty"),
        ("the 1 2\ndog 1\n", "line 2: 1 numbers, and the first line has 2"),
        ("the 1 2\ndog 1 x\n", "line 2: could not convert"),
        ("the 1 nan\n", "line 1: expected a word and finite numbers"),
        ("2 50\n", "line 1: expected a word and finite numbers, at least two"),  # word2vec's head
        ("a 1 2\na 3 4\n", "has 1 words more than once"),
    ]
    for text, problem in table:
        file = tmp_path / "glove.txt"
        file.write_text(text)
        with pytest.raises(BackboneError, match=problem):
            read_glove_text(file)
        with pytest.raises(BackboneError, match="cannot be read"):
            read_glove_text(tmp_path / "none.txt")
