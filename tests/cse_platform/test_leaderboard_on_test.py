from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from sqlalchemy import event as sql
from stored_trials import apply_events
from sweep_events import NOON, opening, sweep_started, trial_evaluated, trial_life

from cse_platform.leaderboard.board import board_rows
from cse_platform.leaderboard.records import LeaderboardRow
from cse_platform.tracking.events import Event, TestAccessed, TestSource


def at(hours: float) -> datetime:
    return NOON + timedelta(hours=hours)


def opened(hours: float, trial: str, source: TestSource = "builtin") -> TestAccessed:
    return opening(trial, hours=hours, source=source)


@pytest.fixture
def listed(board) -> Callable[..., list[LeaderboardRow]]:
    """All rows of all configurations, after a sweep has started and these events."""

    def listed(*told: Event) -> list[LeaderboardRow]:
        apply_events(board, [sweep_started(), *told])
        with board.session() as session:
            return board_rows(session, per_configuration=True)

    return listed


@pytest.fixture
def rows(listed) -> Callable[..., dict[str, LeaderboardRow]]:
    """The same by hash; each configuration has one row."""

    def rows(*told: Event) -> dict[str, LeaderboardRow]:
        found = listed(*told)
        assert len({row.configuration.hash for row in found}) == len(found)
        return {row.configuration.hash: row for row in found}

    return rows


def means(row: LeaderboardRow) -> dict[str, float]:
    return {column: score.mean for column, score in row.scores.items()}


def identities(row: LeaderboardRow) -> dict[str, str]:
    return {column: score.identity for column, score in row.scores.items()}


def test_a_mean_is_over_scored_seeds(rows) -> None:
    found = rows(
        *(event for n in range(3) for event in trial_life(n, {9: 0.5}, configuration="a", seed=n)),
        *trial_life(3, {9: 0.5}, configuration="b", seed=0),
        *trial_life(4, {9: 0.5}, configuration="a", seed=4, state="PRUNED"),
        trial_evaluated("a-4", {"test/sts12_spearman": 0.75}),
        trial_evaluated("a-0", {"test/avg_sts_spearman": 0.5, "test/sts12_spearman": 0.25}),
        trial_evaluated("a-1", {"test/avg_sts_spearman": 0.75, "test/sts12_pearson": 0.9}),
        trial_evaluated("a-1", {"test/mrpc_accuracy": 0.7, "test/mrpc_f1": 0.8}, identity="e2"),
        trial_evaluated("a-2", {"dev/avg_transfer_accuracy": 0.9, "test/sts13_kcc": 0.3}),
    )
    assert means(found["a"]) == {"avg_sts": 0.625, "sts12": 0.25, "mrpc": 0.7}
    counts = {column: score.n for column, score in found["a"].scores.items()}
    assert counts == {"avg_sts": 2, "sts12": 1, "mrpc": 1}
    assert identities(found["a"]) == {"avg_sts": "e1", "sts12": "e1", "mrpc": "e2"}
    assert found["a"].scores["avg_sts"].values == {0: 0.5, 1: 0.75}
    assert found["b"].scores == {}


def test_each_identity_has_its_own_row(listed) -> None:
    found = listed(
        *(event for n in range(2) for event in trial_life(n, {9: 0.5}, configuration="a", seed=n)),
        trial_evaluated("a-0", {"test/sts12_spearman": 0.5}, identity="z"),
        trial_evaluated("a-1", {"test/sts12_spearman": 0.75}, identity="z"),
        trial_evaluated("a-0", {"test/sts12_spearman": 0.9}, identity="later", time=at(1)),
        trial_evaluated("a-0", {"test/sts13_spearman": 0.1}, identity="b", time=at(3)),
        trial_evaluated("a-0", {"test/sts13_spearman": 0.2}, identity="c", time=at(2)),
        trial_evaluated("a-1", {"test/sts13_spearman": 0.3}, identity="a", time=at(1)),
    )
    assert [identities(row) for row in found] == [
        {"sts12": "z", "sts13": "b"},
        {"sts12": "later", "sts13": "c"},
        {"sts13": "a"},
    ]
    expected = [{"sts12": 0.625, "sts13": 0.1}, {"sts12": 0.9, "sts13": 0.2}, {"sts13": 0.3}]
    assert [means(row) for row in found] == expected


