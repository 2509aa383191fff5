"""The geometry page, and the page of a trial."""

import re
import sqlite3
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from kept_models import AVG, GONE
from page_text import copied, figures, text, told

from cse_dashboards.page.app import create_app
from cse_platform.leaderboard import Filters, Leaderboard


def test_geometry_from_numbers_and_on_demand(client: FlaskClient) -> None:
    answer = told(client, "/geometry?method=hicl&show=projection&by=umap")
    assert 'data-src="/parts/numbers/geometry?method=hicl' in answer
    sources = re.findall(r'data-src="/parts/(\w+)/', answer)
    assert sources == ["numbers", "projection"]  # the others are links until they are followed
    assert '<a class="load button" href="/parts/heat_map/geometry?method=hicl' in answer
    numbers = told(client, "/parts/numbers/geometry")
    assert "buckets_stsb" in figures(numbers)
    assert "no dev curve of these rows has alignment" in text(numbers)


@pytest.fixture(scope="module")
def kept(kept_board: Leaderboard, tmp_path_factory: pytest.TempPathFactory) -> FlaskClient:
    """The page over trials that kept models, the first of them ahead of the others."""
    file = Path(str(kept_board.trial(AVG).model)).with_name("leaderboard.db")
    copy = copied(str(file), tmp_path_factory.mktemp("kept"))
    with sqlite3.connect(copy) as connection:
        of_trial = "SELECT configuration_id FROM trials WHERE key = ?"
        connection.execute(f"UPDATE configurations SET mean = 0.9 WHERE id = ({of_trial})", [AVG])
    return create_app(f"sqlite:///{copy}").test_client()


def test_sentences_of_the_heat_map_are_in_the_address(kept: FlaskClient) -> None:
    query = "sentences=A+king+sails.%0D%0A%0D%0A+A+pilot+reads."
    [drawn] = figures(told(kept, f"/parts/heat_map/geometry?{query}")).values()
    assert drawn["data"][0]["x"] == ["A king sails.", "A pilot reads."]
    assert "A pilot reads.</textarea>" in told(kept, f"/geometry?{query}")


def test_a_picture_of_embeddings_is_made_once(
    kept: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = "/parts/heat_map/geometry?sentences=One.%0ATwo."
    first = told(kept, address)
    monkeypatch.setattr("cse_dashboards.encoded.Embeddings", None)
    assert told(kept, address) == first


def test_a_trial_with_all_that_is_known_of_it(client: FlaskClient, lab: Leaderboard) -> None:
    [hicl] = lab.rows(Filters(method="hicl"), ranked=False)
    story = lab.trial(hicl.keys[0])
    answer = told(client, f"/trials/{story.key[:8]}")
    said = text(answer)
    assert story.key in said
    assert "Sweeps › hicl › #0" in said
    assert '<a href="/sweeps/hicl">hicl</a>' in answer
    assert "COMPLETE, dev stsb 70.00 at step 9 (untrained 50.00)" in said
    for heading in ("Hyperparameters", "Dev curve", "Scores, x 100", "Other seeds of the"):
        assert heading in said
    for sibling in story.siblings:
        assert f'<a href="/trials/{sibling.key}">' in answer
    assert "tau2 0.025 searched" in said
    [curve] = figures(answer).values()
    assert curve["data"][0]["y"] == [50.0, 70.0]
    assert "⣀" not in answer and "┤" not in answer  # not the terminal's drawing
    [curve] = figures(told(client, f"/trials/{story.key}?metric=train/loss")).values()
    assert curve["data"][0]["y"] == [1.0, 1.0]
    unknown = told(client, f"/trials/{story.key}?metric=dev/nothing")
    assert "this trial reported no dev/nothing" in unknown


def test_a_trial_whose_model_is_gone(kept: FlaskClient) -> None:
    answer = text(told(kept, f"/trials/{GONE}"))
    assert "cse-leaderboard export cccccccc DIR --store sqlite:///" in answer
