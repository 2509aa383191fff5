"""The painter that a sweep finds installed: its report, for its run in MLflow."""

from pathlib import Path

from cse_dashboards.report import chapters, written, written_chapter
from cse_platform.leaderboard import open_leaderboard


def paint(url: str, sweep: str, folder: Path, *, whole: bool) -> None:
    """Write `report.html` and, of the whole, each chapter alone into `figures/`.

    Figures that need an encoder are left out: trials may be running on the same machine.

    Args:
        url: of the leaderboard that holds the sweep.
        sweep: its name.
        folder: empty.
        whole: the single chapters too. (A file a figure would be 100 MB: each holds Plotly.)

    Raises:
        StoreError: if the leaderboard or the sweep is not there.
    """
    with open_leaderboard(url) as reader:
        overview, made = reader.sweep(sweep), list(chapters(reader, sweep))
    (folder / "report.html").write_text(written(overview, made), encoding="utf-8")
    if whole:
        (folder / "figures").mkdir()
        for chapter in made:
            file = folder / "figures" / f"{chapter.name}.html"
            file.write_text(written_chapter(overview, chapter), encoding="utf-8")
