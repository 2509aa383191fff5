import csv
import html
import io
import json
import re
import sqlite3
from pathlib import Path

from clean_runs import *  # noqa: F403
from clean_runs import url as clean_url
from flask.testing import FlaskClient
from page_text import body, copied, figures, heads, text, told
from scored_boards import scored
from sweep_events import sweep_started, trial_life

from cse_dashboards.page.address import ROWS_COMPARED
from cse_dashboards.page.app import create_app
from cse_dashboards.page.words import row_reference
from cse_methods.names import PAPER_PAGES, method_name
from cse_methods.tasks import STS_TASKS
from cse_platform.leaderboard import Filters, Leaderboard
from cse_platform.presentation.tables import Cell
from cse_platform.stores.sql.store import open_store as open_store
from cse_platform.tracking.events import Event


def methods(html: str) -> list[str]:
    return [row["method"].lower() for row in body(html)]


def test_rows_and_files_are_those_of_the_leaderboard(lab: Leaderboard, client: FlaskClient) -> None:
    html = told(client, "/parts/standing/")
    assert not html.lstrip().startswith("<!doctype")
    for shown, row in zip(body(html), lab.rows(), strict=True):
        score = row.scores["avg_sts"]
        assert score.interval is not None and row.rank is not None
        spread = "" if score.std is None else f" ±{100 * score.std:.2f}"
        single = "" if row.n > 1 else " ‡"
        low, high = 100 * score.interval.low, 100 * score.interval.high
        ends = "-".join(dict.fromkeys((str(row.rank.best), str(row.rank.worst))))
        expected = {
            "method": method_name(row.method), "STS average": f"{100 * score.mean:.2f}{spread}",
            "95 % interval": f"[{low:.2f}, {high:.2f}]{single}", "rank": f"{ends} of 3{single}",
            "n": str(row.n), "trials": str(row.trials), "GPU-hours": f"{row.gpu_hours:.1f}",
            "finished": f"{row.finished:%Y-%m-%d}",
        }  # fmt: skip
        assert shown == shown | expected
        assert row.keys[max(row.keys)].startswith(shown["trial"])
        assert f'href="/trials/{shown["trial"]}"' in html
        assert f'href="/sweeps/{row.sweep}"' in html
    answer = client.get("/as/csv/?method=hicl")
    assert answer.headers["Content-Disposition"] == "attachment; filename=leaderboard.csv"
    [row] = csv.DictReader(io.StringIO(answer.text))
    [expected] = lab.rows(Filters(method="hicl"))
    assert float(row["avg_sts"]) == expected.scores["avg_sts"].mean
    [told_as_json] = json.loads(client.get("/as/json/?method=hicl").text)
    assert told_as_json["rank"]["among"] == 1
    assert client.get("/as/md/?method=hicl").text.startswith("### Spearman")
    assert r"\begin{table" in client.get("/as/tex/?method=hicl").text


def test_the_page_stands_before_anything_is_resampled(lab_url: str, tmp_path: Path) -> None:
    copy = copied(lab_url, tmp_path)
    client = create_app(f"sqlite:///{copy}").test_client()
    html = told(client, "/?method=hicl&backbone=")
    assert 'data-src="/parts/standing/?method=hicl"' in html
    assert "rank" not in heads(html)
    assert methods(html) == ["hicl"]
    told(client, "/parts/standing/?method=hicl")
    again = told(client, "/?method=hicl&sort=n")  # what was computed once is shown at once
    assert "data-src" not in again
    with sqlite3.connect(copy) as connection:  # and forgotten with the scores it follows from
        connection.execute("UPDATE scores SET value = value / 2")
    assert "data-src" in told(client, "/?method=hicl")


