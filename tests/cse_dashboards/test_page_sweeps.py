import csv
import html
import io
import re
import sqlite3
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from page_text import body, copied, figures, heads, text, told
from sqlalchemy import event
from sqlalchemy.engine import Engine
from stored_trials import fill_store
from sweep_events import sweep_started, trial_evaluated, trial_life

from cse_dashboards.page.app import create_app
from cse_dashboards.page.views.sweep import SWEEPS_SHOWN
from cse_platform.stores.sql.sink import LeaderboardSink
from cse_platform.stores.sql.store import open_store
from cse_platform.tracking.events import AnnotationWritten, Event, SweepFinished

SPACE = {"tau2": [0.0125, 0.025, 0.05], "tau3": [0.0125, 0.025], "rank_loss": ["listnet"]}
FILE = {
    "sweep": "grid", "method": "rankcse", "backbone": "mini", "corpus": "builtin", "space": SPACE,
    "search": {"sampler": "random", "trials": 5, "seed": 42}, "tags": ["nightly"],
}  # fmt: skip
TRIALS = (("COMPLETE", 0.81), ("COMPLETE", 0.83), ("COMPLETE", 0.82), ("FAIL", 0.1), (None, 0.7))


@pytest.fixture(scope="module")
def url(filled_with) -> str:
    """A sweep that runs: three trials are complete, one failed, one is on its way."""
    events: list[Event] = [sweep_started("grid", spec=FILE)]
    for number, (state, value) in enumerate(TRIALS):
        values = {"tau2": SPACE["tau2"][number % 3], "tau3": SPACE["tau3"][number % 2]}
        events += trial_life(
            number, {0: 0.5, 10: value}, sweep="grid", state=state, trial=f"{number:x}" * 64,
            configuration=f"{number + 6:x}" * 64, values=values, searched=("tau2", "tau3"),
            measured={"perf/warmth": 20.5, "train/own_gap": number / 4, "dev/alignment": 0.25},
        )  # fmt: skip
    scores = {"test/lab_pairs_spearman": 0.625}
    return filled_with(*events, trial_evaluated("1" * 64, scores, sweep="grid"))


@pytest.fixture(scope="module")
def page(url: str) -> FlaskClient:
    return create_app(url).test_client()


