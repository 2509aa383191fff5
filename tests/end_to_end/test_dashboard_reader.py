"""What a reader of `cse-dashboard` can do with a view: keep, share, dim and reach it."""

import csv
import io
import struct
from typing import Literal
from xml.etree import ElementTree

import pytest
from browser import assert_accessible, downloaded, settled
from playwright.sync_api import Browser, Page, expect

expect.set_options(timeout=60_000)
pytestmark = pytest.mark.slow

INK = {"light": "rgb(27, 31, 36)", "dark": "rgb(230, 237, 243)"}
"""What a theme writes with, on the page as in figures."""
VIEWS = (
    *("", "sweeps", "sweeps/tiny", "compare", "compare?rows=simcse,untrained", "geometry"),
    *("papers", "papers/rankcse/table2"),
    *("trials/{best}", "nowhere"),
)
WHITE = "fill: rgb(255, 255, 255); fill-opacity: 1;"


def test_a_figure_is_saved_dark_on_white_in_any_theme(tab: Page, page_address: str) -> None:
    tab.emulate_media(color_scheme="dark")
    tab.goto(f"{page_address}sweeps/tiny")
    figure = settled(tab).locator("#picture-search_history")
    name, svg = downloaded(tab, figure.get_by_role("button", name="as SVG"))
    assert name == "search_history.svg"
    assert INK["light"] in svg.decode() and INK["dark"] not in svg.decode()
    root = ElementTree.fromstring(svg)
    assert root[0].get("style") == WHITE
    assert (root.get("width"), root.get("height")) == ("900", "560")
    assert "STS-B dev, Spearman × 100" in "".join(root.itertext())

    name, png = downloaded(tab, figure.get_by_role("button", name="as PNG"))
    assert name == "search_history.png"
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", png[16:24]) == (1800, 1120)

    name, numbers = downloaded(tab, figure.get_by_role("link", name="as CSV"))
    assert name == "search_history.csv"
    rows = list(csv.DictReader(io.StringIO(numbers.decode())))
    best = settled(tab).locator("#best-trial").inner_text()
    assert best in {f"{float(row['STS-B dev, Spearman × 100']):.2f}" for row in rows}


def test_theme_is_the_system_s_until_it_is_chosen(tab: Page, page_address: str) -> None:
    ink = "#picture-leaderboard .xtitle"
    light, dark = INK.values()
    tab.emulate_media(color_scheme="dark")
    tab.goto(page_address)
    expect(settled(tab).locator("body")).to_have_css("color", dark)
    system = tab.locator(ink).evaluate("it => getComputedStyle(it).fill")
    tab.get_by_label("Theme").select_option("light")
    expect(tab.locator("body")).to_have_css("color", light)
    expect(tab.locator(ink)).not_to_have_css("fill", system)
    tab.get_by_role("link", name="Sweeps").click()
    expect(tab.locator("body")).to_have_css("color", light)
    tab.get_by_label("Theme").select_option("auto")
    expect(tab.locator("body")).to_have_css("color", dark)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 420)])
def test_nothing_keeps_a_view_from_a_reader(
    browser: Browser,
    page_address: str,
    best_trial: str,
    scheme: Literal["light", "dark"],
    width: int,
) -> None:
    with browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme
    ) as context:
        tab = context.new_page()
        for view in VIEWS:
            tab.goto(page_address + view.format(best=best_trial))
            assert_accessible(settled(tab))


def pressed_until(tab: Page, selector: str, key: str = "Tab") -> None:
    """Presses the key until what is selected has the focus."""
    for _ in range(60):
        tab.keyboard.press(key)
        if tab.locator(f"{selector}:focus").count():
            return
    raise AssertionError(f"{key} does not lead to {selector}")


def test_keyboard_alone_leads_to_a_filter_and_a_trial(tab, page_address, best_trial) -> None:
    tab.goto(page_address)
    settled(tab).keyboard.press("Tab")
    expect(tab.get_by_role("link", name="Skip to content")).to_be_focused()
    tab.keyboard.press("Enter")
    tab.keyboard.press("Tab")
    expect(tab.get_by_label("Method")).to_be_focused()
    tab.keyboard.press("Tab")
    expect(tab.get_by_label("Backbone")).to_be_focused()
    tab.keyboard.press("ArrowDown")
    expect(tab.get_by_label("Backbone")).to_have_value("mini")
    pressed_until(tab, "summary")
    tab.keyboard.press("Space")
    pressed_until(tab, "input[name=every]")
    tab.keyboard.press("Space")
    pressed_until(tab, "button[type=submit]", "Shift+Tab")
    tab.keyboard.press("Enter")
    expect(tab).to_have_url(f"{page_address}?backbone=mini&sort=dev&every=yes")
    settled(tab)
    pressed_until(tab, f"a[href='/trials/{best_trial[:8]}']")
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("heading", level=1)).to_have_text(f"Trial {best_trial[:8]}")
