import statistics
from concurrent.futures import ThreadPoolExecutor

import pytest
from board_contents import contents
from sqlalchemy import select, text
from sqlalchemy.exc import IntegrityError
from stored_trials import apply_events, trials_of
from sweep_events import sweep_started, trial_life, trial_reused

from cse_platform.errors import StoreError
from cse_platform.leaderboard.board import board_rows
from cse_platform.leaderboard.filters import Filters
from cse_platform.leaderboard.trials import best_kept_trial, dev_curves, trial_of_key
from cse_platform.stores.sql.sink import LeaderboardSink
from cse_platform.stores.sql.store import open_store
from cse_platform.stores.sql.tables import (
    AttemptRecord,
    ConfigurationRecord,
    SweepRecord,
    sweep_or_none,
)
from cse_platform.tracking.events import Event, SweepFinished, TestAccessed
from cse_platform.tracking.journal import Journal
from cse_platform.tracking.recorder import Recorder


def test_no_text_keeps_an_event_back(board, tmp_path) -> None:
    """PostgreSQL takes no NUL, and nobody a lone surrogate."""
    *life, finished = trial_life(0, {0: 0.5}, state="FAIL")
    changes = {"error": "no caf\udce9\0", "provenance": {"host": "a\0"}}
    with Recorder(Journal(tmp_path / "journal"), [LeaderboardSink(board)]) as recorder:
        for event in (sweep_started(), *life, finished.model_copy(update=changes)):
            recorder.record(event)
        assert [sink.behind for sink in recorder.flush(60)] == [0]
    with board.session() as session:
        trial = session.scalars(select(AttemptRecord)).one()
        assert (trial.state, trial.error) == ("FAIL", "no caf\\udce9\\x00")


def test_batches_and_replays_do_not_matter(board, tmp_path, empty_leaderboard) -> None:
    events = [
        sweep_started(),
        *trial_life(0, {0: 0.5, 10: 0.75}),
        *trial_life(1, {0: 0.5}, state="PRUNED"),
        *trial_life(2, {0: 0.5, 10: 0.625}, configuration="c0", seed=43),
        SweepFinished(sweep="first", state="COMPLETE"),
    ]
    apply_events(board, events)
    once = contents(board)
    apply_events(board, events, after=0)
    assert contents(board) == once
    assert LeaderboardSink(board).position("j") == len(events)
    whole, dealt = (open_store(empty_leaderboard(tmp_path / f"{n}.db")) for n in ("whole", "dealt"))
    with whole, dealt:
        apply_events(whole, events)
        for cut in range(1, len(events) + 1):
            apply_events(dealt, events[:cut], after=0)
        assert contents(dealt) == contents(whole)


def test_a_batch_is_applied_whole_or_not_at_all(board) -> None:
    before = contents(board)
    orphan = trial_life(1, {0: 0.5})[1:]
    events = [sweep_started(), *trial_life(0, {0: 0.5}), *orphan]
    with pytest.raises(StoreError, match="speaks of trial 'c1-42' before it starts"):
        LeaderboardSink(board).apply_whole("j", list(enumerate(events, 1)))
    assert (contents(board), LeaderboardSink(board).position("j")) == (before, 0)


def test_a_contradiction_is_left_out(tmp_path, board, caplog) -> None:
    orphan = trial_life(1, {0: 0.5, 10: 0.6})[1:]
    *life, finish = trial_life(2, {0: 0.5})
    complete_without_value = finish.model_copy(update={"best_value": None})
    events = [sweep_started(), *orphan, *life, complete_without_value, *trial_life(0, {0: 0.5})]
    with Recorder(Journal(tmp_path / "journal"), [LeaderboardSink(board)]) as recorder:
        for event in events:
            recorder.record(event)
        [health] = recorder.flush(60)
    assert (health.behind, health.error) == (0, None)
    with board.session() as session:
        states = {row.key: row.state for row in trials_of(session, "first")}
    assert states == {"c2-42": "RUNNING", "c0-42": "COMPLETE"}
    assert caplog.text.count("skips a trial_point") == 1
    assert "trial 'c1-42' before it starts" in caplog.text
    assert "skips a trial_finished" in caplog.text


