from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from board_contents import contents
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text
from stored_trials import apply_events, stored_scores, trials_of
from sweep_events import (
    NOON,
    check_counters,
    opening,
    sweep_started,
    trial_evaluated,
    trial_life,
    trial_reused,
)

from cse_platform.errors import OtherSweepError, StoreDownError
from cse_platform.leaderboard import Leaderboard
from cse_platform.leaderboard.trials import dev_curves
from cse_platform.stores.sql.events import store_reused_trials
from cse_platform.stores.sql.sink import LeaderboardSink
from cse_platform.stores.sql.store import Store
from cse_platform.stores.sql.tables import Base, SchemaRecord
from cse_platform.tracking.events import Event, SweepFinished, TrialState

START = datetime(2030, 1, 1, tzinfo=UTC)
ENDS = ("COMPLETE", "PRUNED", "FAIL")
ACTS = ["point", "point", "point", "resume", "anew", "reuse", "test", *ENDS]


def test_an_older_copy_of_a_leaderboard_is_filled(board) -> None:
    """A driver had written more than the copy has when the copy took its place."""
    events = [sweep_started(), *trial_life(0, {0: 0.1, 10: 0.2}), *trial_life(1, {0: 0.3})]
    entries, sink = list(enumerate(events, 1)), LeaderboardSink(board)
    assert sink.position("j1") == 0
    sink.apply("j1", entries[:3])
    with board.writing() as session:  # the copy is of a moment before that
        for table in ("dev_points", "scores", "attempts", "sweep_trials", "trials"):
            session.execute(text(f"DELETE FROM {table}"))
        session.execute(text("UPDATE journal_cursors SET position = 1"))
    with pytest.raises(StoreDownError, match="older copy"):
        sink.apply("j1", entries[3:])
    position = sink.position("j1")
    sink.apply("j1", entries[position:])
    sink.apply_whole("j1", entries[:2])  # by a process that read the journal before
    assert sink.position("j1") == len(entries)
    with board.session() as session:
        assert {point.step for point in dev_curves(session, ["c0-42"])["c0-42"]} == {0, 10}


@dataclass
class Attempt:
    """What a journal tells of one trial."""

    state: str = ""
    curve: dict[int, float] = field(default_factory=dict)
    ended: datetime = START


@dataclass
class Writer:
    """Makes whatever a driver could have written of these acts, at the times that it is given."""

    sweep: str
    events: list[Event] = field(default_factory=list)
    attempts: dict[int, Attempt] = field(default_factory=dict)

    def act(self, trial: int, what: str, value: int, time: datetime) -> None:
        told: list[Event] = [] if self.events else [sweep_started(self.sweep)]
        attempt = self.attempts.setdefault(trial, Attempt())
        if what == "reuse" and attempt.state != "RUNNING":
            told.append(self._reused(trial))
        elif what == "test":
            told += self._tested(trial, value)
        else:
            told += self._trained(trial, attempt, what, value, time)
        self.events += (event.model_copy(update={"time": time}) for event in told)

    def _trained(
        self, trial: int, attempt: Attempt, what: str, value: int, time: datetime
    ) -> list[Event]:
        step = 0 if what == "anew" else len(attempt.curve)
        start, point, finish = trial_life(
            trial, {step: value / 4}, sweep=self.sweep, seed=trial,
            configuration=f"c{trial // 2}", state=what if what in ENDS else "FAIL",
            code=f"code {trial // 2}", searched=("tau2", "rank_loss")[: 1 + (self.sweep != "a")],
        )  # fmt: skip
        if attempt.state == "COMPLETE":
            return []
        told = []
        if attempt.state != "RUNNING" or what in ("resume", "anew"):
            if what == "anew":
                attempt.curve.clear()
            if attempt.curve:
                start = start.model_copy(update={"resumed_from": len(attempt.curve) - 1})
            attempt.state = "RUNNING"
            told.append(start)
        attempt.curve[step] = value / 4
        told.append(point)
        if what in ENDS:
            attempt.state, attempt.ended = what, time
            took = {"wall_seconds": 900.0 * len(attempt.curve), "gpus": 0.5}
            told.append(finish.model_copy(update=took | {"provenance": {"host": self.sweep}}))
        return told

    def _reused(self, trial: int) -> Event:
        of = {"sweep": "gone", "configuration": f"c{trial // 2}", "seed": trial}
        ran = trial_life(trial, {0: 0.5}, **of)
        return trial_reused(ran, self.sweep, started=START, finished=START)

    def _tested(self, trial: int, value: int) -> list[Event]:
        key = f"c{trial // 2}-{trial}"
        known = any(getattr(event, "trial", None) == key for event in self.events)
        if not known or self.attempts[trial].state not in ("", "COMPLETE"):
            return []  # only a trial that the sweep has, with a model, is scored
        scores = {"test/mr_accuracy": value / 4}
        opened = opening(key, sweep=self.sweep, tasks=("mr",), who=self.sweep)
        return [opened, trial_evaluated(key, scores, sweep=self.sweep)]


