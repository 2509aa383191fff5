"""What a search takes over from earlier sweeps: once, and the same after a resume."""

import shutil
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from in_process import NewDrive, NewSpec

from cse_platform.errors import NotFoundError, SweepRefusedError
from cse_platform.leaderboard.searches import leading_configurations
from cse_platform.sweep.spec import SweepSpec
from cse_platform.sweep.start_points import leader_notes


def colder_is_better(values: Any, seed: int, step: int) -> float:
    return float(0.8 - 0.5 * values["temperature"])


@pytest.fixture(scope="module")
def complete(
    tmp_path_factory: pytest.TempPathFactory, shared_drive: NewDrive, new_spec: NewSpec
) -> Any:
    """A complete sweep of twelve trials; the best is the coldest."""
    spec = new_spec(sweep="earlier", search={"trials": 12, "seed": 5})
    drive = shared_drive(tmp_path_factory.mktemp("earlier"), spec, score=colder_is_better)
    drive.run()
    drive.close()
    return drive


@pytest.fixture
def earlier(complete: Any, tmp_path: Path) -> Any:
    """The same, with its stores in the test's own folder."""
    shutil.copytree(complete.folder, tmp_path, dirs_exist_ok=True)
    return complete


def coldest(drive: Any, count: int) -> list[float]:
    return sorted(trial.values["temperature"] for trial in drive.history.trials.values())[:count]


def tried(drive: Any) -> list[float]:
    return [trial.values["temperature"] for trial in drive.history.trials.values()]