def test_an_opening_of_test_sets_is_never_left_out(board) -> None:
    """Whoever waits for its record opens no test set."""
    fields = {"sweep": "first", "trial": "c0-42", "who": "ann", "command": "cse-evaluate"}
    opened = TestAccessed.model_validate({**fields, "tasks": ("mr",), "source": "hub"})
    events = [sweep_started(), *trial_life(0, {0: 0.5}, state=None)]
    with pytest.raises(StoreError):
        apply_events(board, [*events, opened.model_copy(update={"source": "which no table takes"})])
    assert LeaderboardSink(board).position("j") == len(events)


def test_the_first_value_of_a_step_stays_and_nan_is_null(board) -> None:
    start, first, nan, finish = trial_life(0, {0: 0.5, 10: float("nan")}, state="FAIL")
    second = first.model_copy(update={"value": 0.9})
    apply_events(board, [sweep_started(), start, first, second, nan, finish])
    with board.session() as session:
        curve = dev_curves(session, ["c0-42"])["c0-42"]
        assert [point.value for point in curve] == [0.5, None]
        assert curve[1].metrics["dev/stsb_spearman"] is None


def test_an_attempt_from_scratch_replaces_the_former(board) -> None:
    killed = trial_life(0, {0: 0.5, 10: 0.6, 20: 0.7}, state=None)
    failed = trial_life(1, {0: 0.5, 10: 0.6}, state="FAIL")
    anew = trial_life(0, {0: 0.4, 10: 0.8})
    resumed = trial_life(1, {10: 0.9, 20: 0.7}, resumed_from=10)
    apply_events(board, [sweep_started(), *killed, *failed, *anew, *resumed])
    with board.session() as session:
        curves = [
            [(point.step, point.value) for point in dev_curves(session, [key])[key]]
            for key in ("c0-42", "c1-42")
        ]
        assert curves == [[(0, 0.4), (10, 0.8)], [(0, 0.5), (10, 0.6), (20, 0.7)]]
        found = trial_of_key(session, "c0-42")
        assert found and (found.state, found.best_step, found.best_value) == ("COMPLETE", 10, 0.8)
        first, second = trials_of(session, "first")
        assert first.start_value == 0.4
        assert (second.state, second.error, second.reached) == ("COMPLETE", None, 20)


def test_a_complete_trial_never_changes(board) -> None:
    apply_events(board, [sweep_started(), *trial_life(0, {0: 0.5, 10: 0.75})])
    whole = contents(board)
    again = trial_life(0, {0: 0.1, 30: 0.2}, state="PRUNED")
    apply_events(board, again, after=10)
    assert contents(board) == whole


def test_welford_by_hand(board) -> None:
    # 0.5, 0.75, 1.0: mean 0.75, squared distances 1/16 + 0 + 1/16 = 1/8, variance 1/16.
    values = {"c": (0.5, 0.75, 1.0), "many": (-0.3, 0.1, 0.12, 0.9, -1.0, 0.4)}
    seeds = [
        event
        for configuration, scores in values.items()
        for seed, score in enumerate(scores)
        for event in trial_life(seed, {10: score}, configuration=configuration, seed=seed)
    ]
    # A seed that did not end counts in nothing.
    pruned = trial_life(9, {10: 0.99}, configuration="c", seed=9, state="PRUNED")
    apply_events(board, [sweep_started(), *pruned, *seeds])
    with board.session() as session:
        counted = select(ConfigurationRecord.n, ConfigurationRecord.mean)
        found = session.execute(counted.where(ConfigurationRecord.hash == "c")).one()
        assert tuple(found) == (3, 0.75)
        row, many = board_rows(session, per_configuration=True)
    assert (row.seeds, row.n) == ([0, 1, 2], 3)
    assert (row.dev_score.mean, row.dev_score.std) == (0.75, 0.25)
    assert many.dev_score.mean == pytest.approx(statistics.mean(values["many"]), abs=1e-12)
    assert many.dev_score.std == pytest.approx(statistics.stdev(values["many"]), abs=1e-9)


def test_two_sweeps_count_into_one_configuration_at_once(board) -> None:
    def fill(sweep: str, seeds: range) -> None:
        events: list[Event] = [sweep_started(sweep)]
        for seed in seeds:
            events += trial_life(seed, {5: 0.5}, sweep=sweep, configuration="c", seed=seed)
        for place, event in enumerate(events, start=1):
            LeaderboardSink(board).apply(sweep, [(place, event)])

    with ThreadPoolExecutor(2) as fillers:
        list(fillers.map(fill, "ab", [range(6), range(6, 12)]))
    with board.session() as session:
        assert [row.seeds for row in board_rows(session)] == [list(range(12))]
        assert [row.n for row in board_rows(session)] == [12]