NAMES = st.sampled_from("abc")
WRITTEN = st.lists(
    st.tuples(NAMES, st.integers(0, 1), st.sampled_from(ACTS), st.integers(0, 2), st.booleans()),
    min_size=16,
    max_size=24,
)
"""Acts: the journal, the trial, what happens, a value, and whether a second has passed."""
ORDERS = st.lists(st.tuples(NAMES, st.integers(1, 6)), max_size=12)
"""Slices of the journals: of which one the next comes, and of how many events."""


@given(written=WRITTEN, orders=st.tuples(ORDERS, ORDERS))
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_order_of_journals_does_not_matter(board, written, orders) -> None:
    """Attempts often end at the same time, or at the same step."""
    writers, time = {name: Writer(name) for name in "abc"}, START
    for name, trial, what, value, passes in written:
        time += timedelta(seconds=passes)
        writers[name].act(trial, what, value, time)
    told = {
        name: [*writer.events, SweepFinished(sweep=name, state="COMPLETE", time=time)]
        for name, writer in writers.items()
        if writer.events
    }
    held = []
    for order in orders:
        empty(board)
        deal(board, told, [slice_ for slice_ in order if slice_[0] in told])
        held.append(contents(board))
        assert_best_attempts(board, {name: writers[name].attempts for name in told})
        check_counters(board)
    assert held[0] == held[1]


def test_of_equal_attempts_the_one_of_the_later_journal_is_shown_in_any_order(board) -> None:
    ties: tuple[TrialState | None, ...] = (None, "FAIL", "COMPLETE")
    told: dict[str, list[Event]] = {}
    for name, value in {"a": 0.3, "b": 0.2}.items():
        lives = (
            trial_life(number, {0: 0.1, 10: value}, sweep=name, state=state, code=f"code {number}")
            for number, state in enumerate(ties)
        )
        events = [sweep_started(name), *(event for life in lives for event in life)]
        told[name] = [event.model_copy(update={"time": START}) for event in events]
    for order in ("ab", "ba"):
        deal(board, told, [(name, len(told[name])) for name in order])
        with board.session() as session:
            curves = dev_curves(session, [f"c{number}-42" for number in range(len(ties))])
            shown = {key: [point.value for point in points] for key, points in curves.items()}
            journals = [(row.state, row.journal) for row in trials_of(session, "a")]
            assert session.scalar(text("SELECT code FROM groups")) == "code 2"
        assert shown == {f"c{number}-42": [0.1, 0.2] for number in range(len(ties))}, order
        assert journals == [(state or "RUNNING", "b") for state in ties], order
        empty(board)


