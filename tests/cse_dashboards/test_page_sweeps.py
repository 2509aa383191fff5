"""Sweeps on the page: the list, one that runs, its best configurations, its search, its file."""

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from page_text import copied, figures, text, told
from sqlalchemy import event
from sqlalchemy.engine import Engine

from cse_dashboards.page.app import create_app
from cse_dashboards.page.views.sweep import SWEEPS_SHOWN
from cse_platform.leaderboard.ingest.journal_sink import LeaderboardSink
from cse_platform.leaderboard.store import open_store
from cse_platform.render.formats import clock
from cse_platform.tracking.events import Event, SweepStarted

SPACE = {"tau2": [0.0125, 0.025, 0.05], "tau3": [0.0125, 0.025], "rank_loss": ["listnet"]}
FILE = {
    "sweep": "grid",
    "method": "rankcse",
    "backbone": "mini",
    "corpus": "builtin",
    "space": SPACE,
    "search": {"sampler": "random", "trials": 5, "seed": 42},
    "tags": ["nightly"],
}
TRIALS = (("COMPLETE", 0.81), ("COMPLETE", 0.83), ("COMPLETE", 0.82), ("FAIL", 0.1), (None, 0.7))


@pytest.fixture(scope="module")
def url(
    filled_with: Callable[..., str],
    sweep_started: Callable[..., SweepStarted],
    trial_life: Callable[..., list[Event]],
) -> str:
    """A sweep that runs: three trials are complete, one failed, one is on its way."""
    events: list[Event] = [sweep_started("grid", spec=FILE)]
    for number, (state, value) in enumerate(TRIALS):
        events += trial_life(
            number,
            {0: 0.5, 10: value},
            sweep="grid",
            state=state,
            trial=f"{number:x}" * 64,
            configuration=f"{number + 6:x}" * 64,
            values={"tau2": SPACE["tau2"][number % 3], "tau3": SPACE["tau3"][number % 2]},
            searched=("tau2", "tau3"),
        )
    return filled_with(*events)


@pytest.fixture(scope="module")
def page(url: str) -> FlaskClient:
    """The page over it."""
    return create_app(url).test_client()


def test_a_request_takes_one_transaction(page: FlaskClient) -> None:
    """In it, the row of a sweep is read by name once."""
    parts = ("trials", "live", "best", "search", "running")
    addresses = ["/", "/sweeps", "/sweeps/gird", "/sweeps/grid", "/sweeps/grid?where=tau2:0.025"]
    addresses += [f"/trials/{'0' * 64}", *(f"/parts/{part}/sweeps/grid" for part in parts)]
    page.get("/sweeps")  # opens the leaderboard
    statements: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        statements.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        for address in addresses:
            statements.clear()
            assert page.get(address).text
            assert statements.count("BEGIN") == 1, address
            by_name = [one for one in statements if one.startswith("SELECT sweeps.id, sweeps.name")]
            assert sum(one.endswith("WHERE sweeps.name = ?") for one in by_name) <= 1, address
            assert len(statements) <= (22 if address.startswith("/trials") else 40), address
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def test_the_list_says_how_far_each_is(page: FlaskClient) -> None:
    answer = told(page, "/parts/listed/sweeps")
    assert '<a href="/sweeps/grid">grid</a>' in answer
    assert '<progress max="5" value="4"' in answer
    assert "running" in text(answer)
    assert "4 of 5 1 83.00 stsb" in text(answer)  # ended, failed, best
    assert "nightly" in answer


def test_a_sweep_that_has_ended_is_not_looked_at_again(url: str, tmp_path: Path) -> None:
    copy = copied(url, tmp_path)
    with sqlite3.connect(copy) as connection:
        connection.execute("UPDATE sweeps SET state = 'INTERRUPTED', finished = started")
    client = create_app(f"sqlite:///{copy}").test_client()
    for address in ("/parts/live/sweeps/grid", "/parts/listed/sweeps", "/sweeps/grid"):
        answer = told(client, address)
        assert "interrupted" in answer
    for address in ("/stamp/sweeps/grid", "/stamp/sweeps"):
        assert client.get(address).get_json()["runs"] is False
    assert "Cut off 1" in text(told(client, "/sweeps/grid"))


