import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result
from commands import invoke
from stored_trials import apply_events, fill_store, write_journal
from sweep_events import NOON, sweep_started, trial_life

from cse_platform.cli import leaderboard, sweep
from cse_platform.control import annotations as annotating
from cse_platform.control.annotations import annotate, replay_annotations
from cse_platform.errors import NotFoundError, OtherSweepError
from cse_platform.leaderboard import Filters, open_leaderboard
from cse_platform.stores.sql.sink import LeaderboardSink
from cse_platform.stores.sql.store import open_store
from cse_platform.tracking.events import AnnotationWritten, Event
from cse_platform.tracking.provenance import user_and_host

A, B = "a" * 64, "b" * 64


@pytest.fixture
def history() -> list[Event]:
    """A tagged sweep of three trials: two seeds of one configuration, and another one."""
    return [
        sweep_started(spec={"tags": ["smoke"]}),
        *trial_life(0, {10: 0.75}, configuration=A, trial=f"1{A[1:]}"),
        *trial_life(1, {10: 0.5}, configuration=B, trial=f"2{A[1:]}"),
        *trial_life(2, {10: 0.7}, configuration=A, seed=7, trial=f"3{A[1:]}"),
    ]


@pytest.fixture
def runs(tmp_path, history, empty_leaderboard) -> Path:
    fill_store(empty_leaderboard(tmp_path / "leaderboard.db"), history)
    return tmp_path


def test_annotations_are_stored_and_filtered_in_sqlite_and_postgresql(
    board, leaderboard_url, history, tmp_path
) -> None:
    apply_events(board, history)
    subjects = {"first": "s", A[:8]: "c", "2aaaaaaa": "t", f"rankcse@{B[:8]}": "r", "first#2": "n"}
    for subject, tag in subjects.items():
        annotate(leaderboard_url, tmp_path / "runs", subject, tags={tag: True}, star=True)
    annotate(leaderboard_url, tmp_path / "runs", "2aaaaaaa", tags={"t": False}, note="new")
    with open_leaderboard(leaderboard_url) as found:
        held = {
            tag: {
                row.configuration.hash
                for row in found.rows(Filters(tag=tag), per_configuration=True)
            }
            for tag in found.catalogue()["tags"]
        }
        assert held == {"smoke": {A, B}, "s": {A, B}, "c": {A}, "r": {B}, "n": {A}}
        with pytest.raises(NotFoundError, match="there is no tag 't'"):
            found.rows(Filters(tag="t"))
        assert found.trial("2aaaaaaa").written.note.text == "new"


@pytest.fixture
def says(runs) -> Iterator[Callable[..., Result]]:
    def say(*words: str, command: str = "leaderboard", code: int = 0) -> Result:
        group = {"leaderboard": leaderboard.main, "sweep": sweep.main}[command]
        return invoke(group, *words, "--runs", runs, code=code)

    return say


def test_an_annotation_is_shown_with_its_author_until_it_is_removed(says, runs) -> None:
    words = ("--note", "falls after 500", "--tag", "odd", "--star")
    says("annotate", "1aaaaaaa", *words)
    shown = says("show", "1aaaaaaa").output
    for text in ("falls after 500", "odd, smoke", "★", user_and_host()):
        assert text in shown
    told = json.loads(says("show", "1aaaaaaa", "--json").output)
    assert told["written"]["note"]["text"] == "falls after 500"
    assert told["written"]["star"]["who"] == user_and_host()
    says("annotate", "first", "--tag", "paper", "--star", "--note", "[bold]for the paper")
    said = says("status", "first", command="sweep").output
    for text in ("paper, smoke", "[bold]for the paper", "first ★"):
        assert text in said
    says("annotate", "first", "--untag", "paper", "--no-star", "--note", "")
    with open_leaderboard(runs) as board:
        found = board.sweep("first")
        assert "paper" not in board.catalogue()["tags"]
    assert found.tags == ("smoke",)  # of the sweep's file
    assert (found.written.note, found.written.star) == (None, None)


@pytest.mark.parametrize("subject", ["first", A[:8], "3aaaaaaa"])
def test_a_star_on_a_row_s_sweep_or_configuration_or_trial(says, subject) -> None:
    says("annotate", subject, "--tag", "mine", "--star", "--note", "so so")
    assert "did you mean 'mine'?" in says("--tag", "mines", code=1).output
    rows = json.loads(says("--all", "--tag", "mine", "--json").output)
    of_sweep = subject == "first"
    wanted = {A, B} if of_sweep else {A}
    assert {row["configuration"]["hash"] for row in rows} == wanted
    assert {tuple(row["tags"]) for row in rows} == {("mine", "smoke")}
    assert all(row["starred"] is not of_sweep for row in rows)
    assert all(row["notes"] == ([] if of_sweep else ["so so"]) for row in rows)
    assert ("★" in says("--all").output) is not of_sweep


