"""The Optuna study of a running sweep: one Optuna trial is one configuration on its first seed."""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, cast

import optuna
from optuna.samplers import RandomSampler
from optuna.storages import BaseStorage, InMemoryStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

from cse_platform.search.proposals import (
    Proposal,
    ProposedPoints,
    add_proposal,
    list_given_points,
    propose,
)
from cse_platform.search.pruners.build import build_pruner
from cse_platform.stores.optuna.trials import (
    FAILURE_CAUSE,
    FIXED,
    build_trial,
    encode_point,
    explain_closing,
    read_final_value,
)
from cse_platform.sweep.space.space import find_value
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.events import LearnedTrial
from cse_platform.tracking.history import History, TrialHistory
from cse_platform.values import canonical_json


class SearchStudy:
    """Proposes configurations by an Optuna study in memory, and tells it how each trial went.

    The study is replayed from the journal. A proposal gets into it by `begin`, once its start is
    recorded: from the same events as a replay, so a search that was cut off goes on as if it had
    not been. Start points are tried first, each once and only if no trial has tried it before.

    `learned` holds trials of other sweeps from which the sampler learns; they are not in the study.
    """

    def __init__(
        self,
        spec: SweepSpec,
        *,
        start_points: ProposedPoints,
        history: History,
        learned: Sequence[LearnedTrial] = (),
    ) -> None:
        self.spec, self.learned = spec, learned
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._storage = InMemoryStorage()
        self.study = optuna.create_study(
            study_name=spec.sweep,
            storage=self._storage,
            direction="maximize",
            sampler=RandomSampler(),  # each draw builds its own
            pruner=build_pruner(spec.pruner),
        )
        self._tried: set[str] = set()
        """The start points that trials have tried, and the whole values of all other trials."""
        self._points = list_given_points(spec, start_points)
        self._upcoming = next(self._points, None)
        self._add_trials([history.attempts[number] for number in sorted(history.attempts)])

    def _add_trials(self, trials: Sequence[TrialHistory]) -> None:
        """Add trials as far as the journal tells of them."""
        built = [build_trial(trial, self.spec) for trial in trials]
        self.study.add_trials(built)
        points = (trial.system_attrs.get(FIXED, trial.params) for trial in built)
        self._tried.update(map(canonical_json, points))
        for trial in trials:
            for name, value in trial.search_notes.study.items():
                self.study.set_user_attr(name, value)

    @property
    def _next_point(self) -> Mapping[str, Any] | None:
        """The next start point, or point of a grid, that no trial has tried; None if all were."""
        while (point := self._upcoming) is not None:
            if canonical_json(encode_point(point)) not in self._tried:
                break
            self._upcoming = next(self._points, None)
        return point

    @property
    def next_number(self) -> int:
        """The number of the next trial in the study."""
        return len(self.study.get_trials(deepcopy=False))

    @property
    def has_tried_grid(self) -> bool:
        """Whether the search is a grid, and each of its points was proposed."""
        return self.spec.search.sampler.kind == "grid" and self._next_point is None

    def ask(
        self, values: Mapping[str, Any] | None = None, *, request: str | None = None
    ) -> Proposal:
        """Propose the next configuration: these values, the next start point, or a sample.

        The sampler draws values that are missing. `request` is the one by which a person enqueued
        the values.
        """
        # Hyperband sets up its brackets when it is asked; the sampler learns from those of one.
        self.study.pruner.prune(self.study, create_trial(state=TrialState.RUNNING))
        start_point = None
        if values is not None:
            space, method = self.spec.space, self.spec.method
            values = {name: find_value(space, method, name, v) for name, v in values.items()}
        else:
            start_point = self._next_point
        return propose(
            self.study,
            self.spec,
            start_point=start_point,
            values=values,
            request=request,
            learned=self.learned,
        )

    def preview(
        self, count: int, *, enqueued: Sequence[Mapping[str, Any]] = ()
    ) -> list[dict[str, Any]]:
        """Draw what the search would try next if every trial scored 0; the study takes it in.

        At most `count` configurations, the enqueued ones first; fewer where a grid ends.
        """
        drawn: list[dict[str, Any]] = []
        waiting = list(enqueued)
        while len(drawn) < count and (waiting or not self.has_tried_grid):
            if waiting:
                proposal = self.ask(waiting.pop(0))
            else:
                proposal = self.ask()
                self._upcoming = next(self._points, None)
            add_proposal(self.study, self.spec, proposal)
            self.study.tell(proposal.number, 0.0)
            drawn.append(proposal.assignment)
        return drawn

    def begin(self, trial: TrialHistory) -> None:
        """Add a trial that has been started or reused; one that is in the study stays as it is."""
        if trial.search_number == self.next_number:
            self._add_trials([trial])

    def judge(self, trial: TrialHistory, *, step: int) -> tuple[bool, dict[str, Any]]:
        """Let the pruner judge a trial by its points up to a step that is not in the study yet.

        Optuna's pruners judge a trial by its highest value so far, so step 0, before training, is
        not judged, and a fall after the peak does not count. Trials of further seeds are never
        stopped.

        Returns whether the pruner stops the trial, and the attributes that it sets on it. The study
        is not changed; `report` does that.
        """
        frozen = self._find_running(trial)
        if frozen is None or step not in trial.kept:
            return False, {}
        judged, notes = copy(frozen), _PrunerNotes(self._storage)
        judged.intermediate_values = {**frozen.intermediate_values, step: trial.kept[step]}
        study = optuna.load_study(
            study_name=self.spec.sweep, storage=cast(BaseStorage, notes), pruner=self.study.pruner
        )
        return study.pruner.prune(study, judged) and trial.role == "search", notes.attributes

    def report(self, trial: TrialHistory, *, step: int, notes: Mapping[str, Any]) -> None:
        """Report a step that is recorded, with the attributes that the pruner has set there."""
        frozen = self._find_running(trial)
        if frozen is not None and step in trial.kept:
            self._storage.set_trial_intermediate_value(frozen._trial_id, step, trial.kept[step])
            for name, value in notes.items():
                self._storage.set_trial_system_attr(frozen._trial_id, name, value)

    def tell(self, trial: TrialHistory) -> None:
        """Report how a trial ended.

        Trials that are not in the study are skipped: those of further seeds, except with
        `seeds.repeats`.
        """
        if (frozen := self._find_running(trial)) is None:
            return
        if trial.state == "FAIL" and trial.cause is not None:
            self._storage.set_trial_user_attr(frozen._trial_id, FAILURE_CAUSE, trial.cause)
        value = read_final_value(trial) if trial.state == "COMPLETE" else None
        self.study.tell(frozen.number, value, state=TrialState[trial.state])

    def _find_running(self, trial: TrialHistory) -> FrozenTrial | None:
        """Find a trial that has not ended in the study; None if the study does not run it."""
        if trial.search_number is None or explain_closing(trial, self.spec):
            return None
        frozen = self.study.get_trials(deepcopy=False)[trial.search_number]
        return None if frozen.state.is_finished() else frozen


class _PrunerNotes:
    """Stands in for a study's storage while a pruner judges: what it sets is only kept here."""

    def __init__(self, storage: BaseStorage) -> None:
        self._storage = storage
        self.attributes: dict[str, Any] = {}

    def set_trial_system_attr(self, trial_id: int, key: str, value: Any) -> None:
        self.attributes[key] = value

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)
