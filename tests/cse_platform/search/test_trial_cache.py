"""The trials of a study, read seldom and kept up to date by their one writer."""

from pathlib import Path

import optuna
import pytest
from optuna.trial import FrozenTrial, TrialState

from cse_platform.search.storage import TrialCache


@pytest.fixture
def study(tmp_path: Path) -> optuna.Study:
    return optuna.create_study(storage=f"sqlite:///{tmp_path}/search.db", study_name="one")


def test_trials_are_not_read_at_every_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look that took a second lasts for fifty."""
    clock, reads = [0.0], []

    def read() -> list[FrozenTrial]:
        clock[0] += 1.0
        reads.append(clock[0])
        return []

    monkeypatch.setattr("cse_platform.search.storage.time.monotonic", lambda: clock[0])
    known = TrialCache(read)
    for _ in range(104):
        known.list_all()
        clock[0] += 0.5
    assert reads == [1.0, 52.5]
    known.clear()
    known.list_all()
    assert len(reads) == 3


def test_what_is_noted_is_known_at_once(study: optuna.Study) -> None:
    known = TrialCache(lambda: study.get_trials(deepcopy=False))
    assert known.list_all() == []
    trial = study.ask()
    known.put(study._storage.get_trial(trial._trial_id))
    assert [(one.number, one.state) for one in known.list_all()] == [(0, TrialState.RUNNING)]


def test_a_pruner_sees_what_is_known_and_writes_to_the_store(study: optuna.Study) -> None:
    known = TrialCache(lambda: study.get_trials(deepcopy=False))
    trial = study.ask()
    seen = known.wrap_study(study)
    assert [one.number for one in seen.get_trials(states=(TrialState.RUNNING,))] == [0]
    seen._storage.set_trial_system_attr(trial._trial_id, "rung", 1)
    assert known.list_all()[0].system_attrs == {"rung": 1}
    assert study.get_trials()[0].system_attrs == {"rung": 1}
