import csv
import io
import re
import sqlite3
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import pytest
from flask.testing import FlaskClient
from kept_models import AVG, CLS, GONE, PRUNED
from page_text import body, copied, figures, heads, text, told

from cse_dashboards.figures.labels import trials_with_models
from cse_dashboards.page.app import create_app
from cse_platform.leaderboard import Filters, Leaderboard


@pytest.fixture(scope="module")
def kept(kept_board: Leaderboard, tmp_path_factory: pytest.TempPathFactory) -> FlaskClient:
    """The page over trials that kept models, the first of them ahead of the others."""
    folder = Path(str(kept_board.trial(AVG).model)).parent
    runs = copytree(folder, tmp_path_factory.mktemp("kept"), dirs_exist_ok=True)
    copy = copied(str(folder / "leaderboard.db"), runs)
    with sqlite3.connect(copy) as connection:
        of_trial = "SELECT configuration_id FROM trials WHERE key = ?"
        connection.execute(f"UPDATE configurations SET mean = 0.9 WHERE id = ({of_trial})", [AVG])
    return create_app(f"sqlite:///{copy}").test_client()


def test_geometry_from_numbers_and_on_demand(kept: FlaskClient, client: FlaskClient) -> None:
    answer = told(kept, "/geometry?method=rankcse&show=projection&by=umap")
    assert 'data-src="/parts/numbers/geometry?method=rankcse' in answer
    sources = re.findall(r'data-src="/parts/(\w+)/', answer)
    assert sources == ["numbers", "projection"]  # the others are links until they are followed
    assert '<a class="load button" href="/parts/heat_map/geometry?method=rankcse' in answer
    numbers = told(client, "/parts/numbers/geometry")
    assert "buckets_stsb" in figures(numbers)
    assert "no dev curve of these rows has alignment" in text(numbers)


def test_a_heat_map_of_sentences_in_the_address_is_made_once(kept, monkeypatch) -> None:
    query = "sentences=A+king+sails.%0D%0A%0D%0A+A+pilot+reads."
    [drawn] = figures(told(kept, f"/parts/heat_map/geometry?{query}")).values()
    assert drawn["data"][0]["x"] == ["A king sails.", "A pilot reads."]
    assert "A pilot reads.</textarea>" in told(kept, f"/geometry?{query}")
    address = "/parts/heat_map/geometry?sentences=One.%0ATwo."
    first = told(kept, address)
    monkeypatch.setattr("cse_dashboards.encoded.Embeddings", None)
    assert told(kept, address) == first


def test_geometry_offers_rows_with_a_model_alone(kept_board: Leaderboard, client) -> None:
    rows = kept_board.rows(per_configuration=True, ranked=False)
    [first, _, last] = rows
    assert list(trials_with_models(kept_board, rows).values()) == [GONE, CLS, AVG]
    lost = replace(first, keys={41: PRUNED, **first.keys})  # a seed without a model
    assert list(trials_with_models(kept_board, [lost, last]).values()) == [GONE, AVG]
    without = replace(last, keys={42: PRUNED})
    assert list(trials_with_models(kept_board, [without, first]).values()) == [GONE]
    said = "one of these rows kept a model"
    source = told(client, "/geometry")  # of rows without any
    assert said in text(source) and "heat_map" not in source
    assert said in text(told(client, "/parts/heat_map/geometry"))


def test_a_trial_opens_with_its_curve_and_its_loss(client: FlaskClient, lab: Leaderboard) -> None:
    [hicl] = lab.rows(Filters(method="hicl"), ranked=False)
    source = told(client, f"/trials/{hicl.keys[0]}")
    drawn = figures(source)
    assert list(drawn) == ["dev_curve", "losses"]
    assert [one["data"][0]["y"] for one in drawn.values()] == [[50.0, 70.0], [1.0, 1.0]]
    said = text(source)
    assert "Dev STS-B complete 70.00 at optimiser step 9" in said
    assert f"cse-leaderboard reproduce {hicl.keys[0][:8]} --store" in said
    assert said.index("reproduce") < said.index("Scores × 100") < said.index("Everything recorded")
    by_task = {row["task"]: row for row in body(source)}
    average = 100 * hicl.scores["avg_sts"].values[0]
    assert by_task["STS average"] == {
        **{"task": "STS average", "split": "test", "spearman": f"{average:.2f}"}
    }
    assert f"STS average, test {average:.2f}" in said


