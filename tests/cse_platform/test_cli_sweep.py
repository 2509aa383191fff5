import json
import shlex
from collections.abc import Callable
from functools import partial
from itertools import chain
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from click.testing import Result
from commands import invoke
from ray.job_submission import JobStatus
from stored_trials import apply_events, fill_store
from sweep_events import sweep_started, trial_life

from cse_platform.cli.sweep import main
from cse_platform.runner.jobs import JobServer
from cse_platform.stores.sql.lease import Lease
from cse_platform.stores.sql.store import open_store
from cse_platform.tracking.events import SweepFinished
from cse_platform.tracking.journal import Journal
from cse_platform.tracking.output import OutputFile, output_file

SWEEP: dict[str, Any] = {
    "sweep": "tiny", "method": "simcse", "backbone": "mini", "corpus": "builtin",
    "data": "builtin",
    "space": {"temperature": [0.05, 0.1], "learning_rate": {"low": 1e-5, "high": 1e-3}},
    "search": {"sampler": "random", "trials": 12, "seed": 1},
    "resources": {"cpu": 1000},  # so that a dry run measures no step
}  # fmt: skip


@pytest.fixture
def typed(tmp_path, monkeypatch) -> Callable[..., Result]:
    """Types a command in an empty folder."""
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE"):
        monkeypatch.setenv(name, "1")  # a test asks no hub, and --offline's own are undone
    monkeypatch.chdir(tmp_path)

    return partial(invoke, main)


@pytest.fixture
def write(tmp_path) -> Callable[..., str]:
    """Writes a sweep file: the tiny one, with changes, or other content."""

    def file(name: str = "sweep.yaml", content: Any = None, **changes: Any) -> str:
        (tmp_path / name).write_text(json.dumps(content or SWEEP | changes))
        return name

    return file


def drawn_in(result: Result) -> list[str]:
    """The head of a dry run, and a line for each configuration."""
    head, *lines = result.output.splitlines()
    return [head, *(line for line in lines if line.startswith("  temperature="))]


def test_a_sweep_is_read_from_standard_input_and_changed_by_the_command_line(typed, write) -> None:
    given = json.dumps(SWEEP, indent=1)
    assert drawn_in(typed("-", "--dry-run", input=given)) == drawn_in(typed(write(), "--dry-run"))
    result = typed("-", "--dry-run", input=given.replace('"simcse"', '"simsce"'), code=1)
    assert "standard input is not a sweep:\n  line 3, method: " in result.output
    result = typed(
        write(), "--dry-run", "--trials", "3", "--set", "sweep=other",
        "--set", "space.temperature=[0.07]",
    )  # fmt: skip
    head, *drawn = drawn_in(result)
    assert head == "other: simcse on mini, 3 trials"
    assert len(drawn) == 3 and all("temperature=0.07 " in line for line in drawn)
    typed(write(), "--trials", "0", code=2)
    assert "12 trials" in typed(f"./{write('run')}", "--dry-run").output
    typed("run", "--dry-run", code=2)  # the command, without a file
    assert "no command 'statsu'; did you mean 'status'?" in typed("statsu", code=2).output


def test_what_is_wrong_is_one_message_and_exit_code_1(typed, write, tmp_path) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"trails": 3}, "trails"),
        ({"method": "simsce"}, "Did you mean 'simcse'?"),
        ({"data": "nowhere"}, "'nowhere'"),
        ({"fixed": {"batch_size": 1}}, "fixed.batch_size"),
    ]
    for changes, told in wrong:
        file = write(**changes)
        for how in (["--dry-run"], []):
            result = typed(file, *how, code=1)
            assert result.stderr.startswith("Error: ") and told in result.stderr, changes
            assert all(line.endswith("…") for line in result.stdout.splitlines())
    assert [path.name for path in tmp_path.iterdir()] == [file]
    for store in (["--store", "sqlite:///a.db"], ["--store=a"]):
        refused = " ".join(typed(file, *store, code=2).stderr.split())
        assert "name its leaderboard by CSE_STORE or, in FILE, stores: {leaderboard: " in refused
    assert typed("nowhere.yaml", code=1).stderr.startswith("Error: nowhere.yaml: ")


