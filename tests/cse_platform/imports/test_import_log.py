"""Training logs come onto the leaderboard: what is found between other text, what is refused."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from stored_trials import trials_of

from cse_platform.cli.imports import import_log
from cse_platform.errors import ImportRefusedError, JournalError
from cse_platform.imports.logs import LogSettings, log_settings, read_log, read_logs
from cse_platform.imports.records import RECORD, Imported, apply_trials
from cse_platform.leaderboard.board import board_rows
from cse_platform.leaderboard.records import DevPoint
from cse_platform.leaderboard.trials import dev_curve
from cse_platform.stores.sql import sink as journal_sink
from cse_platform.stores.sql.store import Store
from cse_platform.stores.sql.stored_sweeps import find_sweep
from cse_platform.stores.sql.tables import Base, SchemaRecord
from cse_platform.tracking.journal import Journal, read_journal

TABLES = [table for table in Base.metadata.sorted_tables if table is not SchemaRecord.__table__]

# As the scripts of SimCSE's repository print: dictionaries of Python, between progress bars,
# warnings and a table, the last evaluation twice.
STDOUT = """\
11/02/2021 10:00:00 - INFO - __main__ -   PyTorch: setting up devices
  0%|          | 0/250 [00:00<?, ?it/s]\r  1%|▏         | 2/250 [00:01<02:04,  2.0it/s]
{'eval_stsb_spearman': 0.7012, 'eval_sickr_spearman': 0.61, 'eval_avg_sts': 0.6556, 'epoch': 0.2}
 20%|██  | 50/250 [01:00]{'loss': 0.0312, 'learning_rate': 2.4e-05, 'epoch': 0.4}
{'eval_stsb_spearman': 0.7811, 'eval_sickr_spearman': 0.7, 'eval_avg_sts': 0.74, 'epoch': 0.4}
{'loss': nan, 'learning_rate': 0.0, 'epoch': 1.0}
{'eval_stsb_spearman': 0.7790, 'eval_sickr_spearman': 0.72, 'eval_avg_sts': 0.75, 'epoch': 1.0}
{'train_runtime': 750.5, 'train_samples_per_second': 0.333, 'epoch': 1.0}
{'model': 'best', 'note': {'nested': 1}} and {broken
{'eval_stsb_spearman': 0.7811, 'eval_sickr_spearman': 0.7, 'eval_avg_sts': 0.74, 'epoch': 1.0}
+-------+-------+
| STS12 | STS13 |
"""
GIVEN: dict[str, Any] = {"sweep": "logs", "method": "simcse", "backbone": "bert-base"}


def settings(**changes: Any) -> LogSettings:
    return LogSettings(**{**GIVEN, "steps_per_epoch": 250, **changes})


def put(board: Store, files: Sequence[Path], given: LogSettings) -> Imported:
    logs = read_logs(files, given)
    runs = files[0].parent / f"{id(board)}"
    return apply_trials(board, logs.sweeps, source=logs.source, runs=runs)


@pytest.fixture
def log(tmp_path) -> Path:
    file = tmp_path / "train.log"
    file.write_text(STDOUT)
    return file


def curve(board: Store) -> list[DevPoint]:
    with board.session() as session:
        (trial,) = trials_of(session, "logs")
        return dev_curve(session, trial.key)


def test_a_log_is_a_trial(here, log) -> None:
    logs = read_logs([log], settings())
    assert (logs.source, logs.points, logs.repeated) == ("train.log", 3, 1)
    assert put(here, [log], settings(values={"temperature": 0.05})).new == 1
    with here.session() as session:
        (row,) = board_rows(session)
        (trial,) = trials_of(session, "logs")
    assert (trial.best_step, trial.best_value, trial.seed) == (100, 0.7811, 42)
    assert (row.method, row.backbone, row.dev.source) == ("simcse", "bert-base", "imported")
    assert row.configuration.values == {"temperature": 0.05}
    told = [(point.step, point.value, point.metrics.get("train/loss")) for point in curve(here)]
    assert told == [(50, 0.7012, None), (100, 0.7811, 0.0312), (250, 0.7790, None)]
    assert [point.metrics["dev/sickr_spearman"] for point in curve(here)] == [0.61, 0.7, 0.72]


def test_an_older_copy_of_an_import_s_journal_is_refused_and_stays_as_it_is(here, log) -> None:
    put(here, [log], settings())
    (journal,) = log.parent.glob("*/imports/*.jsonl")
    older = journal.read_bytes()
    put(here, [log], settings(seed=43))
    journal.write_bytes(older)
    with pytest.raises(JournalError, match="not the newest copy of this journal"):
        put(here, [log], settings(seed=44))
    assert journal.read_bytes() == older


@pytest.mark.slow
def test_what_was_cut_off_goes_on(
    here, filled, log, tmp_path, contents, check_counters, monkeypatch
) -> None:
    """Of three logs, each with a seed of its own, two come before the kill."""
    given = settings()
    trials = [
        replace(read_logs([log], given).sweeps[given.sweep][0], seed=seed) for seed in range(3)
    ]
    undisturbed, slices = filled([]), count()
    apply_trials(undisturbed, {given.sweep: trials}, source="logs", runs=tmp_path / "other")

    def cut() -> None:
        if next(slices) == 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setitem(journal_sink.apply_journal.__kwdefaults__, "rows", 6)
        patch.setattr(here, "let_others_write", cut)
        apply_trials(here, {given.sweep: trials}, source="logs", runs=tmp_path)
    with here.session() as session:
        assert find_sweep(session, given.sweep).state == "RUNNING"
    done = apply_trials(here, {given.sweep: trials}, source="logs", runs=tmp_path)
    assert (done.new, done.already_here) == (0, 3)
    check_counters(here)
    now, whole = contents(here), contents(undisturbed)
    for table in ("links", "points", "scores", "configurations", "contests"):
        assert now[table] == whole[table]
    with here.session() as session:
        assert find_sweep(session, given.sweep).state == "COMPLETE"


def test_an_import_that_was_killed_at_any_event_is_completed(
    here, log, tmp_path, contents, check_counters
) -> None:
    (one,) = read_logs([log], settings()).sweeps["logs"]
    pruned = replace(one, seed=2, state="PRUNED", provenance={RECORD: "b"})
    told = replace(one, seed=1, points=one.points[:1], scores={"sts12": 0.5})
    trials = {"logs": [told, pruned]}
    apply_trials(here, trials, source="logs", runs=tmp_path / "whole")
    whole = contents(here)
    events = [event for _, event in read_journal(tmp_path / "whole" / "imports" / "logs.jsonl")]
    for length in range(1, len(events)):
        with here.writing() as session:
            for table in reversed(TABLES):
                session.execute(table.delete())
        journal = tmp_path / f"{length}" / "imports" / "logs.jsonl"
        with Journal(journal) as written:
            for event in events[:length]:
                written.append(event)
        apply_trials(here, trials, source="logs", runs=tmp_path / f"{length}")
        now = contents(here)
        for name in ("points", "scores", "configurations", "contests"):
            assert now[name] == whole[name], (length, name)
        with here.session() as session:
            states = [trial.state for trial in trials_of(session, "logs")]
            assert sorted(states) == ["COMPLETE", "PRUNED"], length
            assert find_sweep(session, "logs").state == "COMPLETE", length
        check_counters(here)


@pytest.mark.slow
def test_another_log_of_a_seed_or_of_a_sweep_of_ours_is_refused(
    filled, sweep_started, here, log
) -> None:
    put(here, [log], settings())
    log.write_text(STDOUT.replace("0.7811", "0.7911"))
    with pytest.raises(ImportRefusedError, match=r"train.log and log \w+, which .* seed 42"):
        put(here, [log], settings())
    with pytest.raises(ImportRefusedError, match=r"sweep 'logs' .* one \(rankcse on mini\)"):
        put(filled([sweep_started("logs")]), [log], settings())


@pytest.mark.slow
def test_other_forms(filled, log) -> None:
    entries = [
        {"loss": 0.5, "step": 5},
        {"eval_stsb_spearman": 0.5, "step": 10, "epoch": 0.1},
        {"eval_stsb_spearman": float("nan"), "step": 20, "epoch": 0.2},
    ]
    for text in (
        json.dumps({"log_history": entries, "max_steps": 20}),
        "\n".join(json.dumps({**entry, "args": {"a": 1}}) for entry in entries),
        "\n".join(str({k: str(v) for k, v in one.items()}) for one in entries),
    ):
        log.write_text(text)
        put(here := filled([]), [log], settings(steps_per_epoch=None))
        told = [(point.step, point.value, point.metrics["train/loss"]) for point in curve(here)]
        assert told == [(10, 0.5, 0.5), (20, None, 0.5)], text
    log.write_text("{'a': 'x', 'b': 1}\n{'c': 'x'}\n{1, 2}\n")
    assert read_log(log) == [{"b": 1.0}]
    log.write_text("{'eval_avg_transfer': 85.0, 'eval_stsb_spearman': 0.7, 'epoch': 1.0}")
    put(here := filled([]), [log], settings(dev="transfer_dev", scale=100))
    (point,) = curve(here)
    assert (point.value, point.metrics) == (0.85, {"dev/avg_transfer_accuracy": 0.85})


@pytest.mark.slow
def test_the_earliest_of_the_best_trained_steps_counts(here, log) -> None:
    values = {0: 0.9, 5: 0.6, 10: 0.7, 15: 0.7}
    log.write_text("\n".join(str({"eval_stsb_spearman": values[s], "step": s}) for s in values))
    put(here, [log], settings())
    with here.session() as session:
        (row,), (trial,) = board_rows(session), trials_of(session, "logs")
    assert (trial.best_step, trial.best_value, row.dev_untrained) == (10, 0.7, 0.9)


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    (STDOUT, {"steps_per_epoch": None}, "counts in epochs; write --steps-per-epoch N"),
    (STDOUT.replace("0.7012", "70.12"), {}, "spearman is 70.12, .*write --scale 100"),
    ("nothing", {}, "has no 'eval_stsb_spearman', nor any other dictionary of numbers"),
    (
        "{'eval_stsb_spearmen': 0.5, 'epoch': 1.0}",
        {},
        "did you mean 'eval_stsb_spearmen'.; it has epoch, eval_stsb_spearmen",
    ),
    ("{'eval_stsb_spearman': 0.5}", {}, "neither 'step' nor 'epoch'"),
    ("{'eval_stsb_spearman': 0.5, 'step': 0}", {}, "after step 0 that is a number"),
]


def test_what_cannot_be_a_trial_is_refused(log, tmp_path) -> None:
    bad = tmp_path / "bad.log"
    missing = tmp_path / "missing.log"
    for text, changes, message in REFUSED:
        bad.write_text(text)
        with pytest.raises(ImportRefusedError, match=message) as caught:
            read_logs([log, bad, missing], settings(**changes))
        assert "missing.log cannot be read: " in str(caught.value)


@pytest.mark.slow
def test_settings_are_told_all_at_once() -> None:
    with pytest.raises(ImportRefusedError) as caught:
        log_settings({"temprature": "1", "batch_size": "many"}, **GIVEN, seed=-1)
    told = str(caught.value)
    assert re.findall(r"--[a-z]+(?: \w+)?(?=: )", told) == [
        "--set temprature", "--set batch_size", "--seed",
    ]  # fmt: skip
    given = log_settings({"learning_rate": "3e-5"}, **{**GIVEN, "method": "new"})
    assert given.values == {"learning_rate": 3e-5}


@pytest.mark.slow
def test_two_labs_share_no_row_and_a_log_comes_once(here, log, contents) -> None:
    for sweep, best, seed in (("lab-a", 0.7811, 42), ("lab-b", 0.7911, 42), ("lab-b", 0.7711, 43)):
        log.write_text(STDOUT.replace("0.7811", str(best)))
        assert put(here, [log], settings(sweep=sweep, seed=seed)).new == 1
    with here.session() as session:
        rows = {row.sweep: row for row in board_rows(session)}
        assert [(r.number, r.seed) for r in trials_of(session, "lab-b")] == [(0, 42), (1, 43)]
    assert {name: row.dev_score.values for name, row in rows.items()} == {
        "lab-a": {42: 0.7811},
        "lab-b": {42: 0.7911, 43: 0.7790},
    }
    assert rows["lab-a"].dev.identity != rows["lab-b"].dev.identity
    before = contents(here)
    copy = log.with_name("copy.log")
    copy.write_text(STDOUT)
    log.write_text(STDOUT)
    again = put(here, [log, copy], settings(sweep="lab-a"))
    assert (again.new, again.already_here) == (0, 1)
    assert contents(here) == before


def test_the_command_tells_what_came(tmp_path) -> None:
    log = tmp_path / "train.log"
    log.write_text("{'eval_stsb_spearman': 0.78, 'epoch': 0.5}\n")
    words = [str(log), "--sweep", "s", "--method", "new", "--backbone", "b", "--runs"]
    more = [str(tmp_path / "runs"), "--steps-per-epoch", "100", "--set", "lr=3e-5"]
    told = CliRunner().invoke(import_log, [*words, *more])
    assert (told.exit_code, told.output) == (
        0,
        "Trials: 1 new, 0 here already\nDev points: 1, 0 repeated ones left out\n",
    )
    told = CliRunner().invoke(import_log, [*words, str(tmp_path / "none")])
    assert told.exit_code == 1 and "--steps-per-epoch N" in told.output
    assert not (tmp_path / "none").exists()
