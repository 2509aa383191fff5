from collections import defaultdict
from collections.abc import Iterator
from statistics import fmean
from typing import Any

import pytest
from browser import PATIENCE, dashboard, settled
from playwright.sync_api import Browser, Page, expect
from servers import MlflowServer

from cse_platform.stores.mlflow.tags import view_link

Runs = dict[str, Any]

expect.set_options(timeout=PATIENCE)
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def address(swept, tmp_path_factory) -> Iterator[str]:
    """Of an MLflow server on the store of the sweep."""
    folder = tmp_path_factory.mktemp("server")
    sweep = swept.copied(folder / "swept")
    with MlflowServer(folder, store=sweep.stores["mlflow"]) as server:
        yield server.url


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    tab = browser.new_page(viewport={"width": 1500, "height": 1100})
    yield tab
    tab.close()


@pytest.fixture(scope="module")
def runs(address: str) -> Runs:
    from mlflow import MlflowClient

    client = MlflowClient(address)
    experiment = client.get_experiment_by_name("cse").experiment_id
    return {run.info.run_name: run for run in client.search_runs([experiment])}


def test_our_page_leads_to_the_comparison_of_the_best(page: Page, address: str, swept) -> None:
    with dashboard(swept.runs, "--mlflow", address) as ours:
        page.goto(f"{ours}sweeps/tiny")
        settled(page).get_by_role("link", name="Compare them in MLflow").click()
        expect(page.get_by_text("Comparing 3 Runs from 1 Experiment").first).to_be_visible()


def test_saved_view_averages_seeds(page: Page, address: str, runs: Runs) -> None:
    values = defaultdict(list)
    for name, run in runs.items():
        if name != "tiny":
            values[run.data.tags["configuration"]].append(run.data.metrics["best/stsb_spearman"])
    seeds = next(one for one in values.values() if len(one) > 1)
    searched = [name for name in runs["tiny"].data.params if name.startswith("space.")]
    page.goto(f"{address}/{view_link(runs['tiny'].info.experiment_id)}")
    expect(page.get_by_text("Group by: configuration")).to_be_visible()
    for name in searched:
        head = page.get_by_role("columnheader", name=name.removeprefix("space."))
        expect(head.first).to_be_visible()
    expect(page.get_by_text(f"{fmean(seeds):.8f}"[:-1]).first).to_be_attached()