def test_the_best_of_earlier_sweeps_are_tried_first(
    earlier: Any, tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    spec = new_spec(search={"trials": 4, "start_from": ["leaderboard"]})
    drive = new_drive(tmp_path / "own", spec, leaderboard=tmp_path, score=colder_is_better)
    drive.run()
    best = coldest(earlier, 3)
    assert tried(drive)[:3] == best
    assert not set(tried(drive)[3:]) & set(best)
    assert leader_notes(spec, drive.history.leaders)[0].startswith(
        "start_from: number 1 on mini, of earlier (dev "
    )


def test_after_a_resume_no_other_is_tried(
    earlier: Any, tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    """Also where the leaderboard has better ones by then, this sweep's own among them."""
    spec = new_spec(
        search={"trials": 4, "start_from": ["leaderboard"]},
        space={"temperature": {"low": 0.005, "high": 1.0, "log": True}},
    )
    folder = tmp_path / "own"
    first = new_drive(folder, spec, leaderboard=tmp_path, score=colder_is_better)
    (plan,) = first.start()
    first.report(plan.key, 0)
    first.close()
    cold = {"temperature": {"low": 0.001, "high": 0.01}}
    other = new_spec(sweep="other", search={"trials": 3, "seed": 77}, space=cold)
    better = new_drive(tmp_path / "other", other, leaderboard=tmp_path, score=colder_is_better)
    better.run()
    assert coldest(better, 1) < coldest(earlier, 1)
    better.close()
    again = new_drive(folder, spec, leaderboard=tmp_path, score=colder_is_better)
    again.run()
    assert tried(again)[:3] == coldest(earlier, 3)
    assert len(tried(again)) == 4 and tried(again)[3] not in tried(better)
    again.close()
    more = spec.with_budget(6)
    extended = new_drive(folder, more, leaderboard=tmp_path, score=colder_is_better)
    extended.run()
    assert len(set(tried(extended))) == len(tried(extended)) == 6


def test_which_configurations_lead(
    earlier: Any, tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    """The own backbone's, else another's; never those of the sweep that asks."""
    drive = new_drive(tmp_path / "own", new_spec(), leaderboard=tmp_path)
    asked = {
        "method": "cheap", "backbone": "mini", "but": "small", "limit": 2,
        "dev_identity": drive.state.identity.dev["identity"],
    }  # fmt: skip
    with drive.state.leaderboard.session() as session:
        found = leading_configurations(session, **asked)
        assert [one.values["temperature"] for one in found] == coldest(earlier, 2)
        assert {(one.sweep, one.backbone, one.seeds) for one in found} == {("earlier", "mini", 1)}
        elsewhere = leading_configurations(session, **asked | {"backbone": "bert-base"})
        assert elsewhere == found
        assert leading_configurations(session, **asked | {"dev_identity": "other"}) == found
        assert leading_configurations(session, **asked | {"but": "earlier"}) == []
        assert leading_configurations(session, **asked | {"method": "toy"}) == []


LEARNING = {"sampler": "tpe", "trials": 8, "learn_from": ["earlier"]}


def learning(folder: Path, new_drive: NewDrive, spec: SweepSpec) -> Any:
    board = folder.parent
    return new_drive(folder, spec, leaderboard=board, score=colder_is_better, reuse="nothing")


def test_the_sampler_learns_from_other_sweeps(
    earlier: Any, tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    """Its first trials are where the other's best were; alone it begins at random."""
    means = []
    for name, search in (("alone", {**LEARNING, "learn_from": []}), ("taught", LEARNING)):
        drive = learning(tmp_path / name, new_drive, new_spec(sweep=name, search=search))
        drive.run()
        means.append(fmean(tried(drive)))
        assert len(tried(drive)) == 8
    assert 2 * means[1] < means[0]
    # What is learned is no trial of the sweep.
    drive.assert_sound()
    study = drive.study()
    assert [trial.number for trial in study.trials] == list(range(8))
    assert study.user_attrs["learned_from"] == [f"earlier#{n}" for n in best_first(earlier)]
    assert [trial.number for trial in drive.history.trials.values()] == list(range(8))
    assert study.best_value == max(t.best_value for t in drive.history.trials.values())


def best_first(drive: Any) -> list[int]:
    """Numbers of the trials."""
    trials = drive.history.trials.values()
    return [trial.number for trial in sorted(trials, key=lambda t: t.best_value, reverse=True)]


def test_after_a_kill_the_sampler_knows_the_same(
    earlier: Any, tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    """Though the other sweep has gone on: the configurations are those of an undisturbed sweep."""
    search = LEARNING | {"trials": 5}
    calm = learning(tmp_path / "calm", new_drive, new_spec(sweep="calm", search=search))
    calm.run()
    spec = new_spec(search=search)
    cut = learning(tmp_path / "cut", new_drive, spec)
    for _ in range(2):
        (plan,) = cut.start()
        while plan.key in cut.running:
            cut.advance(plan.key)
    (plan,) = cut.start()
    cut.report(plan.key, 0)
    cut.close()
    more = new_drive(tmp_path, earlier.spec.with_budget(15), score=colder_is_better)
    more.run()
    more.close()
    again = learning(tmp_path / "cut", new_drive, spec)
    again.run()
    assert tried(again) == tried(calm)


def test_what_can_be_learned(
    earlier: Any, tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    """What lies in the space; what both have fixed may differ, and then the order alone counts."""
    narrow = {"temperature": {"low": 0.01, "high": 0.1, "log": True}, "kind": ["a", "b"]}

    def found(name: str, **changes: Any) -> Any:
        spec = new_spec(sweep=name, search=LEARNING, **changes)
        return learning(tmp_path / name, new_drive, spec).history.learned

    inside = found("inside", space=narrow)
    assert [one.values["temperature"] for one in inside] == [
        value for value in coldest(earlier, 12) if value <= 0.1
    ]
    assert all(one.alike for one in inside) and inside[0].score > 0
    kinds = {t.number: t.values["kind"] for t in earlier.history.trials.values()}
    fixed = found("fixed", space={"temperature": narrow["temperature"]})
    assert fixed and {kinds[int(one.source.split("#")[1])] for one in fixed} == {"a"}
    other = found("other", space=narrow, fixed={"extra": {"x": 1.0}})
    assert len(other) == len(inside) and not any(one.alike for one in other)


def test_what_cannot_be_learned(
    earlier: Any, tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    unknown = new_spec(search=LEARNING | {"learn_from": ["earlyer"]})
    with pytest.raises(NotFoundError, match=r"did you mean 'earlier'\?"):
        learning(tmp_path / "unknown", new_drive, unknown)
    elsewhere = new_spec(search=LEARNING, space={"temperature": {"low": 2.0, "high": 3.0}})
    with pytest.raises(SweepRefusedError, match="none of its 12 complete configurations"):
        learning(tmp_path / "elsewhere", new_drive, elsewhere)
