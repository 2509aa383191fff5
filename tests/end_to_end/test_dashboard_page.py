"""Clicking through `cse-dashboard` on the store of a real sweep, in a real browser."""

import json
import re
from collections.abc import Iterator

import pytest
from browser import dashboard, note_troubles, settled
from playwright.sync_api import Browser, Page, expect

from cse_platform.leaderboard import open_leaderboard

expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def address(swept) -> Iterator[str]:
    """Of `cse-dashboard` on the store of the tiny sweep."""
    with dashboard(swept.runs) as address:
        yield address


@pytest.fixture(scope="module")
def best(swept) -> str:
    """Key of the sweep's best trial."""
    with open_leaderboard(f"sqlite:///{swept.runs / 'leaderboard.db'}") as reader:
        trial = reader.sweep("swept").best
    assert trial is not None
    return trial.key


def column(tab: Page, head: str) -> list[str]:
    """The texts under a head of the first table."""
    table = tab.locator("table.grid").first
    place = 1 + table.locator("thead th").all_inner_texts().index(head)
    return table.locator(f"tbody tr > :nth-child({place})").all_inner_texts()


def traces(tab: Page, picture: str) -> list[dict[str, object]]:
    """What Plotly holds of a figure that is drawn."""
    plot = tab.locator(f"#picture-{picture} .plot")
    found: list[dict[str, object]] = json.loads(plot.evaluate("it => JSON.stringify(it.data)"))
    return found


def axis(tab: Page, picture: str, side: str) -> str:
    """The title that is written along an axis."""
    title = tab.locator(f"#picture-{picture} .{side}title")
    return title.text_content() or ""


def pressed_until(tab: Page, selector: str, key: str = "Tab") -> None:
    """Presses the key until what is selected has the focus."""
    for _ in range(60):
        tab.keyboard.press(key)
        if tab.locator(f"{selector}:focus").count():
            return
    raise AssertionError(f"{key} does not lead to {selector}")


def test_filters_narrow_the_leaderboard_and_are_cleared(tab: Page, address: str) -> None:
    tab.goto(address)
    assert column(settled(tab), "method") == ["simcse"]
    tab.get_by_label("every configuration").check()
    tab.get_by_label("Backbone").select_option("mini")
    tab.get_by_role("button", name="Show").click()
    assert tab.url == f"{address}?backbone=mini&every=yes&sort=dev"
    assert column(settled(tab), "method") == ["simcse"] * 3
    expect(tab.get_by_label("Backbone")).to_have_value("mini")
    tab.get_by_label("Finished since").fill("2999-01-01")
    tab.get_by_role("button", name="Show").click()
    expect(tab.get_by_text("No complete trial passes these filters.")).to_be_visible()
    tab.get_by_role("link", name="clear").click()
    assert column(settled(tab), "method") == ["simcse"]


def test_published_rows_stand_beside_ours(tab: Page, address: str) -> None:
    tab.goto(address)
    settled(tab).get_by_label("published numbers").check()
    tab.get_by_role("button", name="Show").click()
    expect(settled(tab).get_by_role("row").filter(has_text="bert-base").first).to_be_visible()
    named = [trace["name"] for trace in traces(tab, "leaderboard")]
    assert named == ["mean over seeds, 95 % interval", "published"]


@pytest.mark.parametrize(("head", "name"), [("dev stsb (builtin)", "dev"), ("avg sts", "score")])
def test_heads_sort(tab: Page, address: str, head: str, name: str) -> None:
    tab.goto(f"{address}?every=yes&sort=finished")
    settled(tab).get_by_role("link", name=head, exact=True).click()
    assert tab.url == f"{address}?sort={name}&every=yes"
    expect(settled(tab).get_by_role("columnheader", name=head)).to_have_attribute(
        "aria-sort", "descending"
    )
    scores = [float(text.split()[0]) for text in column(tab, head) if text]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) > 1


def test_a_sweep_shows_its_curves_and_its_search(tab: Page, address: str) -> None:
    tab.goto(address)
    tab.get_by_role("navigation").get_by_role("link", name="Sweeps").click()
    tab.get_by_role("link", name="swept").click()
    expect(tab.locator("#live")).to_contain_text("5 of 5")
    assert settled(tab).locator("figure .plot").count() >= 10
    assert column(tab, "method") == ["simcse"] * 3
    first, *_ = traces(tab, "dev_curves")
    assert first["x"] == [0, 2, 4, 6]
    assert axis(tab, "dev_curves", "y") == "STS-B dev, Spearman × 100"

    tab.get_by_label("Dev curves of").select_option("dev/sickr_spearman")
    tab.get_by_role("form", name="Dev curve").get_by_role("button", name="Draw").click()
    assert tab.url == f"{address}sweeps/swept?metric=dev%2Fsickr_spearman#best"
    assert axis(settled(tab), "dev_curves", "y") == "SICK-R dev, Spearman × 100"

    tab.get_by_label("Across").select_option("temperature")
    tab.get_by_label("Upwards").select_option("learning_rate")
    tab.get_by_role("form", name="Two settings").get_by_role("button", name="Draw").click()
    assert "x=temperature&y=learning_rate&metric=dev%2Fsickr_spearman" in tab.url
    assert axis(settled(tab), "search_contour", "x") == "temperature"
    assert axis(tab, "dev_curves", "y") == "SICK-R dev, Spearman × 100"


