"""The page's list of papers' tables, and one of them with ours beside the paper's."""

import csv
import io
import re
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from page_text import body, heads, text, told

from cse_dashboards.page.app import create_app


@pytest.fixture
def page(paper_file: Path) -> FlaskClient:
    """Over a part of WhitenedCSE's table 5."""
    return create_app(f"sqlite:///{paper_file}").test_client()


@pytest.mark.slow
def test_the_list_leads_to_tables_with_numbers(page: FlaskClient) -> None:
    source = told(page, "/papers")
    [first, *_] = body(source)
    assert first == {
        **{"table": "table1", "file": "compcse-table1.yaml", "rows": "0 of 32"},
        **{"cells": "0 of 256", "trials": "0 of 16", "GPU-hours left": "16.0"},
    }
    said = text(source)
    assert "table5 whitenedcse-table5.yaml 3 of 4 3 of 4 3 of 4 1.0" in said
    links = re.findall(r'<a href="(/papers/[^"]+)"', source)
    assert len(links) == len(set(links)) == 35  # without figures, table 9 and the papers' own lines
    assert "/papers/compcse/figure2" not in links and "/papers/rankcse/table9" not in links
    for link in links[::20]:
        assert page.get(link).status_code == 200
    assert '<a href="/papers" aria-current="page">Papers</a>' in page.get("/papers").text
    listed = csv.DictReader(io.StringIO(page.get("/as/csv/papers").text))
    [table5] = [one for one in listed if (one["paper"], one["table"]) == ("whitenedcse", "table5")]
    assert (table5["cells_filled"], table5["gpu_hours_left"]) == ("3", "1.0")


def test_a_table_has_the_cells_of_the_command(page: FlaskClient) -> None:
    source = told(page, "/papers/whitenedcse/table5")
    assert "<h1>" not in source and heads(source) == ["backbone", "method", "STS average"]
    assert [row["STS average"] for row in body(source)] == [
        *("77.81", "78.70 ±0.20", "+0.89 ↑", "78.78", "78.70 ±0.14", "-0.08 ≈"),
        *("78.65", "78.00", "-0.65 ?", "78.74"),
    ]
    names = [row["method"] for row in body(source)]
    assert names[:3] == ["WhitenedCSE (positives=2)", "ours (n = 3, aaaaaaaa)", "difference"]
    assert "≈ within noise: " in text(source)
    assert "<h1>WhitenedCSE, table5</h1>" in page.get("/papers/whitenedcse/5").text
    narrowed = told(page, "/papers/whitenedcse/table5?identity=another")
    assert [row["STS average"] for row in body(narrowed)] == ["77.81", "78.78", "78.65", "78.74"]


def test_files_of_both(page: FlaskClient) -> None:
    source = told(page, "/papers/whitenedcse/5?backbone=bert-base")
    [address] = re.findall(r'<a href="(/as/csv/[^"]+)" download="whitenedcse-table5.csv"', source)
    answer = page.get(address)
    assert answer.headers["Content-Disposition"] == "attachment; filename=whitenedcse-table5.csv"
    verdicts = [row["verdict"] for row in csv.DictReader(io.StringIO(answer.text))]
    assert verdicts == ["above", "within noise", "noise not known", ""]
    assert page.get("/as/doc/papers").status_code == 400


def test_what_is_unknown_is_said(page: FlaskClient) -> None:
    for address, status, said in (
        ("/papers/whitendcse/5", 404, "did you mean 'whitenedcse'?"),
        ("/papers/whitenedcse/tabl5", 404, "did you mean 'table5'?"),
        ("/papers?what=this", 400, "what"),
    ):
        answer = page.get(address)
        assert answer.status_code == status
        assert said in text(answer.text)
