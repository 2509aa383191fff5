from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from started_papers import start_paper
from tiny_families import save_tiny
from torch.testing import assert_close
from transformers import AutoModelForMaskedLM

from cse_methods.data.builtin.pairs import builtin_corpus
from cse_methods.encoders.masked_lm import load_masked_lm
from cse_methods.errors import BackboneError, TrainingError
from cse_methods.papers.diffcse import DiffCSE
from cse_methods.training.student import Batch, Student

SENTENCES = list(builtin_corpus()[:8])
NO_DROPOUT = {"dropout": 0.0, "generator_dropout": False}


@pytest.fixture
def started(tiny_bert: Path, masked_lm: Callable[[Path], Path]) -> Callable[..., Any]:
    places = {"backbone": str(tiny_bert), "generator": str(masked_lm(tiny_bert))}
    return lambda **settings: start_paper("diffcse", **places | settings)


def losses(student: Student, objective: DiffCSE, seed: int = 0) -> dict[str, torch.Tensor]:
    torch.manual_seed(seed)
    return objective(student, Batch(SENTENCES, np.arange(len(SENTENCES))))


def moved(module: torch.nn.Module) -> set[str]:
    """The parameters that have a gradient which is not 0."""
    named = module.named_parameters()
    return {name for name, one in named if one.grad is not None and one.grad.abs().sum() > 0}


def test_the_generator_keeps_the_weights_of_its_checkpoint(started, tiny_bert, masked_lm) -> None:
    student, objective = started()
    stored = AutoModelForMaskedLM.from_pretrained(masked_lm(tiny_bert)).state_dict()
    generator = objective.generator.module
    torch.stack([*losses(student, objective).values()]).sum().backward()
    for name, weight in generator.model.state_dict().items():
        assert torch.equal(weight, stored[name]), name
    assert generator.training  # it drops out
    assert not moved(generator)
    assert not any("generator" in name for name in objective.state_dict())
    assert not started(generator_dropout=False)[1].generator.module.training


def test_detection_trains_the_encoder_through_its_vector(started: Callable[..., Any]) -> None:
    student, objective = started()
    losses(student, objective)["rtd"].backward()
    assert any(name.startswith("model.encoder") for name in moved(student.encoder))
    assert {"first.weight", "second.weight"} <= moved(objective.projection)
    discriminator = moved(objective.discriminator)
    assert {"token_tail.0.linear.weight", "token_tail.0.linear.bias"} <= discriminator
    assert "model.embeddings.word_embeddings.weight" in discriminator
    before = started()[1].discriminator.model.state_dict()
    for name, weight in student.encoder.model.state_dict().items():
        assert torch.equal(before[name], weight), name  # it starts as the backbone


def test_detection_is_weighted_and_conditioned_on_the_chosen_vector(
    started: Callable[..., Any],
) -> None:
    plain = losses(*started(**NO_DROPOUT))["rtd"]
    assert_close(losses(*started(**NO_DROPOUT, rtd_weight=0.5))["rtd"], 100 * plain)
    told = losses(*started(**NO_DROPOUT, condition_before_projection=True))["rtd"]
    assert not torch.equal(told, plain)


def test_rtd_over_selects_whether_padding_counts(started: Callable[..., Any]) -> None:
    """Places of padding have logits of the model's, not of the bias alone."""
    for over, varied in (("all", True), ("real", False)):
        student, objective = started(**NO_DROPOUT, rtd_over=over)
        rows = [[2, 5, 6, 7, 8, 3], [2, 5, 3], [2, 6, 3]]
        tokens = student.encode_tokens(rows, list, encoder=objective.discriminator)
        padding = tokens.vectors[~tokens.mask.bool()]
        assert tokens.vectors.shape == (3, 6, 2)
        assert bool((padding[0] != padding[1]).any()) is varied


def test_with_replaced_masked_only_hidden_pieces_are_replaced(started: Callable[..., Any]) -> None:
    share = {}
    for replaced in ("all", "masked"):
        student, objective = started(**NO_DROPOUT, replaced=replaced, masking_ratio=0.2)
        losses(student, objective)
        share[replaced] = objective.metrics()["replaced_share"]
    # The generator is random: it guesses wrong nearly everywhere.
    assert share["masked"] <= 0.3 < 0.7 < share["all"] < 1


def test_the_small_encoder_of_the_package_guesses_word_pieces() -> None:
    """Its head is a file of its own; without it, guesses would be right once in 8,192."""
    mini = load_masked_lm("mini")
    ids = mini.tokenizer(["The king of England was [MASK] in London."])["input_ids"]
    place = ids[0].index(mini.tokenizer.mask_token_id)
    with torch.no_grad():
        guesses = mini(torch.tensor(ids), torch.ones(1, len(ids[0]), dtype=torch.long))
    kept = [*range(place), *range(place + 1, len(ids[0]))]
    assert [guesses[0, n].item() for n in kept[1:-1]] == [ids[0][n] for n in kept[1:-1]]
    assert mini.tokenizer.decode(guesses[0, place]) == "born"


def test_encoders_that_do_not_fit_are_refused(
    started: Callable[..., Any],
    tiny_bert: Path,
    tiny_roberta: Path,
    masked_lm: Callable[[Path], Path],
    tmp_path: Path,
) -> None:
    with pytest.raises(BackboneError, match=r"no head for masked word pieces.*such as distilbert"):
        started(generator=str(tiny_bert))
    with pytest.raises(TrainingError, match="does not read the word pieces of"):
        started(generator=str(masked_lm(tiny_roberta)))
    save_tiny("electra", tmp_path)
    with pytest.raises(TrainingError, match="a sentence 32 coordinates and a word piece 16"):
        started(backbone=str(tmp_path))
