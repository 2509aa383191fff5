"""What pictures of embeddings say, and what they say where there is none."""

import sys
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from kept_models import AVG, GONE, PRUNED

from cse_dashboards.encoded import Embeddings
from cse_dashboards.figures.embeddings.case_study import case_study
from cse_dashboards.figures.embeddings.diversity import diversity
from cse_dashboards.figures.embeddings.heat_map import heat_map
from cse_dashboards.figures.embeddings.projection import projection
from cse_dashboards.figures.embeddings.spread import spread
from cse_dashboards.figures.picture import Picture
from cse_dashboards.report import embeddings_pictures
from cse_methods.data.dev_sets import load_dev_set
from cse_methods.data.pairs import PairSet
from cse_methods.encoders.loading import load_encoder
from cse_methods.metrics import cosines, uniformity
from cse_platform.leaderboard.api import Leaderboard

ASKED = ("A king sails.", "A pilot reads.")

News = list[tuple[str, int, int]]


@pytest.fixture(scope="module")
def dev() -> PairSet:
    return load_dev_set("stsb", "builtin")


@pytest.fixture(scope="module")
def told() -> News:
    """What `embeddings` has said of its progress."""
    return []


@pytest.fixture(scope="module")
def embeddings(kept_board: Leaderboard, told: News) -> Embeddings:
    return Embeddings(kept_board, progress=lambda *news: told.append(news))


@pytest.fixture(scope="module")
def pictures(embeddings: Embeddings) -> dict[str, Picture]:
    """All pictures of one model, for sentences and a query."""
    found = embeddings_pictures(embeddings, {"simcse": AVG}, sentences=ASKED, query="nobody")
    return {picture.name: picture for picture in found}


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweep file names the data, whatever the environment says."""
    monkeypatch.setenv("CSE_DATA", "/nowhere")


def test_all_pictures_encode_the_dev_sentences_once(
    pictures: dict[str, Picture], told: News, dev: PairSet
) -> None:
    projection = "projection_umap" if find_spec("umap") else "projection_pca"
    names = ["heat_map", projection, "spread", "diversity", "buckets_stsb_dev", "case_study"]
    assert list(pictures) == names
    for name in names[1:5]:
        assert pictures[name].missing is None and pictures[name].figure is not None
        assert "STS-B dev (builtin)" in pictures[name].caption
        assert "(after " in pictures[name].caption
    every = {one for side in (dev.first, dev.second) for one in side}
    encoded = [total for what, done, total in told if done == total and "dropout" not in what]
    assert encoded == [len(every | {*ASKED})]
    assert len(pictures[projection].figure.data[0].x) == len(every)
    assert len(pictures["diversity"].figure.data[0].x) == 256
    heat, case = pictures["heat_map"], pictures["case_study"]
    assert heat.figure is not None and heat.figure.data[0].x == ASKED
    assert case.missing is not None and "'nobody' has fewer than 3 targets" in case.missing


def test_cosines_are_of_the_sentences_that_are_named(embeddings: Embeddings) -> None:
    asked = ["A king  sails.", "A pilot reads.", "A king sails."]
    picture = heat_map(embeddings, {"simcse": AVG}, asked)
    assert picture.figure is not None and "STS-B" not in picture.caption
    (trace,) = picture.figure.data
    assert trace.x == ("A king sails.", "A pilot reads.")
    first, second = load_encoder("mini").encode(["A king sails.", "A pilot reads."])
    assert trace.z[0][1] == pytest.approx(cosines(first[None], second[None]).item(), abs=1e-4)


def test_pairs_are_ranked_where_no_sentence_has_enough_targets(embeddings: Embeddings) -> None:
    picture = case_study(embeddings, {"simcse": AVG})
    assert "No sentence is in more than three pairs" in picture.caption
    assert "Kendall’s tau-b: simcse 0." in picture.caption
    assert picture.figure is not None and len(picture.figure.data) == 6
    assert [line.text[0] for line in picture.figure.data] == [f"{n}.0" for n in (5, 4, 3, 2, 1, 0)]


def test_the_caption_names_the_models_that_are_gone(embeddings: Embeddings) -> None:
    trials = {"simcse": AVG, "lost": GONE, "cut": PRUNED}
    picture = heat_map(embeddings, trials, ["A king sails.", "A pilot reads."])
    assert picture.figure is not None and [one.name for one in picture.figure.data] == ["simcse"]
    assert "Not shown: lost: the model of trial" in picture.caption
    assert "cut: trial dddddddddddddddd has no model: it was pruned" in picture.caption


def test_what_cannot_be_drawn_is_told(
    embeddings: Embeddings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for picture in embeddings_pictures(embeddings, {"lost": GONE}):
        assert picture.figure is None and picture.missing is not None
        assert "is gone from" in picture.missing and "reproduce cccccccc" in picture.missing
    for picture in embeddings_pictures(embeddings, {}):
        assert picture.missing is not None and "no trial is complete" in picture.missing
    one = {"simcse": AVG}
    monkeypatch.setitem(sys.modules, "umap", None)
    for picture, told in (
        (heat_map(embeddings, one, ["alone", " alone "]), "2 to 26 different sentences, and 1"),
        (heat_map(embeddings, one, [f"s{n}" for n in range(27)]), "and 27 came"),
        (projection(embeddings, one, by="umap"), "pip install 'cse-platform[umap]'"),
        (diversity(embeddings, {"unknown": "e" * 64}), "no trial"),
    ):
        assert picture.figure is None and picture.missing is not None
        assert told in picture.missing


def test_models_side_by_side_with_their_uniformity(embeddings: Embeddings, dev: PairSet) -> None:
    picture = spread(embeddings, {"mean": AVG, "first": AVG})
    assert picture.figure is not None
    names = [note.text for note in picture.figure.layout.annotations]
    every = list(dict.fromkeys([*dev.first, *dev.second]))
    expected = uniformity(torch.from_numpy(embeddings.vectors(AVG, every)))
    assert names[0] == f"mean, uniformity {expected:.2f}" and names[1].startswith("first, uniform")
    for model in picture.figure.data[1::2]:
        assert len(model.x) == len(every)
        assert np.hypot(model.x, model.y).max() <= 1.001


def test_dev_cosines_by_gold_are_those_of_the_model(
    pictures: dict[str, Picture], embeddings: Embeddings, dev: PairSet
) -> None:
    data = pictures["buckets_stsb_dev"].data
    assert data is not None
    first, second = (
        torch.from_numpy(embeddings.vectors(AVG, side)) for side in (dev.first, dev.second)
    )
    own = cosines(first, second).numpy()
    assert np.sort(data["cosine"].to_numpy()) == pytest.approx(np.sort(own), abs=1e-3)
