import csv
import io
import json
import re

import pytest
from browser import FIRST_POINT, PATIENCE, assert_accessible, downloaded, settled
from playwright.sync_api import Locator, Page, expect

expect.set_options(timeout=PATIENCE)


def column(where: Page | Locator, head: str) -> list[str]:
    """The texts under a head of the first table."""
    table = where.locator("table.grid").first
    place = 1 + table.locator("thead th").all_inner_texts().index(head)
    return table.locator(f"tbody tr > :nth-child({place})").all_inner_texts()


def traces(tab: Page, picture: str) -> list[dict[str, object]]:
    """What Plotly holds of a figure that is drawn."""
    plot = tab.locator(f"#picture-{picture} .plot")
    found: list[dict[str, object]] = json.loads(plot.evaluate("it => JSON.stringify(it.data)"))
    return found


def axis(tab: Page, picture: str, side: str) -> str:
    title = tab.locator(f"#picture-{picture} .{side}title")
    lines = title.locator("tspan.line").all_text_contents()
    return " ".join(lines) or title.text_content() or ""


def test_the_leaderboard_is_filtered_sorted_and_saved(tab: Page, page_address: str) -> None:
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(f"{page_address}sweeps")
    settled(tab)
    assert not any("plotly" in one for one in asked)
    tab.get_by_role("navigation").get_by_role("link", name="Leaderboard").click()
    assert column(settled(tab, page_address), "method") == ["SimCSE"]
    assert sum("plotly" in one for one in asked) == 1  # it comes with the first figure

    tab.get_by_text("More filters").click()
    tab.get_by_label("every configuration").check()
    tab.get_by_label("Backbone").select_option("mini")
    tab.get_by_role("button", name="Show").click()
    assert column(settled(tab, f"{page_address}?backbone=mini&every=yes"), "method") == [
        "SimCSE",
        "SimCSE",
        "SimCSE",
    ]  # further seeds estimate the best, and no search chose the others
    expect(tab.get_by_label("Backbone")).to_have_value("mini")
    assert_accessible(tab)

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

    tab.get_by_role("link", name="STS average", exact=True).click()
    settled(tab, f"{page_address}?backbone=mini&sort=avg_sts&every=yes")
    head = tab.get_by_role("columnheader", name="STS average")
    expect(head).to_have_attribute("aria-sort", "descending")
    scores = [float(text.split()[0]) for text in column(tab, "STS average") if text]
    assert len(scores) > 1 and scores == sorted(scores, reverse=True)

    tab.get_by_label("Finished since").fill("2999-01-01")
    tab.get_by_role("button", name="Show").click()
    expect(tab.get_by_text("No complete trial passes these filters.")).to_be_visible()
    tab.get_by_role("link", name="Clear").click()
    assert column(settled(tab, page_address), "method") == ["SimCSE"]


def test_a_sweep_shows_its_curves_and_its_search_and_leads_to_its_trials(
    tab: Page, page_address: str, best_trial: str
) -> None:
    tab.goto(page_address)
    tab.get_by_role("navigation").get_by_role("link", name="Sweeps").click()
    tab.get_by_role("link", name="tiny").click()
    expect(tab.locator("#live")).to_contain_text("5 of 5")
    assert settled(tab).locator("figure .plot").count() >= 5
    assert column(tab.locator("#best"), "method") == ["SimCSE", "SimCSE", "SimCSE"]
    first, *_ = traces(tab, "dev_curves_dev_stsb_spearman")
    assert first["x"] == [0, 2, 4, 6]
    assert axis(tab, "dev_curves_dev_stsb_spearman", "y") == "STS-B dev, Spearman × 100"

    tab.get_by_label("Curves of").select_option("dev/sickr_spearman")
    expect(tab.locator("#picture-dev_curves_dev_sickr_spearman")).to_be_visible()
    expect(tab).to_have_url(f"{page_address}sweeps/tiny?metric=dev%2Fsickr_spearman#curves")
    assert axis(settled(tab), "dev_curves_dev_sickr_spearman", "y") == "SICK-R dev, Spearman × 100"

    tab.get_by_label("x axis").select_option("temperature")
    expect(tab.locator("#picture-surface h3")).to_have_text(re.compile("^temperature and"))
    settled(tab).get_by_label("y axis").select_option("learning_rate")
    expect(tab.locator("#picture-surface h3")).to_have_text("temperature and learning_rate")
    assert "metric=dev%2Fsickr_spearman&x=temperature&y=learning_rate" in tab.url
    assert axis(settled(tab), "surface", "x") == "temperature"
    assert axis(tab, "dev_curves_dev_sickr_spearman", "y") == "SICK-R dev, Spearman × 100"

    plot = tab.locator("#picture-search_history .plot")
    plot.evaluate("it => it.scrollIntoView({ block: 'center', behavior: 'instant' })")
    x, y = plot.evaluate(FIRST_POINT)
    tab.mouse.move(x - 2, y)
    tab.mouse.move(x, y)
    expect(plot.locator(".hoverlayer")).to_contain_text("learning_rate=")
    expect(plot.locator(".hoverlayer")).to_contain_text("trial 0")
    tab.mouse.click(x, y)
    expect(tab.get_by_role("heading", level=1)).to_contain_text("Trial ")

    tab.get_by_role("link", name="tiny").first.click()
    settled(tab).locator("#best-trial").click()
    expect(tab.get_by_role("heading", level=1)).to_have_text(f"Trial {best_trial[:8]}")
    expect(tab.locator("#picture-losses")).to_be_in_viewport()
    expect(tab.get_by_text("cse-leaderboard reproduce")).to_be_in_viewport()
    tab.evaluate("document.querySelectorAll('details').forEach(it => { it.open = true; })")
    for fact in ("configuration", "seed", "machine", "torch"):
        expect(tab.get_by_role("rowheader", name=fact, exact=True).first).to_be_visible()
    assert axis(settled(tab), "dev_curve", "x") == "optimiser step"
    assert_accessible(tab)


