import json
from dataclasses import asdict

import click
from click.testing import CliRunner, Result
from one_trial import KEY, began, evaluated, life, one_run
from stored_trials import apply_events
from sweep_events import trial_reused

from cse_platform.cli.common import StoreOptions, store_options
from cse_platform.leaderboard import Leaderboard
from cse_platform.leaderboard.trial_details import TrialDetails
from cse_platform.presentation.tables import to_json
from cse_platform.stores.sql.store import Store
from cse_platform.tracking.events import Event, TrialStarted


def page(done: Result) -> str:
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    return " ".join(done.stdout.split())


def test_the_page_of_any_other_and_of_an_imported_trial(fill) -> None:
    failed = {"state": "FAIL", "best_value": None, "best_step": None, "error": "loss is [NaN]"}
    ends: list[tuple[dict[str, object], str]] = [
        ({"state": None, "curve": {}}, "RUNNING, no dev value on stsb"),
        ({"state": "PRUNED"}, "PRUNED, dev stsb 75.00 at step 20"),
        (failed, "FAIL, no dev value on stsb Error: loss is [NaN]"),
        ({"curve": {0: 0.5, 10: float("nan")}}, "10 NaN"),
        ({"curve": {10: 0.5}}, "50.00, steps 10 to 10"),
    ]
    for end, told in ends:
        fill(began(diffs={"package": "one\ntwo\n"}), *life(**end))
        text = page(one_run("show", KEY))
        assert told in text and "package code differed from its commit by a diff of 2 lines" in text
        assert "None was kept: it" in text and "cse-leaderboard reproduce 0a1b2c3d" in text
    old, *_, end = life()
    bare = old.model_copy(update={"revision": 0, "values": {}, "searched": ()})
    facts = {"imported_from": "train.log"}
    fill(began(provenance=facts), bare, end.model_copy(update={"best_step": None}))
    text = page(one_run("show", KEY))
    assert "COMPLETE, dev stsb 75.00 sweeps" in text and "imported from train.log" in text
    assert "None was kept: it was imported from train.log, without its model" in text
    assert "cse-leaderboard reproduce 0a1b" in text
    assert "writes a sweep file to complete by hand, for a trial with another key." in text
    assert "revision" not in text and "Settings" not in text and "at step" not in text


def test_commands_name_the_typed_leaderboard_without_its_password(runs, fill, monkeypatch) -> None:
    fill(began(), *life(model="/m"))
    place = runs.rename(runs.with_name("their runs"))
    url = f"sqlite:///{place.name}/leaderboard.db"
    typed = page(one_run("show", KEY, "--runs", place.name))
    assert "cse-evaluate 0a1b2c3d --runs 'their runs' cse-l" in typed
    assert "cse-leaderboard export 0a1b2c3d DIR --runs 'their runs' S" in typed
    typed = page(one_run("show", KEY, "--store", url))
    assert "cse-evaluate 0a1b2c3d --store 'sqlite:///their runs/leaderboard.db' cse-l" in typed
    monkeypatch.setenv("CSE_STORE", url)
    assert "cse-evaluate 0a1b2c3d cse-leaderboard" in page(one_run("show", KEY))

    @click.command()
    @store_options
    def command(stores: StoreOptions) -> None:
        click.echo(stores.options)

    typed = CliRunner().invoke(command, ["--store", "postgresql+psycopg://me:secret@lab/cse"])
    assert typed.output == " --store 'postgresql+psycopg://me:***@lab/cse'\n"


def test_a_trial_that_is_not_there(runs, fill) -> None:
    commands = {"show": [], "reproduce": [], "export": ["out"], "register": ["name"]}
    for name, more in commands.items():
        nowhere = one_run(name, "abcdef12", *more, code=1)
        assert nowhere.stderr.startswith("Error: no leaderboard at ")
        assert f"cse-leaderboard {name} quickstart-simcse" in one_run(name, "--help").stdout
    fill(began(), *life())
    for name, more in commands.items():
        refused = one_run(name, "abcdef12", *more, code=1)
        assert refused.stderr.endswith("no trial's key begins with 'abcdef12'\n")
        assert refused.stderr.count("\n") == 1
    assert [path for path in runs.parent.iterdir() if path != runs] == []


def told(board: Store, *events: Event, key: str = KEY) -> TrialDetails:
    apply_events(board, events)
    return Leaderboard(board).trial(key[:8])


def test_it_ran_under_the_last_start_before_its_own(board) -> None:
    story = told(
        board,
        began(0, packages={"numpy": "1"}),
        began(5, packages={"numpy": "2"}),
        *life(begin=6),
        began(60, packages={"numpy": "3"}),  # after its end
    )
    assert [start.packages for start in story.starts] == [{"numpy": "2"}]


def test_one_that_was_cut_off_has_the_starts_that_it_went_on_under(board) -> None:
    first, *_ = events = life(begin=1)
    assert isinstance(first, TrialStarted)
    resumed = first.model_copy(update={"resumed_from": 10})
    middle = began(3, packages={"numpy": "2"})
    story = told(
        board, began(0, packages={"numpy": "1"}), *events[:3], middle, resumed, *events[3:]
    )
    assert [start.packages["numpy"] for start in story.starts] == ["1", "2"]


def test_the_sweep_that_reused_it_did_not_run_it(board) -> None:
    events = life(begin=10)
    reused = trial_reused(events, "early", number=3, model=None)
    early = {"sweep": "early", "spec": {"experiment": "other"}}
    story = told(board, began(0, **early), began(5), *events, began(12, **early), reused)
    assert [place.sweep for place in story.sweeps] == ["early", "first"]
    assert [start.sweep for start in story.starts] == ["first"]
    assert story.spec["sweep"] == "first"


def test_json_is_the_story(board) -> None:
    story = told(board, began(), *life(curve={0: 0.25, 10: float("nan")}), *evaluated())
    read = json.loads(to_json(story.as_record()))
    assert read["started"] == story.started.isoformat()
    assert read["curve"][1]["value"] is None
    assert read["starts"][0]["packages"] == story.starts[0].packages
    assert set(read) == {*asdict(story), "marks"}
