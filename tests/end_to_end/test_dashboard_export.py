"""`cse-dashboard export` by the real command; its report in a browser without a network."""

import csv
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from xml.etree import ElementTree

import pytest
from browser import note_troubles
from playwright.sync_api import Browser, expect
from processes import run_command
from sweeps import Sweep

expect.set_options(timeout=60_000)
pytestmark = pytest.mark.xdist_group("swept")

ALWAYS = {"leaderboard", "search_history", "dev_curves_dev_stsb_spearman", "heat_map"}
"""Some that every sweep has which is complete and keeps a model."""


@pytest.fixture(scope="module")
def export(swept: Sweep) -> Callable[..., CompletedProcess[str]]:
    """Runs the command on the tiny sweep."""

    def run(sweep: str, folder: Path, *options: str) -> CompletedProcess[str]:
        return run_command(
            "cse-dashboard", "export", sweep, str(folder), "--runs", str(swept.runs), *options
        )

    return run


def missing_of(ended: CompletedProcess[str]) -> dict[str, str]:
    """Name of each figure that is not there, and the sentence that says why."""
    assert ended.returncode == 0, ended.stderr
    told = (line.removeprefix("no ").partition(": ") for line in ended.stderr.splitlines())
    return {name: why for name, _, why in told}


def test_the_report_draws_all_its_figures_without_a_network(
    export, browser: Browser, tmp_path: Path
) -> None:
    folder = tmp_path / "pictures"
    ended = export("tiny", folder)
    missing = missing_of(ended)
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
    pictures = tab.locator("figure[data-figure]")
    expect(pictures.locator(".plot:has(svg.main-svg)")).to_have_count(len(drawn))
    names = pictures.evaluate_all("all => all.map(one => one.dataset.figure)")
    assert sorted(names) == sorted([*drawn, *missing])
    for name, why in missing.items():
        expect(tab.locator(f"#picture-{name} .missing")).to_have_text(why)
    tab.goto((folder / "figures" / "search_history.html").as_uri())
    expect(tab.locator(".plot svg.main-svg").first).to_be_visible()
    context.close()
    assert wrong == []


@pytest.mark.slow  # it encodes for the embeddings once more
def test_single_figures_are_images_with_their_numbers(export, browser, tmp_path: Path) -> None:
    missing = missing_of(export("tiny", tmp_path, "--format", "svg"))
    images = list((tmp_path / "figures").glob("*.svg"))
    assert {image.stem for image in images} > ALWAYS
    assert not {image.stem for image in images} & set(missing)
    for image in images:
        root = ElementTree.parse(image).getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        head, *numbers = csv.reader(image.with_suffix(".csv").read_text().splitlines())
        assert head[0] == "trace", image
        assert numbers, image


def test_an_unknown_sweep_leaves_nothing_behind(export, tmp_path: Path) -> None:
    ended = export("tinny", tmp_path / "pictures")
    assert (ended.returncode, ended.stdout) == (1, "")
    sentence = "there is no sweep 'tinny' on this leaderboard; did you mean 'tiny'?\n"
    assert ended.stderr.startswith("Error: ") and ended.stderr.endswith(sentence)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_something_in_it_is_refused(export, tmp_path: Path) -> None:
    kept = tmp_path / "kept.txt"
    kept.write_text("mine")
    ended = export("tiny", tmp_path)
    assert (ended.returncode, ended.stdout) == (1, "")
    sentence = f"Error: the folder {tmp_path} is not empty (kept.txt); name another one\n"
    assert ended.stderr == sentence
    assert [file.read_text() for file in tmp_path.iterdir()] == ["mine"]
