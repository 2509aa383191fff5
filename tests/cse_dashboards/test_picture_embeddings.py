import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from kept_models import AVG, CLS, GONE
from sweep_events import sweep_started, trial_life

from cse_dashboards.encoded import Embeddings
from cse_dashboards.figures.embeddings.pictures import embeddings_picture, embeddings_pictures
from cse_methods.data.dev_sets import load_dev_set
from cse_methods.data.pairs import PairSet
from cse_methods.encoders.loading import load_encoder
from cse_methods.metrics import cosines, uniformity
from cse_platform.kept_models import TRIAL_FILE
from cse_platform.leaderboard import Leaderboard
from cse_platform.stores.sql.sink import LeaderboardSink
from cse_platform.stores.sql.store import Store

SENTENCES = ["The king sails.", "A pilot reads the map on the ship.", "The king sails."]


def test_vectors_are_those_of_the_kept_model_and_made_once(kept_board: Leaderboard) -> None:
    embeddings = Embeddings(kept_board)
    for trial, pooler in ((AVG, "avg"), (CLS[:8], "cls")):
        encoder = load_encoder("mini", pooler=pooler)
        expected = encoder.encode(SENTENCES).numpy()
        np.testing.assert_allclose(embeddings.vectors(trial, SENTENCES), expected, atol=1e-5)
    told: list[tuple[str, int, int]] = []
    embeddings = Embeddings(kept_board, progress=lambda *news: told.append(news))
    embeddings.vectors(AVG, SENTENCES)
    assert told == [(f"encoding {AVG[:8]}", 2, 2)]
    embeddings.vectors(CLS, SENTENCES[:1])
    again = embeddings.vectors(AVG[:8], [*reversed(SENTENCES), "Another."])
    assert told[1:] == [(f"encoding {CLS[:8]}", 1, 1), (f"encoding {AVG[:8]}", 1, 1)]
    np.testing.assert_array_equal(again[0], again[2])