def test_an_attempt_went_as_far_as_its_furthest_step_and_a_sweep_began_with_its_first_start(
    board,
) -> None:
    later = sweep_started("a").model_copy(update={"time": START + timedelta(hours=1)})
    told = {
        name: [
            sweep_started(name).model_copy(update={"time": START}),
            *trial_life(0, dict.fromkeys(steps, value), sweep=name, state=None),
        ]
        for name, steps, value in (("a", (20, 10), 0.2), ("b", (15,), 0.3))
    }
    deal(board, told, [])
    deal(board, {"a": [*told["a"], later]}, [])
    with board.session() as session:
        [row] = trials_of(session, "a")
        assert (row.state, row.journal) == ("RUNNING", "a")
    assert Leaderboard(board).sweep("a").started == START


def test_scores_of_the_model_that_is_shown_are_shown(board) -> None:
    """Whether its own journal has them, that of an attempt with its value, or another one."""
    told: dict[str, list[Event]] = {}
    for name, value in {"a": 0.5, "b": 0.25, "c": 0.5}.items():
        events = [sweep_started(name), *trial_life(0, {0: value}, sweep=name)]
        events = [event.model_copy(update={"time": START}) for event in events]
        scores = {"test/mr_accuracy": value, f"test/s{name}_accuracy": value}
        told[name] = [*events, trial_evaluated("c0-42", scores, sweep=name)]
    later = NOON + timedelta(hours=1)
    told["evaluations"] = [trial_evaluated("c0-42", {"test/mr_accuracy": 0.75}, time=later)]
    shown = {"mr": 0.75, "sa": 0.5, "sc": 0.5}
    for order in (["a", "b", "c", "evaluations"], ["evaluations", "b", "a", "c"]):
        deal(board, told, [(name, 9) for name in order])
        with board.session() as session:
            assert {one.task: one.value for one in stored_scores(session, "c0-42")} == shown
        [row] = Leaderboard(board).rows(ranked=False)
        assert (row.scores["mr"].mean, row.dev_score.mean) == (0.75, 0.5)
        scores = Leaderboard(board).trial("a#0").scores
        assert {one.task: one.value for one in scores if one.split == "test"} == shown
        empty(board)


def test_a_second_journal_with_a_sweep_s_name_is_left_out(board) -> None:
    """With its scores of trials that the first one has too, however often it is applied."""
    mine = [sweep_started("a"), *trial_life(0, {0: 0.1}, sweep="a")]
    deal(board, {"a": mine}, [])
    before = contents(board)
    lives = [*trial_life(0, {0: 0.9}, sweep="a"), *trial_life(1, {0: 0.9}, sweep="a")]
    scores = [trial_evaluated("c0-42", {"test/mr_accuracy": 0.9}, sweep="a")]
    end = SweepFinished(sweep="a", state="COMPLETE")
    other = [sweep_started("a"), *lives, *scores, end]
    for size in (len(other), 1):
        for _ in other:
            sink = LeaderboardSink(board)
            entries = [e for e in enumerate(other, 1) if e[0] > sink.position("b")][:size]
            with pytest.raises(OtherSweepError, match="another sweep named 'a'"):
                sink.apply("b", entries)
            assert contents(board) == before


def test_a_retry_takes_a_completed_number(board) -> None:
    failed = {"sweep": "a", "state": "FAIL"}
    mine = [
        sweep_started("a"),
        *trial_life(5, {0: 0.1}, **failed),
        *trial_life(6, {0: 0.1, 10: 0.2}, **failed),
    ]
    retried = [
        *trial_life(5, {0: 0.3}, sweep="a", configuration="d5"),
        *trial_life(6, {0: 0.3}, sweep="a", configuration="d6"),
        *trial_life(7, {0: 0.3}, sweep="a"),
    ]
    other = [
        sweep_started("b"),
        *trial_life(5, {0: 0.1}, sweep="b"),
        *trial_life(6, {0: 0.1}, sweep="b", state=None),
    ]
    told = {"a": [*mine, *retried], "b": other}
    numbers = [("d5-42", 5), ("d6-42", 6), ("c7-42", 7)]
    for order in ([("a", len(mine)), ("b", 9)], [("b", 9), ("a", len(mine))], [("b", 9)]):
        deal(board, told, order)
        with board.session() as session:
            assert [(row.key, row.number) for row in trials_of(session, "a")] == numbers, order
        empty(board)


