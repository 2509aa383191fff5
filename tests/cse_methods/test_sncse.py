from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import started_papers
import torch
import torch.nn.functional as F
from pydantic import ValidationError
from torch import Tensor
from torch.testing import assert_close

from cse_methods.papers.sncse import SNCSE, SNCSEConfig
from cse_methods.training.student import Batch, Student

SENTENCES = ["The nurse thanks the pilot.", "Rain falls on the town", "Two men play chess"]
NEGATIONS = ["The nurse does not thank the pilot.", "Rain does not fall on the town", "No men play"]
FIRST, SECOND = 'This sentence : " {} " means [MASK] .', 'This sentence of " {} " means [MASK] .'
configured = partial(started_papers.configured, "sncse", dropout=0.0, negations="unread")


def started(config: SNCSEConfig) -> tuple[Student, SNCSE]:
    torch.manual_seed(0)
    student = Student.from_config(config).train()
    return student, SNCSE(config, NEGATIONS)


def at_the_mask(student: Student, prompt: str, text: str) -> Tensor:
    """The vector of one prompted text, by the tokenizer and model alone, and the head."""
    tokenizer = student.encoder.tokenizer
    ended = text if text.endswith(".") else f"{text} ."
    inputs = tokenizer(prompt.replace("{}", ended), return_tensors="pt")
    place = inputs["input_ids"][0].tolist().index(tokenizer.mask_token_id)
    states = student.encoder.model(inputs["input_ids"]).last_hidden_state
    vector: Tensor = student.head(states[0, place])
    return vector


@pytest.mark.parametrize("prompts", [(FIRST, SECOND), ('"{}" : [MASK]', 'In "{}" the [MASK] is a')])
def test_the_losses_equal_hand_worked_ones(prompts: tuple[str, str], tiny_bert: Path) -> None:
    margins = {"margin_low": 0.02, "margin_high": 0.03, "margin_weight": 0.5}
    config = configured(tiny_bert, prompts=prompts, max_length=64, temperature=0.1, **margins)
    student, objective = started(config)
    rows = (2, 0, 1)  # a negation belongs to the row, not to the place in the batch
    read = ((prompts[0], SENTENCES), (prompts[1], SENTENCES), (prompts[1], NEGATIONS))
    first, second, negated = (
        torch.stack([at_the_mask(student, prompt, texts[row]) for row in rows])
        for prompt, texts in read
    )
    cosines = F.cosine_similarity(first.unsqueeze(1), second.unsqueeze(0), dim=2)
    contrastive = F.cross_entropy(cosines / 0.1, torch.arange(3))
    delta = F.cosine_similarity(first, negated) - cosines.diagonal()
    margin = (F.relu(delta + 0.02) + F.relu(-delta - 0.03)).mean()
    assert margin > 0
    parts = objective(student, Batch([SENTENCES[row] for row in rows], np.array(rows)))
    assert parts.keys() == {"contrastive", "margin"}
    assert_close(parts["contrastive"], contrastive)
    assert_close(parts["margin"], 0.5 * margin)


def test_both_views_hold_the_same_words_of_a_long_sentence(tiny_bert: Path) -> None:
    """The longer prompt leaves less room, and no row is longer than max_length."""
    prompts = ('"{}" [MASK]', 'This sentence of "{}" means the [MASK]')
    settings = {"prompts": prompts, "max_length": 20, "dropout": 0.1}  # without, a row stands once
    student, objective = started(configured(tiny_bert, **settings))
    batches: list[dict[str, Tensor]] = []
    student.encoder.register_forward_pre_hook(lambda encoder, args: batches.append(args[0]))
    long = " ".join(SENTENCES * 3)
    objective(student, Batch([long] * 2, np.array([0, 1])))
    first, second = (student.encoder.prompt(words) for words in prompts)
    content = student.encoder.pieces([long], second, max_length=20)[0]
    assert len(content) == 20 - len(second) > 0
    rows = [
        row[: int(mask.sum())].tolist()
        for row, mask in zip(batches[0]["input_ids"], batches[0]["attention_mask"], strict=True)
    ]
    assert rows == [first(content)] * 2 + [second(content)] * 2


def test_embeddings_at_test_use_the_first_prompt_without_head(tiny_bert: Path) -> None:
    prompt = 'The nurse "{}" [MASK]'
    student, objective = started(configured(tiny_bert, prompts=[prompt, SECOND]))
    encoder = objective.evaluation_encoder(student)
    long = " ".join(SENTENCES * 2)  # more than the 32 pieces of training, which do not bind here
    student.head = torch.nn.Identity()
    expected = [at_the_mask(student.eval(), prompt, text) for text in (SENTENCES[0], long)]
    assert_close(encoder.encode([SENTENCES[0], long]), torch.stack(expected).detach())


def test_negations_come_from_a_file_or_need_a_tagger() -> None:
    given = configured(negations="some.tsv")
    assert (given.files(), given.ingredients()) == (("some.tsv",), {})
    pytest.importorskip("lemminflect", reason="no tagger to negate with")
    config = configured(negations=None)
    assert (config.files(), config.ingredients().keys()) == ((), {"tagger"})


def test_unfit_prompts_poolers_and_margins_are_refused() -> None:
    table: list[tuple[dict[str, Any], str]] = [
        ({"margin_low": 0.4}, "margin_low=0.4 is above margin_high=0.3"),
        ({"prompts": [FIRST, "{} means"]}, r"prompt '{} means': expected {} for the sentence"),
        ({"pooler": "avg"}, "a prompt is read at its mask, got pooler=avg; leave pooler out"),
    ]
    for settings, message in table:
        with pytest.raises(ValidationError, match=message):
            configured(**settings)
