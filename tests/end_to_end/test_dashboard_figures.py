"""What readers do with figures of `cse-dashboard` by mouse, by finger, on a narrow screen."""

import re
from collections.abc import Iterator

import pytest
from browser import FIRST_POINT, note_troubles, settled
from playwright.sync_api import Browser, Locator, Page, expect

expect.set_options(timeout=60_000)

pytestmark = pytest.mark.slow
PHONE = {"width": 420, "height": 800}
NOTE_LEADS = """
navigation.addEventListener("navigate", event => {
  event.preventDefault();
  document.title = event.destination.url;
});
"""
"""The page stays, and its title is where it would have led to."""


@pytest.fixture
def phone(browser: Browser, page_address: str, wrong: list[str]) -> Iterator[Page]:
    """A tab that is touched."""
    context = browser.new_context(viewport=PHONE, has_touch=True, is_mobile=True)
    note_troubles(context, wrong, allowed=page_address)
    yield context.new_page()
    context.close()


TO_THE_MIDDLE = """plot => new Promise(resolve => {
  let before, still = 0;
  const look = () => {
    plot.scrollIntoView({ block: "center" });
    const { top } = plot.getBoundingClientRect();
    still = top === before ? still + 1 : 0;
    before = top;
    if (still > 10) resolve(); else requestAnimationFrame(look);
  };
  look();
})"""
"""Scrolls there until the plot stays: what a finger has set in motion goes on for a while."""


def history(tab: Page) -> Locator:
    """The plot of the search's history, at rest in the middle of the view."""
    plot = settled(tab).locator("#picture-search_history .plot")
    plot.evaluate(TO_THE_MIDDLE)
    return plot


def swipe(tab: Page, x: float, y: float, by: float) -> float:
    """Moves a finger over the screen; how far the page has scrolled then."""
    before = tab.evaluate("scrollY")
    finger = tab.context.new_cdp_session(tab)

    def touch(kind: str, *at: float) -> None:
        points = [{"x": x, "y": one} for one in at]
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", y)
    for part in range(1, 11):
        touch("touchMove", y + by * part / 10)
    touch("touchEnd")
    return float(tab.evaluate("scrollY") - before)


def test_a_finger_scrolls_over_a_figure_and_touches_twice(phone: Page, page_address: str) -> None:
    phone.goto(f"{page_address}sweeps/tiny")
    plot = history(phone)
    box = plot.bounding_box()
    assert box is not None
    assert swipe(phone, box["x"] + 200, box["y"] + 250, -150) > 100

    x, y = history(phone).evaluate(FIRST_POINT)
    phone.evaluate(NOTE_LEADS)
    phone.touchscreen.tap(x, y)
    expect(plot.locator(".hoverlayer")).to_contain_text("learning_rate=")
    phone.mouse.click(x, y)  # a slow phone's browser tells of one after each touch
    assert "/trials/" not in phone.title()
    phone.touchscreen.tap(x, y)
    expect(phone).to_have_title(re.compile("/trials/"))


def test_nothing_stands_beside_a_narrow_plot(phone: Page, page_address: str) -> None:
    phone.goto(f"{page_address}sweeps/tiny")
    plots = settled(phone).locator("figure .plot")
    width = phone.evaluate("document.documentElement.clientWidth")
    assert phone.evaluate("document.documentElement.scrollWidth") <= width
    for plot in plots.all():
        inner = plot.evaluate("it => it._fullLayout._size")
        assert inner["w"] > 0.5 * PHONE["width"], plot.get_attribute("aria-label")
    below = "it => it.querySelector('.legend').getBoundingClientRect().top"
    above = (
        "it => it.querySelector('.plot .bglayer, .cartesianlayer').getBoundingClientRect().bottom"
    )
    curves = phone.locator("[id^=picture-dev_curves] .plot").first
    assert curves.evaluate(below) >= curves.evaluate(above)


AT_AXIS = """(plot, [axis, places]) => {
  const { xaxis, yaxis } = plot._fullLayout, { left, top } = plot.getBoundingClientRect();
  const across = left + xaxis._offset + xaxis.d2p(axis);
  return places.map(place => [across, top + yaxis._offset + yaxis.d2p(place)]);
}"""
"""Where places on an upright axis are on the screen."""


def test_a_brush_narrows_the_table_and_the_figures(tab: Page, page_address: str) -> None:
    tab.goto(f"{page_address}sweeps/tiny")
    plot = settled(tab).locator("#picture-search_parallel .plot")
    every = tab.locator("#trials tbody tr").count()
    plot.evaluate("it => it.scrollIntoView({ block: 'center' })")
    low, high = plot.evaluate(AT_AXIS, [0, [0.5, 1.05]])
    tab.mouse.move(low[0] - 10, low[1])
    tab.mouse.down()
    tab.mouse.move(high[0] + 10, high[1], steps=5)
    tab.mouse.up()
    expect(tab).to_have_url(re.compile(r"where=score\+%3E%3D\+[\d.]+$"))
    rows = tab.locator("#trials tbody tr")
    expect(rows).not_to_have_count(every)
    assert 0 < rows.count() < every
    again = settled(tab).locator("#picture-search_parallel .plot")
    assert again.evaluate("it => it.layout.shapes.filter(one => one.line.width > 2).length") == 1

    again.evaluate("it => it.scrollIntoView({ block: 'center' })")
    (middle,) = again.evaluate(AT_AXIS, [0.5, [0.5]])
    tab.mouse.dblclick(*middle)
    expect(tab).to_have_url(f"{page_address}sweeps/tiny")
    expect(rows).to_have_count(every)
