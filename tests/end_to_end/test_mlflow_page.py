"""What the lab sees of a real sweep in MLflow's own pages, in a real browser."""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from browser import console_errors, mlflow_server
from mlflow import MlflowClient

CURVES = ("dev/stsb_spearman", "dev/sickr_spearman")
PATIENCE = 60_000
"""Milliseconds until something must have appeared."""


@pytest.fixture(scope="module")
def address(swept, tmp_path_factory) -> Iterator[str]:
    """Of an MLflow server on the sweep's store."""
    folder = tmp_path_factory.mktemp("server")
    with mlflow_server(f"sqlite:///{swept.runs / 'mlflow.db'}", folder=folder) as address:
        yield address


@pytest.fixture
def page(browser) -> Iterator[Any]:
    """A tab."""
    tab = browser.new_page(viewport={"width": 1500, "height": 1100})
    tab.set_default_timeout(PATIENCE)
    yield tab
    tab.close()


@pytest.fixture(scope="module")
def runs(address: str) -> dict[str, Any]:
    """All runs of the sweep, by name."""
    client = MlflowClient(address)
    experiment = client.get_experiment_by_name("cse").experiment_id
    return {run.info.run_name: run for run in client.search_runs([experiment])}


@pytest.fixture
def parent(address: str, runs) -> str:
    """The page of the sweep's own run."""
    info = runs["swept"].info
    return f"{address}/#/experiments/{info.experiment_id}/runs/{info.run_id}"


def expect(locator: Any) -> Any:
    from playwright.sync_api import expect

    return expect(locator)


def test_comparison_of_three_runs_has_dev_curves_and_parameters(page, address, runs) -> None:
    three = [run for name, run in runs.items() if re.search(r"seed \d+ \(#[0134]\)", name)][:3]
    assert len(three) == 3
    experiment = three[0].info.experiment_id
    ids, experiments = json.dumps([r.info.run_id for r in three]), json.dumps([experiment])
    page.goto(f"{address}/#/compare-runs?runs={quote(ids)}&experiments={quote(experiments)}")
    expect(page.get_by_role("heading", name="Comparing 3 Runs")).to_be_visible()
    for run in three:
        expect(page.get_by_text(run.info.run_name, exact=True).first).to_be_attached()
    for name, value in three[0].data.params.items():
        expect(page.get_by_text(name, exact=True).first).to_be_attached()
        expect(page.get_by_text(value, exact=True).first).to_be_attached()
    for curve in CURVES:
        expect(page.get_by_text(curve, exact=True).last).to_be_attached()


@pytest.mark.parametrize("curve", CURVES)
def test_dev_curves_of_three_runs_are_drawn_in_one_chart(page, address, runs, curve) -> None:
    three = [run for name, run in runs.items() if "#" in name][:3]
    experiment = three[0].info.experiment_id
    ids = quote(json.dumps([run.info.run_id for run in three]))
    asked = f"runs={ids}&experiments={quote(json.dumps([experiment]))}"
    page.goto(f"{address}/#/metric/{quote(curve, safe='')}?{asked}")
    expect(page.locator(".js-plotly-plot .scatterlayer .trace")).to_have_count(3)


def test_sweep_s_description_ranks_and_leads_to_its_trials(page, parent, runs) -> None:
    page.goto(parent)
    expect(
        page.get_by_role("cell", name="best trial").or_(page.get_by_text("best trial")).first
    ).to_be_visible()


def test_report_draws_inside_mlflow(page, parent) -> None:
    errors = console_errors(page)
    page.goto(f"{parent}/artifacts/report.html")
    report = page.frame_locator("iframe")
    expect(report.locator("svg.main-svg").first).to_be_visible()
    expect(report.get_by_role("heading").first).to_contain_text("swept")
    assert [said for said in errors if "Failed to load resource" not in said] == []


def test_saved_view_averages_seeds(page, address, runs) -> None:
    experiment = runs["swept"].info.experiment_id
    page.goto(
        f"{address}/#/experiments/{experiment}/runs?workflowType=machine_learning"
        "&viewStateShareKey=cse"
    )
    expect(page.get_by_text("Group by: configuration")).to_be_visible()
