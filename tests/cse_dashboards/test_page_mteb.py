from html import unescape
from urllib.parse import quote

from mteb_board import *  # noqa: F403
from mteb_board import BENCHMARK, KINDS
from page_text import heads, told

from cse_dashboards.page.app import create_app


def test_every_view_of_rows_shows_tasks_of_mteb(with_kinds) -> None:
    client = create_app(with_kinds).test_client()
    board = unescape(told(client, "/"))
    assert f">{BENCHMARK}</option>" in board
    assert heads(board).index("mteb:Zebra") < heads(board).index("mteb:Pairs")
    named = quote(BENCHMARK)
    shown = unescape(told(client, f"/parts/standing/?tasks={named}&sort=mteb:Intent/de"))
    assert "mteb:Clusters" not in heads(shown) and BENCHMARK in heads(shown)
    assert f"{BENCHMARK} test, main score" in shown
    assert client.get("/?tasks=benchmark").status_code == 400
    assert client.get("/?sort=nothing").status_code == 404
    rows = "/parts/differences/compare?rows=simcse,esimcse"
    shown = unescape(told(client, f"{rows}&tasks=mteb"))
    assert all(task in shown for task in KINDS)
    assert "No values of the same examples of mteb:Clusters" in shown
    pairs = "/parts/pairs/compare?rows=simcse,esimcse&tasks=mteb&task="
    assert "the score of mteb:Zebra is no correlation" in told(client, f"{pairs}mteb:Zebra")
    assert "Pairs of mteb:Intent/de" in told(client, f"{pairs}mteb:Intent/de")
    key = "0a000" + "0" * 59
    shown = unescape(told(client, f"/trials/{key}"))
    assert all(task in shown for task in (*KINDS, BENCHMARK))
