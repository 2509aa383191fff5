"""What a reader of `cse-dashboard` can do with a view: keep, share, dim and reach it."""

import csv
import io
import json
import struct
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

import pytest
from axe_playwright_python.sync_playwright import Axe
from browser import note_troubles, settled
from playwright.sync_api import Browser, Locator, Page, expect

expect.set_options(timeout=60_000)

INK = {"light": "rgb(27, 31, 36)", "dark": "rgb(230, 237, 243)"}
"""What a theme writes with, on the page as in figures."""
VIEWS = (
    *("", "sweeps", "sweeps/tiny", "compare", "compare?rows=simcse,untrained", "geometry"),
    *("papers", "papers/rankcse/table2"),
    *("trials/{best}", "nowhere"),
)
WHITE = "fill: rgb(255, 255, 255); fill-opacity: 1;"


def shown(tab: Page) -> dict[str, list[str]]:
    """What a view tells, however wide it is."""
    fields = "forms => forms.map(form => `${new URLSearchParams(new FormData(form))}`)"
    return {
        "heads": tab.locator("h1, h2, h3, figcaption").all_inner_texts(),
        "tables": tab.locator("table").all_inner_texts(),
        "figures": tab.locator("figure script").all_text_contents(),
        "forms": tab.locator("form").evaluate_all(fields),
    }


def pressed_until(tab: Page, selector: str, key: str = "Tab") -> None:
    """Presses the key until what is selected has the focus."""
    for _ in range(60):
        tab.keyboard.press(key)
        if tab.locator(f"{selector}:focus").count():
            return
    raise AssertionError(f"{key} does not lead to {selector}")


def downloaded(tab: Page, click: Locator) -> tuple[str, bytes]:
    """The file's proposed name, and what is in it."""
    with tab.expect_download() as download:
        click.click()
    return download.value.suggested_filename, Path(download.value.path()).read_bytes()


def test_a_figure_is_saved_as_svg_png_and_csv(tab: Page, page_address: str) -> None:
    tab.goto(f"{page_address}sweeps/tiny")
    figure = settled(tab).locator("#picture-search_history")
    name, svg = downloaded(tab, figure.get_by_role("button", name="as SVG"))
    assert name == "search_history.svg"
    root = ElementTree.fromstring(svg)
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


@pytest.mark.parametrize("dark", [False, True])
def test_a_saved_figure_is_dark_on_white_in_any_theme(
    tab: Page, page_address: str, dark: bool
) -> None:
    tab.emulate_media(color_scheme="dark" if dark else "light")
    tab.goto(page_address)
    button = settled(tab).locator("#picture-leaderboard").get_by_role("button", name="as SVG")
    _, svg = downloaded(tab, button)
    assert ElementTree.fromstring(svg)[0].get("style") == WHITE
    assert INK["light"] in svg.decode() and INK["dark"] not in svg.decode()


def test_the_table_is_saved_with_the_rows_that_are_shown(tab: Page, page_address: str) -> None:
    tab.goto(f"{page_address}?every=yes&sort=dev")
    settled(tab)
    files = {}
    for form in ("CSV", "JSON", "Markdown", "LaTeX"):
        link = tab.get_by_role("main").get_by_role("link", name=form, exact=True).first
        name, files[form] = downloaded(tab, link)
        assert name.startswith("leaderboard.")
    rows = list(csv.DictReader(io.StringIO(files["CSV"].decode())))
    assert [row["method"] for row in rows] == ["simcse"] * 3
    assert len(json.loads(files["JSON"])) == 3
    assert b"| Method | STS12 |" in files["Markdown"]
    assert b"\\toprule" in files["LaTeX"]


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


def test_keyboard_alone_leads_to_a_filter_and_a_trial(
    tab: Page, page_address: str, best_trial: str
) -> None:
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


@pytest.mark.parametrize(
    "view",
    [
        "?backbone=mini&every=yes&sort=trials",
        "sweeps/tiny?metric=train/loss&x=temperature",
        "geometry?method=simcse",
        "trials/{best}?metric=dev/uniformity",
    ],
)
def test_an_address_shows_a_colleague_the_same(
    tab: Page, browser: Browser, page_address: str, best_trial: str, view: str, wrong: list[str]
) -> None:
    tab.goto(page_address + view.format(best=best_trial))
    colleague = browser.new_context(viewport={"width": 900, "height": 700})
    note_troubles(colleague, wrong, allowed=page_address)
    other = colleague.new_page()
    other.goto(settled(tab).url)
    mine, theirs = shown(settled(tab)), shown(settled(other))
    colleague.close()
    assert mine == theirs
    assert mine["figures"] or mine["tables"]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 420)])
def test_nothing_keeps_a_view_from_a_reader(
    browser: Browser,
    page_address: str,
    best_trial: str,
    scheme: Literal["light", "dark"],
    width: int,
) -> None:
    """By axe's rules: names of what can be operated, contrast, order of headings, regions."""
    with browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme
    ) as context:
        tab = context.new_page()
        for view in VIEWS:
            tab.goto(page_address + view.format(best=best_trial))
            settled(tab)
            found = Axe().run(tab)
            assert found.violations_count == 0, f"{view}: {found.generate_report()}"
