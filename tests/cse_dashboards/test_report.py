import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from commands import invoke

from cse_dashboards import export
from cse_dashboards.cli import main
from cse_dashboards.errors import ImageError
from cse_dashboards.picture_html import LIBRARY
from cse_dashboards.report import Chapter, chapters, render_report, rows_of
from cse_platform.errors import NotFoundError, OutputError
from cse_platform.leaderboard import Leaderboard

CHAPTERS = ["Ranking", "Search", "Hyperparameters", "Dev curves", "Beside other methods"]


@dataclass(frozen=True)
class Exported:
    """A folder with a report, and what its command said."""

    folder: Path
    chapters: Sequence[Chapter]
    out: str
    err: str


@pytest.fixture(scope="module")
def exported(lab: Leaderboard, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    folder, made = tmp_path_factory.mktemp("exported") / "out", list[Chapter]()

    def note_chapters(*asked: Any, **choices: Any) -> Iterator[Chapter]:
        for chapter in chapters(*asked, **choices):
            made.append(chapter)
            yield chapter

    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(StringIO()) as out,
        redirect_stderr(StringIO()) as err,
    ):
        patch.setattr(export, "chapters", note_chapters)
        export.export_sweep(lab, "simcse", folder, form="html")
    return Exported(folder, made, out.getvalue(), err.getvalue())


def test_a_report_has_its_chapters_and_needs_nothing_from_elsewhere(lab, exported) -> None:
    made = exported.chapters
    assert [chapter.title for chapter in made] == [*CHAPTERS, "Embeddings"]
    pictures = [picture for chapter in made for picture in chapter.pictures]
    assert all((one.figure is None) == (one.missing is not None) for one in pictures)
    names = [one.name for one in pictures]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9_]+", name) for name in names)
    drawn = {one.name for one in pictures if one.figure is not None}
    assert {"leaderboard", "dev_curves_dev_stsb_spearman", "buckets_stsb", "differences"} <= drawn
    document = render_report(lab.sweep("simcse"), made)
    outside = re.findall(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=[\"']?(?!data:)", document)
    assert outside == []
    assert document.count('data-figure="') == len(drawn)
    assert [row.method for row in rows_of(lab, "sncse")] == ["sncse", "hicl", "simcse"]


def test_every_figure_alone_with_its_numbers_and_plotly_once(exported: Exported) -> None:
    figures = exported.folder / "figures"
    pages, tables = sorted(figures.glob("*.html")), sorted(figures.glob("*.csv"))
    assert [one.stem for one in pages] == [one.stem for one in tables]
    with (figures / "leaderboard.csv").open(newline="") as file:
        cells = {cell for line in csv.reader(file) for cell in line}
    assert {"HiCL mini", "SimCSE mini", "SNCSE mini"} <= cells
    assert f"{len(pages)} figures" in exported.out
    assert "no ranking_scores: no KCC" in exported.err
    assert "no heat_map: none of these rows kept a model; `cse-leaderboard show" in exported.err
    folder = exported.folder
    pages = list(folder.rglob("*.html"))
    assert len(pages) > 5
    for page in pages:
        [library] = re.findall(r'data-library="([^"]*)"', page.read_text())
        assert (page.parent / library).resolve() == folder / LIBRARY
    assert sum(one.stat().st_size for one in folder.rglob("*.*") if one.is_file()) < 8_000_000


def test_what_cannot_be_written_leaves_no_folder(lab, tmp_path, monkeypatch) -> None:
    with pytest.raises(NotFoundError, match="simcsee"):
        export.export_sweep(lab, "simcsee", tmp_path / "out", form="html")
    monkeypatch.setenv("BROWSER_PATH", "/no/such/browser")
    with pytest.raises(ImageError, match="BROWSER_PATH names no file: '/no/such/browser'"):
        export.export_sweep(lab, "simcse", tmp_path / "out", form="svg")
    assert not (tmp_path / "out").exists()
    (tmp_path / "mine.txt").write_text("kept")
    with pytest.raises(OutputError, match="not empty"):
        export.export_sweep(lab, "simcse", tmp_path, form="html")


def test_the_command_names_the_way_out(tmp_path: Path, lab_url: str) -> None:
    told = invoke(main, "--port", "9000", "export", "simcse", tmp_path, code=2)
    assert "No such option '--port'" in told.output
    words = ["export", "simcse", tmp_path / "out"]
    told = invoke(main, "--runs", tmp_path / "none", *words, code=1)
    assert told.output.startswith("Error: ")
    assert "none/leaderboard.db" in told.output
    told = invoke(main, "--store", lab_url, *words, "--beside", "nomethod", code=1)
    assert "'nomethod' is no method" in told.output
    assert not (tmp_path / "out").exists()
