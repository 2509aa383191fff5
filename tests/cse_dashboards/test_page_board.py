"""The page's leaderboard: rows, filters, order, files; at once, and then with ranks."""

import csv
import io
import json
import re
import sqlite3
from pathlib import Path

from clean_runs import *  # noqa: F403
from clean_runs import url as clean_url
from flask.testing import FlaskClient
from page_text import body, copied, heads, told

from cse_dashboards.page.app import create_app
from cse_dashboards.page.show import arrange_columns, reference
from cse_methods.names import PAPER_PAGES, method_name
from cse_platform.leaderboard import Filters, Leaderboard
from cse_platform.leaderboard.render.board import Board
from cse_platform.leaderboard.render.board_tables import board_tables
from cse_platform.leaderboard.render.columns import ORDERS
from cse_platform.leaderboard.store import open_store as open_store
from cse_platform.render.table import Cell, ColumnHead, Table


def methods(html: str) -> list[str]:
    return [row["method"].lower() for row in body(html)]


def test_rows_are_those_of_the_leaderboard(lab: Leaderboard, client: FlaskClient) -> None:
    html = told(client, "/parts/standing/")
    assert not html.lstrip().startswith("<!doctype")
    for shown, row in zip(body(html), lab.rows(), strict=True):
        score = row.scores["avg_sts"]
        assert score.interval is not None
        assert row.rank is not None
        spread = "" if score.std is None else f" ±{100 * score.std:.2f}"
        single = "" if row.n > 1 else " ‡"
        assert shown["method"] == method_name(row.method)
        assert shown["STS average"] == f"{100 * score.mean:.2f}{spread}"
        low, high = 100 * score.interval.low, 100 * score.interval.high
        assert shown["95 % interval"] == f"[{low:.2f}, {high:.2f}]{single}"
        ends = "-".join(dict.fromkeys((str(row.rank.best), str(row.rank.worst))))
        assert shown["rank"] == f"{ends} of 3{single}"
        assert shown["n"] == str(row.n)
        assert shown["trials"] == str(row.trials)
        assert shown["GPU-hours"] == f"{row.gpu_hours:.1f}"
        assert shown["finished"] == f"{row.finished:%Y-%m-%d}"
        assert row.keys[max(row.keys)].startswith(shown["trial"])
        assert f'href="/trials/{shown["trial"]}"' in html
        assert f'href="/sweeps/{row.sweep}"' in html


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
        "": ["hicl", "simcse", "sncse"],
        "?method=simcse": ["simcse"],
        "?tag=of-hicl": ["hicl"],
        "?hardware=node-2": ["sncse"],
        "?search=HiCL+of-hicl": ["hicl"],
        "?sort=method": ["hicl", "simcse", "sncse"],
        "?sort=avg_sts": ["hicl", "sncse", "simcse"],
        "?sort=finished": ["sncse", "simcse", "hicl"],
        "?sort=n": ["hicl", "simcse", "sncse"],
    }
    shown = {query: methods(told(client, f"/parts/standing/{query}")) for query in expected}
    assert shown == expected


def test_heads_sort_and_say_how_rows_stand(lab: Leaderboard, client: FlaskClient) -> None:
    html = told(client, "/parts/standing/?sort=rank&tag=all&every=yes")
    assert len(body(html)) == len(lab.rows(per_configuration=True, ranked=False))
    assert '<a href="/?tag=all&amp;sort=avg_sts&amp;every=yes">STS average</a>' in html
    assert re.search(
        r'aria-sort="ascending"><a href="/\?tag=all&amp;sort=rank&amp;every=yes">rank', html
    )
    assert html.count("aria-sort") == 1
    value = f"hicl@{'a' * 8}"  # rows can be ticked to be compared
    assert f'type="checkbox" name="rows" value="{value}" aria-label="Compare {value}"' in html
    assert lab.row(value)[1].method == "hicl"


def test_rows_are_marked_above_one_of_them(lab: Leaderboard, client: FlaskClient) -> None:
    plain, marked = (told(client, f"/parts/standing/{q}") for q in ("", "?against=simcse"))
    assert "§" not in plain
    compared = lab.against(lab.rows(), "simcse").values()
    assert marked.count("<sup>§") == sum(
        task.effect > 0 and task.p_holm is not None and task.p_holm < 0.05
        for one in compared
        for task in one.tasks
    ) + sum(
        one.average is not None and one.average.effect > 0 and (one.average.p or 1) < 0.05
        for one in compared
    )
    assert "§" in client.get("/as/md/?against=simcse").text


