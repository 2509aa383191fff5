import math
from typing import Any

from sqlalchemy import delete, text
from stored_trials import apply_events
from sweep_events import check_counters, sweep_started, trial_life

from cse_platform.leaderboard import Leaderboard
from cse_platform.leaderboard.board import board_rows
from cse_platform.leaderboard.filters import Filters
from cse_platform.leaderboard.ranking import sort_rows
from cse_platform.leaderboard.records import single_seed
from cse_platform.stores.sql.store import Store
from cse_platform.stores.sql.tables import JournalCursorRecord
from cse_platform.tracking.events import AnnotationWritten, Event, TrialState
from cse_platform.tracking.history import COSTS

HOUR = 3600.0


def ran(
    sweep: str, hours: float, state: TrialState, *, number: int = 0, gpus: float = 1.0
) -> list[Event]:
    *events, finish = trial_life(number, {10: 0.5}, sweep=sweep, state=state)
    return [*events, finish.model_copy(update={"wall_seconds": hours * HOUR, "gpus": gpus})]


def spent(board: Store) -> dict[str, list[float]]:
    queries = {
        "sweeps": "SELECT gpu_seconds FROM sweep_trials ORDER BY sweep_id, number",
        "trials": "SELECT gpu_seconds FROM trials ORDER BY id",
        "groups": "SELECT gpu_seconds FROM groups ORDER BY id",
    }
    with board.session() as session:
        return {
            name: [seconds / HOUR for seconds in session.scalars(text(query))]
            for name, query in queries.items()
        }


def test_every_sweep_that_ran_a_trial_has_spent_its_own(board) -> None:
    apply_events(board, [sweep_started("a"), *ran("a", 5, "PRUNED")], journal="a")
    other = ran("b", 2, "COMPLETE", number=1, gpus=0.5)
    apply_events(board, [sweep_started("b"), *ran("b", 1, "COMPLETE"), *other], journal="b")
    expected = {"sweeps": [5, 1, 1], "trials": [6, 1], "groups": [7]}
    assert spent(board) == expected
    # Also a sweep that ends after another one has completed the trial.
    apply_events(board, ran("a", 8, "COMPLETE"), journal="a")
    assert spent(board)["groups"] == [10]
    check_counters(board)


def test_trials_that_were_run_to_debug_are_no_effort_of_a_search(board) -> None:
    lab = Leaderboard(board)

    def effort(**filters: Any) -> tuple[int, float | None]:
        [row] = lab.rows(Filters(**filters))
        return row.trials, row.gpu_hours

    causes = ("error", "trial", "machine", None)  # raised, diverged, died, unknown
    events = [sweep_started("a", spec={"tags": ["main"]}), *ran("a", 1, "COMPLETE")]
    for number, cause in enumerate(causes, 1):
        *life, end = ran("a", 2, "FAIL", number=number)
        events += [*life, end.model_copy(update={"cause": cause})]
    apply_events(board, events, journal="a")
    debug = [sweep_started("b", spec={"tags": ["debug"]}), *ran("b", 4, "COMPLETE", number=8)]
    apply_events(board, [*debug, *ran("b", 4, "PRUNED", number=9)], journal="b")
    assert effort() == effort(tag="main") == (4, 7)
    assert effort(sweep="b") == (0, 0)
    assert [row.trials for row in lab.rows(per_configuration=True)] == [4, 4]
    # What another sweep holds too counts, and so does a failed trial that is tried again.
    apply_events(board, [sweep_started("c"), *ran("c", 1, "PRUNED", number=9)], journal="c")
    assert effort() == (5, 12)
    apply_events(board, ran("a", 3, "PRUNED", number=1)[:-1], journal="a")
    assert effort() == (6, 14)
    # A sweep can be tagged later, too.
    tags = {"debug": True}
    tagged = AnnotationWritten(sweep="c", about="sweep", name="c", who="ann", tags=tags)
    apply_events(board, [tagged], journal="annotations")
    assert effort() == (5, 9)
    check_counters(board)


def test_a_row_has_mean_costs_and_the_most_memory(board) -> None:
    """Of the third seed, which an older version ran, only the memory is known."""
    speed = {"epoch_minutes": 20.0, "sentences_per_second": 800.0, "epochs": 1.0}
    of_seeds: dict[int, tuple[str, dict[str, float]]] = {
        1: ("A100", {**speed, "train_minutes": 20.0, "gpu_memory_gib": 7.5}),
        2: ("H100", {**speed, "train_minutes": 10.0, "gpu_memory_gib": 9.0, "epochs": 0.5}),
        3: ("A100", {"gpu_memory_gib": 8.0, "host_memory_gib": math.inf}),
    }
    events = [sweep_started("a")]
    for seed, (gpu, costs) in of_seeds.items():
        *life, end = trial_life(seed, {10: 0.5}, sweep="a", configuration="c", seed=seed)
        provenance = {"host": "lab", "gpu": gpu}
        events += [*life, end.model_copy(update={"costs": costs, "provenance": provenance})]
    apply_events(board, events, journal="a")
    with board.session() as session:
        [row] = board_rows(session)
    details = Leaderboard(board).trial("a#3")
    assert {name: row.cost(name) for name in COSTS} == {
        "train_minutes": 15,
        "epoch_minutes": 20,
        "sentences_per_second": 800,
        "gpu_memory_gib": 9,
        "host_memory_gib": None,
    }
    assert (row.epochs, row.epoch_is_extrapolated) == (0.5, True)
    assert row.costs["train_minutes"].values == {1: 20, 2: 10}
    assert row.costs["train_minutes"].identity == "A100 + H100"
    assert details.costs == {"gpu_memory_gib": 8.0}
    assert single_seed(row, 3).costs.keys() == {"gpu_memory_gib"}
    assert [one.cost("train_minutes") for one in sort_rows([row], "train_minutes")] == [15]


def test_a_resumed_trial_tells_its_time(board) -> None:
    begin = [sweep_started("a"), *ran("a", 2, "FAIL")]
    resumed = ran("a", 3, "FAIL")
    apply_events(board, begin + resumed, journal="a")
    assert spent(board)["groups"] == [3]
    # A trial that is given up tells no time: what it took stays.
    given_up = resumed[-1].model_copy(update={"wall_seconds": None, "gpus": 0.0})
    apply_events(board, [given_up], journal="a")
    assert spent(board)["groups"] == [3]
    with board.writing() as session:  # the same once more, as the journal's cursor is lost
        session.execute(delete(JournalCursorRecord))
    apply_events(board, begin + resumed, journal="a")
    assert spent(board)["groups"] == [3]
    check_counters(board)
