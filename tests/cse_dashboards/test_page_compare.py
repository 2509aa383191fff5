"""Rows beside each other: which are meant, what differs in them, and how far they are apart."""

import html
import re
from collections.abc import Callable

import pytest
from flask.testing import FlaskClient
from page_text import body, figures, heads, text, told

from cse_dashboards.page.address import ROWS_COMPARED
from cse_dashboards.page.app import create_app
from cse_methods.tasks import STS_TASKS
from cse_platform.leaderboard import Leaderboard
from cse_platform.tracking.events import Event, SweepStarted, TrialEvaluated

BOTH = "rows=simcse,hicl"


def test_rows_are_chosen_before_they_are_compared(client: FlaskClient) -> None:
    answer = told(client, "/compare?rows=hicl")
    assert "data-src" not in answer
    assert f'<option value="hicl@{"a" * 8}">' in answer
    assert '<input type="hidden" name="rows" value="hicl">' in answer
    both = told(client, f"/compare?{BOTH}&task=sts13")
    for part in ("differences", "curves", "pairs"):
        assert f'data-src="/parts/{part}/compare?{BOTH}&amp;task=sts13"' in both
    assert "<option selected>sts13</option>" in both
    assert "<h1>SimCSE, HiCL</h1>" in both


def test_older_links_lead_to_the_rows(client: FlaskClient) -> None:
    answer = client.get("/compare?a=hicl&b=simcse&task=sts13")
    assert (answer.status_code, answer.location) == (302, f"/compare?{BOTH}&task=sts13")


def test_what_differs_stands_in_columns(client: FlaskClient) -> None:
    answer = told(client, "/compare?rows=simcse,hicl,sncse")
    assert heads(answer) == ["which", "SimCSE", "HiCL", "SNCSE"]
    lines = {line["which"]: line for line in body(answer)}
    assert lines["seeds"] == {"which": "seeds", "SimCSE": "0 1", "HiCL": "0 1 2", "SNCSE": "0"}
    assert "tau2" not in lines
    assert "tau2 = 0.025" in text(answer)  # the same for all


def test_differences_are_those_of_the_leaderboard(client: FlaskClient, lab: Leaderboard) -> None:
    answer = told(client, f"/parts/differences/compare?{BOTH}")
    comparison = lab.compare("hicl", "simcse")
    assert comparison.average is not None
    one = comparison.average
    assert one.interval is not None
    low, high = 100 * one.interval.low, 100 * one.interval.high
    assert f"{100 * one.effect:+.2f} [{low:.2f}, {high:.2f}]" in text(answer)
    assert "HiCL is above SimCSE by" in text(answer)
    assert list(figures(answer)) == ["differences"]


def test_each_row_is_compared_with_the_first(client: FlaskClient, lab: Leaderboard) -> None:
    answer = told(client, "/parts/differences/compare?rows=simcse,hicl,sncse")
    assert heads(answer) == [
        "task", "SimCSE",
        "HiCL", "minus SimCSE", "95 % interval", "p",
        "SNCSE", "minus SimCSE", "95 % interval", "p",
    ]  # fmt: skip
    for name in ("HiCL", "SNCSE"):
        assert f"<summary>{name} against SimCSE: every test</summary>" in answer
    against = told(client, "/compare?rows=simcse,hicl,sncse")
    assert '<a href="/compare?rows=hicl,simcse,sncse">compare with this one</a>' in against


def test_rows_without_test_scores_have_their_dev_curves(client: FlaskClient) -> None:
    answer = told(client, f"/compare?{BOTH}&tasks=transfer")
    assert "SimCSE and HiCL have no test scores of transfer." in text(answer)
    assert "/parts/pairs/" not in answer
    differences = told(client, f"/parts/differences/compare?{BOTH}&tasks=transfer")
    assert "cannot be compared" not in text(differences)  # the page has said why
    assert body(differences)[0]["task"] == "dev"
    assert figures(told(client, f"/parts/curves/compare?{BOTH}&tasks=transfer"))


def test_dev_curves_and_pairs(client: FlaskClient) -> None:
    curves = figures(told(client, f"/parts/curves/compare?{BOTH}"))
    assert list(curves) == ["dev_curves_dev_stsb_spearman"]
    pairs = figures(told(client, f"/parts/pairs/compare?{BOTH}&task=sts13"))
    assert list(pairs) == ["pairs_sts13"]
    first = figures(told(client, f"/parts/pairs/compare?{BOTH}"))
    assert list(first) == [f"pairs_{STS_TASKS[0]}"]
    others = told(client, "/parts/pairs/compare?rows=simcse,hicl,sncse&x=hicl&y=sncse")
    [drawn] = figures(others).values()
    assert "hicl" in str(drawn["layout"]["xaxis"]).lower()


@pytest.fixture
def several(
    filled_with: Callable[..., str],
    two_methods: list[Event],
    sweep_started: Callable[..., SweepStarted],
    trial_life: Callable[..., list[Event]],
    scored: Callable[..., TrialEvaluated],
) -> FlaskClient:
    """The same leaderboard with `simcse` on another backbone, too."""
    key = "e" * 64
    life = trial_life(
        0, {9: 0.6}, sweep="large", method="simcse", backbone="bert-large",
        configuration="e" * 64, trial=key,
    )  # fmt: skip
    events = [
        *two_methods,
        sweep_started("large", method="simcse", backbone="bert-large"),
        *life,
        scored(key, noise=2.0).model_copy(update={"sweep": "large"}),
    ]
    return create_app(filled_with(*events)).test_client()


def test_a_name_of_several_rows_offers_them(several: FlaskClient) -> None:
    answer = told(several, "/compare?rows=simcse,hicl")
    assert "simcse is 2 rows; which one?" in text(answer)
    assert 'name="rows" value="hicl"' in answer  # the form is there still
    offers = re.findall(r'<li><a href="([^"]*)">(simcse@[^<]*)</a>', answer)
    found = {words: html.unescape(link) for link, words in offers}
    [large] = [link for words, link in found.items() if "bert-large" in words]
    assert large == f"/compare?rows=simcse@{'e' * 8},hicl"
    assert len(found) == 2
    assert "data-src" in told(several, large)
    narrowed = told(several, "/compare?rows=simcse,hicl&backbone=mini")
    assert "data-src" in narrowed


def test_unknown_names_are_said_at_once(client: FlaskClient) -> None:
    answer = told(client, "/compare?rows=hicl,n0,n1,hicl@ffffffff,123456")
    [line] = re.findall(r'<p class="refused".*?</p>', answer)
    assert re.findall("<strong>(.*?)</strong>", line) == ["n0", "n1", "hicl@ffffffff", "123456"]
    assert 'href="/compare?rows=hicl,n1,hicl@ffffffff,123456"' in line
    assert answer.count("<strong>") == 5  # the known row has a line of its own


def test_so_many_rows_are_compared_at_once_and_no_more(client: FlaskClient) -> None:
    names = [f"n{n}" for n in range(ROWS_COMPARED)]
    few = client.get(f"/compare?rows={','.join(names)}")
    many = client.get(f"/compare?rows={','.join([*names, *(f'm{n}' for n in range(4000))])}")
    assert (few.status_code, many.status_code) == (200, 400)
    assert f"at most {ROWS_COMPARED} rows" in many.text
    assert len(many.data) < len(few.data)
