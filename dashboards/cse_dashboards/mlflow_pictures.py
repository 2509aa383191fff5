"""The painter that a sweep finds installed: its report and figures, for its run in MLflow."""

from pathlib import Path

from cse_dashboards.export import write_picture
from cse_dashboards.report import chapters, written
from cse_platform.leaderboard import open_leaderboard


def paint(url: str, sweep: str, folder: Path, *, whole: bool) -> None:
    """Write `report.html` and, of the whole, each figure alone into `figures/`.

    Figures that need an encoder are left out: trials may be running on the same machine.

    Args:
        url: of the leaderboard that holds the sweep.
        sweep: its name.
        folder: empty.
        whole: the single figures too.

    Raises:
        StoreError: if the leaderboard or the sweep is not there.
    """
    with open_leaderboard(url) as reader:
        overview, made = reader.sweep(sweep), list(chapters(reader, sweep))
    (folder / "report.html").write_text(written(overview, made), encoding="utf-8")
    if whole:
        for chapter in made:
            for picture in chapter.pictures:
                write_picture(picture, folder / "figures", form="html")
