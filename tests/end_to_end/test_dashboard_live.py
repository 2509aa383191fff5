"""The page of a sweep that runs."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from browser import dashboard, settled
from playwright.sync_api import Page, expect
from processes import end_of, wait_until
from sweeps import Sweep

from cse_platform.tracking.events import TrialPoint

expect.set_options(timeout=60_000)
pytestmark = pytest.mark.slow


@pytest.fixture
def gated(new_sweep: Callable[..., Sweep], tmp_path: Path) -> Callable[[str], tuple[Sweep, Path]]:
    """Makes a sweep whose trials wait at step 2, and the file that has the step they may reach."""

    def make(name: str) -> tuple[Sweep, Path]:
        gate = tmp_path / "gate"
        gate.write_text("2")
        return new_sweep(tmp_path, sweep=name, fixed={"gate": str(gate)}), gate

    return make


def test_a_running_sweep_moves_by_itself_and_can_be_interrupted(
    tab: Page, gated: Callable[[str], tuple[Sweep, Path]], cluster: str
) -> None:
    sweep, gate = gated("long")
    with end_of(sweep.start("--address", cluster)) as process, dashboard(sweep.runs) as address:
        sweep.wait_for(process, TrialPoint, 4)
        tab.goto(f"{address}sweeps/long")
        tab.evaluate("document.body.dataset.opened = 'once'")
        expect(tab.locator("#live .state")).to_have_text("running")
        expect(tab.get_by_role("table", name="Running trials")).to_be_visible()
        step = tab.locator("#live tbody tr").first.get_by_role("cell").nth(1)
        seen = step.inner_text()
        gate.write_text("4")
        expect(step).not_to_have_text(seen)
        expect(settled(tab).locator("#best")).to_contain_text("No trial of this sweep is complete")
        os.killpg(process.pid, signal.SIGINT)
        expect(tab.locator("#live .state")).to_have_text("interrupted")
        expect(tab.get_by_role("table", name="Trials that were cut off")).to_be_visible()
        expect(tab.locator("body[data-opened=once]")).to_be_attached()  # it was never left
        process.communicate(timeout=60)
        tab.goto("about:blank")  # else it could ask while the server ends


def test_all_parts_follow_and_hold_still_while_someone_selects(
    tab: Page, gated: Callable[[str], tuple[Sweep, Path]], cluster: str
) -> None:
    sweep, gate = gated("followed")
    with end_of(sweep.start("--address", cluster)) as process, dashboard(sweep.runs) as address:
        sweep.wait_for(process, TrialPoint, 4)
        tab.goto(f"{address}sweeps/followed?sort=number")
        expect(settled(tab).locator("#picture-running_curves svg.main-svg").first).to_be_visible()
        expect(tab.locator("#best")).to_contain_text("No trial of this sweep is complete")
        step = tab.locator("table.trials tbody tr").first.locator("td").nth(5)
        expect(step).to_have_text("2")
        tab.evaluate("getSelection().selectAllChildren(document.querySelector('table.trials'))")
        gate.write_text("4")
        news = tab.locator("#trials > .news").get_by_role("button")
        expect(news).to_have_text("newer numbers · show")
        expect(tab.locator("#live tbody tr").last.get_by_role("cell").nth(1)).to_have_text("4")
        expect(step).to_have_text("2")
        news.click()
        expect(step).to_have_text("4")
        tab.evaluate("getSelection().removeAllRanges()")
        gate.write_text("6")
        expect(tab.locator("#live .state")).to_have_text("complete")
        expect(settled(tab).locator("#best table")).to_be_visible()
        expect(tab.locator("table.trials .state.complete")).to_have_count(3)
        expect(tab.locator("#search figure").first).to_be_visible()
        wait_until(lambda: tab.evaluate("stamp.runs === false"))  # nobody asks again
        process.communicate(timeout=60)