def test_rows_are_compared(tab: Page, page_address: str) -> None:
    tab.goto(f"{page_address}?every=yes&sort=avg_sts")
    form = settled(tab).get_by_role("form", name="Compare rows")
    expect(form.get_by_text("selected")).to_have_count(0)
    for row in (1, 2):
        line = tab.get_by_role("table").first.get_by_role("row").nth(row)
        line.get_by_role("checkbox").check()
    expect(form.get_by_text("2 selected")).to_be_in_viewport()
    form.get_by_role("button", name="Compare").click()
    heading = tab.get_by_role("heading", level=1)
    expect(heading).to_have_text(re.compile(r"SimCSE@\w{8}, SimCSE@\w{8}"))
    first, second = heading.inner_text().split(", ")
    expect(settled(tab).locator("#picture-differences_1 svg.main-svg").first).to_be_in_viewport()
    tab.get_by_text("Different: ").click()
    differing = tab.get_by_role("table", name="What differs")
    expect(differing.get_by_role("rowheader", name="temperature")).to_be_visible()
    scores = tab.get_by_role("table", name="Scores × 100")
    average = scores.get_by_role("row").filter(has_text="STS average").locator("td")
    texts = [float(average.nth(place).inner_text().split()[0]) for place in range(3)]
    assert texts[2] == pytest.approx(texts[1] - texts[0], abs=0.011)
    tab.get_by_role("link", name="compare with this one").click()
    expect(heading).to_have_text(f"{second}, {first}")
    tab.get_by_label("Pairs of sentences of").select_option("stsb")
    expect(settled(tab).get_by_role("heading", name="Pairs of STS-B")).to_be_visible()
    assert "task=stsb" in tab.url
    tab.get_by_role("link", name=re.compile("^Without simcse@")).last.click()
    expect(tab.get_by_text("Name two rows or more")).to_be_visible()


@pytest.mark.slow
def test_geometry_encodes_on_demand(tab: Page, page_address: str) -> None:
    tab.goto(f"{page_address}geometry")
    assert axis(settled(tab), "alignment_uniformity", "x").lower().startswith("uniformity")
    expect(tab.locator("#picture-heat_map")).to_have_count(0)
    tab.get_by_label("Sentences of the similarities").fill("A man rides.\nA woman sings.\nRain.")
    tab.get_by_role("combobox", name="Show", exact=True).select_option("heat_map")
    tab.get_by_role("button", name="Encode").click()
    expect(tab).to_have_url(re.compile("&show=heat_map"))
    settled(tab)
    (panel,) = traces(tab, "heat_map")
    assert len(panel["y"]) == 3  # type: ignore[arg-type]


def numbers(tab: Page) -> list[str]:
    return tab.locator("table.trials tbody th").all_inner_texts()


@pytest.mark.slow
def test_a_table_is_sorted_and_narrowed_without_leaving_the_page(tab, page_address) -> None:
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
    assert "?sort=learning_rate&where=temperature+%3D+0.05" in tab.url
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