def test_published_rows_stand_beside_ours(lab: Leaderboard, client: FlaskClient) -> None:
    html = told(client, "/parts/standing/?published=yes&method=simcse")
    assert "†1" in html
    assert len(lab.published(method="simcse")) > 1
    marks = re.findall(r"†\d+", html)
    linked = re.findall(r'<sup><a href="(https://[^"]+)" [^>]*>(†\d+)</a>', html)
    assert {mark for _, mark in linked} == {*marks}  # each leads to the paper that it is from
    assert {address for address, _ in linked} <= {*PAPER_PAGES.values()}
    assert {row.paper for row in lab.published()} <= {*PAPER_PAGES}
    ours = told(client, "/parts/standing/?method=simcse")
    assert "†1" not in ours


def test_files_hold_the_same_rows(lab: Leaderboard, client: FlaskClient) -> None:
    answer = client.get("/as/csv/?method=hicl")
    assert answer.headers["Content-Disposition"] == "attachment; filename=leaderboard.csv"
    [row] = csv.DictReader(io.StringIO(answer.text))
    [expected] = lab.rows(Filters(method="hicl"))
    assert float(row["avg_sts"]) == expected.scores["avg_sts"].mean
    [told_as_json] = json.loads(client.get("/as/json/?method=hicl").text)
    assert told_as_json["rank"]["among"] == 1
    assert client.get("/as/md/?method=hicl").text.startswith("### Spearman")
    assert r"\begin{table" in client.get("/as/tex/?method=hicl").text


def test_nothing_passes(client: FlaskClient) -> None:
    html = told(client, "/?method=none&backbone=bert-base")
    assert "No complete trial passes these filters" in html
    assert "<option selected>none</option>" in html  # what is asked stays to be seen
    assert "No complete trial passes these filters" in told(client, "/?search=nowhere+hicl")


def test_what_a_head_sorts_by(lab: Leaderboard) -> None:
    tables = board_tables(Board(lab.rows(ranked=False)), wide=True)
    sorts = {head.name: head.sort for table in tables for head in table.heads}
    assert {*sorts.values()} <= {*ORDERS, ""}
    expected = {
        "dev stsb (builtin)": "dev",
        "dev set": "dev_set",
        "avg sts": "avg_sts",
        "wall time a trial": "wall_seconds",
        "95 % interval": "",
        "searched": "",
    }
    assert {head: sorts[head] for head in expected} == expected


def test_trials_stand_before_the_scores_by_task() -> None:
    names = ("method", "avg sts", "n", "dev", "sts12", "stsb", "configuration", "trial", "finished")
    row = tuple(Cell(name) for name in names)
    heads = tuple(ColumnHead(name, sort=name.replace(" ", "_")) for name in names)
    moved = arrange_columns(Table(heads, ((row,), (row,))))
    expected = ["method", "avg sts", "n", "dev", "trial", "finished", "sts12", "stsb"]
    assert [head.name for head in moved.heads] == [*expected, "configuration"]
    assert [cell.text for cell in moved.rows[1]] == [*expected, "configuration"]
    assert len(moved.groups) == 2


def test_a_released_encoder_is_compared_by_the_trial_that_scored_it() -> None:
    heads = ["method", "configuration"]
    ours, theirs = ((Cell(name), Cell("dddddddd")) for name in ("simcse", "diffcse (released)"))
    assert reference(heads, ours) == "simcse@dddddddd"
    assert reference(heads, theirs) == "untrained@dddddddd"
    knowing = (Cell("consert (transductive)"), Cell("dddddddd"))
    assert reference(heads, knowing) == "consert@dddddddd"
    assert reference(heads, (Cell("diffcse"), Cell(""))) is None


def test_clean_scores_stand_on_the_page_when_asked_for(cleaned: Path) -> None:
    client = create_app(clean_url(cleaned)).test_client()
    assert "clean" not in "".join(heads(told(client, "/parts/standing/")))
    html = told(client, "/parts/standing/?tasks=clean")
    assert {"STS13 clean", "SICK-R clean"} <= set(heads(html))
    assert "Against all rows" in html
    rows = "rows=rankcse,simcse&tasks=clean"
    assert "on all rows" in told(client, f"/parts/differences/compare?{rows}")
