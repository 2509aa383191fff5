import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from board_contents import contents
from sqlalchemy import text
from stored_trials import apply_events, trials_of, write_journal
from sweep_events import (
    check_counters,
    opening,
    sweep_started,
    trial_evaluated,
    trial_life,
    trial_reused,
)

from cse_platform.errors import StoreDownError
from cse_platform.leaderboard.trials import dev_curves
from cse_platform.stores.sql.sink import LeaderboardSink, store_reused_trials
from cse_platform.stores.sql.store import Store
from cse_platform.stores.sql.tables import Base, SchemaRecord
from cse_platform.tracking.events import Event, SweepFinished, TrialState
from cse_platform.tracking.journal import read_journal

START = datetime(2030, 1, 1, tzinfo=UTC)
ENDS = ("COMPLETE", "PRUNED", "FAIL")
ACTS = ["point", "point", "point", "resume", "reuse", "test", *ENDS]


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
        for place, event in enumerate(told):
            self.events.append(
                event.model_copy(update={"time": time + timedelta(milliseconds=place)})
            )

    def _trained(
        self, trial: int, attempt: Attempt, what: str, value: int, time: datetime
    ) -> list[Event]:
        start, point, finish = trial_life(
            trial, {len(attempt.curve): value / 4}, sweep=self.sweep, seed=trial,
            configuration=f"c{trial // 2}", state=what if what in ENDS else "FAIL",
            code=f"code of {self.sweep}", searched=("tau2", "rank_loss")[: 1 + (self.sweep != "a")],
        )  # fmt: skip
        if attempt.state == "COMPLETE":
            return []
        told = []
        if attempt.state != "RUNNING" or what == "resume":
            if attempt.curve:
                start = start.model_copy(update={"resumed_from": len(attempt.curve) - 1})
            attempt.state = "RUNNING"
            told.append(start)
        attempt.curve[len(attempt.curve)] = value / 4
        told.append(point)
        if what in ENDS:
            attempt.state, attempt.ended = what, time
            took = {"wall_seconds": 900.0 * len(attempt.curve), "gpus": 0.5}
            told.append(finish.model_copy(update=took | {"provenance": {"host": self.sweep}}))
        return told

    def _reused(self, trial: int) -> Event:
        of = {"sweep": "c", "configuration": f"c{trial // 2}", "seed": trial}
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


@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(1, 20), marks=pytest.mark.slow)])
def test_the_order_of_two_journals_does_not_matter(board, tmp_path, seeds) -> None:
    for seed in seeds:
        rng, writers = random.Random(seed), {name: Writer(name) for name in "ab"}
        for second in range(24):
            writer, trial = writers[rng.choice("ab")], rng.randrange(3)
            what, value = rng.choice(ACTS), rng.randrange(5)
            writer.act(trial, what, value, START + timedelta(seconds=second))
        orders = [[(rng.choice("ab"), rng.randint(1, 6)) for _ in range(8)] for _ in range(2)]
        for writer in writers.values():
            ended = writer.events[-1].time + timedelta(seconds=1)
            end = SweepFinished(sweep=writer.sweep, state="COMPLETE", time=ended)
            writer.events.append(end)
        folder = tmp_path / str(seed)
        folder.mkdir()
        journals = write_journals(folder, {name: one.events for name, one in writers.items()})
        held = []
        for order in orders:
            empty(board)
            deal(board, journals, order)
            held.append(contents(board))
            check_counters(board)
            assert_whole_attempts(board, [writer.attempts for writer in writers.values()])
        assert held[0] == held[1], seed