def test_two_rows_are_compared(tab: Page, address: str) -> None:
    tab.goto(f"{address}?every=yes&sort=score")
    for row, side in ((1, "A"), (2, "B")):
        line = settled(tab).get_by_role("table").first.get_by_role("row").nth(row)
        line.get_by_role("radio", name=f"as {side}").check()
    tab.get_by_role("button", name="Compare").click()
    expect(tab.get_by_role("heading", level=1)).to_have_text(
        re.compile(r"simcse@\w{8} against simcse@\w{8}")
    )
    settled(tab)
    tasks = column(tab, "task")
    assert tasks[0] == "sts12" and tasks[-1] == "avg_sts" and len(tasks) == 8
    a, b, both = (float(column(tab, head)[0]) for head in ("A", "B", "A - B"))
    assert both == pytest.approx(a - b, abs=0.011)
    tab.get_by_label("Task", exact=True).select_option("stsb")
    tab.get_by_role("form", name="Pairs of one task").get_by_role("button").click()
    expect(settled(tab).get_by_role("heading", name="Pairs of STS-B")).to_be_visible()
    assert "task=stsb" in tab.url


def test_a_trial_tells_where_it_comes_from(tab: Page, address: str, best: str) -> None:
    tab.goto(f"{address}sweeps/swept")
    settled(tab).locator("#best-trial").click()
    expect(tab.get_by_role("heading", level=1)).to_have_text(f"Trial {best[:8]}")
    for word in ("Settings", "Seed", "Backbone", "Code"):
        expect(tab.get_by_role("rowheader", name=word, exact=False).first).to_be_visible()
    assert axis(settled(tab), "dev_curve", "x") == "step"
    tab.get_by_role("link", name="swept").first.click()
    expect(tab.get_by_role("heading", level=1)).to_have_text("swept")


def test_geometry_encodes_on_demand(tab: Page, address: str) -> None:
    tab.goto(f"{address}geometry")
    assert axis(settled(tab), "plane", "x").startswith("uniformity")
    expect(tab.locator("#picture-heat_map")).to_have_count(0)
    tab.get_by_label("Sentences of the similarities").fill("A man rides.\nA woman sings.\nRain.")
    tab.get_by_label("Show", exact=True).select_option("heat_map")
    tab.get_by_role("button", name="Encode").click()
    settled(tab)
    assert "show=heat_map&" in tab.url or tab.url.endswith("show=heat_map#heat_map")
    (panel,) = traces(tab, "heat_map")
    assert len(panel["y"]) == 3  # type: ignore[arg-type]


def test_theme_is_the_system_s_until_it_is_chosen(tab: Page, address: str) -> None:
    ink = "#picture-leaderboard .xtitle"
    light, dark = "rgb(31, 35, 40)", "rgb(230, 237, 243)"
    tab.emulate_media(color_scheme="dark")
    tab.goto(address)
    expect(settled(tab).locator("body")).to_have_css("color", dark)
    system = tab.locator(ink).evaluate("it => getComputedStyle(it).fill")
    tab.get_by_label("Theme").select_option("light")
    expect(tab.locator("body")).to_have_css("color", light)
    expect(tab.locator(ink)).not_to_have_css("fill", system)
    tab.get_by_role("link", name="Sweeps").click()
    expect(tab.locator("body")).to_have_css("color", light)
    tab.get_by_label("Theme").select_option("as the system")
    expect(tab.locator("body")).to_have_css("color", dark)


def test_keyboard_alone_leads_to_a_filter_and_a_trial(tab: Page, address: str, best: str) -> None:
    tab.goto(address)
    settled(tab).keyboard.press("Tab")
    expect(tab.get_by_role("link", name="Skip to content")).to_be_focused()
    tab.keyboard.press("Enter")
    tab.keyboard.press("Tab")
    expect(tab.get_by_label("Backbone")).to_be_focused()
    tab.keyboard.press("ArrowDown")
    expect(tab.get_by_label("Backbone")).to_have_value("mini")
    pressed_until(tab, "input[name=every]")
    tab.keyboard.press("Space")
    pressed_until(tab, "button[type=submit]")
    tab.keyboard.press("Enter")
    expect(tab).to_have_url(f"{address}?backbone=mini&every=yes&sort=dev")
    settled(tab)
    pressed_until(tab, f"a[href='/trials/{best[:8]}']")
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("heading", level=1)).to_have_text(f"Trial {best[:8]}")


@pytest.mark.parametrize(
    "view",
    [
        "?backbone=mini&every=yes&sort=trials",
        "sweeps/swept?metric=train/loss&x=temperature",
        "geometry?method=simcse",
        "trials/{best}?metric=dev/uniformity",
    ],
)
def test_an_address_shows_a_colleague_the_same(
    tab: Page, browser: Browser, address: str, best: str, view: str, wrong: list[str]
) -> None:
    tab.goto(address + view.format(best=best))
    colleague = browser.new_context(viewport={"width": 900, "height": 700})
    note_troubles(colleague, wrong, allowed=address)
    other = colleague.new_page()
    other.goto(settled(tab).url)
    seen = [settled(one).locator("main").inner_text() for one in (tab, other)]
    colleague.close()
    assert seen[0] == seen[1]
