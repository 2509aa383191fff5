"""What a search takes over from earlier sweeps: once, and the same after a resume."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cse_platform.leaderboard.query.board.leading import leading_configurations
from cse_platform.sweep.space.start_points import leader_notes
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.history import History

NewSpec = Callable[..., SweepSpec]
NewDrive = Callable[..., Any]


def colder_is_better(values: Any, seed: int, step: int) -> float:
    return float(0.8 - 0.5 * values["temperature"])


@pytest.fixture
def earlier(tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec) -> Any:
    """A complete sweep of twelve trials; the best is the coldest."""
    spec = new_spec(sweep="earlier", search={"trials": 12, "seed": 5})
    drive = new_drive(tmp_path, spec, score=colder_is_better)
    drive.run()
    drive.close()
    return drive


def coldest(drive: Any, count: int) -> list[float]:
    return sorted(trial.values["temperature"] for trial in drive.history.trials.values())[:count]


def tried(drive: Any) -> list[float]:
    return [trial.values["temperature"] for trial in drive.history.trials.values()]


def test_the_best_of_earlier_sweeps_are_tried_first(
    earlier: Any, tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    spec = new_spec(search={"trials": 5, "start_from": ["leaderboard"]})
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


def test_a_journal_of_an_older_version_has_no_leaders(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    drive = new_drive(tmp_path, new_spec())
    assert drive.history.leaders is None
    assert History().leaders is None
