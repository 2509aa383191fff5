from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from started_papers import NUMBERED, start_paper
from torch.testing import assert_close
from transformers import AutoModel, AutoTokenizer

from cse_methods.encoders.loading import load_encoder
from cse_methods.training.student import Batch

SENTENCES = [*NUMBERED[:5], "rain " * 50]  # the last one is cut
PROMPTS = ["This sentence : ' {} ' means [MASK].", "The sentence : ' {} ' means [MASK]."]
started = partial(start_paper, "promptbert", prompts=PROMPTS)


@pytest.mark.parametrize("attention", ["sdpa", pytest.param("eager", marks=pytest.mark.slow)])
def test_the_loss_equals_that_of_the_library_s_model(attention: str, tiny_folder: Path) -> None:
    """Row by row, with the bare template at positions written out by hand."""
    student, objective = started(tiny_folder, dropout=0.0, attention=attention)
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    model = AutoModel.from_pretrained(tiny_folder, add_pooling_layer=False).eval()
    first_position = 2 if model.config.model_type == "roberta" else 0
    views = []
    for prompt in PROMPTS:
        before, after = prompt.replace("[MASK]", tokenizer.mask_token).split(" {}")
        prefix, suffix = (
            tokenizer(text, add_special_tokens=False)["input_ids"] for text in (before, after)
        )
        vectors = []
        for sentence in SENTENCES:
            own = tokenizer(f" {sentence}", add_special_tokens=False)["input_ids"][:32]
            head, end = [tokenizer.cls_token_id, *prefix], [*suffix, tokenizer.sep_token_id]
            hidden = []
            for content, gap in ((own, 0), ([], len(own))):
                row = torch.tensor([[*head, *content, *end]])
                place = first_position + torch.arange(row.shape[1])
                place[len(head) + len(content) :] += gap
                states = model(row, position_ids=place[None]).last_hidden_state
                hidden.append(states[row == tokenizer.mask_token_id][0])
            vectors.append(student.head(hidden[0] - hidden[1]))
        views.append(torch.nn.functional.normalize(torch.stack(vectors), dim=1))
    logits = views[0] @ views[1].T / 0.05
    expected = torch.nn.functional.cross_entropy(logits, torch.arange(len(SENTENCES)))
    found = objective(student, Batch(SENTENCES, np.arange(len(SENTENCES))))["contrastive"]
    assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_a_stop_ends_a_sentence_at_test_time(tiny_roberta: Path, tmp_path: Path) -> None:
    student, _ = started(tiny_roberta)
    student.encoder.eval().save(tmp_path)
    for encoder in (student.encoder, load_encoder(str(tmp_path))):
        template = encoder.template
        assert template.text("Rain falls") == " Rain falls."
        assert template.text("Rain falls!") == " Rain falls!."  # that is none of its marks
        for ended in ("Rain?", "'Rain'", 'say "Rain"', "Rain.", ""):
            assert template.text(ended) == f" {ended}"
    kept = load_encoder(str(tmp_path)).encode(SENTENCES)
    assert torch.equal(kept, student.encoder.encode(SENTENCES))


def test_settings_without_effect_are_refused(tiny_bert: Path) -> None:
    for name, value in [("freeze_template", True), ("shift_positions", False)]:
        with pytest.raises(ValidationError, match=f"{name}={value} has no effect with denoise"):
            started(tiny_bert, denoise=False, **{name: value})
    with pytest.raises(ValidationError, match="a prompt is read at its mask"):
        started(tiny_bert, pooler="cls")
