"""A person writes about a running sweep and stops it, from the page in a real browser."""

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from browser import dashboard
from playwright.sync_api import Page, expect
from processes import end_of, run_command
from sweeps import Sweep

from cse_platform.tracking.events import SweepRequested, TrialPoint
from cse_platform.tracking.provenance import user_and_host

expect.set_options(timeout=60_000)
pytestmark = pytest.mark.slow


def test_note_star_and_stop_of_a_running_sweep(
    tab: Page, new_sweep: Callable[..., Sweep], cluster: str, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    gate.write_text("2")
    sweep = new_sweep(tmp_path, sweep="long", fixed={"gate": str(gate)})
    with (
        end_of(sweep.start("--address", cluster)) as process,
        dashboard(sweep.runs, "--allow-control") as address,
    ):
        sweep.wait_for(process, TrialPoint, 4)
        tab.goto(address)
        assert urlsplit(tab.url).query == ""  # the token is in no address that is shared
        tab.goto(f"{tab.url}sweeps/long")
        tab.get_by_text("Add note, tags, star").click()
        tab.get_by_label("Note").fill("<b>bold</b> claim")
        tab.get_by_label("Tags").fill("paper")
        tab.get_by_label("Star").check()
        tab.get_by_role("button", name="Save").click()
        expect(tab.locator(".said")).to_have_text("Saved.")
        expect(tab.get_by_text("<b>bold</b> claim").first).to_be_visible()
        tab.get_by_role("link", name="Stop…", exact=True).click()
        expect(tab.get_by_role("heading", name="Stop long?")).to_be_visible()
        assert not any(isinstance(event, SweepRequested) for event in sweep.events())
        tab.get_by_role("button", name="Stop long").click()
        expect(tab.locator(".said")).to_contain_text("Asked process")
        process.communicate(timeout=120)
        assert process.returncode == 130
        (request,) = (event for event in sweep.events() if isinstance(event, SweepRequested))
        assert (request.action, request.who) == ("stop", user_and_host())
        tab.close()  # or it would ask on, when nobody answers any more
    told = run_command("cse-sweep", "status", "long", "--runs", str(sweep.runs)).stdout
    for text in ("long ★", "paper", "<b>bold</b> claim"):
        assert text in told
