"""The trials of a study, as the one driver that writes to it knows them."""

import copy
import time
from collections.abc import Callable, Container
from typing import Any, cast

import optuna
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState

_SHARE = 0.1
"""Of the time, at most, that reading all trials anew may take."""


class KnownTrials:
    """Read from the store now and then, and kept up to date by what this driver writes.

    Optuna reads each trial that runs anew at every look. With thousands at once a single look takes
    seconds. `read` gives all trials of the study, by number.
    """

    def __init__(self, read: Callable[[], list[FrozenTrial]]) -> None:
        self._read = read
        self._known: dict[int, FrozenTrial] = {}
        self._took, self._read_at = 0.0, float("-inf")

    def all(self) -> list[FrozenTrial]:
        """By number; raises what `read` raises."""
        if time.monotonic() > self._read_at + self._took / _SHARE:
            began = time.monotonic()
            self._known = {trial.number: trial for trial in self._read()}
            self._read_at = time.monotonic()
            self._took = self._read_at - began
        return [self._known[number] for number in sorted(self._known)]

    def find(self, number: int) -> FrozenTrial | None:
        """A trial as this driver knows it; None where it has to be read."""
        return self._known.get(number)

    def note(self, trial: FrozenTrial) -> None:
        """Take a trial as it is in the store now."""
        self._known[trial.number] = trial

    def seen_by(self, study: optuna.Study) -> optuna.Study:
        """The study for a pruner, which looks at all of it for each report."""
        seen = copy.copy(study)
        seen._storage = cast(BaseStorage, _Seen(study._storage, self))
        return seen

    def forget(self) -> None:
        """Read all of it at the next look."""
        self._known.clear()
        self._read_at = float("-inf")


class _Seen:
    """A study's storage that reads no trial anew; what follows is the part that pruners call."""

    def __init__(self, storage: BaseStorage, known: KnownTrials) -> None:
        self._storage, self._known = storage, known

    def get_all_trials(
        self,
        study_id: int,
        deepcopy: bool = True,
        states: Container[TrialState] | None = None,
    ) -> list[FrozenTrial]:
        found = [one for one in self._known.all() if states is None or one.state in states]
        return copy.deepcopy(found) if deepcopy else found

    def set_trial_system_attr(self, trial_id: int, key: str, value: Any) -> None:
        self._storage.set_trial_system_attr(trial_id, key, value)
        self._known.note(self._storage.get_trial(trial_id))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)