def test_an_average_is_beside_its_tasks(listed) -> None:
    """Read by cls with an average, its members and another task; by avg, tasks of one reading."""

    def told(pooler: str, task: str, value: float) -> Event:
        identity = f"{pooler}-{task}"
        reading = {identity: {"reading": {"pooler": pooler}}}
        scores = {f"test/{task}_spearman": value}
        return trial_evaluated("a-0", scores, identity=identity, identities=reading)

    average = {"mean": {"protocol": {"mean over": ["cls-sts12", "cls-sts13"]}}}
    found = listed(
        *trial_life(0, {9: 0.5}, configuration="a", seed=0),
        *(told("cls", task, 0.5) for task in ("sts12", "sts13", "sts14")),
        *(told("avg", task, 0.25) for task in ("sts12", "mrpc", "sts13")),
        trial_evaluated("a-0", {"test/avg_sts_spearman": 0.5}, identity="mean", identities=average),
    )
    assert [identities(row) for row in found] == [
        {"sts12": "cls-sts12", "sts13": "cls-sts13", "sts14": "cls-sts14", "avg_sts": "mean"},
        {"sts12": "avg-sts12", "sts13": "avg-sts13", "mrpc": "avg-mrpc"},
    ]


@pytest.mark.parametrize(
    ("openings", "marked"),
    [
        ([(4, "before-1"), (2, "before-1"), (3, "before-1")], at(2)),
        # At the very start, when what it shows is not known yet, or later; of other methods.
        ([(5, "before-1"), (6, "before-1"), (2, "other-1"), (2, "large-1")], None),
        ([(6, "row-1"), (9, "row-2")], None),  # its own, afterwards
    ],
)
def test_first_tried_after_an_opening_is_marked(rows, openings, marked) -> None:
    """The row's first trial starts at 5, pruned though it is; its second at 8."""
    life = {"configuration": "row", "method": "hicl"}
    early = {"seed": 1, "time": at(1)}
    found = rows(
        *trial_life(0, {9: 0.5}, configuration="before", method="hicl", **early),
        *trial_life(1, {9: 0.5}, configuration="other", method="simcse", **early),
        *trial_life(2, {9: 0.5}, configuration="large", method="hicl", backbone="large", **early),
        *trial_life(3, {9: 0.5}, seed=1, state="PRUNED", time=at(5), **life),
        *trial_life(4, {9: 0.75}, seed=2, time=at(8), **life),
        *(opened(hours, trial) for hours, trial in openings),
    )
    assert found["row"].test_opened == marked
    assert found["before"].test_opened is None


@pytest.mark.parametrize(
    ("openings", "marked"),
    [
        ([(2, "builtin")], {"builtin": at(2)}),
        ([(2, "hub")], {"hub": at(2), "senteval": at(2)}),
        ([(2, "senteval"), (3, "hub")], {"hub": at(2), "senteval": at(2)}),
        ([(2, "file")], {}),
        ([(2, "file"), (3, "hub")], {"hub": at(3), "senteval": at(3)}),
        ([(1, "builtin"), (2, "hub")], {"builtin": at(1), "hub": at(2), "senteval": at(2)}),
    ],
)
def test_built_in_and_real_test_sets_mark_each_their_own(rows, openings, marked) -> None:
    """What counts is the data of the opening: the quickstart's trial is opened on real sets too."""

    def life(number: int, name: str, source: str, hours: float) -> list[Event]:
        dev = {"checkpoint": "stsb", "search": "stsb", "corpus": "c"}
        dev |= {"source": source, "identity": source}
        return trial_life(number, {9: 0.5}, configuration=name, seed=1, time=at(hours), dev=dev)

    sources = ("builtin", "hub", "senteval")
    found = rows(
        *life(0, "quickstart", "builtin", 0),
        *(event for n, source in enumerate(sources, 1) for event in life(n, source, source, 5)),
        *(opened(hours, "quickstart-1", source) for hours, source in openings),
    )
    assert {s: found[s].test_opened for s in sources if found[s].test_opened} == marked