def test_filters_and_order(client: FlaskClient) -> None:
    expected = {
        "": ["hicl", "sncse", "simcse"],
        "?hardware=node-2": ["sncse"],
        "?search=HiCL+of-hicl": ["hicl"],
        "?sort=dev": ["hicl", "simcse", "sncse"],
        "?sort=finished": ["sncse", "simcse", "hicl"],
    }
    shown = {query: methods(told(client, f"/parts/standing/{query}")) for query in expected}
    assert shown == expected


def test_heads_sort_and_say_how_rows_stand(lab: Leaderboard, client: FlaskClient) -> None:
    html = told(client, "/parts/standing/?sort=rank&tag=all&every=yes")
    assert len(body(html)) == len(lab.rows(per_configuration=True, ranked=False))
    assert '<a href="/?tag=all&amp;sort=avg_sts&amp;every=yes">STS average</a>' in html
    assert 'aria-sort="ascending"><a href="/?tag=all&amp;sort=rank&amp;every=yes">rank' in html
    assert html.count("aria-sort") == 1
    in_view = ["method", "STS average", "95 % interval"]  # on a phone
    assert heads(html)[1:5] == ["method", "rank", *in_view[1:]]
    assert heads(told(client, "/parts/standing/"))[1:4] == in_view
    value = f"hicl@{'a' * 8}"  # rows can be ticked to be compared
    assert f'type="checkbox" name="rows" value="{value}" aria-label="Compare {value}"' in html
    assert lab.row(value)[1].method == "hicl"


def test_rows_are_marked_above_one_of_them(lab: Leaderboard, client: FlaskClient) -> None:
    plain, marked = (told(client, f"/parts/standing/{q}") for q in ("", "?against=simcse"))
    assert "§" not in plain
    compared = lab.against(lab.rows(), "simcse").values()
    tested = [(task.effect, task.p_holm) for one in compared for task in one.tasks]
    tested += [(one.average.effect, one.average.p) for one in compared if one.average is not None]
    above = sum(effect > 0 and p is not None and p < 0.05 for effect, p in tested)
    assert marked.count("<sup>§") == above
    assert "§" in client.get("/as/md/?against=simcse").text


def test_published_rows_stand_beside_ours(lab: Leaderboard, client: FlaskClient) -> None:
    html = told(client, "/parts/standing/?published=yes&method=simcse")
    assert "†1" in html
    assert len(lab.published(method="simcse")) > 1
    marks = re.findall(r"†\d+", html)
    linked = re.findall(r'<sup><a href="(https://[^"]+)" [^>]*>(†\d+)</a>', html)
    assert {mark for _, mark in linked} == {*marks}  # each leads to the paper that it is from
    assert {address for address, _ in linked} <= {*PAPER_PAGES.values()}
    without = {row.paper for row in lab.published() if not row.read_in.startswith("https://")}
    assert without == {*PAPER_PAGES, "gcse-third-party", "dalr-note"}  # these two have no address
    html = told(client, "/parts/standing/?published=yes&method=micse")
    assert '<sup><a href="https://huggingface.co/sap-ai-research/miCSE" ' in html
    ours = told(client, "/parts/standing/?method=simcse")
    assert "†1" not in ours


def test_a_released_encoder_is_compared_by_the_trial_that_scored_it() -> None:
    heads = ["method", "configuration"]
    ours, theirs = ((Cell(name), Cell("dddddddd")) for name in ("simcse", "diffcse (released)"))
    assert row_reference(heads, ours) == "simcse@dddddddd"
    assert row_reference(heads, theirs) == "untrained@dddddddd"
    knowing = (Cell("consert (transductive)"), Cell("dddddddd"))
    assert row_reference(heads, knowing) == "consert@dddddddd"
    assert row_reference(heads, (Cell("diffcse"), Cell(""))) is None


