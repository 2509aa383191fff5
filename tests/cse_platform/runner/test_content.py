"""No stale number: what another sweep's trials, this sweep's own and its failed ones are worth
once the code, the data or the environment is another one."""

import copy
from pathlib import Path
from typing import Any

import pytest
from in_process import NewDrive, NewSpec

from cse_platform.errors import SweepRefusedError
from cse_platform.leaderboard.api import open_leaderboard
from cse_platform.sweep.identity import Identity

UNKNOWN_TOO = "unknown code too"


@pytest.fixture
def other_code(identity: Identity) -> Identity:
    """The identity once the loss of the method was changed."""
    changed = copy.copy(identity)
    changed.code = {**identity.code, "cheap": "0" * 64}
    return changed


@pytest.fixture
def unknown_code(identity: Identity) -> Identity:
    """The identity by a version that does not know the code."""
    changed = copy.copy(identity)
    changed.code = {}
    return changed


def finish(drive: Any) -> dict[str, str | None]:
    """Run a sweep to its end; the sweep that each trial was reused from, by key."""
    drive.run()
    drive.assert_sound()
    drive.close()
    return {key: trial.reused_from for key, trial in drive.history.trials.items()}


def test_trials_of_the_same_code_are_reused(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    two, lab = {"trials": 2}, tmp_path / "a"
    first = finish(new_drive(lab, new_spec(search=two)))
    other, third = (new_spec(sweep=name, search=two) for name in ("other", "third"))
    again = finish(new_drive(tmp_path / "b", other, leaderboard=lab))
    assert again == dict.fromkeys(first, "small")
    fresh = new_drive(tmp_path / "c", third, leaderboard=lab, reuse="nothing")
    assert finish(fresh) == dict.fromkeys(first)


def test_other_code_is_another_trial(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec, other_code: Identity
) -> None:
    first = finish(new_drive(tmp_path / "a", new_spec()))
    changed = new_drive(
        tmp_path / "b", new_spec(sweep="other"), leaderboard=tmp_path / "a", identity=other_code
    )
    again = finish(changed)
    assert set(again.values()) == {None}
    assert not first.keys() & again.keys()
    with open_leaderboard(tmp_path / "a") as board:
        codes = {board.trial(key).configuration.code for key in (*first, *again)}
        [row] = board.rows()
    assert len(codes) == 2 and None not in codes
    newest = changed.state.identity.of(changed.spec.config_of(row.configuration.values)).code
    assert row.other_code == (row.configuration.code != newest)


def test_trials_of_unknown_code_are_reused_only_when_asked(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec, unknown_code: Identity
) -> None:
    two = {"trials": 2}
    first = finish(new_drive(tmp_path / "a", new_spec(search=two), identity=unknown_code))
    lab = tmp_path / "a"
    asked = new_drive(
        tmp_path / "d", new_spec(sweep="d", search=two), leaderboard=lab, reuse=UNKNOWN_TOO
    )
    assert finish(asked) == dict.fromkeys(first, "small")
    assert {trial.code for trial in asked.history.trials.values()} == {None}
    fresh = finish(new_drive(tmp_path / "b", new_spec(sweep="b", search=two), leaderboard=lab))
    assert not first.keys() & fresh.keys()
    other = new_spec(sweep="other", search=two)
    never = new_drive(tmp_path / "c", other, leaderboard=lab, identity=unknown_code)
    assert set(finish(never).values()) == {None}
    spec = new_spec(sweep="d", space={"kind": ["a", "b"]}, search={"trials": 4})
    # A configuration that is proposed again gets another seed, though its hash is another one.
    old = tmp_path / "e"
    finish(
        new_drive(old, new_spec(space=spec.space.model_dump(mode="json")), identity=unknown_code)
    )
    asked = new_drive(tmp_path / "f", spec, leaderboard=old, reuse=UNKNOWN_TOO)
    finish(asked)
    tried = [(trial.values["kind"], trial.seed) for trial in asked.history.trials.values()]
    assert len(set(tried)) == len(tried) == 4


def test_a_sweep_of_other_content_is_refused_and_the_change_is_named(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec, identity: Identity
) -> None:
    """Whether the sweep is complete or was cut off."""
    spec, changes = (
        new_spec(search={"trials": 1}),
        {
            "cheap": {"code": {"cheap": "0" * 64}},
            "corpus": {"corpus_sha256": "0"},
            "dev data": {"dev_sha256": {"stsb": "0", "sickr": "0"}},
        },
    )
    for complete in (False, True):
        drive = new_drive(tmp_path, spec)
        if complete:
            drive.run()
        else:
            drive.start()
        drive.close()
        for named, change in changes.items():
            changed = copy.copy(identity)
            for name, value in change.items():
                setattr(changed, name, value)
            with pytest.raises(SweepRefusedError, match=f"{named}.*--set sweep=NEWNAME"):
                new_drive(tmp_path, spec, identity=changed)


def test_a_file_that_a_setting_names_is_content_too(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cheap import CheapConfig

    words = tmp_path / "words.txt"
    words.write_text("one")
    monkeypatch.setattr(CheapConfig, "files", lambda self: (self.gate,))
    spec = new_spec(fixed={"gate": str(words)}, search={"trials": 1})
    drive = new_drive(tmp_path, spec)
    drive.run()
    drive.close()
    words.write_text("another")
    with pytest.raises(SweepRefusedError, match=r"words\.txt changed"):
        new_drive(tmp_path, spec)


def failing(drive: Any, error: str = "TypeError: a typo") -> None:
    """Every trial of a sweep fails, each in its own way; then the sweep is at its end."""
    while drive.start():
        for key in list(drive.running):
            drive.fail(key, f"{error} in {key}", crashed=False)
    assert drive.state.finished
    drive.close()


def test_failed_trials_are_tried_again_by_mended_code(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec, identity: Identity, other_code: Identity
) -> None:
    failing(new_drive(tmp_path, new_spec(), identity=other_code))
    same = new_drive(tmp_path, new_spec(), identity=other_code)
    assert same.start() == [] and same.state.finished
    same.close()
    mended = new_drive(tmp_path, new_spec())
    finish(mended)
    trials = list(mended.history.trials.values())
    assert [(t.number, t.state) for t in trials] == [(n, "COMPLETE") for n in range(3)]
    undisturbed = new_drive(tmp_path / "other", new_spec())
    undisturbed.run()
    assert mended.outcome() == undisturbed.outcome()
    with open_leaderboard(tmp_path) as board:
        assert board.sweep("small").counts["COMPLETE"] == 3
        assert sum(board.sweep("small").counts.values()) == 3
        assert [trial.number for trial in board.search("small").trials] == [0, 1, 2]


def test_failed_trials_are_tried_again_in_another_environment(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    packages = {"sacremoses": "0.1"}
    drive = new_drive(tmp_path, new_spec())
    (first,) = drive.start()
    drive.fail(first.key, "ImportError: no sacremoses", crashed=False)
    finish(drive)
    assert drive.history.trials[first.key].state == "FAIL"
    again = new_drive(tmp_path, new_spec(), packages=packages)
    finish(again)
    assert {t.number: t.state for t in again.history.trials.values()} == dict.fromkeys(
        range(3), "COMPLETE"
    )
    assert again.history.trials[first.key].search_number == 3
    third = new_drive(tmp_path, new_spec(), packages=packages)
    assert third.start() == [] and third.state.finished


def test_a_second_attempt_that_was_cut_off_before_it_began_is_begun_once(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    packages = {"sacremoses": "0.1"}
    failing(new_drive(tmp_path, new_spec(search={"trials": 1})))
    killed = new_drive(tmp_path, new_spec(search={"trials": 1}), packages=packages)
    (failed,) = killed.state.to_retry
    number = killed.state.search.retry(failed.search_number)  # and the journal never hears of it
    killed.close()
    again = new_drive(tmp_path, new_spec(search={"trials": 1}), packages=packages)
    finish(again)
    (trial,) = again.history.trials.values()
    assert (trial.state, trial.search_number) == ("COMPLETE", number)
    assert len(again.study().trials) == 2
