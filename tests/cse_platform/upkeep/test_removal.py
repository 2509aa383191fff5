import numpy as np
import pytest
from board_contents import contents
from sqlalchemy import select
from stored_trials import apply_events, trials_of
from sweep_events import check_counters, opening, sweep_started, trial_life, trial_reused

from cse_methods.evaluation.results import Evaluation, Examples, Score
from cse_platform.stores.sql.removal import remove_sweep
from cse_platform.stores.sql.store import Store
from cse_platform.stores.sql.tables import JournalCursorRecord, find_sweep
from cse_platform.tracking.events import AnnotationWritten, DriverMessage, Event
from cse_platform.tracking.packing import evaluation_event
from cse_platform.upkeep.sweep_content import SweepContent, find_content


def delete(board: Store, sweep: str, journal: str) -> SweepContent:
    """Delete a sweep. Returns what it had."""
    with board.session() as session:
        content = find_content(session, find_sweep(session, sweep))
    with board.writing() as session:
        remove_sweep(session, sweep, journal)
    return content


def evaluated(sweep: str, trial: str, data: str) -> Event:
    """An evaluation of the identity `data`, with values of examples of that name."""
    given = {"task": "sts12", "split": "test", "identity": data}
    pairs = Examples(
        **given,
        statistic="spearman",
        values=np.float32([0.5, 0.1]),
        gold=np.float64([1, 2]),
        subsets={"all": 2},
        data_sha256=data,
    )
    evaluation = Evaluation(
        tasks=frozenset({"sts12"}),
        scores=(Score(**given, metric="spearman", value=0.5),),
        examples=(pairs,),
        identities={data: {"pooler": "cls"}},
    )
    return evaluation_event(sweep=sweep, trial=trial, evaluation=evaluation, source="hub")


def told_of(sweep: str, *, seed: int, data: list[str]) -> list[Event]:
    """A sweep of three trials; the first has a configuration that all sweeps have."""
    curve = {0: 0.1, 5: 0.3, 10: 0.2}
    own = {"sweep": sweep, "seed": seed}
    events: list[Event] = [
        sweep_started(sweep, spec={"trials": 3, "tags": [sweep, "both"]}),
        DriverMessage(sweep=sweep, level="note", text="it begins"),
        *trial_life(0, curve, configuration="shared", **own),
        *trial_life(1, curve, configuration=f"{sweep}-1", state="PRUNED", **own),
        *trial_life(
            2, curve, configuration=f"{sweep}-2", state="FAIL", backbone=f"only-{sweep}", **own
        ),
    ]
    trial = f"shared-{seed}"
    events.append(opening(trial, sweep=sweep, who="ada@lab"))
    return [*events, *(evaluated(sweep, trial, one) for one in data)]


def notes(sweep: str, seed: int) -> list[Event]:
    about = {"trial": f"shared-{seed}", "configuration": f"{sweep}-1", "sweep": sweep}
    return [
        AnnotationWritten(sweep=sweep, about=kind, name=name, who="ada@lab", note="odd")
        for kind, name in about.items()
    ]


def test_a_deletion_leaves_the_stores_as_before_the_sweep(board) -> None:
    kept = told_of("second", seed=2, data=["pairs-2"])
    gone = told_of("first", seed=1, data=["pairs-1", "pairs-2"])
    apply_events(board, [*kept, *notes("second", 2)], journal="j2")
    before = contents(board)
    apply_events(board, [*gone, *notes("first", 1)], journal="j1")
    content = delete(board, "first", "j1")
    assert content.tested == 1
    assert sorted(content.annotated) == [
        ("configuration", "first-1"), ("sweep", "first"), ("trial", "shared-1"),
    ]  # fmt: skip
    assert contents(board) == before
    check_counters(board)
    with board.session() as session:
        cursors = session.execute(select(JournalCursorRecord.journal)).scalars()
        assert list(cursors) == ["j2"]


@pytest.mark.parametrize("ran_there", [False, True])
def test_a_trial_that_another_sweep_holds_stays_whole(board, ran_there) -> None:
    life = trial_life(0, {0: 0.1, 5: 0.3}, model="/a/model")
    apply_events(
        board,
        [sweep_started(), *life, evaluated("first", "c0-42", "e"), *trial_life(1, {5: 0.2})],
        journal="j1",
    )
    if ran_there:
        taken = trial_life(0, {0: 0.1, 5: 0.3}, sweep="second", model="/another/model")
    else:
        taken = [trial_reused(life, "second", reused_from="first", curve={5: 0.3})]
    apply_events(board, [sweep_started("second"), *taken], journal="j2")
    before = contents(board)
    assert delete(board, "first", "j1").shared == {"second": ["c0-42"]}
    after = contents(board)
    for table in ("trials", "points", "scores", "examples", "evaluations"):
        assert after[table] == [row for row in before[table] if "c1" not in row], table
    with board.session() as session:
        assert [trial.key for trial in trials_of(session, "second")] == ["c0-42"]
    check_counters(board)
    delete(board, "second", "j2")
    assert not any(contents(board).values())