def test_what_the_hub_has_is_listed_and_offline_refused(typed, write) -> None:
    file = write(backbone="bert-large")
    listed = typed(file, "--dry-run")
    assert "to fetch: encoder bert-large: google-bert/bert-large-uncased" in listed.output
    for how in (["--dry-run", "--offline"], ["--offline"]):
        result = typed(file, *how, code=1)
        assert result.stderr.startswith("Error: sweep.yaml ") and "--offline: " in result.stderr
        assert "encoder bert-large: google-bert/bert-large-uncased" in result.stderr
        assert "is not on this machine; the same command without --offline fetches it" in (
            result.stderr
        )


def test_status_lists_sweeps_and_their_states(typed, tmp_path, empty_leaderboard) -> None:
    typed("status", code=1)
    with open_store(empty_leaderboard(tmp_path / "runs" / "leaderboard.db")) as board:
        assert typed("status").output.strip() == "no sweep yet"
        journals = {
            name: Journal(tmp_path / name / "journal.jsonl")
            for name in ("done", "alive", "killed", "barren")
        }
        for sweep, journal in journals.items():
            state = "FAIL" if sweep == "barren" else "COMPLETE"
            events = [
                sweep_started(sweep),
                *trial_life(0, {10: 0.75}, sweep=sweep, configuration=f"{sweep}0", state=state),
                *trial_life(1, {10: 0.5}, sweep=sweep, configuration=f"{sweep}1", state="FAIL"),
            ]
            if sweep in ("done", "barren"):
                events.append(SweepFinished(sweep=sweep, state="COMPLETE"))
            apply_events(board, events, journal=journal.id)
        with Lease(board, "killed", journals["killed"]):
            pass
        with Lease(board, "alive", journals["alive"]):
            result, told = typed("status"), typed("status", "--json")
        for journal in journals.values():
            journal.close()
    lines = {line.split()[0]: line.split() for line in result.output.splitlines()[2:]}
    states = {"done": "COMPLETE", "alive": "RUNNING", "killed": "INTERRUPTED", "barren": "FAILED"}
    assert {name: words[3] for name, words in lines.items()} == states
    assert lines["done"][4:9] == ["2", "of", "2", "1", "75.00"]
    records = {one["name"]: one for one in json.loads(told.output)}
    assert {name: one["state"] for name, one in records.items()} == states
    assert records["done"]["counts"] == {"RUNNING": 0, "COMPLETE": 1, "PRUNED": 0, "FAIL": 1}
    assert records["done"]["best"]["best_value"] == 0.75
    assert records["barren"]["best"] is None


def test_a_submission_says_how_its_job_stands(typed, write, monkeypatch) -> None:
    refused = typed("submit", write(), "--address", "127.0.0.1:1", "--runs", "runs", code=1)
    assert refused.stderr.startswith("Error: --runs runs: expected the absolute path")
    for status, ended_with, lines, code in (
        (JobStatus.RUNNING, None, ["log", "sweep tiny has begun"], 0),
        (JobStatus.SUCCEEDED, 0, ["log", "nothing left to do"], 0),
        (JobStatus.FAILED, 7, ["log", "no disk"], 1),
        (JobStatus.FAILED, None, [], 1),
    ):
        info = SimpleNamespace(status=status, driver_exit_code=ended_with, message="never started")
        server = MagicMock(spec=JobServer, url="http://head:8265")
        server.find_job.return_value, server.find_python.return_value = None, "python"
        server.follow_states.return_value = iter([(info, lines)])
        monkeypatch.setattr("cse_platform.launch.submit.JobServer", lambda _, one=server: one)
        words = ("--address", "head", "--runs", "/lab/runs", "--no-ship")
        done = typed("submit", write(), *words, code=code)
        has_ended = status.is_terminal()
        assert ("cse-sweep status tiny" in done.stdout) == (not has_ended)
        if has_ended:
            assert "\n".join(lines) in done.output
        if code:
            assert str(ended_with or "never started") in done.stderr


