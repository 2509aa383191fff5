"""Measure how fast the leaderboard answers with a million trials, and MLflow with ten thousand.

Launch: make bench-leaderboard [BENCH="--trials 100000 --store postgresql+psycopg://…"]
Fills a store with sweeps of 200 trials, each with 20 dev points and 10 scores: a million trials
take about 12 GiB and a quarter of an hour. Each query runs once to warm up, then nine times.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from big_leaderboard import TRIALS_A_SWEEP, fill, runs
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sqlalchemy import create_engine, select

from cse_platform.leaderboard.api import Leaderboard
from cse_platform.leaderboard.board import board_rows
from cse_platform.leaderboard.filters import Filters
from cse_platform.leaderboard.trials import dev_curves
from cse_platform.stores.sql.store import Store, open_store
from cse_platform.stores.sql.tables import TrialRecord

REPEATS = 9
AGAINST_MLFLOW = 10_000
"""The number of trials in the comparison with MLflow."""


def seconds(question: Callable[[], Any]) -> float:
    """Measure the median seconds of a warm query."""
    question()
    taken = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        question()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def questions(board: Store, trial: str) -> dict[str, Callable[[], Any]]:
    """Return the queries to time, by name."""

    def rows(**filters: str) -> Callable[[], Any]:
        def ask() -> Any:
            with board.session() as session:
                return board_rows(session, Filters(**filters))  # type: ignore[arg-type]

        return ask

    def sweeps() -> Any:
        return Leaderboard(board).sweeps()

    def curve() -> Any:
        with board.session() as session:
            return dev_curves(session, [trial])[trial]

    return {
        "leaderboard": rows(),
        "leaderboard --backbone bert-base": rows(backbone="bert-base"),
        "leaderboard --method rankcse --backbone mini": rows(method="rankcse", backbone="mini"),
        "leaderboard --sweep rankcse-bert-base-50": rows(sweep="rankcse-bert-base-50"),
        "leaderboard --tag paper-7": rows(tag="paper-7"),
        "list of sweeps": sweeps,
        "one dev curve": curve,
    }


def filled(url: str, *, sweeps: int) -> Store:
    """Create a store and fill it with this many sweeps."""
    board = open_store(url)
    engine = create_engine(url)
    if engine.dialect.name == "sqlite":
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA synchronous = OFF")
    fill(engine, sweeps=sweeps)
    engine.dispose()
    return board


def logged(folder: Path, *, sweeps: int) -> Callable[[], Any]:
    """Log the runs of these sweeps to MLflow. Returns a search that ranks them."""
    import mlflow
    from mlflow.entities import Metric

    client = mlflow.MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    experiment = client.create_experiment("cse", artifact_location=str(folder))
    for name, told in track(runs(sweeps), total=sweeps, description="MLflow"):
        _log(client, experiment, name, told, Metric)

    def search() -> Any:
        found, token = [], None
        while token != "":
            page = client.search_runs(
                [experiment], order_by=["metrics.best DESC"], max_results=5000, page_token=token
            )
            found.extend(page)
            token = page.token or ""
        assert len(found) == sweeps * TRIALS_A_SWEEP
        return found

    return search


def _log(client: Any, experiment: str, name: str, told: Any, metric: Any) -> None:
    scores: dict[int, list[Any]] = {}
    for trial, task, split, kind, _, value, *_ in told["scores"]:
        scores.setdefault(trial, []).append(metric(f"{split}/{task}_{kind}", value, 0, 0))
    points: dict[int, list[Any]] = {}
    for trial, step, _, value, _ in told["dev_points"]:
        points.setdefault(trial, []).append(metric("dev/stsb_spearman", value, 0, step))
    best_values = {trial: best for _, trial, _, _, _, _, best, *_ in told["attempts"]}
    for trial, key, *_ in told["trials"]:
        run = client.create_run(experiment, tags={"sweep": name, "trial": key})
        best_value = [metric("best", best_values[trial], 0, 0)]
        client.log_batch(run.info.run_id, [*scores[trial], *points[trial], *best_value], [], [])


@click.command()
@click.option("--trials", default=1_000_000, show_default=True, help="Trials in the leaderboard.")
@click.option("--store", help="An empty PostgreSQL database.  [default: a new SQLite file]")
@click.option("--mlflow/--no-mlflow", default=True, show_default=True, help="Also measure MLflow.")
def main(trials: int, store: str | None, mlflow: bool) -> None:
    """Fill a leaderboard, and measure how fast it answers.

    \b
    Example:
        python benchmarks/leaderboard_speed.py --trials 100000
    """
    console = Console()
    shown = Table("question", "ms")
    with tempfile.TemporaryDirectory(prefix="cse-bench-") as folder:
        url = store or f"sqlite:///{folder}/leaderboard.db"
        with filled(url, sweeps=max(1, trials // TRIALS_A_SWEEP)) as board:
            with board.session() as session:
                trial = session.scalars(select(TrialRecord.key).limit(1)).one()
            for name, question in questions(board, trial).items():
                shown.add_row(name, f"{1000 * seconds(question):.1f}")
        console.print(f"{trials} trials, {url.partition(':')[0]}", shown)
        if mlflow:
            _compare(Path(folder), console)


def _compare(folder: Path, console: Console) -> None:
    """Time the same ranking of ten thousand trials by the leaderboard and by MLflow."""
    sweeps = AGAINST_MLFLOW // TRIALS_A_SWEEP
    with filled(f"sqlite:///{folder}/small.db", sweeps=sweeps) as board:
        ours = seconds(questions(board, "")["leaderboard"])
    theirs = seconds(logged(folder, sweeps=sweeps))
    console.print(
        f"{AGAINST_MLFLOW} trials: leaderboard {1000 * ours:.1f} ms, MLflow's search_runs "
        f"{1000 * theirs:.0f} ms, {theirs / ours:.0f} times as long"
    )


if __name__ == "__main__":
    main()
