"""The positives of a trial are made as its training made them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cse_dashboards.encoded import Embeddings
from cse_dashboards.figures.embeddings.diversity import diversity
from cse_methods.encoders.loading import load_encoder
from cse_platform.leaderboard import Leaderboard
from cse_platform.leaderboard.ingest.journal_sink import LeaderboardSink
from cse_platform.leaderboard.store import Store
from cse_platform.runner.models import TRIAL_FILE
from cse_platform.tracking.events import Event

TRIAL = "a" * 64


@pytest.mark.parametrize(
    ("positives", "copies", "encoded", "said"),
    [
        pytest.param(
            *(3, None, 3, "3 encodings under dropout; on the right each of these is whitened"),
            marks=pytest.mark.slow,
        ),
        (4, 2, 2, "The 4 positives are from 2 encodings under dropout, each taken 2 times"),
        pytest.param(
            *(3, 3, 1, "raw ones of the same encoding are equal and add no diversity"),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_an_encoding_is_whitened_as_often_as_in_training(
    positives: int,
    copies: int | None,
    encoded: int,
    said: str,
    board: Store,
    tmp_path: Path,
    sweep_started: Callable[..., Event],
    trial_life: Callable[..., list[Event]],
) -> None:
    load_encoder("mini").save(tmp_path / "model")
    (tmp_path / "model" / TRIAL_FILE).write_text(f"{TRIAL}\n")
    values = {"positives": positives, "groups": 16} | ({"sgw_copies": copies} if copies else {})
    life = trial_life(0, {4: 0.6}, trial=TRIAL, model=str(tmp_path / "model"), values=values)
    started = sweep_started(spec={"trials": 1, "data": "builtin"})
    LeaderboardSink(board).apply("j", list(enumerate([started, *life], start=1)))
    told: list[tuple[str, int, int]] = []
    embeddings = Embeddings(Leaderboard(board), progress=lambda *news: told.append(news))
    picture = diversity(embeddings, {"whitenedcse": TRIAL})

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
