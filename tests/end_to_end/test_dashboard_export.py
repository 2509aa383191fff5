import pytest
from browser import PATIENCE, note_troubles, settled
from playwright.sync_api import expect
from processes import run_command

expect.set_options(timeout=PATIENCE)

ALWAYS = {"leaderboard", "search_history", "dev_curves_dev_stsb_spearman", "heat_map"}
"""Some that every sweep has which is complete and keeps a model."""


@pytest.mark.slow
def test_the_report_draws_all_its_figures_without_a_network(swept, browser, tmp_path) -> None:
    folder = tmp_path / "pictures"
    ended = run_command("cse-dashboard", "export", "tiny", str(folder), "--runs", str(swept.runs))
    assert ended.returncode == 0, ended.stderr
    begun, *lines = ended.stderr.splitlines()
    assert begun == "drawing the figures of tiny…"
    told = (line.removeprefix("no ").partition(": ") for line in lines)
    missing = {name: why for name, _, why in told}
    drawn = {file.stem for file in (folder / "figures").glob("*.html")}
    assert ended.stdout == (
        f"{folder / 'report.html'}: {len(drawn)} figures, each alone in {folder / 'figures'}\n"
    )
    assert drawn > ALWAYS

    wrong: list[str] = []
    context = browser.new_context(offline=True)
    note_troubles(context, wrong, allowed=folder.as_uri())
    tab = context.new_page()
    tab.goto((folder / "report.html").as_uri())
    pictures = settled(tab).locator("figure[data-figure]")
    expect(pictures.locator(".plot:has(svg.main-svg)")).to_have_count(len(drawn))
    names = pictures.evaluate_all("all => all.map(one => one.dataset.figure)")
    assert sorted(names) == sorted([*drawn, *missing])
    for name, why in missing.items():
        expect(tab.locator(f"#picture-{name} .missing")).to_have_text(why)
    tab.goto((folder / "figures" / "search_history.html").as_uri())
    expect(tab.locator(".plot svg.main-svg").first).to_be_visible()
    context.close()
    assert wrong == []
