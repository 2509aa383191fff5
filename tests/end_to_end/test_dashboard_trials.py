"""The table of a sweep's trials in a real browser: filtered, sorted, and chosen to be compared."""

import re

import pytest
from browser import settled
from playwright.sync_api import Page, expect

expect.set_options(timeout=60_000)


def numbers(tab: Page) -> list[str]:
    return tab.locator("table.trials tbody th").all_inner_texts()


def test_a_table_is_sorted_and_narrowed_without_leaving_the_page(
    tab: Page, page_address: str
) -> None:
    tab.goto(f"{page_address}sweeps/tiny")
    settled(tab)
    tab.evaluate("document.body.dataset.opened = 'once'")
    assert numbers(tab) == ["#4", "#3", "#2", "#1", "#0"]
    tab.locator("#by-learning_rate").click()
    expect(tab.locator("th[aria-sort=ascending] #by-learning_rate")).to_be_visible()
    assert tab.url.endswith("sweeps/tiny?sort=learning_rate#trials")
    form = tab.get_by_role("form", name="Trials that are shown")
    form.get_by_label("Only where").select_option("temperature")
    form.get_by_label("is", exact=True).fill("0.05")
    form.get_by_role("button", name="Show").click()
    expect(tab.get_by_role("list", name="Conditions")).to_contain_text("temperature 0.05")
    assert "?sort=learning_rate&where=temperature%3A0.05" in tab.url
    expect(settled(tab).locator("#search")).to_contain_text("Of the trials where temperature 0.05")
    few = numbers(tab)
    assert 0 < len(few) < 5
    tab.go_back()
    expect(tab.locator("table.trials tbody tr")).to_have_count(5)
    tab.go_forward()
    expect(tab.locator("table.trials tbody tr")).to_have_count(len(few))
    tab.get_by_role("link", name=re.compile("^Without temperature")).click()
    expect(settled(tab).locator("table.trials tbody tr")).to_have_count(5)
    expect(tab.locator("#search")).not_to_contain_text("Of the trials where")
    expect(tab.locator("body[data-opened=once]")).to_be_attached()


def test_ticked_trials_are_carried_and_compared(tab: Page, page_address: str) -> None:
    tab.goto(f"{page_address}sweeps/tiny?sort=number")
    settled(tab)
    for number in (0, 1):
        tab.get_by_role("checkbox", name=f"Compare trial {number}").check()
    form = tab.get_by_role("form", name="Compare trials")
    expect(form.get_by_text("2 selected")).to_be_in_viewport()
    tab.locator("#by-score").click()
    expect(tab.locator("th[aria-sort=descending] #by-score")).to_be_visible()
    expect(form.get_by_text("2 selected")).to_be_visible()
    form.get_by_role("button", name="Compare").click()
    tab.wait_for_url(re.compile(r"/compare\?rows="))


@pytest.mark.slow
def test_without_scripts_links_and_forms_do_the_same(
    browser, page_address: str, wrong: list[str]
) -> None:
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(f"{page_address}sweeps/tiny")
    assert numbers(tab) == ["#4", "#3", "#2", "#1", "#0"]
    form = tab.get_by_role("form", name="Trials that are shown")
    form.get_by_label("Only where").select_option("temperature")
    form.get_by_label("is", exact=True).fill("0.05")
    form.get_by_role("button", name="Show").click()
    expect(tab.get_by_role("list", name="Conditions")).to_contain_text("temperature 0.05")
    tab.locator("#by-number").click()
    assert numbers(tab) == sorted(numbers(tab))
    expect(tab.get_by_role("list", name="Conditions")).to_contain_text("temperature 0.05")
    context.close()
