"""What pictures of embeddings say, and what they say where there is none."""

import sys
from importlib.util import find_spec

import numpy as np
import pytest
from kept_models import AVG, CLS, GONE, PRUNED

from cse_dashboards.encoded import Embeddings
from cse_dashboards.figures.embeddings.case_study import case_study
from cse_dashboards.figures.embeddings.dev_buckets import dev_buckets
from cse_dashboards.figures.embeddings.diversity import diversity
from cse_dashboards.figures.embeddings.heat_map import heat_map
from cse_dashboards.figures.embeddings.projection import projection
from cse_dashboards.figures.embeddings.spread import spread
from cse_dashboards.report import embeddings_pictures
from cse_methods.data.dev_sets import load_dev_set
from cse_methods.encoders.loading import load_encoder
from cse_methods.metrics import cosines, uniformity
from cse_platform.leaderboard.api import Leaderboard

DEV = load_dev_set("stsb", "builtin")


def test_all_pictures_encode_the_dev_sentences_once(kept_models: Leaderboard) -> None:
    told: list[tuple[str, int, int]] = []
    embeddings = Embeddings(kept_models, progress=lambda *news: told.append(news))
    pictures = {one.name: one for one in embeddings_pictures(embeddings, {"simcse": AVG})}
    projection = "projection_umap" if find_spec("umap") else "projection_pca"
    names = ["heat_map", projection, "spread", "diversity", "buckets_stsb_dev", "case_study"]
    assert list(pictures) == names
    for picture in pictures.values():
        assert picture.missing is None and picture.figure is not None
        assert "STS-B dev (builtin)" in picture.caption and "(after " in picture.caption
    every = {one for side in (DEV.first, DEV.second) for one in side}
    encoded = [total for what, done, total in told if done == total and "dropout" not in what]
    assert encoded == [len(every)] == [len(pictures[projection].figure.data[0].x)]
    assert len(pictures["diversity"].figure.data[0].x) == 256


def test_cosines_are_of_the_sentences_that_are_named(kept_models: Leaderboard) -> None:
    asked = ["A king  sails.", "A pilot reads.", "A king sails."]
    picture = heat_map(Embeddings(kept_models), {"simcse": AVG}, asked)
    assert picture.figure is not None and "STS-B" not in picture.caption
    (trace,) = picture.figure.data
    assert trace.x == ("A king sails.", "A pilot reads.")
    first, second = load_encoder("mini").encode(["A king sails.", "A pilot reads."])
    assert trace.z[0][1] == pytest.approx(cosines(first[None], second[None]).item(), abs=1e-4)


def test_pairs_are_ranked_where_no_sentence_has_enough_targets(
    kept_models: Leaderboard,
) -> None:
    picture = case_study(Embeddings(kept_models), {"simcse": AVG})
    assert "No sentence is in more than three pairs" in picture.caption
    assert "Kendall’s tau-b: simcse 0." in picture.caption
    assert picture.figure is not None and len(picture.figure.data) == 6
    assert [line.text[0] for line in picture.figure.data] == [f"{n}.0" for n in (5, 4, 3, 2, 1, 0)]


def test_the_caption_names_the_models_that_are_gone(kept_models: Leaderboard) -> None:
    trials = {"simcse": AVG, "lost": GONE, "cut": PRUNED}
    picture = heat_map(Embeddings(kept_models), trials, ["A king sails.", "A pilot reads."])
    assert picture.figure is not None and [one.name for one in picture.figure.data] == ["simcse"]
    assert "Not shown: lost: the model of trial" in picture.caption
    assert "cut: trial dddddddddddddddd has no model: it was pruned" in picture.caption


def test_without_a_model_every_picture_says_why(kept_models: Leaderboard) -> None:
    for picture in embeddings_pictures(Embeddings(kept_models), {"lost": GONE}):
        assert picture.figure is None and picture.missing is not None
        assert "is gone from" in picture.missing and "reproduce cccccccc" in picture.missing
    for picture in embeddings_pictures(Embeddings(kept_models), {}):
        assert picture.missing is not None and "no trial is complete" in picture.missing


def test_what_cannot_be_drawn_is_told(
    kept_models: Leaderboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    embeddings, one = Embeddings(kept_models), {"simcse": AVG}
    monkeypatch.setitem(sys.modules, "umap", None)
    for picture, told in (
        (heat_map(embeddings, one, ["alone", " alone "]), "2 to 26 different sentences, and 1"),
        (heat_map(embeddings, one, [f"s{n}" for n in range(27)]), "and 27 came"),
        (case_study(embeddings, one, "nobody's"), "has fewer than 3 targets in STS-B dev"),
        (projection(embeddings, one, by="umap"), "pip install 'cse-platform[umap]'"),
        (diversity(embeddings, {"unknown": "e" * 64}), "no trial"),
    ):
        assert picture.figure is None and picture.missing is not None
        assert told in picture.missing


def test_models_side_by_side_with_their_uniformity(kept_models: Leaderboard) -> None:
    picture = spread(Embeddings(kept_models), {"mean": AVG, "first": CLS})
    assert picture.figure is not None
    names = [note.text for note in picture.figure.layout.annotations]
    every = list(dict.fromkeys([*DEV.first, *DEV.second]))
    encoder = load_encoder("mini", pooler="avg")
    expected = uniformity(encoder.encode(every))
    assert names[0] == f"mean, uniformity {expected:.2f}" and names[1].startswith("first, uniform")
    for model in picture.figure.data[1::2]:
        assert len(model.x) == len(every)
        assert np.hypot(model.x, model.y).max() <= 1.001


def test_dev_cosines_by_gold_are_those_of_the_model(kept_models: Leaderboard) -> None:
    picture = dev_buckets(Embeddings(kept_models), {"simcse": AVG})
    assert picture.figure is not None and picture.data is not None
    assert "STS-B dev (builtin)" in picture.caption
    encoder = load_encoder("mini", pooler="avg")
    own = cosines(encoder.encode(list(DEV.first)), encoder.encode(list(DEV.second))).numpy()
    shown = picture.data["cosine"].to_numpy()
    assert np.sort(shown) == pytest.approx(np.sort(own), abs=1e-3)


def test_the_report_takes_sentences_and_a_query(kept_models: Leaderboard) -> None:
    asked = ("A king sails.", "A pilot reads.")
    shown = embeddings_pictures(
        Embeddings(kept_models), {"simcse": AVG}, sentences=asked, query="nobody"
    )
    pictures = {one.name: one for one in shown}
    heat, case = pictures["heat_map"], pictures["case_study"]
    assert heat.figure is not None and heat.figure.data[0].x == asked
    assert case.missing is not None and "'nobody' has fewer than 3 targets" in case.missing
