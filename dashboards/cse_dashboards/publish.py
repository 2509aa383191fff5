"""Updates a sweep's run in MLflow: its description, report and figures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from cse_dashboards.report import chapters, render_report
from cse_platform.errors import NotFoundError
from cse_platform.leaderboard import Filters, Leaderboard
from cse_platform.leaderboard.columns import score_cell, searched_settings, short_hash, short_key
from cse_platform.leaderboard.records import LeaderboardRow
from cse_platform.leaderboard.sweeps import SweepOverview
from cse_platform.render.table import Cell, Column, Table, percent, to_table
from cse_platform.render.text import escape_markdown, to_markdown
from cse_platform.secrets import mask_url
from cse_platform.stores.mlflow.sweep_run import sweep_run
from cse_platform.stores.mlflow.tags import view_link

RANKED = 10
"""Number of configurations in the description."""
LEAD = (
    "`report.html` among the artifacts has the figures, `cse-dashboard` serves them live, and "
    "[this view]({view}) compares all trials with their seeds averaged."
)
_STATES = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed", "RUNNING": "running"}
_NOTE = "By dev mean, ± standard deviation over seeds; a single seed can be a lucky one."


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
    lead = LEAD.format(view=view_link(run.experiment))
    run.describe(f"{_summarize_sweep(overview, rows, links=links)}\n{lead}")
    if rows:
        with TemporaryDirectory(prefix="cse-report-") as name:
            folder, made = Path(name), list(chapters(board, sweep))
            (folder / "report.html").write_text(render_report(overview, made), encoding="utf-8")
            if overview.state == "COMPLETE":
                # Each file embeds Plotly, as MLflow shows files one by one.
                (folder / "figures").mkdir()
                for chapter in made:
                    file = folder / "figures" / f"{chapter.name}.html"
                    file.write_text(render_report(overview, [chapter]), encoding="utf-8")
            run.add(folder)


def _summarize_sweep(
    sweep: SweepOverview, rows: Sequence[LeaderboardRow], *, links: Mapping[str, str]
) -> str:
    """Summarize a sweep as Markdown.

    `rows` are its best configurations, best first; `links` has the URLs of trials, by key.
    """
    counts = [f"{sweep.counts[state]} {_STATES[state]}" for state in _STATES if sweep.counts[state]]
    trials = ", ".join([f"{sweep.ended} of {sweep.planned} trials ended", *counts])
    method, backbone = escape_markdown(sweep.method), escape_markdown(sweep.backbone)
    name, state = escape_markdown(sweep.name), sweep.state.lower()
    lines = f"Sweep **{name}**, {method} on {backbone}: {state}, {trials}."
    if (best := sweep.best) is not None:
        where = f"at step {best.step}, trial {best.number}, seed {best.seed}"
        lines += f"  \nBest on dev {sweep.dev}: {percent(best.value)} ({where})."
    if not rows:
        return f"{lines}\n"
    return f"{lines}\n\n{to_markdown([_make_best_table(sweep, rows, links)])}"


def _make_best_table(
    sweep: SweepOverview, rows: Sequence[LeaderboardRow], links: Mapping[str, str]
) -> Table:
    def score(headline: str) -> Column[LeaderboardRow]:
        return Column(headline, lambda row: row.scores.get(headline), score_cell, align="right")

    def trial(row: LeaderboardRow) -> Cell:
        return Cell(short_key(row), link=links.get(row.best_trial or "", ""))

    ranks = {id(row): index for index, row in enumerate(rows, start=1)}
    columns: list[Column[LeaderboardRow]] = [
        Column("rank", lambda row: ranks[id(row)], align="right"),
        Column("configuration", short_hash),
        Column("searched", searched_settings),
        Column("seeds", lambda row: ", ".join(map(str, row.seeds))),
        Column("dev", lambda row: row.dev_score, score_cell, f"dev {sweep.dev}", "right"),
        *map(score, dict.fromkeys(row.headline for row in rows if row.headline)),
        Column("best trial", trial),
    ]
    return to_table(columns, [rows], title="Best configurations, x 100", notes=[_NOTE])