def test_seeds_are_chosen_before_one_lucky_seed(board) -> None:
    events = [
        sweep_started(),
        *trial_life(0, {0: 0.3, 10: 0.99}, configuration="lucky"),
        *trial_life(1, {0: 0.3, 10: 0.8}, configuration="good", seed=1),
        *trial_life(2, {0: 0.4, 10: 0.7}, configuration="good", seed=2),
        *trial_life(3, {0: 0.3, 10: 0.6}, configuration="worse", seed=1),
        *trial_life(4, {0: 0.3, 10: 0.6}, configuration="worse", seed=2),
        *trial_life(5, {0: 0.3}, state="PRUNED"),
        *trial_life(6, {}, state="FAIL"),
    ]
    apply_events(board, events)
    with board.session() as session:
        [row] = board_rows(session)
        everything = board_rows(session, per_configuration=True)
    assert (row.configuration.hash, row.seeds, row.trials) == ("good", [1, 2], 7)
    assert row.dev_score.mean == pytest.approx(0.75)
    assert row.dev_untrained == pytest.approx(0.35)
    assert row.dev_score.std == pytest.approx(statistics.stdev([0.8, 0.7]))
    assert [one.configuration.hash for one in everything] == ["lucky", "good", "worse"]
    assert everything[0].dev_score.std is None


def test_one_row_for_each_method_backbone_and_dev_data(board) -> None:
    real = {"checkpoint": "stsb", "search": "sickr", "source": "hub", "corpus": "wiki1m"}
    real["identity"] = "dev-2"
    other = {"sweep": "second"}
    events = [
        sweep_started(),
        *trial_life(0, {10: 0.8}),
        *trial_life(1, {10: 0.7}),
        *trial_life(2, {10: 0.6}, dev=real),
        sweep_started("second"),
        *trial_life(0, {10: 0.9}, configuration="s", method="simcse", **other),
        *trial_life(1, {10: 0.5}, configuration="b", backbone="bert-base", **other),
    ]
    apply_events(board, events)

    def rows(**filters: str) -> list[tuple[str, str, str, str]]:
        with board.session() as session:
            found = board_rows(session, Filters(**filters))  # type: ignore[arg-type]
            return [(one.method, one.backbone, one.dev.source, one.sweep) for one in found]

    assert rows() == [
        ("simcse", "mini", "builtin", "second"),
        ("rankcse", "mini", "builtin", "first"),
        ("rankcse", "mini", "hub", "first"),
        ("rankcse", "bert-base", "builtin", "second"),
    ]
    assert rows(backbone="bert-base") == [("rankcse", "bert-base", "builtin", "second")]
    assert rows(method="simcse", sweep="second") == [("simcse", "mini", "builtin", "second")]
    assert rows(sweep="nowhere") == []


def test_a_reused_trial_is_in_both_sweeps(board) -> None:
    life = trial_life(3, {0: 0.5, 10: 0.75}, model="/m")
    again = [trial_reused(life, "second", number=0), trial_reused(life, "second", trial="unknown")]
    apply_events(board, [sweep_started(), *life])
    apply_events(board, [sweep_started("second"), *again], journal="k")
    with board.session() as session:
        assert [row.key for row in trials_of(session, "second")] == ["c3-42"]
        assert [row.sweep for row in board_rows(session, Filters(sweep="second"))] == ["second"]
        assert [row.sweep for row in board_rows(session)] == ["first"]
        [row] = trials_of(session, "first")
        assert (row.number, row.best_value, row.best_step, row.reached) == (3, 0.75, 10, 10)


def test_the_best_model_is_one_that_was_kept(board) -> None:
    events = [
        sweep_started(),
        *trial_life(0, {10: 0.9}),
        *trial_life(1, {10: 0.8}, model="/good"),
        *trial_life(2, {10: 0.7}, model="/worse"),
        *trial_life(3, {10: 0.99}, model="/pruned", state="PRUNED"),
    ]
    apply_events(board, events)
    with board.session() as session:
        found = best_kept_trial(session, method="rankcse", backbone="mini", dev_identity="dev-1")
        assert found and (found.key, found.model, found.best_value) == ("c1-42", "/good", 0.8)
        assert not best_kept_trial(session, method="rankcse", backbone="mini", dev_identity="dev-2")


