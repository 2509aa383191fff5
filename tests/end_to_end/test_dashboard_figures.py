"""What readers do with figures of `cse-dashboard` by mouse, by finger, on a narrow screen."""

import re

import pytest
from browser import settled
from playwright.sync_api import Page, expect

expect.set_options(timeout=60_000)

pytestmark = pytest.mark.slow


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