def test_a_reuse_counts_after_a_failure(board) -> None:
    apply_events(board, [sweep_started("a"), *trial_life(0, {0: 0.1}, sweep="a", state="FAIL")])
    whole = trial_life(0, {0: 0.5}, sweep="b")
    apply_events(board, [sweep_started("b"), *whole], journal="b")
    apply_events(board, [trial_reused(whole, "a", number=0, reused_from="b")])
    with board.session() as session:
        query = "SELECT s.name, reused_from FROM sweep_trials l JOIN sweeps s ON s.id = sweep_id"
        assert {tuple(row) for row in session.execute(text(query))} == {("a", "b"), ("b", None)}


@pytest.mark.parametrize("order", ["zy", "yz"])
def test_a_reused_trial_is_shown_where_others_failed_and_the_journal_that_ran_it_is_gone(
    board, order
) -> None:
    ran = trial_life(0, {0: 0.1, 10: 0.5}, sweep="x")
    failed = trial_life(0, {0: 0.1, 10: 0.2, 20: 0.3}, sweep="z", state="FAIL")
    told = {
        "z": [sweep_started("z"), *failed],
        "y": [sweep_started("y"), trial_reused(ran, "y", number=3, reused_from="x")],
    }
    deal(board, told, [(name, 9) for name in order])
    store_reused_trials(board)
    check_counters(board)
    with board.session() as session:
        assert {point.step: point.value for point in dev_curves(session, ["c0-42"])["c0-42"]} == {
            0: 0.1,
            10: 0.5,
        }
        assert [(row.state, row.journal, row.error) for row in trials_of(session, "y")] == [
            ("COMPLETE", "y", None)
        ]
        assert session.execute(text("SELECT n, mean FROM configurations")).one() == (1, 0.5)
        links = "SELECT number, reused_from FROM sweep_trials ORDER BY number"
        assert [*map(tuple, session.execute(text(links)))] == [(0, None), (3, "x")]
        assert not session.scalar(text("SELECT count(*) FROM early_events"))


def empty(board: Store) -> None:
    with board.writing() as session:
        for table in reversed(Base.metadata.sorted_tables):
            if table.name != SchemaRecord.__tablename__:
                session.execute(table.delete())


def deal(board: Store, told: dict[str, list[Event]], order: Sequence[tuple[str, int]]) -> None:
    """Apply slices of journals as they come, each with what came before, then the rest."""
    seen = dict.fromkeys(told, 0)
    for name, more in [*order, *((name, len(events)) for name, events in told.items())]:
        seen[name] += more
        LeaderboardSink(board).apply(name, list(enumerate(told[name][: seen[name]], 1)))


def assert_best_attempts(board: Store, told: dict[str, dict[int, Attempt]]) -> None:
    """Each trial shows one attempt, whole: the first complete one, else the one that went furthest,
    of equal ones that of the later journal.
    """

    def rank(name: str, attempt: Attempt) -> tuple[bool, float, str]:
        if attempt.state == "COMPLETE":
            return True, -attempt.ended.timestamp(), name
        return False, len(attempt.curve), name

    query = (
        "SELECT journal, state, step, value FROM trials t JOIN attempts a ON a.id = shown_attempt "
        "LEFT JOIN dev_points ON attempt_id = a.id WHERE key = :key"
    )
    for trial in range(2):
        attempts = {
            name: of_trial[trial]
            for name, of_trial in told.items()
            if trial in of_trial and of_trial[trial].state
        }
        with board.session() as session:
            shown = session.execute(text(query), {"key": f"c{trial // 2}-{trial}"}).all()
        best = max(attempts, key=lambda name: rank(name, attempts[name]), default="")
        assert {row[:2] for row in shown} == {(n, attempts[n].state) for n in [best] if n}
        assert {row.step: row.value for row in shown} == (attempts[best].curve if best else {})