def test_clean_scores_stand_on_the_page_when_asked_for(cleaned: Path) -> None:
    client = create_app(clean_url(cleaned)).test_client()
    assert "clean" not in "".join(heads(told(client, "/parts/standing/")))
    html = told(client, "/parts/standing/?tasks=clean")
    assert {"STS13 clean", "SICK-R clean"} <= set(heads(html))
    assert "Against all rows" in html
    rows = "rows=rankcse,simcse&tasks=clean"
    assert "On all rows" in told(client, f"/parts/differences/compare?{rows}")


def test_the_head_of_a_trial_has_the_papers_average_and_not_the_clean_one(cleaned: Path) -> None:
    with open_store(clean_url(cleaned)) as store:
        trial = Leaderboard(store).trial("simcse#2")
    scores = {s.metric: s.value for s in trial.scores if s.task == "avg_sts"}
    assert abs(scores["clean"] - scores["spearman"]) > 0.001
    page = told(create_app(clean_url(cleaned)).test_client(), f"/trials/{trial.key}")
    assert f"<dt>STS average, test</dt><dd>{100 * scores['spearman']:.2f}</dd>" in page


def test_the_head_of_a_trial_has_the_average_of_each_evaluation(filled_with) -> None:
    ways = [scored("a" * 64, noise=1.0 + n, reading=way) for n, way in enumerate(("cls", "avg"))]
    started, *life = trial_life(0, {9: 0.5}, trial="a" * 64, sweep="first")
    events = [sweep_started("first"), started, *life]
    events += [one.model_copy(update={"sweep": "first"}) for one in ways]
    page = text(told(create_app(filled_with(*events)).test_client(), f"/trials/{'a' * 64}"))
    found = re.search(r"STS average, test ([\d.]+), ([\d.]+) \(several evaluations\)", page)
    averages = {
        f"{100 * one.scores[-1].value:.2f}" for one in ways
    }  # the last score is the average
    assert found and set(found.groups()) == averages


BOTH = "rows=simcse,hicl"


def test_rows_are_chosen_before_they_are_compared(client: FlaskClient) -> None:
    answer = told(client, "/compare?rows=hicl")
    assert "data-src" not in answer
    assert f'<option value="hicl@{"a" * 8}">' in answer
    assert '<input type="hidden" name="rows" value="hicl">' in answer
    both = told(client, f"/compare?{BOTH}&task=sts13")
    for part in ("differences", "curves", "pairs"):
        assert f'data-src="/parts/{part}/compare?{BOTH}&amp;task=sts13"' in both
    assert '<option value="sts13" selected>STS13</option>' in both
    assert "<h1>SimCSE, HiCL</h1>" in both


def test_each_row_is_compared_with_the_first_as_the_leaderboard_does(client, lab) -> None:
    answer = told(client, f"/parts/differences/compare?{BOTH}")
    one = lab.compare("hicl", "simcse").average
    assert one is not None and one.interval is not None
    low, high = 100 * one.interval.low, 100 * one.interval.high
    assert f"{100 * one.effect:+.2f} [{low:.2f}, {high:.2f}]" in text(answer)
    assert f"HiCL is above SimCSE: HiCL - SimCSE is {100 * one.effect:+.2f} on" in text(answer)
    assert list(figures(answer)) == ["differences_1"]
    tasks = re.findall(r'<th scope="row"[^>]*>([^<]*)</th>', answer)
    assert tasks.count("STS12") == 2 and "sts12" not in tasks  # a task has one name
    answer = told(client, "/parts/differences/compare?rows=simcse,hicl,sncse")
    numbers = client.get("/csv/differences_2/parts/differences/compare?rows=simcse,hicl,sncse")
    assert "SNCSE minus SimCSE" in numbers.text.splitlines()[0]
    assert heads(answer) == [
        "task", "SimCSE",
        "HiCL", "minus SimCSE", "95 % interval", "p",
        "SNCSE", "minus SimCSE", "95 % interval", "p",
    ]  # fmt: skip
    for name in ("HiCL", "SNCSE"):
        assert f"<summary>{name} against SimCSE: every test</summary>" in answer
    itself = told(client, "/parts/differences/compare?rows=hicl,hicl%230")
    assert "are one configuration, so they have no true difference; 1 of their" in text(itself)
    against = told(client, "/compare?rows=simcse,hicl,sncse")
    assert '<a href="/compare?rows=hicl,simcse,sncse">compare with this one</a>' in against


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
    answer = told(client, f"/compare?{BOTH}&tasks=transfer")
    assert "SimCSE and HiCL have no test scores of transfer." in text(answer)
    assert "At least two of the rows have scores of sts" in text(answer)
    assert f'<a href="/compare?{BOTH}">sts</a>' in answer
    assert "/parts/pairs/" not in answer
    differences = told(client, f"/parts/differences/compare?{BOTH}&tasks=transfer")
    assert "cannot be compared" not in text(differences)  # the page has said why
    assert body(differences)[0]["task"] == "dev STS-B (builtin)"
    assert figures(told(client, f"/parts/curves/compare?{BOTH}&tasks=transfer"))


