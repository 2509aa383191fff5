from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from cse_methods.encoders.loading import load_encoder
from cse_methods.encoders.post_pooling import Normalize
from cse_methods.encoders.reading import lower_cases
from cse_methods.errors import EvaluationError
from cse_methods.evaluation.embeddings import CHUNK, StoredEmbeddings
from cse_methods.evaluation.models import OwnModel

SENTENCES = [
    "The nurse thanks the pilot.",
    "Rain!",
    "A small dog runs over the green grass, and a cat sleeps in the old library.",
    "",
    "Rain!",
]
PROMPT = 'This one : " {} " means [MASK] .'


class Counting:
    """A model whose vectors say how long a sentence is, and that remembers its calls."""

    width = 2
    reading: dict[str, Any] = {}  # noqa: RUF012 -- never changed

    def __init__(self) -> None:
        self.seen: list[str] = []

    def batches(self, sentences: Sequence[str]) -> Iterator[tuple[list[int], Tensor]]:
        for place in reversed(range(len(sentences))):
            self.seen.append(sentences[place])
            value = float("nan") if "NaN" in sentences[place] else float(len(sentences[place]))
            yield [place], torch.tensor([[value, 1.0]])


def embedded(model: Any, sentences: Sequence[str], folder: Path) -> StoredEmbeddings:
    return StoredEmbeddings(model, sentences, folder=folder, progress=lambda *_: None)


def test_stored_embeddings_hold_each_sentence_once(tmp_path: Path) -> None:
    model, told = Counting(), []
    vectors = StoredEmbeddings(
        model, SENTENCES, folder=tmp_path, progress=lambda *count: told.append(count)
    )
    assert sorted(model.seen) == sorted(set(SENTENCES))
    assert vectors(SENTENCES)[:, 0].tolist() == [float(len(one)) for one in SENTENCES]
    assert vectors([]).shape == (0, 2)
    assert told == [("encoding", count, 4) for count in (1, 2, 3, 4)]
    with pytest.raises(KeyError):
        vectors(["never announced"])
    with pytest.raises(EvaluationError, match="vector of 'a NaN here' holds NaN or infinity"):
        embedded(Counting(), ["fine", "a NaN here"], tmp_path)
    sentences, model = [str(number) for number in range(CHUNK + 5)], Counting()
    vectors = embedded(model, sentences, tmp_path)
    assert len(model.seen) == CHUNK + 5
    assert vectors(["7", str(CHUNK + 4)])[:, 0].tolist() == [1, 4]


@pytest.mark.parametrize("pooler", ["avg", "mask"])
def test_a_sliced_text_is_the_mean_of_its_segments_weighted_by_length(
    pooler, tiny_bert, tmp_path
) -> None:
    """A prompt stands around every segment, uncounted."""
    encoder = load_encoder(
        str(tiny_bert), pooler=pooler, prompt=PROMPT if pooler == "mask" else None
    )
    (long,) = encoder.pieces([SENTENCES[2]], encoder.template)
    parts = [long[start : start + 6] for start in range(0, len(long), 6)]
    rows = [encoder.template(part) for part in parts]
    assert len(parts) > 2
    assert max(map(len, rows)) == 6 + len(encoder.template)
    each = torch.cat([batch for row in rows for _, batch in encoder.batches([row])])
    weights = torch.tensor([len(part) + 2.0 for part in parts])
    by_hand = (weights[:, None] * each).sum(dim=0) / weights.sum()
    vectors = embedded(OwnModel(encoder, slicing_length=8), SENTENCES, tmp_path)
    torch.testing.assert_close(vectors([SENTENCES[2]])[0], by_hand, rtol=1e-4, atol=1e-5)
    # A sentence of one segment, and the empty one, are read as without slicing.
    whole = encoder.encode(["Rain!", ""])
    torch.testing.assert_close(vectors(["Rain!", ""]), whole, rtol=1e-4, atol=1e-5)


def test_segments_that_do_not_fit_the_encoder_are_refused(tiny_bert: Path) -> None:
    """A prompt's pieces are not counted, but have to be read."""
    encoder = load_encoder(str(tiny_bert), pooler="avg")
    prompted = load_encoder(str(tiny_bert), pooler="mask", prompt=PROMPT)
    most = 64 - (len(prompted.template) - 2)
    OwnModel(encoder, slicing_length=64)
    OwnModel(prompted, slicing_length=most)
    for model, length, match in (
        (encoder, 2, "segments of 2 word pieces have no room"),
        (encoder, 65, "segments of 65 word pieces are longer than the 64"),
        (prompted, most + 1, ", 65 with the prompt, are longer than the 64"),
    ):
        with pytest.raises(EvaluationError, match=match):
            OwnModel(model, slicing_length=length)


def test_a_reading_describes_all_but_the_weights(tiny_bert: Path, tiny_roberta: Path) -> None:
    plain = OwnModel(load_encoder(str(tiny_bert), pooler="avg")).reading
    first = load_encoder(str(tiny_bert), pooler="avg_first_last", first_layer=0)
    other = OwnModel(first.with_post_pooling(Normalize()), max_length=9, slicing_length=8).reading
    assert plain["pooler"] == "avg" and not plain["normalized"] and "prompt" not in plain
    assert plain["dense_layers"] == 0 and plain["slicing_length"] is None
    assert other["first_layer"] == 0 and other["normalized"]
    assert (other["max_length"], other["slicing_length"]) == (9, 8)
    for folder in (tiny_bert, tiny_roberta):
        encoder = load_encoder(str(folder), pooler="avg")
        lower, upper = encoder.encode(["rain falls", "Rain falls"])
        assert lower_cases(encoder.tokenizer) == torch.equal(lower, upper)
