"""One trial while it is drawn: nothing of it is in the study before all its values are settled."""

import copy
from collections.abc import Collection, Container, Mapping, Sequence
from typing import Any, cast

import optuna
from optuna.distributions import BaseDistribution
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from cse_platform.search.distributions import distribution, encode
from cse_platform.search.proposing.failed_trials import show_failures
from cse_platform.sweep.space.dimensions import Dimension

FIXED = "fixed_params"
"""Optuna's system attribute of a trial with the values that it was queued with."""
_NEW = -1
"""Id of a trial that the storage does not have yet."""


class Draft:
    """Stands between a sampler and the study's storage while one trial is drawn.

    The trials are read once, for the caller is the only one that writes to the study. What the
    sampler sets is held back: `accept` writes a new trial with all its values in one transaction,
    so that a kill leaves none with some of them.

    Args:
        study: that the trial belongs to.
        trials: all of it, by number.
        begun: the trial of the study that is drawn, with its known values; None for a new one.
        learned: trials of other studies, which the sampler is shown as older ones of this study.
    """

    def __init__(
        self,
        study: optuna.Study,
        trials: Sequence[FrozenTrial],
        begun: FrozenTrial | None = None,
        *,
        learned: Sequence[FrozenTrial] = (),
    ) -> None:
        self._storage, self._study_id = study._storage, study._study_id
        self._begun = begun or _blank(len(trials))
        self.others = [trial for trial in trials if trial.number != self._begun.number]
        self._shown = show_failures([*learned, *self.others], study.directions)
        self._study_attrs = dict(self._storage.get_study_system_attrs(self._study_id))
        self._changed: dict[str, Any] = {}
        self.study = copy.copy(study)
        """The study as a sampler sees it."""
        self.study._storage = cast(BaseStorage, self)
        self.number: int = self._begun.number
        self.trial = self._begun

    def again(self) -> Trial:
        """The trial without what was drawn so far; what the study counts goes on counting."""
        self.trial = copy.copy(self._begun)
        self.trial.state = TrialState.RUNNING
        self.trial.params = dict(self._begun.params)
        self.trial.distributions = dict(self._begun.distributions)
        self.trial.system_attrs = dict(self._begun.system_attrs)
        return Trial(self.study, self.trial._trial_id)

    @property
    def given(self) -> Collection[str]:
        """The dimensions whose values are not drawn."""
        return {*self._begun.params, *self._begun.system_attrs.get(FIXED, {})}

    def settle(self, values: Mapping[str, tuple[Dimension, Any]]) -> None:
        """Give the trial these values of dimensions instead of those that were drawn last."""
        self.trial.params = {name: encode(value) for name, (_, value) in values.items()}
        self.trial.distributions = {name: distribution(one) for name, (one, _) in values.items()}

    def note(self) -> None:
        """Write to the storage what the sampler has noted of the study."""
        for key, value in self._changed.items():
            self._storage.set_study_system_attr(self._study_id, key, value)

    def accept(self) -> None:
        """Write to the storage what was drawn last."""
        self.note()
        if self.trial._trial_id == _NEW:
            self._storage.create_new_trial(self._study_id, template_trial=self.trial)
            return
        known, begun = self.trial._trial_id, self._begun
        if begun.state == TrialState.WAITING:
            self._storage.set_trial_state_values(known, TrialState.RUNNING)
        for key, value in self.trial.system_attrs.items():
            if key not in begun.system_attrs or begun.system_attrs[key] != value:
                self._storage.set_trial_system_attr(known, key, value)
        for name, one in self.trial.distributions.items():
            if name not in begun.distributions:
                internal = one.to_internal_repr(self.trial.params[name])
                self._storage.set_trial_param(known, name, internal, one)

    # What follows is the part of Optuna's storage that a sampler and a trial call.

    def get_all_trials(
        self,
        study_id: int,
        deepcopy: bool = True,
        states: Container[TrialState] | None = None,
    ) -> list[FrozenTrial]:
        trials = sorted([*self._shown, self.trial], key=lambda trial: trial.number)
        found = [trial for trial in trials if states is None or trial.state in states]
        return copy.deepcopy(found) if deepcopy else found

    def get_trial(self, trial_id: int) -> FrozenTrial:
        own = trial_id == self.trial._trial_id
        return self.trial if own else self._storage.get_trial(trial_id)

    def get_trial_system_attrs(self, trial_id: int) -> dict[str, Any]:
        return self.get_trial(trial_id).system_attrs

    def set_trial_param(
        self, trial_id: int, name: str, internal: float, distribution: BaseDistribution
    ) -> None:
        """Nothing: Optuna's `Trial` puts the value into `trial` itself."""

    def set_trial_system_attr(self, trial_id: int, key: str, value: Any) -> None:
        self.trial.system_attrs[key] = value

    def get_study_system_attrs(self, study_id: int) -> dict[str, Any]:
        return self._study_attrs

    def set_study_system_attr(self, study_id: int, key: str, value: Any) -> None:
        self._study_attrs[key] = self._changed[key] = value

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)


def _blank(number: int) -> FrozenTrial:
    trial = create_trial(state=TrialState.RUNNING)
    trial.number, trial._trial_id = number, _NEW
    return trial
