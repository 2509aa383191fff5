"""The table of a sweep's trials: filtered, sorted, cut into pages, as a file."""

import csv
import html
import io
import re
from collections.abc import Callable
from typing import Any

import pytest
from flask.testing import FlaskClient
from page_text import body, figures, heads, text, told

from cse_dashboards.page.app import create_app
from cse_platform.tracking.events import Event, SweepStarted

EVIL = "<script>alert('x')</script>"
SPACE = {
    "learning_rate": {"low": 1e-5, "high": 1e-3, "log": True},
    "rank_loss": ["listnet", EVIL],
    "tau2": [0.05],
}
FILE = {
    "sweep": "many",
    "method": "rankcse",
    "backbone": "mini",
    "corpus": "builtin",
    "space": SPACE,
    "search": {"sampler": "random", "trials": 130, "seed": 42},
}


@pytest.fixture(scope="module")
def page(
    filled_with: Callable[..., str],
    sweep_started: Callable[..., SweepStarted],
    trial_life: Callable[..., list[Event]],
) -> FlaskClient:
    """A sweep of 130 trials: each tenth failed, one is running."""
    events: list[Event] = [sweep_started("many", spec=FILE)]
    for number in range(130):
        events += trial_life(
            number,
            {0: 0.5, 10: 0.5 + number / 1000},
            sweep="many",
            state=None if number == 129 else "FAIL" if number % 10 == 5 else "COMPLETE",
            trial=f"{number:064x}",
            configuration=f"{number:064x}",
            values={
                "learning_rate": 1e-5 * (number + 1),
                "rank_loss": ("listnet", EVIL)[number % 2],
                "tau2": 0.05,
                "batch_size": 64,
            },
            searched=tuple(SPACE),
        )
    return create_app(filled_with(*events)).test_client()


def trials(page: FlaskClient, query: str = "") -> list[int]:
    """The numbers in the table."""
    table = told(page, f"/parts/trials/sweeps/many{query}")
    return [int(row["trial"][1:]) for row in body(table)] if "<tbody>" in table else []


def links(source: str, name: str) -> str:
    """Where the link of that name leads."""
    [found] = re.findall(rf'<a[^>]* href="([^"]*)"[^>]*>{re.escape(name)}</a>', source)
    return html.unescape(found)


def test_every_trial_in_every_state_newest_first(page: FlaskClient) -> None:
    source = told(page, "/sweeps/many")
    table = source[source.index('id="trials"') :]
    shown = body(table)
    assert [row["trial"] for row in shown] == [f"#{number}" for number in range(129, 79, -1)]
    assert heads(table)[1:5] == ["trial", "state", "dev STS-B × 100", "lr"]
    assert "τ₂" not in heads(table)  # equal for all
    assert "tau2 = 0.05" in text(table) and "batch_size = 64" in text(table)
    assert (shown[0]["state"], shown[0]["dev STS-B × 100"]) == ("running", "62.90")
    failed = next(row for row in shown if row["trial"] == "#125")
    assert (failed["state"], failed["error"], failed["step"]) == ("failed", "loss is NaN", "10")
    assert failed["key"] == f"{125:064x}"[:8]
    assert "1 to 50 of 130" in text(table)
    assert EVIL not in source and html.escape(EVIL) in source.replace("&#39;", "&#x27;")


def test_pages(page: FlaskClient) -> None:
    assert trials(page, "?page=2") == list(range(79, 29, -1))
    last = told(page, "/parts/trials/sweeps/many?page=3&sort=number")
    assert "101 to 130 of 130" in text(last)
    assert links(last, "previous") == "/sweeps/many?sort=number&page=2#trials"
    assert trials(page, "?page=99") == trials(page, "?page=3")  # there were more once


def test_heads_sort_both_ways(page: FlaskClient) -> None:
    assert trials(page, "?sort=learning_rate")[:3] == [0, 1, 2]
    source = told(page, "/parts/trials/sweeps/many?sort=learning_rate")
    assert 'class="right" aria-sort="ascending"' in source
    assert links(source, "lr") == "/sweeps/many?sort=-learning_rate#trials"
    assert trials(page, "?sort=-learning_rate")[:3] == [129, 128, 127]
    assert links(source, "dev STS-B × 100") == "/sweeps/many?sort=-score#trials"