def test_a_stamp_changes_when_something_is_heard(
    url: str, tmp_path: Path, trial_life: Callable[..., list[Event]]
) -> None:
    copy = f"sqlite:///{copied(url, tmp_path)}"
    client = create_app(copy).test_client()
    first = client.get("/stamp/sweeps/grid")
    told_then = first.get_json()
    assert (told_then["runs"], told_then["trials"], told_then["ended"]) == (True, 5, 4)
    again = client.get("/stamp/sweeps/grid", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    events = trial_life(5, {0: 0.5, 10: 0.9}, sweep="grid", trial="5" * 64, configuration="b" * 64)
    with open_store(copy) as board:
        LeaderboardSink(board).apply("j", list(enumerate(events, start=told_then["position"] + 1)))
    later = client.get("/stamp/sweeps/grid", headers={"If-None-Match": first.headers["ETag"]})
    told_now = later.get_json()
    assert told_now["position"] == told_then["position"] + len(events)
    assert (told_now["trials"], told_now["ended"]) == (6, 5)
    listed = client.get("/stamp/sweeps").get_json()
    assert listed["runs"] is True
    assert listed != create_app(url).test_client().get("/stamp/sweeps").get_json()


def test_the_curves_of_trials_that_run(page: FlaskClient) -> None:
    [curve] = figures(told(page, "/parts/running/sweeps/grid")).values()
    assert curve["data"][0]["y"] == [50.0, 70.0]
    assert curve["data"][0]["name"].startswith("#4 ")
    none = told(page, "/parts/running/sweeps/grid?metric=dev/nothing")
    assert "no running trial has reported dev/nothing yet" in none


def test_the_live_part(page: FlaskClient) -> None:
    answer = told(page, "/parts/live/sweeps/grid")
    said = text(answer)
    for name, count in {"Running": 1, "Complete": 3, "Pruned": 0, "Failed": 1}.items():
        assert f"{name} {count}" in said
    assert "Best so far, dev STS-B 83.00, trial 1, step 10" in said
    assert "#4 42 10 70.00" in said  # seed, last step, its dev score
    assert "τ₂=0.025, τ₃=0.0125" in said
    assert "Time left about" in said


def test_the_page_of_a_sweep_stands_before_its_figures(page: FlaskClient) -> None:
    answer = told(page, "/sweeps/grid?x=tau3&metric=train/loss")
    parts = ("running", "best", "search", "hyperparameters", "pair")
    assert re.findall(
        r'data-src="/parts/(\w+)/sweeps/grid\?metric=train%2Floss&amp;x=tau3"', answer
    ) == [*parts]
    assert figures(answer) == {}
    assert "1 to 5 of 5" in text(answer)  # its trials stand there at once
    assert "rank_loss:\n" in answer  # of its file
    assert "MLflow" not in answer


def test_best_configurations_with_their_curves(page: FlaskClient) -> None:
    answer = told(page, "/parts/best/sweeps/grid?x=tau2")
    assert text(answer).index("77777777") < text(answer).index("88888888")  # 0.83, then 0.82
    assert "99999999" not in answer  # failed
    [curve] = figures(answer).values()
    assert "Spearman × 100" in str(curve["layout"])
    assert '<input type="hidden" name="x" value="tau2">' in answer  # stays in the address
    assert "train/loss</option>" in answer
    of_loss = figures(told(page, "/parts/best/sweeps/grid?metric=train/loss"))
    assert "training loss" in str([one["layout"] for one in of_loss.values()])


def test_what_the_search_found_stands_above_its_figures(
    page: FlaskClient,
    filled_with: Callable[..., str],
    sweep_started: Callable[..., SweepStarted],
    trial_life: Callable[..., list[Event]],
) -> None:
    space = {"rate": {"low": 1e-5, "high": 1e-3, "log": True}}
    events: list[Event] = [sweep_started("long", spec=FILE | {"sweep": "long", "space": space})]
    for number in range(40):  # the higher the rate, the better
        events += trial_life(
            number,
            {10: 0.5 + number / 100},
            sweep="long",
            trial=f"{number:064x}",
            configuration=f"{number:064x}",
            values={"rate": 10 ** (-5 + number / 20)},
            searched=("rate",),
        )
    answer = told(create_app(filled_with(*events)).test_client(), "/parts/search/sweeps/long")
    found = answer[answer.index('<ul id="findings">') : answer.index("</ul>")]
    assert "best of 40 trials 89.00" in found
    assert "at the border: 3 of the best 5 trials have rate" in found
    assert "search_expected" in figures(answer)
    few = told(page, "/parts/search/sweeps/grid")
    assert 'id="findings"' not in few  # too few trials
    names = {"search_history", "search_parallel", "search_importances", "search_slices"}
    assert names <= {*figures(few)}
    settings = figures(told(page, "/parts/hyperparameters/sweeps/grid"))
    assert {"setting_tau2", "setting_tau3"} <= {*settings}


def test_two_settings_are_chosen_in_the_address(page: FlaskClient) -> None:
    axes = {}
    for query in ("", "?x=tau3&y=tau2"):
        answer = told(page, f"/parts/pair/sweeps/grid{query}")
        layout = figures(answer)["search_contour"]["layout"]
        assert isinstance(layout, dict)
        axes[query] = [layout[axis]["title"]["text"] for axis in ("xaxis", "yaxis")]
    assert axes == {"": ["tau2", "tau3"], "?x=tau3&y=tau2": ["tau3", "tau2"]}


def test_the_link_to_mlflow_is_there_where_a_server_is(url: str) -> None:
    for uri, there in (("http://localhost:5000", True), ("sqlite:///runs/mlflow.db", False)):
        answer = create_app(url, mlflow=uri).test_client().get("/sweeps/grid").text
        assert ('href="/sweeps/grid/mlflow"' in answer) is there


def test_time_is_told_shortly() -> None:
    expected = {
        None: "",
        0.4: "0 s",
        59.6: "1 min 00 s",
        200: "3 min 20 s",
        7500: "2 h 05 min",
        50 * 3600: "2 days 2 h",
    }
    assert {seconds: clock(seconds) for seconds in expected} == expected


def test_a_wrong_setting_spoils_only_what_asks_for_it(page: FlaskClient) -> None:
    for part in ("best", "search", "hyperparameters"):
        told(page, f"/parts/{part}/sweeps/grid?x=tau9")
    refused = page.get("/parts/pair/sweeps/grid?x=tau9", headers={"X-Part": "1"})
    assert refused.status_code == 400
    assert "'tau9' is not a hyperparameter that grid searches" in text(refused.text)
    assert page.get("/sweeps/").text == page.get("/sweeps").text  # nor does a slash at the end


def test_a_long_list_of_sweeps_has_pages(
    filled_with: Callable[..., str], sweep_started: Callable[..., SweepStarted]
) -> None:
    starts = [sweep_started(f"sweep-{n:03}", spec=FILE) for n in range(SWEEPS_SHOWN + 1)]
    page = create_app(filled_with(*starts)).test_client()
    first, last = told(page, "/sweeps"), told(page, "/parts/listed/sweeps?page=2")
    assert first.count('<th scope="row">') == SWEEPS_SHOWN
    assert 'href="/sweeps?page=2" rel="next"' in first
    assert re.findall(r'href="/sweeps/(sweep-\d+)"', last) == ["sweep-000"]
    assert told(page, "/parts/listed/sweeps?page=9") == last