def test_a_trial_whose_model_is_gone(kept: FlaskClient) -> None:
    answer = text(told(kept, f"/trials/{GONE}"))
    assert "cse-leaderboard export cccccccc DIR --store sqlite:///" in answer


@pytest.fixture
def page(paper_file: Path) -> FlaskClient:
    return create_app(f"sqlite:///{paper_file}").test_client()


def test_the_store_is_named_for_commands_in_any_folder(paper_file: Path, monkeypatch) -> None:
    monkeypatch.chdir(paper_file.parent)
    page = create_app(f"sqlite:///{paper_file.name}").test_client()
    assert f"Reads sqlite:///{paper_file} at each click" in page.get("/papers").text


def test_the_papers_open_before_their_files_are_read(page: FlaskClient, monkeypatch) -> None:
    monkeypatch.setattr("cse_platform.leaderboard.papers.read_paper_files", None)
    source = told(page, "/papers")
    assert 'data-src="/parts/listed/papers"' in source and "/as/csv/papers" in source


@pytest.mark.slow
def test_the_list_leads_to_tables_with_numbers(page: FlaskClient) -> None:
    source = told(page, "/parts/listed/papers")
    [first, *_] = body(source)
    assert first == {
        **{"table": "table1", "file": "compcse-table1.yaml", "rows": "0 of 32"},
        **{"cells": "0 of 256", "trials": "0 of 16"},
    }
    said = text(source)
    assert "table5 whitenedcse-table5.yaml 3 of 4 3 of 4 3 of 4" in said
    links = re.findall(r'<a href="(/papers/[^"]+)"', source)
    assert len(links) == len(set(links)) == 35  # without figures, table 9 and the papers' own lines
    assert "/papers/compcse/figure2" not in links and "/papers/rankcse/table9" not in links
    for link in links[::20]:
        assert page.get(link).status_code == 200
    assert '<a href="/papers" aria-current="page">Papers</a>' in page.get("/papers").text
    listed = csv.DictReader(io.StringIO(page.get("/as/csv/papers").text))
    [table5] = [one for one in listed if (one["paper"], one["table"]) == ("whitenedcse", "table5")]
    assert table5["cells_filled"] == "3"


def test_a_table_and_its_file_have_the_cells_of_the_command(page: FlaskClient) -> None:
    source = told(page, "/papers/whitenedcse/table5")
    assert "<h1>" not in source and heads(source) == ["backbone", "method", "STS average"]
    assert [row["STS average"] for row in body(source)] == [
        *("77.81", "78.70 ±0.20", "+0.89 ↑", "78.78", "78.70 ±0.14", "-0.08 ≈"),
        *("78.65", "78.00", "-0.65 ?", "78.74"),
    ]
    headers = re.findall(r'<th scope="row"[^>]*>(.*?)</th>', source)  # which stay in view
    assert text(headers[0]) == "WhitenedCSE (positives=2)"
    names = [row["method"] for row in body(source)]
    assert names[:3] == ["WhitenedCSE (positives=2)", "ours (n = 3, aaaaaaaa) △", "difference"]
    assert "≈ within noise: " in text(source)
    assert "<h1>WhitenedCSE, table5</h1>" in page.get("/papers/whitenedcse/5").text
    narrowed = told(page, "/papers/whitenedcse/table5?identity=another")
    assert [row["STS average"] for row in body(narrowed)] == ["77.81", "78.78", "78.65", "78.74"]
    source = told(page, "/papers/whitenedcse/5?backbone=bert-base")
    [address] = re.findall(r'<a href="(/as/csv/[^"]+)" download="whitenedcse-table5.csv"', source)
    answer = page.get(address)
    assert answer.headers["Content-Disposition"] == "attachment; filename=whitenedcse-table5.csv"
    verdicts = [row["verdict"] for row in csv.DictReader(io.StringIO(answer.text))]
    assert verdicts == ["above", "within noise", "noise not known", ""]
    assert page.get("/as/doc/papers").status_code == 400
