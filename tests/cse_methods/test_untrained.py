from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import started_papers
from pydantic import ValidationError
from started_papers import ON_SICK

from cse_methods.contract import BEST_FOLDER
from cse_methods.data.builtin.pairs import builtin_corpus
from cse_methods.encoders.loading import load_encoder
from cse_methods.errors import TrainingError
from cse_methods.papers.untrained import train

configured = partial(started_papers.configured, "untrained", dev=ON_SICK)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("corpus") / "sentences.txt"
    file.write_text("".join(f"{one}\n" for one in builtin_corpus()[:200]), encoding="utf-8")
    return str(file)


@pytest.mark.parametrize(
    ("dimensions", "max_length"),
    [(5, 6), *(pytest.param(*case, marks=pytest.mark.slow) for case in ((5, 32), (32, 6)))],
)
def test_whitened_vectors_equal_hand_worked_ones(
    dimensions, max_length, tiny_bert, corpus, new_run
) -> None:
    run = new_run()
    settings = {"corpus": corpus, "pooler": "avg", "max_length": max_length}
    train(configured(tiny_bert, whitening=True, dimensions=dimensions, **settings), run)
    backbone = load_encoder(str(tiny_bert), pooler="avg")
    seen = backbone.encode(builtin_corpus()[:200], max_length=max_length).double().numpy()
    values, axes = np.linalg.eigh(np.cov(seen.T, bias=True))
    # Behind a LayerNorm the 32 coordinates have 31 axes.
    chosen = np.argsort(-values)[: min(dimensions, 31)]
    scored = ["Rain falls.", "A dog runs over the grass, and a cat sleeps!"]
    centred = backbone.encode(scored).numpy() - seen.mean(0)
    expected = centred @ axes[:, chosen] / np.sqrt(values[chosen])
    vectors = load_encoder(str(run.folder / "1" / BEST_FOLDER)).encode(scored)
    assert vectors.shape == expected.shape
    # The sign of an axis is free.
    np.testing.assert_allclose(np.abs(vectors.numpy()), np.abs(expected), rtol=1e-2, atol=2e-3)


def test_the_seed_draws_the_sentences_of_the_statistics(tiny_bert, new_run) -> None:
    curves = []
    for seed in (0, 0, 1):
        run = new_run(seed=seed)
        train(configured(tiny_bert, whitening=True, whitening_sentences=60), run)
        curves.append(run.curve)
    assert curves[0] == curves[1]
    assert curves[0][0] == curves[2][0]
    assert curves[0][1] != curves[2][1]


def test_unfit_settings_are_refused(
    tiny_bert: Path, tmp_path: Path, new_run: Callable[..., Any]
) -> None:
    alone = tmp_path / "one.txt"
    alone.write_text("Rain falls.\nRain falls.\n", encoding="utf-8")
    with pytest.raises(TrainingError, match="of 2 sentences cannot be whitened: the covariance"):
        train(configured(tiny_bert, corpus=str(alone), whitening=True), new_run())
    table: list[tuple[dict[str, Any], str]] = [
        ({"dimensions": 8}, "dimensions=8 has no effect with whitening: False"),
        ({"whitening_sentences": 8}, "whitening_sentences=8 has no effect"),
        ({"pooler": "mask"}, "the pooler mask needs prompts"),
    ]
    for settings, message in table:
        with pytest.raises(ValidationError, match=message):
            configured(**settings)
