"""Updates a sweep's run in MLflow: its description, report and figures."""

from pathlib import Path
from tempfile import TemporaryDirectory

from cse_dashboards.report import chapters, render_report
from cse_platform.errors import NotFoundError
from cse_platform.leaderboard import Filters, Leaderboard
from cse_platform.leaderboard.sweeps import SweepOverview
from cse_platform.leaderboard.trial_page import sweep_summary
from cse_platform.secrets import mask_url
from cse_platform.stores.mlflow.sweep_run import sweep_run

RANKED = 10
"""Number of configurations in the description."""
LEAD = (
    "`report.html` among the artifacts has the figures, `cse-dashboard` serves them live, and "
    "[this view]({view}) compares all trials with their seeds averaged."
)


def publish_sweep(board: Leaderboard, sweep: str, mlflow: str) -> None:
    """Update the description of a sweep's run, and the report among its artifacts.

    Figures that need an encoder are left out, because trials may be running on the same machine.

    Raises:
        NotFoundError: if the sweep or its run does not exist.
        StoreError: if a store does not answer.
    """
    overview = board.sweep(sweep)
    experiment = board.sweep_spec(sweep).get("experiment", "cse")
    run = sweep_run(mlflow, experiment=experiment, sweep=sweep, journal=overview.journal)
    if run is None:
        raise NotFoundError(f"MLflow at {mask_url(mlflow)} has no run of the sweep {sweep!r}")
    rows = board.rows(
        Filters(sweep=sweep), per_configuration=True, limit=RANKED, ranked=False, sort="dev"
    )
    links = run.links([row.best_trial for row in rows if row.best_trial])
    run.describe(f"{sweep_summary(overview, rows, links=links)}\n{LEAD.format(view=run.view)}")
    if rows:
        with TemporaryDirectory(prefix="cse-report-") as name:
            _write_report(board, overview, Path(name))
            run.add(Path(name))


def _write_report(board: Leaderboard, overview: SweepOverview, folder: Path) -> None:
    made = list(chapters(board, overview.name))
    (folder / "report.html").write_text(render_report(overview, made), encoding="utf-8")
    if overview.state == "COMPLETE":  # each file embeds Plotly, as MLflow shows files one by one
        (folder / "figures").mkdir()
        for chapter in made:
            file = folder / "figures" / f"{chapter.name}.html"
            file.write_text(render_report(overview, [chapter]), encoding="utf-8")