def test_dropout_is_drawn_anew_and_always_alike(kept_board: Leaderboard) -> None:
    torch.manual_seed(3)
    state = torch.random.get_rng_state()
    embeddings = Embeddings(kept_board)
    views = embeddings.under_dropout(AVG, SENTENCES, times=3)
    assert views.shape == (3, 3, 192)
    assert not np.allclose(views[0], views[1], atol=1e-2)
    assert not np.allclose(views[0, 0], views[0, 2], atol=1e-2)
    np.testing.assert_array_equal(embeddings.under_dropout(AVG, SENTENCES, times=3), views)
    assert torch.equal(torch.random.get_rng_state(), state)  # nobody else's draws are touched
    # and the model is then as at test time
    expected = load_encoder("mini").encode(SENTENCES).numpy()
    np.testing.assert_allclose(embeddings.vectors(AVG, SENTENCES), expected, atol=1e-5)


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


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweep file names the data, whatever the environment says."""
    monkeypatch.setenv("CSE_DATA", "/nowhere")


def test_all_pictures_encode_the_dev_sentences_once(embeddings, told, dev) -> None:
    found = embeddings_pictures(embeddings, {"simcse": AVG}, sentences=ASKED, query="nobody")
    pictures = {picture.name: picture for picture in found}
    projection = "projection_umap" if find_spec("umap") else "projection_pca"
    names = ["heat_map", projection, "spread", "diversity", "buckets_stsb_dev", "case_study"]
    assert list(pictures) == names
    for name in names[1:5]:
        assert pictures[name].missing is None and pictures[name].figure is not None
        assert "STS-B dev (builtin)" in pictures[name].caption
        assert "(after " in pictures[name].caption
    every = {one for side in (dev.first, dev.second) for one in side}
    encoded = [total for what, done, total in told if done == total and "dropout" not in what]
    assert sum(encoded) == len(every | {*ASKED})  # the asked ones maybe by an earlier test
    assert len(pictures[projection].figure.data[0].x) == len(every)
    assert len(pictures["diversity"].figure.data[0].x) == 256
    heat, case = pictures["heat_map"], pictures["case_study"]
    assert heat.figure is not None and heat.figure.data[0].x == ASKED
    assert case.missing is not None and "'nobody' has fewer than 3 targets" in case.missing


def test_cosines_are_of_named_sentences_and_pairs_are_ranked_without_a_query(embeddings) -> None:
    asked = ["A king  sails.", "A pilot reads.", "A king sails."]
    picture = embeddings_picture("heat_map", embeddings, {"simcse": AVG}, sentences=asked)
    assert picture.figure is not None and "STS-B" not in picture.caption
    (trace,) = picture.figure.data
    assert trace.x == ("A king sails.", "A pilot reads.")
    first, second = load_encoder("mini").encode(["A king sails.", "A pilot reads."])
    assert trace.z[0][1] == pytest.approx(cosines(first[None], second[None]).item(), abs=1e-4)
    picture = embeddings_picture("case_study", embeddings, {"simcse": AVG})
    assert "No sentence is in more than three pairs" in picture.caption
    assert "Kendall’s tau-b: simcse 0." in picture.caption
    assert picture.figure is not None and len(picture.figure.data) == 6
    assert [line.text[0] for line in picture.figure.data] == [f"{n}.0" for n in (5, 4, 3, 2, 1, 0)]


def test_what_cannot_be_drawn_is_told(embeddings, monkeypatch) -> None:
    for trials, told in (({"lost": GONE}, "is not in "), ({}, "none of these rows kept a model")):
        for picture in embeddings_pictures(embeddings, trials, sentences=(), query=None):
            assert picture.figure is None and told in (picture.missing or "")
    monkeypatch.setitem(sys.modules, "umap", None)
    one: dict[str, Any] = {"simcse": AVG}
    asked: tuple[tuple[str, dict[str, str], dict[str, Any], str], ...] = (
        ("heat_map", one, {"sentences": ["alone", " alone "]}, "2 to 26 different sentences"),
        ("heat_map", one, {"sentences": [f"s{n}" for n in range(27)]}, "got 27"),
        ("projection", one, {"by": "umap"}, "pip install 'cse-platform[umap]'"),
        ("diversity", {"unknown": "e" * 64}, {}, "no trial"),
    )
    for name, trials, choices, told in asked:
        picture = embeddings_picture(name, embeddings, trials, **choices)
        assert picture.figure is None and told in (picture.missing or "")


def test_models_side_by_side_with_their_uniformity(embeddings: Embeddings, dev: PairSet) -> None:
    picture = embeddings_picture("spread", embeddings, {"mean": AVG, "first": AVG})
    assert picture.figure is not None
    names = [note.text for note in picture.figure.layout.annotations]
    every = list(dict.fromkeys([*dev.first, *dev.second]))
    expected = uniformity(torch.from_numpy(embeddings.vectors(AVG, every)))
    assert names[0] == f"mean, uniformity {expected:.2f}" and names[1].startswith("first, uniform")
    for model in picture.figure.data[1::2]:
        assert len(model.x) == len(every)
        assert np.hypot(model.x, model.y).max() <= 1.001


TRIAL = "a" * 64


@pytest.mark.parametrize(
    ("positives", "copies", "encoded", "said"),
    [
        (4, 2, 2, "Positives are 4, from 2 encodings under dropout, each taken 2 times"),
        *(
            pytest.param(*one, marks=pytest.mark.slow)
            for one in (
                (3, None, 3, "3 encodings under dropout; on the right each of these is whitened"),
                (3, 3, 1, "raw ones of the same encoding are equal and add no diversity"),
            )
        ),
    ],
)
def test_an_encoding_is_whitened_as_often_as_in_training(
    positives: int, copies: int | None, encoded: int, said: str, board: Store, tmp_path: Path
) -> None:
    load_encoder("mini").save(tmp_path / "model")
    (tmp_path / "model" / TRIAL_FILE).write_text(f"{TRIAL}\n")
    values = {"positives": positives, "groups": 16} | ({"sgw_copies": copies} if copies else {})
    life = trial_life(0, {4: 0.6}, trial=TRIAL, model=str(tmp_path / "model"), values=values)
    started = sweep_started(spec={"trials": 1, "data": "builtin"})
    LeaderboardSink(board).apply("j", list(enumerate([started, *life], start=1)))
    told: list[tuple[str, int, int]] = []
    embeddings = Embeddings(Leaderboard(board), progress=lambda *news: told.append(news))
    picture = embeddings_picture("diversity", embeddings, {"whitenedcse": TRIAL})

    assert picture.figure is not None and said in picture.caption
    assert {total for what, _, total in told if "dropout" in what} == {encoded}
    traces = picture.figure.data
    marks = [trace for trace in traces if trace.type == "scatter"]
    shown = [trace for trace in marks if trace.marker.symbol == "diamond"]
    assert {len(trace.x) for trace in shown} == {positives}
    [own] = [trace for trace in traces if trace.name == "positives of one sentence"]
    raw, whitened = own.y
    assert whitened > raw
    assert (raw == pytest.approx(0, abs=1e-6)) == (encoded == 1)
