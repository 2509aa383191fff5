from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from started_papers import configured
from torch.testing import assert_close

from cse_methods.data.corpus import Corpus
from cse_methods.encoders.loading import load_encoder
from cse_methods.papers.simcse import SimCSEConfig
from cse_methods.training.teachers import teacher_vectors, weigh_similarities

ONE, TWO, THREE = ["mini"], ["mini", "bert-base"], ["mini", "bert-base", "bert-large"]
rankcse = partial(configured, "rankcse")


def test_defaults_depend_on_other_settings() -> None:
    simcse = SimCSEConfig.model_validate({"backbone": "bert-base", "corpus": "wiki1m"})
    assert (simcse.temperature, simcse.encoders()) == (0.05, ("bert-base",))  # as released
    assert rankcse(teachers=TWO).encoders() == ("mini", "mini", "bert-base")
    for teachers in ("mini", ["mini"], {"model": "mini"}, [{"model": "mini"}]):
        config = rankcse(teachers=teachers)
        assert [teacher.model for teacher in config.teachers] == ["mini"]
        assert config.weights == (1,)
        assert "alpha" not in config.hyperparameters()
    weights: list[tuple[dict[str, Any], tuple[float, ...]]] = [
        *(({"teachers": TWO}, (1 / 3, 2 / 3)), ({"teachers": THREE}, (1 / 3, 1 / 3, 1 / 3))),
        *(({"teachers": TWO, "alpha": one}, (one, 1 - one)) for one in (0.25, 0)),
        ({"teachers": TWO, "teacher_weights": [1, 2]}, (1, 2)),
        ({"teachers": THREE, "teacher_weights": [0.5, 0.3, 0.2]}, (0.5, 0.3, 0.2)),
    ]
    for settings, expected in weights:
        assert rankcse(**settings).weights == pytest.approx(expected)
    # Defaults that follow the rank loss.
    table: list[tuple[dict[str, Any], float | None, bool]] = [
        *(({}, 0.0125, True), ({"tau3": 0.05}, 0.05, True)),
        *(({"exclude_positive": False}, 0.0125, False), ({"rank_loss": "listmle"}, None, False)),
        ({"rank_loss": "listmle", "exclude_positive": True}, None, True),
    ]
    for settings, tau3, exclude_positive in table:
        config = rankcse(teachers=ONE, **settings)
        assert config.exclude_positive == exclude_positive
        assert config.hyperparameters().get("tau3") == tau3


def test_rankcse_refuses_weights_that_do_not_fit_its_teachers() -> None:
    table: list[tuple[dict[str, Any], str]] = [
        ({"teachers": ONE, "alpha": 0.5}, "alpha=0.5 weighs two teachers, got 1; leave it out"),
        ({"teachers": THREE, "alpha": 0.5}, "got 3; give teacher_weights instead"),
        ({"teachers": TWO, "alpha": 0.5, "teacher_weights": [1, 1]}, "not both"),
        ({"teachers": TWO, "teacher_weights": [1]}, "1 weights for 2 teachers"),
        ({"teachers": ONE, "rank_loss": "listmle", "tau3": 0.05}, "tau3=0.05 has no effect"),
    ]
    for settings, message in table:
        with pytest.raises(ValidationError, match=message):
            rankcse(**settings)


def test_teachers_are_ranked_by_the_weighted_sum_of_their_cosines(
    tiny_bert: Path, tiny_roberta: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CSE_CACHE", str(tmp_path))
    teachers = [str(tiny_bert), str(tiny_roberta)]
    corpus = Corpus("three", ["The nurse sings.", "Rain falls.", "A dog runs."], "a1")
    config = rankcse(teachers=teachers, alpha=0.25)
    cached = [teacher_vectors(teacher, corpus, max_length=32) for teacher in config.teachers]
    similarities = weigh_similarities(cached, config.weights, np.array([2, 0]))
    batch = ["A dog runs.", "The nurse sings."]
    vectors = [load_encoder(teacher).encode(batch) for teacher in teachers]
    first, second = (torch.cosine_similarity(v[0], v[1], dim=0).item() for v in vectors)
    other = 0.25 * first + 0.75 * second
    assert_close(similarities, torch.tensor([[1, other], [other, 1]]), rtol=1e-4, atol=1e-5)
