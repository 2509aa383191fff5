import pytest
from browser import PATIENCE, assert_accessible, settled
from playwright.sync_api import Page, expect

expect.set_options(timeout=PATIENCE)
pytestmark = pytest.mark.slow

VIEWS = (
    *("", "sweeps", "sweeps/tiny", "compare", "compare?rows=simcse,untrained", "geometry"),
    *("papers", "papers/rankcse/table2"),
    *("trials/{best}", "nowhere"),
)

SCROLLED_LEGENDS = """() => [...document.querySelectorAll("figure:has(.legend .scrollbar)")]
  .filter(figure => figure.querySelector(".legend .scrollbar").getAttribute("height") > 0)
  .map(figure => figure.id)"""


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 420)])
def test_nothing_keeps_a_view_from_a_reader(
    browser, page_address, best_trial, scheme, width
) -> None:
    with browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme
    ) as context:
        tab = context.new_page()
        for view in VIEWS:
            tab.goto(page_address + view.format(best=best_trial))
            assert_accessible(settled(tab))
            assert tab.evaluate(SCROLLED_LEGENDS) == []


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
    expect(tab).to_have_url(f"{page_address}?backbone=mini&every=yes")
    settled(tab)
    pressed_until(tab, f"a[href='/trials/{best_trial[:8]}']")
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("heading", level=1)).to_have_text(f"Trial {best_trial[:8]}")
