"""Runs folders that tell different results of one trial: one's own are kept, and it is said."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import invoke
from stored_trials import write_journal as write
from sweep_events import NOON, sweep_started, trial_evaluated, trial_life, trial_reused

from cse_platform.cli.leaderboard import main
from cse_platform.launch.outcome import outcome_lines
from cse_platform.leaderboard import open_leaderboard
from cse_platform.stores import disagreements
from cse_platform.stores.rebuild import Rebuilt, rebuild
from cse_platform.tracking.events import Event, PackedExamples, TrialState
from cse_platform.tracking.packing import pack

KEY = "c0ffee00"


@pytest.fixture
def url(tmp_path) -> str:
    return f"sqlite:///{tmp_path / 'leaderboard.db'}"


def life(
    value: float, sweep: str, *, hours: float = 0, state: TrialState = "COMPLETE", **changes: Any
) -> list[Event]:
    """A trial that was there so many hours after noon."""
    events = trial_life(0, {0: 0.1, 10: value}, sweep=sweep, trial=KEY, state=state, **changes)
    return [e.model_copy(update={"time": NOON + timedelta(hours=hours)}) for e in events]


def score(value: float, sweep: str, *, hours: float = 0, task: str = "sts12") -> Event:
    time = NOON + timedelta(hours=hours)
    return trial_evaluated(KEY, {f"test/{task}_spearman": value}, sweep=sweep, time=time)


def fill(folder: Path, events: Sequence[Event], evaluations: Sequence[Event] = ()) -> Path:
    sweep = folder.name
    if events:
        write(folder / "sweeps" / sweep / "journal.jsonl", [sweep_started(sweep), *events])
    if evaluations:
        write(folder / "evaluations" / "t.jsonl", evaluations)
    return folder


def read_shown(url: str) -> dict[str, float]:
    """The dev score of the trial and its test scores."""
    with open_leaderboard(url) as board:
        details = board.trial(KEY)
        scores = {s.task: s.value for s in details.scores if s.split == "test"}
        return {"dev": details.best_value, **scores}


def named(done: Rebuilt) -> list[tuple[str, str, float, str, float]]:
    return [
        (each.name.partition(" (")[0], each.kept_in.name, each.kept, each.left_in.name, each.left)
        for each in done.disagreements
    ]


def test_earlier_times_do_not_replace_our_results(tmp_path, url) -> None:
    """What theirs tells otherwise is named, and comes only if the user prefers it."""
    sts12 = "test/sts12_spearman"
    dev = {"dev": 0.1230, "sts12": 0.9}
    cases: dict[str, tuple[list[Event], list[Event], list[Event], list[Event], Any, Any]] = {
        # theirs and their evaluations, ours and our evaluations, what is shown, and if preferred
        "dev": (life(0.123, "theirs", hours=-9), [score(0.9, "theirs", hours=-8)],
                life(0.9981, "ours"), [score(0.8, "ours")],
                {"dev": 0.9981, "sts12": 0.8}, dev),
        "score": (life(0.5, "theirs", hours=-9), [score(0.9, "theirs", hours=9)],
                  life(0.5, "ours"), [score(0.8, "ours")],
                  {"dev": 0.5, "sts12": 0.8}, {"dev": 0.5, "sts12": 0.9}),
        "score hardly": (life(0.5, "theirs"), [score(0.80001, "theirs", hours=9)],
                         life(0.5, "ours"), [score(0.8, "ours")],
                         {"dev": 0.5, "sts12": 0.8}, {"dev": 0.5, "sts12": 0.80001}),
        "score alone": ([], [score(0.9, "ours", hours=9)],
                        life(0.5, "ours"), [score(0.8, "ours")],
                        {"dev": 0.5, "sts12": 0.8}, {"dev": 0.5, "sts12": 0.9}),
        "reused": ([trial_reused(life(0.3, "gone", hours=-9), "theirs")], [],
                   [trial_reused(life(0.5, "gone"), "ours", time=NOON)], [],
                   {"dev": 0.5}, {"dev": 0.3}),
        "ours reused": (life(0.3, "theirs", hours=-9), [],
                        [trial_reused(life(0.5, "gone"), "ours")], [],
                        {"dev": 0.5}, {"dev": 0.3}),
    }  # fmt: skip
    wrong = []
    for name, (theirs, their_scores, ours, our_scores, shown, preferred) in cases.items():
        folder = tmp_path / name.replace(" ", "-")
        folders = [
            fill(folder / "ours", ours, our_scores), fill(folder / "theirs", theirs, their_scores)
        ]  # fmt: skip
        first = named(rebuild(url, folders, without={"ours", "theirs"}))
        got = read_shown(url)
        again = named(rebuild(url, folders, without={"ours", "theirs"}, prefer_theirs=True))
        if (got, read_shown(url)) != (shown, preferred):
            wrong.append((name, got, read_shown(url)))
        one = [first[0][1:], again[0][1:]] if first and again else []
        if [len(first), len(again), [row[::2] for row in one]] != [
            1, 1, [("ours", "theirs"), ("theirs", "ours")]
        ]:  # fmt: skip
            wrong.append((name, first, again))
        if name.startswith("score") and first[0][0] != sts12:
            wrong.append((name, first))
    assert not wrong


def test_results_of_theirs_alone_are_added_and_equal_values_are_not_named(tmp_path, url) -> None:
    late = {"hours": 9}
    cases: dict[str, tuple[list[Event], list[Event], list[Event], list[Event], Any]] = {
        "equal": (life(0.5, "theirs", hours=-9), [score(0.8, "theirs")],
                  life(0.5, "ours"), [score(0.8, "ours")], {"dev": 0.5, "sts12": 0.8}),
        "equal but for the batches": (life(0.5 + 2e-7, "theirs"), [score(0.8 - 1e-8, "theirs")],
                                      life(0.5, "ours"), [score(0.8, "ours")],
                                      {"dev": 0.5, "sts12": 0.8}),
        "another score": (life(0.5, "theirs"), [score(0.7, "theirs", task="sts13", **late)],
                          life(0.5, "ours"), [score(0.8, "ours")],
                          {"dev": 0.5, "sts12": 0.8, "sts13": 0.7}),
        "ours failed": (life(0.7, "theirs", **late), [], life(0.5, "ours", state="FAIL"), [],
                        {"dev": 0.7}),
        "theirs failed": (life(0.7, "theirs", hours=-9, state="FAIL"), [], life(0.5, "ours"), [],
                          {"dev": 0.5}),
        "ours evaluated": (life(0.7, "theirs"), [score(0.9, "theirs", **late)],
                           [], [score(0.8, "theirs")], {"dev": 0.7, "sts12": 0.8}),
    }  # fmt: skip
    wrong = []
    for name, (theirs, their_scores, ours, our_scores, shown) in cases.items():
        folder = tmp_path / name.replace(" ", "-")
        folders = [
            fill(folder / "ours", ours, our_scores), fill(folder / "theirs", theirs, their_scores)
        ]  # fmt: skip
        done = rebuild(url, folders, without={"ours", "theirs"})
        is_shown = read_shown(url) == pytest.approx(shown, abs=1e-6)
        if not is_shown or len(done.disagreements) != (name == "ours evaluated"):
            wrong.append((name, read_shown(url), named(done)))
    assert not wrong


def test_results_that_a_longer_copy_of_our_journal_adds_are_theirs(tmp_path, url) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    told = [sweep_started("ours"), *life(0.5, "ours"), score(0.8, "ours")]
    path = write(ours / "sweeps" / "ours" / "journal.jsonl", told)
    copy = theirs / "sweeps" / "ours" / "journal.jsonl"
    copy.parent.mkdir(parents=True)
    copy.write_bytes(path.read_bytes())
    assert named(rebuild(url, [ours, theirs])) == []
    write(copy, [score(0.9, "ours", hours=9)])
    assert len(named(rebuild(url, [ours, theirs]))) == 1
    assert read_shown(url) == {"dev": 0.5, "sts12": 0.8}


def test_a_sweep_says_whose_results_its_trials_have(tmp_path, url) -> None:
    reused = trial_reused(life(0.5, "ann"), "carol")
    told = {"ann": life(0.5, "ann"), "bob": life(0.7, "bob"), "carol": [reused]}
    rebuild(url, [fill(tmp_path / name, events) for name, events in told.items()])
    with open_leaderboard(url) as board:
        said = {name: outcome_lines(board, name) for name in told}
    assert {name: line.startswith("trial 0: the leaderboard has the results of ann, ")
            for name, lines in said.items() for line in lines if line.startswith("trial")
            } == {"bob": True}  # fmt: skip
    assert all(lines[0].startswith("best dev stsb: 50.00") for lines in said.values())


def test_a_runs_folder_that_gets_the_results_of_others_is_made(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    ann = fill(tmp_path / "ann", life(0.5, "ann"))
    refused = invoke(main, "rebuild", "--from", tmp_path / "amm", code=1)
    assert "no folder" in refused.output and not (tmp_path / "runs").exists()
    refused = invoke(main, "rebuild", "--from", ann, "--dry-run", code=1)
    assert "no runs folder runs, and a dry run makes none" in refused.output
    assert not (tmp_path / "runs").exists()
    invoke(main, "rebuild", "--from", ann)
    assert read_shown(f"sqlite:///{tmp_path}/runs/leaderboard.db") == {"dev": 0.5}
    refused = invoke(main, "rebuild", "--runs", tmp_path / "none", code=1)
    assert "no runs folder" in refused.output


def test_the_command_names_both_folders_of_each_trial(tmp_path, url, monkeypatch) -> None:
    """Also of two others that differ from one another; without others, nothing is read twice."""
    ann, bob = fill(tmp_path / "ann", life(0.9981, "ann")), fill(tmp_path / "bob", life(0.2, "bob"))
    ours = fill(tmp_path / "ours", trial_life(5, {0: 0.5}, sweep="ours"))
    told = [
        f"Trial {KEY}: best dev is 99.81 in {ann}, which is kept, and 20.00 in {bob}",
        "To keep the other results instead, name the other of two --from before",
    ]
    place = ("rebuild", "--only", "leaderboard", "--runs", ours, "--store", url)
    said = invoke(main, *place, "--from", ann, "--from", bob).output
    assert said.splitlines()[:2] == told and "sweeps: 3" in said
    said = invoke(main, *place, "--from", bob, "--from", ann).output
    assert f"20.00 in {bob}, which is kept, and 99.81 in {ann}" in said
    place = ("rebuild", "--only", "leaderboard", "--runs", ann, "--from", bob)
    said = invoke(main, *place, "--store", f"sqlite:///{tmp_path / 'ann.db'}").output
    assert said.splitlines()[1] == "To keep the other results instead, add --prefer theirs"
    many = [e for n in range(30) for e in trial_life(n, {0: 0.5}, sweep="many", trial=f"m{n}")]
    others = [e for n in range(30) for e in trial_life(n, {0: 0.6}, sweep="more", trial=f"m{n}")]
    more = ("--from", fill(tmp_path / "more", others), "--prefer", "theirs")
    many_runs = ("rebuild", "--only", "leaderboard", "--runs", fill(tmp_path / "many", many))
    lines = invoke(main, *many_runs, "--store", f"sqlite:///{tmp_path / 'n.db'}", *more).output
    assert lines.count(f"is 60.00 in {tmp_path / 'more'}, which is kept, and 50.00 in ") == 20
    assert "… and 10 more\nTo keep the other results instead, leave out --prefer" in lines
    read = list[Path]()
    monkeypatch.setattr(disagreements, "read_journal", lambda path: read.append(path) or iter(()))
    rebuild(url, [ours], without={"ann", "bob"})
    assert read == []


def test_their_cosines_do_not_replace_ours(tmp_path, url) -> None:
    """Nor where all scores are equal."""
    cosines = np.array([0.5, 0.25, 0.75], np.float32)
    evaluations = {}
    for name, hours, own in (("ours", 0, cosines), ("theirs", 9, cosines[::-1])):
        pairs = {
            "task": "sts12", "split": "test", "identity": "e1", "subsets": {"all": 3},
            "values": pack(own), "gold": pack(np.arange(3.0)), "data_sha256": "d",
        }  # fmt: skip
        event = score(0.8, name, hours=hours)
        evaluations[name] = event.model_copy(update={"examples": (PackedExamples(**pairs),)})
    folders = [
        fill(tmp_path / name, life(0.5, name), [evaluations[name]]) for name in ("ours", "theirs")
    ]
    assert rebuild(url, folders).disagreements == []
    with open_leaderboard(url) as board:
        shown = board.examples(KEY, "sts12")
    assert shown.values.tolist() == cosines.tolist()


def test_the_attempt_that_was_complete_first_is_kept_else_the_furthest() -> None:
    def attempt(*events: Event) -> disagreements.TrialResults:
        results = disagreements.TrialResults()
        for event in events:
            results.add_event(event)  # type: ignore[arg-type]  # events of a trial
        return results

    first, later = life(0.5, "a"), life(0.7, "a", hours=1)
    for one, other in ((first, later), (later, first)):
        kept = attempt(*one)
        kept.merge(attempt(*other))
        assert kept.dev["dev at step 10"] == 0.5
    short, long = first[:-2], later[:-1]
    for one, other in ((short, long), (long, short)):
        kept = attempt(*one)
        kept.merge(attempt(*other))
        assert kept.dev["dev at step 10"] == 0.7