def test_a_request_takes_one_transaction(page: FlaskClient) -> None:
    """In it, the row of a sweep is read by name once."""
    parts = ("trials", "live", "best", "search", "curves")
    addresses = ["/", "/sweeps", "/sweeps/gird", "/sweeps/grid", "/sweeps/grid?where=tau2=0.025"]
    addresses += [f"/trials/{'0' * 64}", *(f"/parts/{part}/sweeps/grid" for part in parts)]
    page.get("/sweeps")  # opens the leaderboard
    statements: list[str] = []
    own = threading.get_ident()

    def note(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        if threading.get_ident() == own:  # others draw what an earlier request asked for
            statements.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        for address in addresses:
            statements.clear()
            assert page.get(address).text
            assert statements.count("BEGIN") == 1, address
            by_name = [one for one in statements if one.startswith("SELECT sweeps.id, sweeps.name")]
            most = 2 if address.startswith("/trials") else 1  # a key could be a sweep's name
            assert sum(one.endswith("WHERE sweeps.name = ?") for one in by_name) <= most, address
            assert len(statements) <= (23 if address.startswith("/trials") else 40), address
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def test_a_sweep_that_has_ended_follows_what_others_write(filled_with) -> None:
    """Its journal does not grow, but evaluations, notes and other sweeps change what it shows."""
    events: list[Event] = [sweep_started("grid", spec=FILE)]
    for number, (configuration, seed, value) in enumerate(
        [("a", 42, 0.80), ("b", 42, 0.70), ("a", 0, 0.76), ("a", 1, 0.74)]
    ):
        events += trial_life(
            number, {10: value}, sweep="grid", configuration=configuration, seed=seed,
            role="confirm" if number > 1 else "search", searched=("tau2",),
            values={"tau2": 0.0125 if configuration == "a" else 0.025},
        )  # fmt: skip
    url = filled_with(*events, SweepFinished(sweep="grid", state="COMPLETE"))
    client = create_app(url).test_client()

    def read() -> tuple[str, list[str], list[float]]:
        best = text(told(client, "/parts/best/sweeps/grid"))
        offered = told(client, "/parts/trials/sweeps/grid?columns=score")
        drawn = figures(told(client, "/parts/hyperparameters/sweeps/grid"))["setting_tau2"]
        return best, re.findall(r'value="(test/\w+)"', offered), drawn["data"][-1]["y"]

    best, offered, means = read()
    assert "75.00" in best and "△" not in best and not offered
    assert means == pytest.approx([75, 70])
    note = AnnotationWritten(
        sweep="grid", about="sweep", name="grid", who="ada", tags={"odd": True}
    )
    tested = trial_evaluated("a-0", {"test/stsb_spearman": 0.625}, sweep="grid")
    again: list[Event] = [sweep_started("second", spec=FILE | {"sweep": "second"})]
    for number, (configuration, seed, value) in enumerate(
        [("a", 0, 0.76), ("a", 1, 0.74), ("c", 0, 0.1)]
    ):
        of = {"configuration": configuration, "seed": seed, "sweep": "second"}
        again += trial_life(number, {10: value}, **of)
    for journal, written in {"n": [note], "e": [tested], "s": again}.items():
        fill_store(url, written, journal=journal)
    best, offered, means = read()
    assert "76.67" in best and "△" in best and "62.50" in best and "odd" in best
    assert offered == ["test/stsb_spearman"]
    assert means == pytest.approx([76.67, 70], abs=0.01)


def test_the_best_of_a_sweep_is_first_in_its_one_table(filled_with) -> None:
    """As the leaderboard has it: seeds that did not choose come first. Its test scores, on data of
    another kind than the dev set, are in a table of their own.
    """
    events: list[Event] = [sweep_started("grid", spec=FILE)]
    for number, (configuration, seed, value) in enumerate(
        [("a", 42, 0.80), ("b", 42, 0.78), ("c", 42, 0.79), ("a", 0, 0.71), ("a", 1, 0.69)]
    ):
        events += trial_life(
            number, {10: value}, sweep="grid", configuration=configuration * 8, seed=seed,
            role="confirm" if number > 2 else "search",
        )  # fmt: skip
    tested = trial_evaluated(
        f"{'a' * 8}-0", {"test/stsb_spearman": 0.625}, sweep="grid", source="hub"
    )
    client = create_app(filled_with(*events, tested)).test_client()
    page = told(client, "/parts/best/sweeps/grid")
    by_dev, on_tests = re.findall("<table.*?</table>", page, re.DOTALL)
    named = re.findall("a{8}|b{8}|c{8}", text(by_dev))
    assert list(dict.fromkeys(named)) == ["a" * 8, "c" * 8, "b" * 8]
    assert "<strong>" not in by_dev and "62.50" in text(on_tests)
    assert "Configurations that further seeds estimate come first" in text(page)


def test_a_sweep_shows_the_scores_on_own_tests_where_it_has_no_others(filled_with) -> None:
    life = trial_life(0, {10: 0.75}, sweep="grid")
    evaluated = [
        trial_evaluated(life[0].trial, {name: score}, identity=name, sweep="grid")
        for name, score in (("test/ours_spearman", 0.625), ("test/stsb_spearman", 0.5))
    ]
    for scores, there, not_there in (
        (evaluated[:1], "62.50", "50.00"), (evaluated, "50.00", "62.50"),
    ):  # fmt: skip
        client = create_app(filled_with(sweep_started("grid", spec=FILE), *life, *scores))
        page = text(told(client.test_client(), "/parts/best/sweeps/grid"))
        assert there in page and not_there not in page, page


def test_a_sweep_says_that_its_best_is_below_the_untrained_backbone(filled_with) -> None:
    *events, finished = trial_life(0, {0: 0.7, 10: 0.6}, sweep="grid")
    said = {}
    for trained in (0.6, 0.7):
        ended = finished.model_copy(update={"best_step": 10, "best_value": trained})
        url = filled_with(sweep_started("grid", spec=FILE), *events, ended)
        said[trained] = text(told(create_app(url).test_client(), "/parts/best/sweeps/grid"))
    assert "The best is below the untrained backbone, 70.00 at step 0." in said[0.6]
    assert "untrained backbone" not in said[0.7]


def test_the_list_says_how_far_each_is(page: FlaskClient) -> None:
    answer = told(page, "/parts/listed/sweeps")
    for there in ('<a href="/sweeps/grid">grid</a>', '<progress max="5" value="4"', "nightly"):
        assert there in answer
    assert "running" in text(answer)
    assert "running 4 4 of 5 1 83.00 STS-B" in text(answer)  # the bar, ended, failed, best


def test_a_sweep_that_has_ended_is_not_looked_at_again(url: str, tmp_path: Path) -> None:
    copy = copied(url, tmp_path)
    with sqlite3.connect(copy) as connection:
        connection.execute("UPDATE sweeps SET state = 'INTERRUPTED', finished = started")
    client = create_app(f"sqlite:///{copy}").test_client()
    for address in ("/parts/live/sweeps/grid", "/parts/listed/sweeps", "/sweeps/grid"):
        assert "interrupted" in told(client, address)
    for address in ("/stamp/sweeps/grid", "/stamp/sweeps"):
        assert client.get(address).get_json()["runs"] is False
    assert "Cut off 1" in text(told(client, "/sweeps/grid"))
    with sqlite3.connect(copy) as connection:
        connection.execute("UPDATE sweeps SET state = 'COMPLETE'")
        connection.execute("UPDATE attempts SET state = 'FAIL' WHERE state = 'COMPLETE'")
    assert 'class="state failed"' in told(client, "/parts/listed/sweeps")


def test_a_stamp_changes_when_something_is_heard(url, tmp_path) -> None:
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


def test_progress_and_curves_of_trials_that_run(
    page: FlaskClient, url: str, tmp_path: Path
) -> None:
    [curve] = figures(told(page, "/parts/curves/sweeps/grid")).values()
    drawn = {line["name"]: line for line in curve["data"] if line["mode"] == "lines+markers"}
    first, *_, last = drawn
    assert first == "τ₂=0.025, τ₃=0.025" and drawn[first]["y"] == [50.0, 83.0]
    assert last == "#4 runs: τ₂=0.025, τ₃=0.0125" and drawn[last]["y"] == [50.0, 70.0]
    assert [line["line"]["dash"] for line in drawn.values()] == ["solid"] * 3 + ["dash"]
    copy = copied(url, tmp_path)
    with sqlite3.connect(copy) as connection:
        connection.execute("UPDATE attempts SET why = 'cut off' WHERE state = 'RUNNING'")
    resumed = text(told(create_app(f"sqlite:///{copy}").test_client(), "/sweeps/grid"))
    assert "Waiting 1" in resumed and "Running 1" not in resumed and "#4 waits" in resumed
    none = told(page, "/parts/curves/sweeps/grid?metric=dev/nothing")
    assert "there is no dev curve of dev/nothing" in none
    answer = told(page, "/parts/live/sweeps/grid")
    for said in (
        *("Running 1", "Complete 3", "Failed 1", "Time left about"),
        "Best so far, dev STS-B 83.00, trial 1, optimiser step 10",
        "#4 42 10 70.00",  # seed, last step, its dev score
        "τ₂=0.025, τ₃=0.0125",
    ):
        assert said in text(answer)


def test_runs_without_steps_have_none_on_the_page(filled_with) -> None:
    """As imported ones may; their values differ in all hyperparameters but one."""
    events: list[Event] = [sweep_started("lab", spec=FILE | {"sweep": "lab"})]
    for number, value in enumerate((0.8, 0.8095)):
        of = {"trial": f"{number}" * 64, "values": {"tau2": 0.025 + number, "batch_size": 64}}
        started, _, finished = trial_life(number, {0: value}, sweep="lab", **of)
        events += [started, finished.model_copy(update={"best_step": None})]
    page = create_app(filled_with(*events)).test_client()
    sweep = text(told(page, "/sweeps/lab"))
    assert "STS-B 80.95, trial 1 " in sweep and "None" not in sweep
    assert "Same for all trials: 1 hyperparameter " in text(told(page, "/parts/trials/sweeps/lab"))
    assert "complete 80.95 " in (trial := text(told(page, f"/trials/{'1' * 64}")))
    assert "optimiser step None" not in trial


def test_scores_by_width_of_a_trial_and_of_the_best_are_drawn(filled_with) -> None:
    events: list[Event] = [sweep_started("grid", spec=FILE)]
    for number, narrow in enumerate((0.5, 0.25)):
        scores = {8: narrow, 32: 0.75}
        widths = {f"dev/stsb_spearman_width_{width}": score for width, score in scores.items()}
        of = {"trial": f"{number}" * 64, "configuration": "a" * 64, "seed": number}
        events += trial_life(number, {0: 0.5, 10: 0.75}, sweep="grid", measured=widths, **of)
    page = create_app(filled_with(*events)).test_client()
    for address, expected in {
        f"/trials/{'1' * 64}": [25.0, 75.0],
        "/parts/curves/sweeps/grid": [37.5, 75.0],  # over seeds
    }.items():
        answer = told(page, address)
        figure = figures(answer)["dev_by_width"]
        [line] = figure["data"]
        assert (line["x"], line["y"]) == ([8, 32], expected)
        assert figure["layout"]["xaxis"]["ticktext"] == ["8", "32"]
        assert "other_metrics" not in figures(answer)
    assert "STS-B dev, Spearman of 8 coordinates" in told(page, "/parts/trials/sweeps/grid")


def test_a_sweep_whose_trials_have_ended_scores_them_on_test_sets(filled_with) -> None:
    told_by = dict[int, str]()
    file = FILE | {"space": {"tau2": [0.05, 0.1]}, "evaluate": {"top": 1, "tasks": ["sts"]}}
    for ended in (4, 5):
        events: list[Event] = [sweep_started("grid", spec=file)]
        for number in range(ended):
            of = {"trial": f"{number:x}" * 64, "configuration": f"{number + 6:x}" * 64}
            events += trial_life(number, {0: 0.5, 10: 0.8}, sweep="grid", **of)
        client = create_app(filled_with(*events)).test_client()
        told_by[ended] = text(told(client, "/parts/live/sweeps/grid"))
    assert "test" not in told_by[4]
    assert "State running, scoring on test sets" in told_by[5]
    assert "Time left until the test scores are there" in told_by[5]


def test_the_page_of_a_sweep_stands_before_its_figures(page: FlaskClient) -> None:
    answer = told(page, "/sweeps/grid?x=tau3&metric=train/loss")
    found = re.findall(r'data-src="/parts/(\w+)/sweeps/grid\?metric=train%2Floss&amp;x=', answer)
    assert found == ["curves", "search", "best", "hyperparameters", "pair"]
    assert figures(answer) == {}
    assert "1 to 5 of 5" in text(answer)  # its trials stand there at once
    assert "rank_loss:\n" in answer  # of its file
    assert "MLflow" not in answer


def test_best_configurations_and_their_curves(page: FlaskClient) -> None:
    html = told(page, "/parts/best/sweeps/grid")
    assert heads(html)[1:4] == ["method", "dev STS-B (built-in)", "searched"]  # what a phone shows
    answer = text(html)
    assert answer.index("77777777") < answer.index("88888888")  # 0.83, then 0.82
    assert "99999999" not in answer  # failed
    assert "Not ranked" not in answer  # nothing here is
    answer = told(page, "/parts/curves/sweeps/grid?x=tau2")
    [curve] = figures(answer).values()
    assert "Spearman × 100" in str(curve["layout"])
    assert '<input type="hidden" name="x" value="tau2">' in answer  # stays in the address
    offered = re.findall(r"<option[^>]*>([a-z]+/\w+)</option>", answer)
    assert offered == [
        *("dev/stsb_spearman", "dev/alignment", "train/loss", "train/own_gap", "perf/warmth")
    ]
    assert offered == re.findall(
        r"<option[^>]*>([a-z]+/\w+)</option>",
        told(page, "/parts/curves/compare?rows=111111,222222"),
    )
    for address in ("curves/sweeps/grid?", "curves/compare?rows=111111,222222&"):
        drawn = figures(told(page, f"/parts/{address}metric=train/own_gap"))
        assert "own_gap" in str([one["layout"] for one in drawn.values()])


def test_own_metrics_and_test_scores_are_columns(page: FlaskClient) -> None:
    names = "columns=key,train/own_gap,test/lab_pairs_spearman"
    shown = body(told(page, f"/parts/trials/sweeps/grid?{names}&sort=-train/own_gap"))
    assert [row["trial"] for row in shown] == ["#3", "#2", "#1", "#0", "#4"]  # one still runs
    _, _, first, second, _ = ([*row.values()][-2:] for row in shown)
    assert (first, second) == (["62.50", "0.25"], ["", "0"])
    plain = told(page, "/parts/trials/sweeps/grid")
    assert "own_gap" not in "".join(heads(plain)) and 'value="train/own_gap"' in plain
    lines = csv.DictReader(io.StringIO(page.get(f"/as/csv/sweeps/grid?{names}&sort=number").text))
    assert [line["test/lab_pairs_spearman"] for line in lines][:2] == ["", "0.625"]


def test_what_the_search_found_stands_above_its_figures(page, filled_with) -> None:
    space = {"rate": {"low": 1e-5, "high": 1e-3, "log": True}}
    events: list[Event] = [sweep_started("long", spec=FILE | {"sweep": "long", "space": space})]
    for number in range(40):  # the higher the rate, the better
        key, values = f"{number:064x}", {"rate": 10 ** (-5 + number / 20)}
        of = {"sweep": "long", "trial": key, "configuration": key}
        events += trial_life(
            number, {10: 0.5 + number / 100}, **of, values=values, searched=("rate",)
        )
    long = create_app(filled_with(*events)).test_client()
    answer = told(long, "/parts/hyperparameters/sweeps/long")
    found = answer[answer.index('<ul id="findings">') : answer.index("</ul>")]
    assert "best of 40 trials 89.00" in found
    assert "at the border: 3 of the best 5 trials have rate" in found
    assert list(figures(answer)) == ["setting_rate", "search_expected"]
    lacking = "Not drawn: Importance of hyperparameters (sweep long searches fewer than two"
    assert lacking in text(answer)
    assert "<h2>Two hyperparameters</h2>" not in told(long, "/sweeps/long")
    assert "<h2>Two hyperparameters</h2>" in told(page, "/sweeps/grid")
    few = told(page, "/parts/hyperparameters/sweeps/grid")
    assert 'id="findings"' not in few  # too few trials
    assert list(figures(few)) == ["setting_tau2", "setting_tau3"]
    lacking = "Not drawn: Importance of hyperparameters, Expected best of n trials (fewer than 10"
    assert lacking in text(few) and "Effect of rank_loss (no complete trial" in text(few)
    tried = figures(told(page, "/parts/search/sweeps/grid"))
    assert list(tried) == ["search_parallel", "search_history"]


def test_a_sweep_that_started_again_says_when_not_how_long(filled_with) -> None:
    first = [sweep_started("grid", spec=FILE), *trial_life(0, {10: 0.8}, sweep="grid")]
    end = SweepFinished(sweep="grid", state="COMPLETE")
    again = sweep_started("grid", spec=FILE)
    hour = timedelta(hours=1)
    later = [event.model_copy(update={"time": event.time + hour}) for event in (again, end)]
    once = told(create_app(filled_with(*first, end)).test_client(), "/sweeps/grid")
    assert "<dt>Took</dt>" in once and "<dt>Last started</dt>" not in once
    twice = told(create_app(filled_with(*first, end, *later)).test_client(), "/sweeps/grid")
    assert "<dt>Took</dt>" not in twice and "<dt>Last started</dt>" in twice


def test_two_settings_are_chosen_in_the_address_and_a_wrong_one_spoils_no_more(page) -> None:
    axes = {}
    for query in ("", "?x=tau3&y=tau2"):
        answer = told(page, f"/parts/pair/sweeps/grid{query}")
        layout = figures(answer)["surface"]["layout"]
        axes[query] = [layout[axis]["title"]["text"] for axis in ("xaxis", "yaxis")]
    assert axes == {"": ["tau2", "tau3"], "?x=tau3&y=tau2": ["tau3", "tau2"]}
    for part in ("best", "search", "hyperparameters"):
        told(page, f"/parts/{part}/sweeps/grid?x=tau9")
    refused = page.get("/parts/pair/sweeps/grid?x=tau9", headers={"X-Part": "1"})
    assert refused.status_code == 400
    assert "'tau9' is not a hyperparameter that grid searches" in text(refused.text)
    assert page.get("/sweeps/").status_code == 200  # nor does a slash at the end spoil anything


def test_a_long_list_of_sweeps_has_pages(filled_with) -> None:
    starts = [sweep_started(f"sweep-{n:03}", spec=FILE) for n in range(SWEEPS_SHOWN + 1)]
    page = create_app(filled_with(*starts)).test_client()
    first, last = told(page, "/sweeps"), told(page, "/parts/listed/sweeps?page=2")
    assert first.count('<th scope="row">') == SWEEPS_SHOWN
    assert 'href="/sweeps?page=2" rel="next"' in first
    assert re.findall(r'href="/sweeps/(sweep-\d+)"', last) == ["sweep-000"]
    assert told(page, "/parts/listed/sweeps?page=9") == last


EVIL = "=<script>alert('x')</script>"
SETTINGS = {
    "learning_rate": {"low": 1e-5, "high": 1e-3, "log": True},
    "rank_loss": ["listnet", EVIL],
    "tau2": [0.05],
}
MANY = {
    **FILE, "sweep": "many", "space": SETTINGS, "tags": [],
    "search": {"sampler": "random", "trials": 130, "seed": 42},
}  # fmt: skip


@pytest.fixture(scope="module")
def many(filled_with) -> FlaskClient:
    """A sweep of 130 trials: each tenth failed, one is running."""
    events: list[Event] = [sweep_started("many", spec=MANY)]
    for number in range(130):
        state = None if number == 129 else "FAIL" if number % 10 == 5 else "COMPLETE"
        loss = ("listnet", EVIL)[number % 2]
        values = {"learning_rate": 1e-5 * (number + 1), "rank_loss": loss, "tau2": 0.05}
        events += trial_life(
            number, {0: 0.5, 10: 0.5 + number / 1000}, sweep="many", state=state,
            trial=f"{number:064x}", configuration=f"{number:064x}",
            values=values | {"batch_size": 64}, searched=tuple(SETTINGS),
        )  # fmt: skip
    return create_app(filled_with(*events)).test_client()


def trials(many: FlaskClient, query: str = "") -> list[int]:
    table = told(many, f"/parts/trials/sweeps/many{query}")
    return [int(row["trial"][1:]) for row in body(table)] if "<tbody>" in table else []


def links(source: str, name: str) -> str:
    """Where the link of that name leads."""
    [found] = re.findall(rf'<a[^>]* href="([^"]*)"[^>]*>{re.escape(name)}</a>', source)
    return html.unescape(found)


def test_every_trial_in_every_state_newest_first_and_as_a_file(many: FlaskClient) -> None:
    source = told(many, "/sweeps/many")
    table = source[source.index('id="trials"') :]
    shown = body(table)
    assert [row["trial"] for row in shown] == [f"#{number}" for number in range(129, 79, -1)]
    assert heads(table)[1:5] == ["trial", "state", "dev STS-B × 100", "learning_rate"]
    assert "τ₂" not in heads(table)  # equal for all
    assert "tau2 = 0.05" in text(table) and "batch_size = 64" in text(table)
    assert (shown[0]["state"], shown[0]["dev STS-B × 100"]) == ("running", "62.90")
    failed = next(row for row in shown if row["trial"] == "#125")
    assert (failed["state"], failed["error"], failed["optimiser step"]) == (
        "failed",
        "loss is NaN",
        "10",
    )
    assert failed["key"] == f"{125:064x}"[:8]
    assert "1 to 50 of 130" in text(table)
    assert EVIL not in source and html.escape(EVIL) in source.replace("&#39;", "&#x27;")
    answer = many.get("/as/csv/sweeps/many?where=learning_rate<=1e-3&sort=-score")
    assert answer.mimetype == "text/csv"
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(rows) == 100
    assert [int(row["number"]) for row in rows][:6] == [99, 98, 97, 96, 95, 94]
    best = rows[0]
    assert (float(best["score"]), float(best["learning_rate"])) == (0.599, pytest.approx(1e-3))
    assert best["rank_loss"] == f"'{EVIL}" and best["key"] == f"{99:064x}"


def test_pages_heads_counts_and_columns_of_the_table(many: FlaskClient) -> None:
    assert trials(many, "?page=2") == list(range(79, 29, -1))
    last = told(many, "/parts/trials/sweeps/many?page=3&sort=number")
    assert "101 to 130 of 130" in text(last)
    assert links(last, "previous") == "/sweeps/many?sort=number&page=2#trials"
    assert trials(many, "?page=99") == trials(many, "?page=3")  # there were more once
    assert trials(many, "?sort=learning_rate")[:3] == [0, 1, 2]
    source = told(many, "/parts/trials/sweeps/many?sort=learning_rate")
    assert 'class="right" aria-sort="ascending"' in source
    assert links(source, "learning_rate") == "/sweeps/many?sort=-learning_rate#trials"
    assert trials(many, "?sort=-learning_rate")[:3] == [129, 128, 127]
    assert links(source, "dev STS-B × 100") == "/sweeps/many?sort=-score#trials"
    live = told(many, "/parts/live/sweeps/many?where=rank_loss=listnet")
    assert links(live, "13") == "/sweeps/many?where=rank_loss+%3D+listnet&state=FAIL#trials"
    assert trials(many, "?state=FAIL") == list(range(125, 0, -10))
    query = "?columns=score&columns=learning_rate"
    source = told(many, f"/parts/trials/sweeps/many{query}")
    assert heads(source)[1:] == ["trial", "dev STS-B × 100", "learning_rate"]
    assert links(source, "next") == "/sweeps/many?page=2&columns=score,learning_rate#trials"


def test_a_form_adds_a_condition_and_a_link_takes_it_away(many: FlaskClient) -> None:
    query = "?where=learning_rate>=1.1e-4&sort=number&narrow=learning_rate&to=<=1.35e-4"
    assert trials(many, query) == [10, 11, 12]
    source = told(many, f"/parts/trials/sweeps/many{query}")
    assert "learning_rate >= 1.1e-4" in text(source) and "learning_rate <= 1.35e-4" in text(source)
    both = re.findall(r'<a href="([^"]*)" aria-label="Without', source)
    assert [html.unescape(one) for one in both] == [
        "/sweeps/many?where=learning_rate+%3C%3D+0.000135&sort=number#trials",
        "/sweeps/many?where=learning_rate+%3E%3D+0.00011&sort=number#trials",
    ]
    assert trials(many, "?where=rank_loss=null") == []
    assert "No trial passes this filter." in told(many, "/sweeps/many?where=rank_loss=null")
    query = "?where=learning_rate<=1e-4"
    search = told(many, f"/parts/search/sweeps/many{query}")
    points: Any = figures(search)["search_history"]["data"][0]
    assert len(points["x"]) == 9  # ten, without the one that failed
    assert "Of the trials where learning_rate <= 1e-4" in text(search)
    best = told(many, f"/parts/best/sweeps/many{query}")
    assert f"{9:064x}"[:8] in text(best)
    none = told(many, "/parts/best/sweeps/many?where=learning_rate>5")
    assert "No complete trial passes this filter" in none


def test_a_trial_leads_to_its_neighbours_and_says_what_the_best_has(many: FlaskClient) -> None:
    source = told(many, f"/trials/{4:064x}")
    assert "Sweeps › many › #4 ← #3 #5 →" in text(source)
    assert links(source, "← #3") == f"/trials/{3:064x}"
    assert links(source, "#5 →") == f"/trials/{5:064x}"
    assert links(source, "best: #128") == f"/trials/{128:064x}"
    rows = body(source[source.index("<summary>Hyperparameters") :])
    settings = {row["hyperparameter"]: row for row in rows}
    assert settings["learning_rate"]["the sweep's best"].startswith("0.00129")
    assert settings["rank_loss"]["the sweep's best"] == ""  # it has the same
    first, best = told(many, f"/trials/{0:064x}"), told(many, f"/trials/{128:064x}")
    assert 'rel="prev"' not in first and 'rel="next"' in first
    assert "the highest dev score of its sweep" in text(best)
    assert "the sweep's best" not in heads(best[best.index("<summary>Hyperparameters") :])
