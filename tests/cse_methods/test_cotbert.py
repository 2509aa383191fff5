from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from started_papers import NUMBERED, start_paper
from torch.nn.functional import cosine_similarity, cross_entropy
from torch.testing import assert_close
from transformers import AutoModel, AutoTokenizer

from cse_methods.encoders.loading import load_encoder
from cse_methods.errors import BackboneError
from cse_methods.training.student import Batch

SENTENCES = [*NUMBERED[:5], "rain " * 50]  # the last one is cut
PROMPTS = ["The one of ' {} ' is [MASK] , so [MASK] .", "The one : ' {} ' is [MASK] , so [MASK] ."]
NEGATED = "The one : ' {} ' is not [MASK] , so not [MASK] ."
started = partial(start_paper, "cotbert", prompts=PROMPTS, negated_prompt=NEGATED, max_length=25)


@pytest.mark.parametrize("denoise", [True, False])
def test_the_loss_equals_that_of_the_library_s_model(denoise: bool, tiny_folder: Path) -> None:
    """Row by row, at the last mask, less the vector of the prompt around as much padding."""
    student, objective = started(tiny_folder, dropout=0.0, denoise=denoise)
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    model = AutoModel.from_pretrained(tiny_folder, add_pooling_layer=False).eval()

    def at_the_last_mask(row: list[int]) -> torch.Tensor:
        states = model(torch.tensor([row]), attention_mask=torch.ones(1, len(row)))
        place = len(row) - 1 - row[::-1].index(tokenizer.mask_token_id)
        vector: torch.Tensor = states.last_hidden_state[0, place]
        return vector

    views = []
    for prompt in (*PROMPTS, NEGATED):
        before, after = prompt.replace("[MASK]", tokenizer.mask_token).split(" {}")
        prefix, suffix = (
            tokenizer(text, add_special_tokens=False)["input_ids"] for text in (before, after)
        )
        vectors = []
        for sentence in SENTENCES:
            own = tokenizer(f" {sentence}", add_special_tokens=False)["input_ids"][:25]
            head, end = [tokenizer.cls_token_id, *prefix], [*suffix, tokenizer.sep_token_id]
            vector = at_the_last_mask([*head, *own, *end])
            if denoise:
                padding = [tokenizer.pad_token_id] * len(own)
                vector = vector - at_the_last_mask([*head, *padding, *end])
            vectors.append(student.head(vector))
        views.append(torch.stack(vectors))
    first, second, negated = views
    pairs = ((first, second), (first, negated), (second, negated))
    logits = [cosine_similarity(a[:, None], b[None], dim=2) / 0.05 for a, b in pairs]
    expected = cross_entropy(torch.cat(logits, dim=1), torch.arange(len(SENTENCES)))
    found = objective(student, Batch(SENTENCES, np.arange(len(SENTENCES))))["contrastive"]
    assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_the_first_prompt_is_read_at_its_last_mask_and_without_denoising_at_test_time(
    tiny_bert: Path, tmp_path: Path
) -> None:
    student, objective = started(tiny_bert)
    encoder = objective.evaluation_encoder(student).eval()
    row = encoder.tokenizer("the one of ' the nurse. ' is [MASK], so [MASK].")["input_ids"]
    with torch.no_grad():
        hidden = encoder.model(torch.tensor([row])).last_hidden_state[0]
    last = len(row) - 1 - row[::-1].index(encoder.tokenizer.mask_token_id)
    assert_close(encoder.encode(["the nurse"])[0], hidden[last])
    encoder.save(tmp_path)
    again = load_encoder(str(tmp_path)).encode(["the nurse"])
    assert torch.equal(again, encoder.encode(["the nurse"]))


def test_negated_prompts_without_mask_or_room_are_refused(tiny_bert: Path) -> None:
    with pytest.raises(ValidationError, match=r"prompt 'not {}': expected {} for the"):
        started(tiny_bert, negated_prompt="not {}")
    student, objective = started(tiny_bert, negated_prompt="not " * 60 + "{} [MASK]")
    with pytest.raises(BackboneError, match="64 word pieces have no room for a sentence beside"):
        objective(student, Batch(SENTENCES, np.arange(len(SENTENCES))))
