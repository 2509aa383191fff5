"""Writes a sweep's report and figures as files."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from shutil import copyfile
from typing import Any

import plotly.graph_objects as go

from cse_dashboards.encoded import Embeddings
from cse_dashboards.errors import ImageError
from cse_dashboards.figures.picture import Picture
from cse_dashboards.picture_html import LIBRARY, STATIC
from cse_dashboards.report import Chapter, chapters, render_document, render_report, rows_of
from cse_platform.export.folders import make_empty
from cse_platform.leaderboard import Leaderboard
from cse_platform.presentation.terminal import Terminal
from cse_platform.standard_streams import echo

IMAGE_SIZE = {"width": 900, "height": 560}
"""Size of images in pixels, for figures without a size of their own."""
PIXELS = 2
"""Pixels of a PNG per pixel of the figure, along each side."""


def export_sweep(
    reader: Leaderboard,
    sweep: str,
    folder: Path,
    *,
    form: str,
    references: Sequence[str] = (),
    **choices: Any,
) -> None:
    """Write `report.html`, and into `figures/` a file with each figure and one with its data.

    One copy of Plotly is written beside the report. The folder must be new or empty; the figures'
    `form` is html, svg, png or pdf. The choices are as in `chapters`.

    Raises:
        NotFoundError: if there is no such sweep.
        QueryError: if a chosen row is not exactly one.
        OutputError: if the folder is not empty.
        ImageError: if `form` is an image, and the program that renders it is missing.
    """
    overview = reader.sweep(sweep)  # an unknown name leaves no folder behind
    rows_of(reader, sweep, references)
    made: list[Chapter] = []
    console = Terminal(stderr=True, highlight=False)
    if not console.is_interactive:  # which shows no status
        echo(f"drawing the figures of {sweep}…", err=True)
    with drawing_images(form), console.status("what the leaderboard says") as status:
        make_empty(folder)
        embeddings = Embeddings(
            reader, progress=lambda what, done, total: status.update(f"{what}: {done} of {total}")
        )
        made_chapters = chapters(
            reader, sweep, references=references, embeddings=embeddings, **choices
        )
        for chapter in made_chapters:
            made.append(chapter)
            for picture in chapter.pictures:
                status.update(f"{chapter.title}: {picture.title}")
                write_picture(picture, folder / "figures", form=form)
    report = folder / "report.html"
    copyfile(STATIC / LIBRARY, folder / LIBRARY)
    report.write_text(render_report(overview, made, library=LIBRARY), encoding="utf-8")
    pictures = [picture for chapter in made for picture in chapter.pictures]
    drawn = sum(picture.figure is not None for picture in pictures)
    echo(f"{report}: {drawn} figures, each alone in {folder / 'figures'}")
    for picture in pictures:
        if picture.figure is None:
            echo(f"no {picture.name}: {picture.missing}", err=True)


def write_picture(picture: Picture, folder: Path, *, form: str) -> None:
    """Write `NAME.FORM` and `NAME.csv`; a picture without a figure writes nothing.

    An html file expects Plotly in the parent folder. Other forms must be written inside
    `drawing_images`.
    """
    if picture.figure is None:
        return
    folder.mkdir(exist_ok=True)
    file = folder / f"{picture.name}.{form}"
    file.with_suffix(".csv").write_text(picture.csv, encoding="utf-8")
    if form == "html":
        alone = [Chapter("", [picture])]
        document = render_document(picture.title, alone, library=f"../{LIBRARY}")
        file.write_text(document, encoding="utf-8")
        return
    import kaleido

    layout = picture.figure.layout
    sizes = {name: getattr(layout, name) or given for name, given in IMAGE_SIZE.items()}
    on_white = go.Figure(picture.figure).update_layout(paper_bgcolor="white")
    options = {"format": form, "scale": PIXELS if form == "png" else 1, **sizes}
    kaleido.write_fig_sync(on_white, path=file, opts=options)


@contextmanager
def drawing_images(form: str) -> Iterator[None]:
    """Run one browser for all images inside the context. Raises ImageError if that is impossible.

    Does nothing for html.
    """
    if form == "html":
        yield
        return
    html = "or take --format html"
    if find_spec("kaleido") is None:
        raise ImageError(f"images need kaleido: pip install 'cse-platform[images]', {html}")
    import kaleido
    from choreographer.browsers.chromium import Chromium

    named = os.environ.get("BROWSER_PATH")
    if named and not Path(named).is_file():
        raise ImageError(f"BROWSER_PATH names no file: {named!r}; correct or unset it, {html}")
    if not named and Chromium.find_browser(skip_local=False) is None:
        raise ImageError(
            "images are drawn by Chrome or Chromium, and none is found; install one, or set "
            f"BROWSER_PATH to it, {html}"
        )

    kaleido.start_sync_server(silence_warnings=True)
    try:
        yield
    finally:
        kaleido.stop_sync_server(silence_warnings=True)