def test_the_status_of_a_sweep_says_what_went_wrong(typed, tmp_path, empty_leaderboard) -> None:
    url = empty_leaderboard(tmp_path / "runs" / "leaderboard.db")
    for name, best in (("worse", 0.4), ("equal", 0.5), ("better", 0.6)):
        events = trial_life(0, {0: 0.5, 10: best}, sweep=name, configuration=name)
        events[-1] = events[-1].model_copy(update={"best_value": best, "best_step": 10})
        fill_store(url, [sweep_started(name), *events], journal=name)
    assert "below the untrained backbone, 50.00 at step 0" in typed("status", "worse").output
    assert "equals the untrained backbone, 50.00 at step 0" in typed("status", "equal").output
    assert "untrained" not in typed("status", "better").output
    nothing = {"sweep": "plain", "method": "untrained"}  # which trains nothing
    lives = [
        trial_life(number, {0: 0.5, 1: value}, configuration=str(number), **nothing)
        for number, value in enumerate((0.5, 0.4))
    ]
    ended = SweepFinished(sweep="plain", state="COMPLETE")
    fill_store(url, [sweep_started(**nothing), *lives[0], *lives[1], ended], journal="plain")
    told = typed("status", "plain").output
    assert "best dev" in told and "untrained backbone" not in told and "chose it" not in told
    lives = [*trial_life(0, {1: 0.5}, state="FAIL"), *trial_life(1, {1: 0.5}, state="PRUNED")]
    fill_store(url, [sweep_started(), *lives, SweepFinished(sweep="first", state="COMPLETE")])
    said = typed("status", "first").output
    assert "1 of 2 trials failed with loss is NaN; change the file" in said
    assert "raise pruner.min_step or write `pruner: none`" in said
    assert "`cse-sweep retry first 1`" in said
    for name, source in (("ours", "builtin"), ("script", "recorded")):
        lives = [trial_life(n, {1: 0.5}, sweep=name, state="FAIL") for n in range(3)]
        lives[2][-1] = lives[2][-1].model_copy(update={"error": "too hot"})
        started = sweep_started(name, spec={"sweep": name, "source": source})
        ended = [*chain.from_iterable(lives), SweepFinished(sweep=name, state="COMPLETE")]
        fill_store(url, [started, *ended], journal=name)
    failed = "2 of 3 trials failed with loss is NaN; 1 with too hot; change the "
    assert f"{failed}file, the code or the data, and run the same" in typed("status", "ours").output
    assert f"{failed}script or the data, and run it again" in typed("status", "script").output


def test_the_end_of_a_sweep_names_what_failed_and_its_commands(
    typed, tmp_path, empty_leaderboard
) -> None:
    runs = tmp_path / "my runs"
    OutputFile(output_file(runs / "sweeps" / "first", 2)).append("epoch 1\n")
    lives = [trial_life(n, {0: 0.5, 1: 0.6}, state="FAIL" if n else "COMPLETE") for n in range(4)]
    lives[2][-1] = lives[2][-1].model_copy(update={"error": "too hot"})
    ended = [*chain.from_iterable(lives), SweepFinished(sweep="first", state="COMPLETE")]
    fill_store(empty_leaderboard(runs / "leaderboard.db"), [sweep_started(), *ended])
    lines = typed("status", "first", "--runs", runs).output.splitlines()
    assert [line for line in lines if line.startswith("failed: ")] == [
        "failed: trials 1 3: loss is NaN",
        "failed: trial 2: too hot",
    ]
    commands = [
        shlex.split(line, comments=True) for line in lines if line.startswith("  cse-sweep")
    ]
    assert [words[1:3] for words in commands] == [["logs", "first"], ["retry", "first"]]
    assert commands[0][4] == "2"  # of those that failed, the one that has printed something
    assert all(typed(*words[1:]).exit_code == 0 for words in commands)
    (record,) = json.loads(typed("status", "--json", "--runs", runs).output)
    assert record["counts"] == {"RUNNING": 0, "COMPLETE": 1, "PRUNED": 0, "FAIL": 3}