def test_a_name_of_several_rows_offers_them(filled_with, two_methods: list[Event]) -> None:
    events = [*two_methods]  # and `esimcse` on two backbones
    for sweep, backbone, key in (("large", "bert-large", "e" * 64), ("small", "mini", "f" * 64)):
        of = {"method": "esimcse", "backbone": backbone}
        events.append(sweep_started(sweep, **of))
        events += trial_life(0, {9: 0.6}, sweep=sweep, configuration=key, trial=key, **of)
        events.append(scored(key, noise=2.0).model_copy(update={"sweep": sweep}))
    for seed in range(3):  # the best of `sncse` on dev, which no test set has seen
        of = {"method": "sncse", "sweep": "sncse", "seed": seed}
        events += trial_life(20 + seed, {9: 0.9}, configuration="d" * 64, **of)
    several = create_app(filled_with(*events)).test_client()
    answer = told(several, "/compare?rows=esimcse,hicl")
    assert "esimcse is 2 rows; which one?" in text(answer)
    assert 'name="rows" value="hicl"' in answer  # the form is there still
    offers = re.findall(r'<li><a href="([^"]*)">(esimcse@[^<]*)</a>', answer)
    found = {words: html.unescape(link) for link, words in offers}
    [large] = [link for words, link in found.items() if "bert-large" in words]
    assert large == f"/compare?rows=esimcse@{'e' * 8},hicl"
    assert len(found) == 2
    assert "data-src" in told(several, large)
    assert "data-src" in told(several, "/compare?rows=esimcse,hicl&backbone=mini")
    answer = told(several, "/compare?rows=sncse,hicl")
    offers = re.findall(r'<li><a href="([^"]*)">(sncse@[^<]*)</a>', answer)
    assert [link.partition("sncse@")[2][:8] for link, _ in offers] == ["d" * 8, "c" * 8]
    assert [words.endswith(", no test scores of sts") for _, words in offers] == [True, False]


def test_unknown_names_and_too_many_rows_are_said_at_once(client: FlaskClient) -> None:
    answer = told(client, "/compare?rows=hicl,n0,n1,hicl@ffffffff,123456")
    [line] = re.findall(r'<p class="refused".*?</p>', answer)
    assert re.findall("<strong>(.*?)</strong>", line) == ["n0", "n1", "hicl@ffffffff", "123456"]
    assert 'href="/compare?rows=hicl,n1,hicl@ffffffff,123456"' in line
    assert answer.count("<strong>") == 5  # the known row has a line of its own
    names = [f"n{n}" for n in range(ROWS_COMPARED)]
    few = client.get(f"/compare?rows={','.join(names)}")
    many = client.get(f"/compare?rows={','.join([*names, *(f'm{n}' for n in range(1500))])}")
    assert (few.status_code, many.status_code) == (200, 400)
    assert f"at most {ROWS_COMPARED} rows" in many.text
    assert len(many.data) < len(few.data)
