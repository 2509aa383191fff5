"""The page of a sweep that runs, and of a store that comes and goes, in a real browser."""

from collections.abc import Callable
from pathlib import Path

import pytest
from browser import PATIENCE, dashboard, settled
from playwright.sync_api import Page, expect
from processes import end_of, wait_until
from sweeps import Sweep

from cse_platform.tracking.events import TrialPoint

expect.set_options(timeout=PATIENCE)
pytestmark = pytest.mark.slow


def test_all_parts_follow_and_hold_still_while_someone_selects(
    tab: Page, new_sweep: Callable[..., Sweep], cluster: str, tmp_path: Path
) -> None:
    sweep = new_sweep(tmp_path, sweep="followed", gate=2)
    with end_of(sweep.start("--address", cluster)) as process, dashboard(sweep.runs) as address:
        sweep.wait_for(process, TrialPoint, 4)
        tab.goto(f"{address}sweeps/followed?sort=number")
        expect(settled(tab).locator("#curves figure svg.main-svg").first).to_be_visible()
        expect(tab.locator("#best")).to_contain_text("No trial of this sweep is complete")
        tab.evaluate("document.body.dataset.opened = 'once'")
        step = tab.locator("table.trials tbody tr").first.locator("td").nth(5)
        expect(step).to_have_text("2")
        tab.evaluate("getSelection().selectAllChildren(document.querySelector('table.trials'))")
        sweep.let(4)
        news = tab.locator("#trials > .news").get_by_role("button")
        expect(news).to_have_text("newer numbers · show")
        expect(tab.locator("#unended summary")).to_contain_text("#0 at step 4")
        expect(step).to_have_text("2")
        news.click()
        expect(step).to_have_text("4")
        tab.evaluate("getSelection().removeAllRanges()")
        sweep.let(6)
        expect(tab.locator("#live .state")).to_have_text("complete")
        expect(settled(tab).locator("#best table")).to_be_visible()
        expect(tab.locator("table.trials .state.complete")).to_have_count(3)
        expect(tab.locator("#search figure").first).to_be_visible()
        expect(tab.locator("body[data-opened=once]")).to_be_attached()  # it was never left
        wait_until(lambda: tab.evaluate("stamp.runs === false"))  # nobody asks again
        process.communicate(timeout=60)
