import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import cheap as _registers_it  # noqa: F401
import pytest
from click.testing import Result
from commands import invoke
from in_process import InProcessExecutor
from sqlalchemy import delete
from stored_trials import apply_events, fill_store
from sweep_events import sweep_started, trial_life

from cse_platform.cli.sweep import main
from cse_platform.leaderboard.trials import past_trials
from cse_platform.numbers import clock
from cse_platform.runner.driver import drive_sweep
from cse_platform.stores.sql.lease import Lease
from cse_platform.stores.sql.store import open_store
from cse_platform.stores.sql.tables import SweepLeaseRecord
from cse_platform.sweep.file import load_sweep
from cse_platform.sweep.preflight import with_data_source
from cse_platform.sweep.problems import Inspection
from cse_platform.sweep.stores import sweep_stores
from cse_platform.tracking.events import Event
from cse_platform.tracking.journal import Journal

SWEEP: dict[str, Any] = {
    "sweep": "tiny", "method": "simcse", "backbone": "mini", "corpus": "builtin",
    "data": "builtin", "fixed": {"batch_size": 60},
    "space": {"temperature": [0.05, 0.1, 0.2, 0.4]},
    "search": {"sampler": "random", "trials": 4, "seed": 1},
    "seeds": {"search": 7, "confirm": {"top": 1, "seeds": [0, 1]}},
    "resources": {"cpu": 1},
}  # fmt: skip
NOT_HERE = {"resources": {"cpu": 1000}}
"""With it, a dry run measures no step."""