def test_openings_mark_no_row_without_such_test_sets(rows) -> None:
    def dev(source: str) -> dict[str, str]:
        own = {"checkpoint": "own", "search": "own", "corpus": "c", "source": source}
        return own | {"identity": source}

    found = rows(
        *trial_life(0, {9: 0.5}, configuration="tested", seed=1, time=at(0)),
        opened(2, "tested-1"),
        *trial_life(1, {9: 0.5}, configuration="f", seed=1, time=at(3), dev=dev("file")),
        *trial_life(2, {9: 0.5}, configuration="i", seed=1, time=at(3), dev=dev("imported")),
    )
    assert (found["f"].test_opened, found["i"].test_opened) == (None, None)


def test_one_tried_before_the_opening_is_not_marked(rows) -> None:
    found = rows(
        *trial_life(0, {9: 0.5}, configuration="row", seed=1, time=at(1)),
        opened(2, "row-1"),
        *trial_life(1, {9: 0.9}, configuration="row", seed=2, role="confirm", time=at(3)),
        *trial_life(2, {9: 0.5}, configuration="later", seed=1, time=at(3)),
    )
    assert (found["row"].n, found["row"].test_opened) == (2, None)
    assert found["later"].test_opened == at(2)


@pytest.mark.parametrize(("launched", "marked"), [(1, None), (3, at(2)), (None, at(2))])
def test_launched_before_is_not_marked(rows, launched, marked) -> None:
    """Its stage begins after the stage before has opened test sets; its space was fixed before."""
    launch = None if launched is None else {"settings": "s", "time": at(launched)}
    notes = {"search_notes": {"request": "somebody"}}
    late = {"sweep": "late", "seed": 1}
    found = rows(
        *trial_life(0, {9: 0.5}, configuration="early", seed=1, time=at(1)),
        opened(2, "early-1"),
        sweep_started("late", launch=launch),
        *trial_life(0, {9: 0.5}, configuration="row", time=at(4), **late),
        *trial_life(1, {9: 0.5}, configuration="enqueued", time=at(5), **late, **notes),
        *trial_life(2, {9: 0.5}, configuration="enqueued", role="confirm", time=at(6),
                    sweep="late", seed=2),
    )  # fmt: skip
    assert found["row"].test_opened == marked
    assert found["enqueued"].test_opened == at(2)


def test_a_second_launch_marks_only_what_it_adds(rows) -> None:
    found = rows(
        sweep_started(launch={"settings": "a", "time": at(0)}),
        *trial_life(0, {9: 0.5}, configuration="early", seed=1, time=at(1)),
        opened(2, "early-1"),
        sweep_started(launch={"settings": "b", "time": at(3)}),
        *trial_life(1, {9: 0.5}, configuration="late", seed=1, time=at(4)),
    )
    assert (found["early"].test_opened, found["late"].test_opened) == (None, at(2))


def test_queries_do_not_grow_with_the_rows(rows, board) -> None:
    told: list[Event] = []
    for n in range(9):
        told += [*trial_life(n, {9: 0.5}), opened(n, f"c{n}-42")]
        told.append(trial_evaluated(f"c{n}-42", {"test/sts12_spearman": 0.5}))
    assert len(rows(*told)) == 9
    asked: list[str] = []
    with board.session() as session:
        engine = session.get_bind()
        sql.listen(engine, "before_cursor_execute", lambda *call: asked.append(call[2]))
        board_rows(session, per_configuration=True)
    assert sum("SELECT" in statement for statement in asked) == 11