def test_a_sweep_that_goes_on_keeps_its_start_and_gets_the_new_file(board) -> None:
    first, again = sweep_started(), sweep_started(spec={"trials": 8})
    interrupted = SweepFinished(sweep="first", state="INTERRUPTED")
    apply_events(board, [first, interrupted, again])
    with board.session() as session:
        sweep = session.scalars(select(SweepRecord)).one()
        assert (sweep.state, sweep.started, sweep.finished) == ("RUNNING", first.time, None)
        assert sweep.spec == {"trials": 8}
        assert sweep_or_none(session, "second") is None
    apply_events(board, [SweepFinished(sweep="first", state="COMPLETE")], after=3)
    with board.session() as session:
        assert session.scalars(select(SweepRecord.state)).one() == "COMPLETE"


def test_dev_scores_are_stored_but_no_nonsense(board, caplog) -> None:
    *begin, finish = trial_life(0, {10: 0.75})
    scores = {"dev/stsb_spearman": 0.75, "dev/sickr_spearman": 75.0, "dev/alignment": 0.2}
    scores |= {"dev/mr_accuracy": 0.5, "dev/avg_transfer_accuracy": 0.625, "dev/cr_accuracy": 62.5}
    apply_events(
        board, [sweep_started(), *begin, finish.model_copy(update={"best_metrics": scores})]
    )
    with board.session() as session:
        read = "SELECT task, split, metric, value, identity FROM scores ORDER BY task"
        assert [*map(tuple, session.execute(text(read)))] == [
            ("avg_transfer", "dev", "accuracy", 0.625, ""),  # no identity: it is that of stsb
            ("mr", "dev", "accuracy", 0.5, ""),
            ("stsb", "dev", "spearman", 0.75, "dev-1"),
        ]
    assert "dev/sickr_spearman=75.0" in caplog.text
    assert "dev/cr_accuracy=62.5 is not a fraction" in caplog.text


def test_an_identity_of_dev_sets_covers_those_that_choose(board) -> None:
    *begin, finish = trial_life(
        0, {10: 0.75}, dev={"checkpoint": "transfer_dev", "search": "mine+stsb",
        "identity": "of-3", "source": "builtin", "corpus": "c"},
    )  # fmt: skip
    names = "avg_transfer_accuracy mr_accuracy mine_spearman stsb_spearman sickr_spearman"
    scores = {f"dev/{name}": 0.5 for name in names.split()}
    ended = finish.model_copy(update={"best_metrics": scores})
    apply_events(board, [sweep_started(), *begin, ended])
    with board.session() as session:
        query = text("SELECT task FROM scores WHERE identity = ''")
        assert [*session.scalars(query)] == ["sickr"]
        assert session.scalar(text("SELECT count(*) FROM scores WHERE identity = 'of-3'")) == 4


def test_the_tables_refuse_nonsense(board) -> None:
    apply_events(board, [sweep_started(), *trial_life(0, {0: 0.5})])
    for nonsense in (
        "UPDATE scores SET value = 75",
        "UPDATE attempts SET state = 'DONE'",
        "UPDATE attempts SET best_value = NULL",
        "UPDATE trials SET configuration_id = 99",
        "UPDATE configurations SET n = -1",
        "UPDATE configurations SET n = 0",
        "UPDATE sweeps SET state = 'PRUNED'",
        "UPDATE sweep_trials SET role = 'extra'",
        "UPDATE dev_points SET step = -1",
    ):
        with pytest.raises(StoreError) as caught, board.writing() as session:
            session.execute(text(nonsense))
        assert isinstance(caught.value.__cause__, IntegrityError), nonsense


def test_a_locked_leaderboard_catches_up(board, tmp_path) -> None:
    events = [sweep_started(), *trial_life(0, {0: 0.5, 10: 0.75})]
    with Recorder(Journal(tmp_path / "journal"), [LeaderboardSink(board)]) as recorder:
        with board.writing() as session:
            session.execute(text("UPDATE journal_cursors SET position = 0"))
            for event in events:
                recorder.record(event)
            [health] = recorder.flush(0.2)
            assert health.behind == len(events)
        [health] = recorder.flush(60)
        assert (health.behind, health.error) == (0, None)
    with board.session() as session:
        assert [row.dev_score.mean for row in board_rows(session)] == [0.75]