@pytest.fixture
def dry_run(tmp_path, monkeypatch) -> Callable[..., Result]:
    """Dry-runs the sweep with changes, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*options: str, code: int = 0, **changes: Any) -> Result:
        (tmp_path / "sweep.yaml").write_text(json.dumps(SWEEP | changes))
        return invoke(main, "sweep.yaml", "--dry-run", *options, code=code)

    return run


@pytest.fixture
def remember(tmp_path, empty_leaderboard) -> Callable[..., None]:
    """Writes past trials to the leaderboard of that folder."""

    def fill(*events: Event) -> None:
        url = empty_leaderboard(tmp_path / "runs" / "leaderboard.db")
        fill_store(url, [sweep_started(), *events])

    return fill


def told(result: Result, name: str) -> str:
    """The line of that name; empty where there is none."""
    found = re.search(rf"^  {name}: (.*)$", result.output, re.M)
    return found[1] if found else ""


def test_it_tells_what_a_run_would_take(dry_run, tmp_path) -> None:
    result = dry_run(**NOT_HERE)
    assert told(result, "seeds") == "7 in the search, then 0 1"
    assert told(result, "corpus") == "builtin, 6,000 sentences"
    assert told(result, "steps") == "100 a trial"
    assert "1000 CPU" in told(result, "not here")
    assert told(result, "time").startswith("6 trials, ") and "unknown" in told(result, "time")
    assert told(result, "disk").startswith("up to 60 MB of models and checkpoints")
    assert [path.name for path in tmp_path.iterdir()] == ["sweep.yaml"]
    refused = invoke(main, "sweep.yaml", code=1)  # a run on a machine that is too small
    assert "1000 CPU" in refused.stderr and "--address" in refused.stderr
    result = dry_run(pruner={"kind": "median", "min_step": 500}, **NOT_HERE)
    assert "pruner.min_step is 500" in told(result, "note")
    result = dry_run(space={}, search={"sampler": "random", "trials": 3}, **NOT_HERE)
    assert result.output.count("nothing is searched") == 1


def test_it_opens_the_corpus(dry_run, tmp_path) -> None:
    cases = {b"one\n\ntwo\n": "line 2", b"one\n\xff\n": "line 2: byte 0xff", b"one\ntwo\n": "2 sen"}
    for content, datum in cases.items():
        (tmp_path / "mine.txt").write_bytes(content)
        result = dry_run(corpus="mine.txt", code=1)
        assert result.stderr.startswith("Error: ") and datum in result.stderr, content
    for name, line, datum in (
        ("mine.txt", "自然语言处理很有意思", "unknown to backbone mini"),
        ("mine.txt", "A dog runs in\tthe park.", "mine.txt is read as plain text"),
    ):
        lines = [f"{line} {number}" for number in range(60)]
        (tmp_path / name).write_text("\n".join(lines), encoding="utf-8")
        assert datum in told(dry_run(corpus=name, **NOT_HERE), "note")
        result = invoke(main, "sweep.yaml", code=1)  # a run says it before it is refused
        assert "note: " in result.stderr and datum in result.stderr


def test_mlflow_is_where_its_variable_says_unless_ours_does(dry_run, monkeypatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///lab.db")
    by_its_own = "MLFLOW_TRACKING_URI sets MLflow to sqlite:///lab.db"
    assert by_its_own in told(dry_run(**NOT_HERE), "note")
    run = invoke(main, "sweep.yaml", code=1)
    assert f"note: {by_its_own}" in run.stderr  # a run says it before it is refused
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "databricks")
    refused = dry_run(**NOT_HERE, code=1)
    assert "'databricks' is not an MLflow store" in refused.stderr


def test_every_problem_is_told_at_once(dry_run, tmp_path) -> None:
    (tmp_path / "hole.txt").write_text("one\n\ntwo\n")
    pairs = "".join(f"a {n};b {n};{n}\n" for n in range(12))
    (tmp_path / "deutsch.csv").write_text(f"Satz1;Satz2;Wert\n{pairs}")
    result = dry_run(
        method="SimCSE", backbone="mni", corpus=["hole.txt", "wiki2m"], space={"temprature": [1]},
        dev={"checkpoint": "./deutsch.csv"}, evaluate={"top": 1, "tasks": ["stsx"]}, code=1,
    )  # fmt: skip
    told = {
        line.partition(", ")[2].partition(":")[0]: line for line in result.stderr.splitlines()[1:]
    }
    keys = ["method", "backbone", "corpus.1", "dev", "space.temprature", "evaluate.tasks"]
    assert sorted(told) == sorted(keys)
    for key, datum in zip(keys, ["'simcse'", "'mini'", "'wiki1m'", "semicolons"], strict=False):
        assert datum in told[key]
    teachers = [{"model": "mini", "prompt": "q"}, {"model": "mini", "head": True}]
    for changes, refusals in (
        ({"method": "untrained", "fixed": {"head": True}}, ["leave head out"]),
        (
            {"method": "rankcse", "fixed": {"teachers": teachers, "teacher_weights": [0.5, 0.5]}},
            ["joins its end", "leave head out"],
        ),
    ):
        done = dry_run(**changes, space={}, search={"sampler": "random", "trials": 1}, code=1)
        assert [text in done.stderr for text in refusals] == [True] * len(refusals), done.stderr
    hole = dry_run(corpus="hole.txt", dev={"checkpoint": "./deutsch.csv"}, code=1)
    assert "corpus: hole.txt, line 2" in hole.stderr and "semicolons" in hole.stderr
    assert "dev: ./deutsch.csv" in hole.stderr  # as the file has it


def test_what_is_not_installed_is_a_line_of_the_plan(dry_run, monkeypatch) -> None:
    for package in ("spacy", "textblob"):
        monkeypatch.setitem(sys.modules, package, None)
    planned = dry_run(method="sncse", **NOT_HERE)
    assert "cse-platform[negation]" in told(planned, "to install")
    assert "  temperature=0.05\n" in planned.output
    refused = dry_run("--offline", method="sncse", code=1)
    started = invoke(main, "sweep.yaml", code=1)
    assert all("cse-platform[negation]" in one.stderr for one in (refused, started))


def test_a_seed_that_the_search_has_is_no_further_one(dry_run) -> None:
    seeds = {"search": 42, "confirm": {"top": 1, "seeds": [42, 0]}}
    result = dry_run(seeds=seeds, **NOT_HERE)
    assert result.output.splitlines()[0].endswith("4 trials and 1 seed of the best 1")
    assert told(result, "seeds") == "42 in the search, then 0"
    assert "seeds.confirm has seed 42, which is also" in told(result, "note")
    assert "get only 0 beside it" in told(result, "note")
    none = dry_run(seeds={"search": 42, "confirm": {"top": 1, "seeds": [42]}}, **NOT_HERE)
    assert told(none, "seeds") == "42 in the search"
    assert "seeds.confirm has only seed 42" in told(none, "note")


def test_one_further_seed_estimates_nothing(dry_run) -> None:
    def notes(top: int, *further: int) -> str:
        confirm = {"top": top, "seeds": list(further)}
        return told(dry_run(seeds={"search": 42, "confirm": confirm}, **NOT_HERE), "note")

    assert "seeds.confirm gives one further seed, 0, so" in notes(1, 0)
    assert "one further seed" not in notes(1, 0, 1)
    assert "one further seed" not in notes(4, 0)  # nothing chose, so all seeds count


def test_where_a_search_starts_is_told(dry_run, remember) -> None:
    search = {**SWEEP["search"], "start_from": ["leaderboard"]}
    nothing = dry_run(search=search, **NOT_HERE)
    assert re.match("start_from: .* no other trial of simcse$", told(nothing, "note"))
    past = trial_life(0, {10: 0.7}, method="simcse", values={"temperature": 0.06})
    remember(*past)
    result = dry_run(search=search, **NOT_HERE)
    assert "note: start_from: number 1 on mini, of first (dev 70.00, 1 seed)\n" in result.output
    assert "temperature=0.06 is not in space.temperature" in result.output
    assert "  temperature=0.05\n" in result.output


def test_stores_are_asked(dry_run, tmp_path) -> None:
    nobody = "http://127.0.0.1:9"
    assert nobody in told(dry_run(stores={"mlflow": nobody}, **NOT_HERE), "note")
    (tmp_path / "text.db").write_text("no database at all, and longer than a header of one")
    result = dry_run(stores={"leaderboard": f"sqlite:///{tmp_path / 'text.db'}"}, code=1)
    assert "text.db" in result.stderr


def ran(number: int, seconds: float, *, gpus: float = 0.0, **changes: Any) -> list[Event]:
    *events, finish = trial_life(number, {0: 0.3, 50: 0.5}, method="simcse", **changes)
    return [*events, finish.model_copy(update={"wall_seconds": seconds, "gpus": gpus})]


def test_past_trials_of_the_kind(board) -> None:
    imported = {"source": "imported", "identity": "dev-2"}
    events = [
        sweep_started(),
        *ran(0, 100.0),
        *ran(1, 200.0),
        *ran(2, 300.0, gpus=0.5),
        *ran(3, 400.0, backbone="bert-base"),
        *ran(4, 500.0, state="PRUNED"),
        *ran(5, 3600.0, dev=dict.fromkeys(("checkpoint", "search", "corpus"), "stsb") | imported),
    ]
    apply_events(board, events)
    with board.session() as session:
        cpu = past_trials(session, method="simcse", backbone="mini", gpu=False)
        assert [(one.wall_seconds, one.last_step) for one in cpu] == [(200.0, 50), (100.0, 50)]
        assert cpu[0].hyperparameters["batch_size"] == 64
        (gpu,) = past_trials(session, method="simcse", backbone="mini", gpu=True)
        assert gpu.wall_seconds == 300.0


def test_hours_come_from_past_trials(dry_run, remember) -> None:
    """Ours goes through 6,000 sentences, past ones through 50 steps of 64 in 320 s.

    One of them has waited 120 of these for its process, which ours does too, but no longer.
    """
    late, *others = ran(1, 320.0)
    begun = late.model_copy(update={"time": late.time - timedelta(seconds=120)})
    remember(*ran(0, 320.0), begun, *others)
    line = told(dry_run(**NOT_HERE), "time")
    expected = clock(6 * (600 + 120 + 375) / 2)
    assert line == f"6 trials, 1 at once: about {expected} (from 2 past trials)"
    pruned = dry_run(pruner={"kind": "median"}, **NOT_HERE)
    assert "minus what the pruner saves" in told(pruned, "time")


def test_of_a_sweep_that_has_begun_it_plans_what_is_left(dry_run, tmp_path) -> None:
    space = {"temperature": {"low": 0.01, "high": 1.0}, "kind": ["a", "b"]}
    cheap = {"method": "cheap", "fixed": {}, "space": space, "seeds": {}}

    def plan(trials: int) -> Result:
        return dry_run(**cheap, search=SWEEP["search"] | {"trials": trials})

    def drawn(result: Result) -> list[str]:
        return [line for line in result.output.splitlines() if "temperature=" in line]

    gate = {"gate": {"best": {"method": "cheap", "backbone": "mini"}}}
    untaught = dry_run(**cheap | {"fixed": gate}, code=1)
    assert "needs the best cheap on mini" in untaught.stderr  # there is no leaderboard yet
    whole = drawn(plan(5))
    assert len(whole) == 5
    plan(3)
    (draft,) = load_sweep(tmp_path / "sweep.yaml").stages
    spec = with_data_source(draft, Inspection())
    stores = sweep_stores(spec, runs=tmp_path / "runs")
    drive_sweep(spec, stores, InProcessExecutor())
    complete = plan(3)
    assert told(complete, "begun") == "3 trials (3 complete)"
    assert told(complete, "time").startswith("none, because nothing is left") and not drawn(
        complete
    )
    other = dry_run(**cheap, search=SWEEP["search"] | {"seed": 2}, code=1)
    assert "search.seed = 1" in other.stderr and "--set sweep=" in other.stderr
    seeded = {"search": SWEEP["search"] | {"seed": 2}}
    staged = {"stages": [SWEEP | {"sweep": "new"}, SWEEP | cheap | seeded]}
    (tmp_path / "sweep.yaml").write_text(json.dumps(staged))
    other = invoke(main, "sweep.yaml", "--dry-run", code=1)
    assert "--set stages.1.sweep=NEWNAME" in other.stderr
    extended = plan(5)
    assert told(extended, "begun") == "3 trials (3 complete); what follows is left"
    assert drawn(extended) == whole[3:]
    assert told(extended, "time").startswith("2 trials, ")
    taught = cheap | {"sweep": "taught", "fixed": gate}
    (named,) = re.findall(
        r"\n  (the best cheap on mini, .* is tiny#.*)\n", dry_run(**taught).output
    )
    (draft,) = load_sweep(tmp_path / "sweep.yaml").stages
    drive_sweep(
        with_data_source(draft, Inspection()),
        sweep_stores(draft, runs=tmp_path / "runs"),
        InProcessExecutor(score=lambda *of: 0.9),
    )
    longer = dry_run(**taught, search=SWEEP["search"] | {"trials": 5})
    assert f"\n  {named}\n" in longer.output  # the first start's, though others are better now
    invoke(main, "enqueue", "tiny", "--set", "temperature=0.5")
    requested = plan(3)
    (line,) = drawn(requested)
    assert "temperature=0.5 " in line and told(requested, "time").startswith("1 trial, ")
    invoke(main, "enqueue", "tiny", "--set", "temperature=0.25")
    smaller = plan(2)  # fewer trials than have run; all that is enqueued begins
    assert len(drawn(smaller)) == 2 and told(smaller, "time").startswith("2 trials, ")
    assert told(smaller, "running") == ""
    with (
        open_store(stores.leaderboard) as leaderboard,
        Journal(stores.journal) as journal,
        Lease(leaderboard, "tiny", journal),
    ):
        assert told(plan(5), "running").startswith(f"process {os.getpid()} on ")


def test_a_name_that_a_start_is_refused_is_refused(
    dry_run, tmp_path, empty_leaderboard, monkeypatch
) -> None:
    """Two people share a leaderboard, and each has a runs folder."""
    url = empty_leaderboard(tmp_path / "board.db")
    monkeypatch.setenv("CSE_STORE", url)
    dry_run()

    def refused() -> str:
        return " ".join(dry_run(code=1).stderr.split())

    anns = tmp_path / "ann" / "sweeps" / "tiny"
    with open_store(url) as board, Journal(anns / "journal.jsonl") as journal:
        with Lease(board, "tiny", journal):
            apply_events(board, [sweep_started("tiny")], journal=journal.id)
            assert f"journal in {anns} on" in refused() and "holds it; run it as" in refused()
        assert "start it there, copy that folder here" in refused()
        with board.writing() as session:
            session.execute(delete(SweepLeaseRecord))
        assert "another sweep named 'tiny'" in refused()
        shutil.copytree(anns, tmp_path / "runs" / "sweeps" / "tiny")
        dry_run()


def test_a_limit_says_how_many_trials_run_at_once(dry_run) -> None:
    """However many this machine has room for."""
    small = {"cpu": 0.1}
    assert told(dry_run(resources=small), "time").startswith("6 trials, 6 at once")
    assert told(dry_run(resources=small | {"at_most": 4}), "time").startswith("6 trials, 4 at once")


def test_a_budget_says_how_many_trials_there_is_room_for(dry_run, remember) -> None:
    """A trial takes 600 s: six of them an hour; and then two further seeds."""
    remember(*ran(0, 320.0), *ran(1, 320.0))
    search = {"sampler": "random", "budget": {"time": "1h"}}
    result = dry_run(search=search, **NOT_HERE)
    assert result.output.splitlines()[0].startswith("tiny: simcse on mini, 1h of trials")
    line = told(result, "time")
    assert line == "about 8 trials, 1 at once: about 1 h 20 min (from 2 past trials)"
    more = dry_run(search=search | {"trials": 4}, **NOT_HERE)
    assert told(more, "time").startswith("6 trials, 1 at once")
