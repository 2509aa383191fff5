"""Vectors under the models that trials kept."""

import numpy as np
import pytest
import torch
from kept_models import AVG, CLS, GONE, PRUNED

from cse_dashboards.encoded import Embeddings
from cse_methods.encoders.loading import load_encoder
from cse_platform.errors import NotFoundError
from cse_platform.leaderboard.api import Leaderboard

SENTENCES = ["The king sails.", "A pilot reads the map on the ship.", "The king sails."]


def test_vectors_are_those_of_the_kept_model(kept_models: Leaderboard) -> None:
    embeddings = Embeddings(kept_models)
    for trial, pooler in ((AVG, "avg"), (CLS[:8], "cls")):
        encoder = load_encoder("mini", pooler=pooler)
        expected = encoder.encode(SENTENCES).numpy()
        np.testing.assert_allclose(embeddings.vectors(trial, SENTENCES), expected, atol=1e-5)


def test_a_sentence_is_encoded_once(kept_models: Leaderboard) -> None:
    told: list[tuple[str, int, int]] = []
    embeddings = Embeddings(kept_models, progress=lambda *news: told.append(news))
    embeddings.vectors(AVG, SENTENCES)
    assert told == [(f"encoding {AVG[:8]}", 2, 2)]
    embeddings.vectors(CLS, SENTENCES[:1])
    again = embeddings.vectors(AVG[:8], [*reversed(SENTENCES), "Another."])
    assert told[1:] == [(f"encoding {CLS[:8]}", 1, 1), (f"encoding {AVG[:8]}", 1, 1)]
    np.testing.assert_array_equal(again[0], again[2])


def test_dropout_is_drawn_anew_and_always_alike(kept_models: Leaderboard) -> None:
    torch.manual_seed(3)
    state = torch.random.get_rng_state()
    embeddings = Embeddings(kept_models)
    views = embeddings.under_dropout(AVG, SENTENCES, times=3)
    assert views.shape == (3, 3, 192)
    assert not np.allclose(views[0], views[1], atol=1e-2)
    assert not np.allclose(views[0, 0], views[0, 2], atol=1e-2)
    np.testing.assert_array_equal(embeddings.under_dropout(AVG, SENTENCES, times=3), views)
    assert torch.equal(torch.random.get_rng_state(), state)  # nobody else's draws are touched
    # and the model is then as at test time
    expected = load_encoder("mini").encode(SENTENCES).numpy()
    np.testing.assert_allclose(embeddings.vectors(AVG, SENTENCES), expected, atol=1e-5)


def test_dev_sentences_come_from_where_the_sweep_had_them(kept_models: Leaderboard) -> None:
    dev = Embeddings(kept_models).dev(AVG)
    assert (dev.task, dev.source, len(dev.gold)) == ("stsb", "builtin", 400)


def test_what_is_not_there_is_told(kept_models: Leaderboard) -> None:
    for trial, told in (
        (GONE, "is gone from .*; cse-leaderboard reproduce cccccccc"),
        (PRUNED, "has no model: it was pruned; cse-leaderboard reproduce dddddddd"),
        ("e" * 64, "no trial"),
    ):
        with pytest.raises(NotFoundError, match=told):
            Embeddings(kept_models).vectors(trial, SENTENCES)