def test_without_mlflow_an_annotation_is_written_with_a_warning(says, monkeypatch) -> None:
    monkeypatch.setenv("CSE_MLFLOW_URI", "http://127.0.0.1:9")
    monkeypatch.setattr(annotating, "MIRROR_WAIT", 1.0)
    result = says("annotate", "first", "--star")
    assert "mlflow does not have it yet" in result.stderr
    assert "★" in says("status", command="sweep").output


def test_a_note_in_another_runs_folder_than_the_sweep_s_says_where_it_is(
    runs, history, monkeypatch
) -> None:
    monkeypatch.setenv("CSE_STORE", f"sqlite:///{runs / 'leaderboard.db'}")
    monkeypatch.chdir(runs)
    words = ("annotate", "first#0", "--note", "x")
    kept = f"it is kept in {runs}/runs/annotations/journal.jsonl, which rebuild must read; "
    elsewhere = "the journal of sweep first is in another runs folder"
    alone = ", whose MLflow gets it only if --runs names that folder\n"
    assert invoke(leaderboard.main, *words).stderr == kept + elsewhere + alone
    with monkeypatch.context() as patch:
        patch.setenv("CSE_MLFLOW_URI", "http://127.0.0.1:9")
        patch.setattr(annotating, "MIRROR_WAIT", 0.1)
        said = invoke(leaderboard.main, *words).stderr
    assert f"{kept}{elsewhere}\n" in said
    write_journal(runs / "runs" / "sweeps" / "first" / "journal.jsonl", history)
    assert invoke(leaderboard.main, *words).stderr == ""


def test_an_annotation_by_a_slow_clock_replaces_the_earlier_one(says, runs) -> None:
    ahead = AnnotationWritten(
        time=NOON, sweep="first", about="sweep", name="first", who="ann", note="of 2030", star=True
    )
    with open_store(f"sqlite:///{runs / 'leaderboard.db'}") as board:
        LeaderboardSink(board).apply("annotations", [(1, ahead)])
    says("annotate", "first", "--note", "of today", "--no-star")
    with open_leaderboard(runs) as reader:
        written = reader.sweep("first").written
    assert (written.note and written.note.text, written.star) == ("of today", None)


def test_secrets_and_control_characters_are_removed_from_annotations(says) -> None:
    says("annotate", "first", "--note", "see\x1b[31m https://ann:hunter2@lab/x")
    told = json.loads(says("status", "first", "--json", command="sweep").output)
    note = told[0]["written"]["note"]["text"]
    assert "hunter2" not in note and "\x1b" not in note


def test_an_annotation_without_meaning_is_refused(says, runs) -> None:
    for words, code, why in (
        (["frist", "--star"], 1, "first"),
        (["first", "--untag", "smoek"], 1, "sweep first has no tag 'smoek' to remove; annota"),
        (["first", "--untag", "smoke"], 1, "has tag 'smoke' from the file of sweep first, and"),
        (["first#0", "--untag", "smoke"], 1, "trial 1aaaaaaa has tag 'smoke' from the file"),
        (["rankcse@cccc", "--star"], 1, "neither a configuration"),
        (["first", "--tag", "two words"], 1, "letters"),
        (["first", "--note", "x" * 4001], 1, "4000"),
        (["first"], 2, ""),
        (["first", "--tag", "a", "--untag", "a"], 2, ""),
    ):
        assert why in says("annotate", *words, code=code).stderr, words
    with open_leaderboard(runs) as board:
        assert board.sweep("first").tags == ("smoke",)


def test_a_new_leaderboard_gets_all_annotations(says, runs, history, empty_leaderboard) -> None:
    says("annotate", "1aaaaaaa", "--note", "old", "--star")
    says("annotate", "1aaaaaaa", "--note", "new", "--tag", "odd")
    before = says("show", "1aaaaaaa", "--json").output
    for file in runs.glob("leaderboard.db*"):
        file.unlink()
    url = empty_leaderboard(runs / "leaderboard.db")
    replay_annotations(url, runs, "cse")
    fill_store(url, history)
    assert says("show", "1aaaaaaa", "--json").output == before
    with pytest.raises(OtherSweepError):
        fill_store(url, history, journal="another")
    assert says("show", "1aaaaaaa", "--json").output == before