def test_of_equal_attempts_the_one_of_the_later_journal_is_shown_in_any_order(
    board, tmp_path
) -> None:
    ties: tuple[TrialState | None, ...] = (None, "FAIL", "COMPLETE")
    told: dict[str, list[Event]] = {}
    for name, value in {"a": 0.3, "b": 0.2}.items():
        lives = (
            trial_life(number, {0: 0.1, 10: value}, sweep=name, state=state)
            for number, state in enumerate(ties)
        )
        events = [sweep_started(name), *(event for life in lives for event in life)]
        told[name] = [event.model_copy(update={"time": START}) for event in events]
    files = write_journals(tmp_path, told)
    for order in ("ab", "ba"):
        deal(board, files, [(name, len(told[name])) for name in order])
        with board.session() as session:
            curves = dev_curves(session, [f"c{number}-42" for number in range(len(ties))])
            shown = {key: [point.value for point in points] for key, points in curves.items()}
            journals = [(row.state, row.journal) for row in trials_of(session, "a")]
        assert shown == {f"c{number}-42": [0.1, 0.2] for number in range(len(ties))}, order
        assert journals == [(state or "RUNNING", "b") for state in ties], order
        empty(board)


def test_a_second_journal_with_a_sweep_s_name_is_left_out(board, tmp_path, caplog) -> None:
    mine = [sweep_started("a"), *trial_life(0, {0: 0.1}, sweep="a")]
    deal(board, write_journals(tmp_path, {"a": mine}), [])
    before = contents(board)
    end = SweepFinished(sweep="a", state="COMPLETE")
    other = [sweep_started("a"), *trial_life(1, {0: 0.9}, sweep="a"), end]
    deal(board, write_journals(tmp_path, {"b": other}), [])
    assert contents(board) == before
    assert "sweep 'a' has another journal" in caplog.text


def test_a_retry_takes_a_completed_number(board, tmp_path) -> None:
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
    files = write_journals(tmp_path, {"a": [*mine, *retried], "b": other})
    numbers = [("d5-42", 5), ("d6-42", 6), ("c7-42", 7)]
    for order in ([("a", len(mine)), ("b", 9)], [("b", 9), ("a", len(mine))], [("b", 9)]):
        deal(board, files, order)
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
    board, tmp_path, order
) -> None:
    ran = trial_life(0, {0: 0.1, 10: 0.5}, sweep="x")
    failed = trial_life(0, {0: 0.1, 10: 0.2, 20: 0.3}, sweep="z", state="FAIL")
    told = {
        "z": [sweep_started("z"), *failed],
        "y": [sweep_started("y"), trial_reused(ran, "y", number=3, reused_from="x")],
    }
    deal(board, write_journals(tmp_path, told), [(name, 9) for name in order])
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


def write_journals(folder: Path, told: dict[str, list[Event]]) -> dict[str, Path]:
    return {name: write_journal(folder / name, events) for name, events in told.items()}


def deal(board: Store, files: dict[str, Path], order: Sequence[tuple[str, int]]) -> None:
    """Apply batches of both journals as they come, each with what came before, then the rest."""
    journals = {name: list(read_journal(file)) for name, file in files.items()}
    seen = dict.fromkeys(journals, 0)
    for name, more in [*order, *((name, len(all_)) for name, all_ in journals.items())]:
        seen[name] += more
        if batch := journals[name][: seen[name]]:
            LeaderboardSink(board).apply(name, batch)


def assert_whole_attempts(board: Store, told: list[dict[int, Attempt]]) -> None:
    """Each trial shows one attempt, whole: a complete one, or else the one that went furthest."""
    for trial in range(3):
        attempts = [one[trial] for one in told if trial in one and one[trial].state]
        of_trial = {"key": f"c{trial // 2}-{trial}"}
        with board.session() as session:
            shown = "attempts a JOIN trials ON shown_attempt = a.id WHERE key = :key"
            query = "SELECT step, value FROM dev_points WHERE attempt_id IN (SELECT a.id FROM "
            curve = dict(map(tuple, session.execute(text(f"{query}{shown})"), of_trial)))
            state = session.scalar(text(f"SELECT state FROM {shown}"), of_trial)
        if not attempts:
            assert not curve and state is None
            continue
        assert (state, curve) in [(one.state, one.curve) for one in attempts]
        complete = [one for one in attempts if one.state == "COMPLETE"]
        if complete:
            assert curve == min(complete, key=lambda one: one.ended).curve
        else:
            assert len(curve) == max(len(one.curve) for one in attempts)
