"""The report of a sweep, and its figures as files."""

import csv
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from cse_dashboards.cli import main
from cse_dashboards.errors import ImageError
from cse_dashboards.export import export_sweep
from cse_dashboards.figures.picture import Picture
from cse_dashboards.picture_html import LIBRARY
from cse_dashboards.report import chapters, render_report, rows_of
from cse_platform.errors import NotFoundError, OutputError
from cse_platform.leaderboard.api import Leaderboard

CHAPTERS = ["Ranking", "Search", "Hyperparameters", "Dev curves", "Beside other methods"]


def pictures(reader: Leaderboard, sweep: str) -> list[Picture]:
    return [picture for chapter in chapters(reader, sweep) for picture in chapter.pictures]


def test_the_sweeps_own_row_comes_first(reader: Leaderboard) -> None:
    assert [row.method for row in rows_of(reader, "sncse")] == ["sncse", "hicl", "simcse"]


def test_a_report_has_its_chapters(reader: Leaderboard) -> None:
    assert [chapter.title for chapter in chapters(reader, "simcse")] == CHAPTERS


def test_every_picture_is_drawn_or_says_why_not(reader: Leaderboard) -> None:
    made = pictures(reader, "simcse")
    assert all((one.figure is None) == (one.missing is not None) for one in made)
    names = [one.name for one in made]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9_]+", name) for name in names)
    drawn = {one.name for one in made if one.figure is not None}
    assert {"leaderboard", "dev_curves_dev_stsb_spearman", "buckets_stsb", "differences"} <= drawn


def test_a_document_needs_nothing_from_elsewhere(reader: Leaderboard) -> None:
    document = render_report(reader.sweep("simcse"), list(chapters(reader, "simcse")))
    outside = re.findall(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=[\"']?(?!data:)", document)
    assert outside == []
    assert document.count('data-figure="') == len(pictures(reader, "simcse"))


def test_an_unknown_sweep_leaves_no_folder(reader: Leaderboard, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="simcsee"):
        export_sweep(reader, "simcsee", tmp_path / "out", form="html")
    assert not (tmp_path / "out").exists()


def test_a_folder_with_something_in_it_is_refused(reader: Leaderboard, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("kept")
    with pytest.raises(OutputError, match="not empty"):
        export_sweep(reader, "simcse", tmp_path, form="html")


def test_every_figure_alone_with_its_numbers(
    reader: Leaderboard, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export_sweep(reader, "simcse", tmp_path / "out", form="html")
    figures = tmp_path / "out" / "figures"
    pages, tables = sorted(figures.glob("*.html")), sorted(figures.glob("*.csv"))
    assert [one.stem for one in pages] == [one.stem for one in tables]
    with (figures / "leaderboard.csv").open(newline="") as file:
        assert {"HiCL mini", "SimCSE mini", "SNCSE mini"} <= {
            cell for line in csv.reader(file) for cell in line
        }
    told = capsys.readouterr()
    assert f"{len(pages)} figures" in told.out
    assert "no ranking_scores: no KCC" in told.err
    assert re.search("no heat_map: .*has no model: its best checkpoint was not kept", told.err)


def test_a_folder_holds_plotly_once(reader: Leaderboard, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    export_sweep(reader, "simcse", folder, form="html")
    named = {
        one: re.findall(r'data-library="([^"]*)"', one.read_text())
        for one in folder.rglob("*.html")
    }
    assert len(named) > 5
    assert all(
        (one.parent / library).resolve() == folder / LIBRARY for one, [library] in named.items()
    )
    assert sum(one.stat().st_size for one in folder.rglob("*.*") if one.is_file()) < 8_000_000


def test_an_image_without_a_browser(
    reader: Leaderboard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROWSER_PATH", "/no/such/browser")
    with pytest.raises(ImageError, match="BROWSER_PATH names no file: '/no/such/browser'"):
        export_sweep(reader, "simcse", tmp_path / "out", form="svg")
    assert not (tmp_path / "out").exists()


def test_options_of_the_page_stand_before_no_command(tmp_path: Path) -> None:
    told = CliRunner().invoke(main, ["--port", "9000", "export", "simcse", str(tmp_path)])
    assert told.exit_code == 2
    assert "options of export stand after it: cse-dashboard export" in told.output


def test_a_store_that_is_not_there(tmp_path: Path) -> None:
    arguments = ["export", "simcse", str(tmp_path / "out"), "--runs", str(tmp_path / "none")]
    told = CliRunner().invoke(main, arguments)
    assert told.exit_code == 1
    assert told.output.startswith("Error: ")
    assert "none/leaderboard.db" in told.output