def test_counts_lead_to_the_trials_they_count(page: FlaskClient) -> None:
    live = told(page, "/parts/live/sweeps/many?where=rank_loss:listnet")
    assert links(live, "13") == "/sweeps/many?where=rank_loss:listnet&state=FAIL#trials"
    assert trials(page, "?state=FAIL") == list(range(125, 0, -10))


def test_a_form_adds_a_condition_and_a_link_takes_it_away(page: FlaskClient) -> None:
    query = "?where=rank_loss:listnet&narrow=learning_rate&to=1e-4..1.4e-4&sort=number"
    assert trials(page, query) == [10, 12]
    source = told(page, f"/parts/trials/sweeps/many{query}")
    assert "lr from 1e-4 to 1.4e-4" in text(source)
    both = re.findall(r'<a href="([^"]*)" aria-label="Without', source)
    assert [html.unescape(one) for one in both] == [
        "/sweeps/many?where=learning_rate:0.0001..0.00014&sort=number#trials",
        "/sweeps/many?where=rank_loss:listnet&sort=number#trials",
    ]
    assert trials(page, "?where=rank_loss:none") == []
    assert "No trial passes this filter." in told(page, "/sweeps/many?where=rank_loss:none")


def test_a_value_leads_to_the_trials_that_have_it(page: FlaskClient) -> None:
    source = told(page, "/parts/trials/sweeps/many?sort=number")
    evil = html.unescape(re.findall(r'href="([^"]*)" title="Only these"', source)[1])
    assert trials(page, evil.partition("/many")[2].partition("#")[0])[:2] == [1, 3]


def test_columns_are_chosen(page: FlaskClient) -> None:
    query = "?columns=score&columns=learning_rate"
    source = told(page, f"/parts/trials/sweeps/many{query}")
    assert heads(source)[1:] == ["trial", "dev STS-B × 100", "lr"]
    assert links(source, "next") == "/sweeps/many?page=2&columns=score,learning_rate#trials"


def test_the_file_has_all_that_pass(page: FlaskClient) -> None:
    answer = page.get("/as/csv/sweeps/many?where=learning_rate:..1e-3&sort=-score")
    assert answer.mimetype == "text/csv"
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(rows) == 100
    assert [int(row["number"]) for row in rows][:6] == [99, 98, 97, 96, 95, 94]
    best = rows[0]
    assert (float(best["score"]), float(best["learning_rate"])) == (0.599, pytest.approx(1e-3))
    assert best["rank_loss"] == EVIL and best["key"] == f"{99:064x}"


def test_the_figures_are_of_the_trials_that_pass(page: FlaskClient) -> None:
    query = "?where=learning_rate:..1e-4"
    search = told(page, f"/parts/search/sweeps/many{query}")
    points: Any = figures(search)["search_history"]["data"][0]
    assert len(points["x"]) == 9  # ten, without the one that failed
    assert "Of the trials where lr to 1e-4" in text(search)
    best = told(page, f"/parts/best/sweeps/many{query}")
    assert f"{9:064x}"[:8] in text(best)
    assert "No complete trial passes this filter" in told(
        page, "/parts/best/sweeps/many?where=learning_rate:5..6"
    )


def test_a_trial_leads_to_its_neighbours_and_says_what_the_best_has(page: FlaskClient) -> None:
    source = told(page, f"/trials/{4:064x}")
    assert "Sweeps › many › #4 ← #3 #5 →" in text(source)
    assert links(source, "← #3") == f"/trials/{3:064x}"
    assert links(source, "#5 →") == f"/trials/{5:064x}"
    assert links(source, "best: #128") == f"/trials/{128:064x}"
    settings = {
        row["hyperparameter"]: row for row in body(source[source.index("<h2>Hyperparameters") :])
    }
    assert settings["learning_rate"]["the sweep's best"].startswith("0.00129")
    assert settings["rank_loss"]["the sweep's best"] == ""  # it has the same
    first, best = told(page, f"/trials/{0:064x}"), told(page, f"/trials/{128:064x}")
    assert 'rel="prev"' not in first and 'rel="next"' in first
    assert "the best of its sweep" in text(best)
    assert "the sweep's best" not in heads(best[best.index("<h2>Hyperparameters") :])
