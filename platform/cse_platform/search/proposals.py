"""Proposes configurations: start points first, then values that the sampler draws."""

import copy
from collections import Counter
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import optuna
from optuna.distributions import BaseDistribution
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from cse_platform.search.distributions import build_distribution, decode, encode, suggest
from cse_platform.search.failures import FailurePredictor, show_failures
from cse_platform.search.learning import learned_trials
from cse_platform.search.samplers.build import build_sampler
from cse_platform.search.samplers.cmaes import VECTOR
from cse_platform.sweep.samplers import Gp, Sampler, choose_sampler
from cse_platform.sweep.space.allowed_points import AllowedPoints
from cse_platform.sweep.space.dimensions import Dimension
from cse_platform.sweep.space.space import Space
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.events import LearnedTrial

FIXED = "fixed_params"
"""Optuna's system attribute of a trial with the values that it was queued with."""
_NEW = -1
"""Id of a trial that the storage does not have yet."""


class Draft:
    """Stands between a sampler and the study's storage while one trial is drawn.

    The trials are read once, because only the caller writes to the study. What the sampler sets is
    held back: `accept` writes a new trial with all its values in one transaction,
    so that a kill leaves none with some of them.

    Args:
        study: the study of the trial.
        trials: all trials of the study, by number.
        begun: the trial that is drawn, with its known values; None for a new one.
        learned: trials of other studies, which the sampler sees as older ones of this study.
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
        self.get_study_id_from_name = study._storage.get_study_id_from_name
        self.get_study_directions = study._storage.get_study_directions
        self._begun = begun or _make_blank_trial(len(trials))
        self.others = [trial for trial in trials if trial.number != self._begun.number]
        self._shown = show_failures([*learned, *self.others], study.directions)
        self._changed: dict[str, Any] = {}
        self.study = copy.copy(study)
        """The study as a sampler sees it."""
        self.study._storage = cast(BaseStorage, self)
        self.number: int = self._begun.number
        self.trial = self._begun

    def restart(self) -> Trial:
        """Reset the trial to what was given. The study's own counts go on.

        Returns the trial for the sampler.
        """
        self.trial = copy.copy(self._begun)
        self.trial.state = TrialState.RUNNING
        self.trial.params = dict(self._begun.params)
        self.trial.distributions = dict(self._begun.distributions)
        self.trial.system_attrs = dict(self._begun.system_attrs)
        return Trial(self.study, self.trial._trial_id)

    @property
    def given_names(self) -> Collection[str]:
        """The dimensions whose values are given, not drawn."""
        return {*self._begun.params, *self._begun.system_attrs.get(FIXED, {})}

    def set_values(self, values: Mapping[str, tuple[Dimension, Any]]) -> None:
        """Give the trial these values of dimensions instead of those that were drawn last."""
        self.trial.params = {name: encode(value) for name, (_, value) in values.items()}
        self.trial.distributions = {
            name: build_distribution(dim) for name, (dim, _) in values.items()
        }

    def write_study_attrs(self) -> None:
        """Write the study attributes that the sampler has set to the storage."""
        for key, value in self._changed.items():
            self._storage.set_study_system_attr(self._study_id, key, value)

    def accept(self) -> FrozenTrial:
        """Write the values that were drawn last to the storage. Returns the trial as it is there.

        A new trial is not read again.
        """
        self.write_study_attrs()
        if self.trial._trial_id == _NEW:
            created = self._storage.create_new_trial(self._study_id, template_trial=self.trial)
            self.trial._trial_id = created
            return self.trial
        known, begun = self.trial._trial_id, self._begun
        if begun.state == TrialState.WAITING:
            self._storage.set_trial_state_values(known, TrialState.RUNNING)
        for key, value in self.trial.system_attrs.items():
            if key not in begun.system_attrs or begun.system_attrs[key] != value:
                self._storage.set_trial_system_attr(known, key, value)
        for name, drawn in self.trial.distributions.items():
            if name not in begun.distributions:
                internal = drawn.to_internal_repr(self.trial.params[name])
                self._storage.set_trial_param(known, name, internal, drawn)
        return self._storage.get_trial(known)

    # What follows is the part of Optuna's storage that a sampler and a trial call. It has no other,
    # so that nothing else is answered from the study's own storage, without what is held back.

    def get_all_trials(
        self,
        study_id: int,
        deepcopy: bool = True,
        states: Container[TrialState] | None = None,
    ) -> list[FrozenTrial]:
        trials = sorted([*self._shown, self.trial], key=lambda trial: trial.number)
        shown = [trial for trial in trials if states is None or trial.state in states]
        return copy.deepcopy(shown) if deepcopy else shown

    def get_trial(self, trial_id: int) -> FrozenTrial:
        """Return the trial that is drawn; KeyError for any other."""
        if trial_id != self.trial._trial_id:
            raise KeyError(f"trial {trial_id} is not drawn here; {self.trial._trial_id} is")
        return self.trial

    def get_trial_system_attrs(self, trial_id: int) -> dict[str, Any]:
        return self.get_trial(trial_id).system_attrs

    def set_trial_param(
        self, trial_id: int, name: str, internal: float, distribution: BaseDistribution
    ) -> None:
        """Check the trial: Optuna's `Trial` puts the value into it itself."""
        self.get_trial(trial_id)

    def set_trial_system_attr(self, trial_id: int, key: str, value: Any) -> None:
        self.get_trial(trial_id).system_attrs[key] = value

    @cached_property
    def _study_attrs(self) -> dict[str, Any]:
        """The study's attributes, which few samplers look at."""
        return dict(self._storage.get_study_system_attrs(self._study_id))

    def get_study_system_attrs(self, study_id: int) -> dict[str, Any]:
        return self._study_attrs

    def set_study_system_attr(self, study_id: int, key: str, value: Any) -> None:
        self._study_attrs[key] = self._changed[key] = value


def _make_blank_trial(number: int) -> FrozenTrial:
    trial = create_trial(state=TrialState.RUNNING)
    trial.number, trial._trial_id = number, _NEW
    return trial


ProposedPoints = Sequence[Mapping[str, Any]]
"""Values of dimensions, by name."""


MOST_PROPOSED = 3
"""The most times that a learning sampler proposes a cell: once, and for two more seeds."""


@dataclass(frozen=True)
class Proposal:
    """A configuration that the sampler wants tried."""

    number: int
    """Number of the Optuna trial."""
    assignment: dict[str, Any]
    """Values of the active dimensions, by name."""
    trial: FrozenTrial
    """The Optuna trial, as it is in the study now."""


def preview(
    spec: SweepSpec,
    *,
    start_points: ProposedPoints,
    count: int,
    learned: Sequence[LearnedTrial] = (),
) -> list[dict[str, Any]]:
    """Draw the first configurations that a search would try if every trial scored the same."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(directions=spec.search.directions)
    enqueue_points(study, spec, start_points)
    drawn = []
    for number in range(count):
        trials = study.get_trials(deepcopy=False)
        drawn.append(propose(study, spec, trials, learned=learned).assignment)
        study.tell(number, [0.0] * len(spec.search.directions))
    return drawn


def enqueue_points(study: optuna.Study, spec: SweepSpec, start_points: ProposedPoints) -> None:
    """Queue the start points, each once. A grid queues its points, those that agree first."""
    points = start_points
    if spec.search.sampler.kind == "grid":
        grid = list(spec.grid_points())
        points = [p for start in points for p in grid if start.items() <= p.items()] + grid
    # Optuna's own skip_if_exists takes numbers as equal if they differ by less than 1e-5 of them.
    known = [t.system_attrs.get(FIXED, t.params) for t in study.get_trials(deepcopy=False)]
    for point in points:
        encoded = {name: encode(value) for name, value in point.items()}
        if encoded not in known:
            study.enqueue_trial(encoded)
            known.append(encoded)


def propose(
    study: optuna.Study,
    spec: SweepSpec,
    trials: Sequence[FrozenTrial],
    *,
    learned: Sequence[LearnedTrial] = (),
) -> Proposal:
    """Begin the next trial, a waiting or a new one, with all its values at once."""
    waiting = (trial for trial in trials if trial.state == TrialState.WAITING)
    return complete_trial(study, spec, trials, next(waiting, None), learned=learned)


def complete_trial(
    study: optuna.Study,
    spec: SweepSpec,
    trials: Sequence[FrozenTrial],
    begun: FrozenTrial | None,
    *,
    learned: Sequence[LearnedTrial] = (),
) -> Proposal:
    """Draw the values that a trial lacks, and write them; `begun` is None for a new trial.

    `learned` has the trials of other sweeps that the sampler learns from.
    """
    draft = Draft(study, trials, begun, learned=learned_trials(learned, spec.space, trials))
    assignment = _draw_until_suitable(draft, spec)
    return Proposal(draft.number, assignment, draft.accept())


def reconstruct_sampler_attrs(
    study: optuna.Study,
    spec: SweepSpec,
    trials: Sequence[FrozenTrial],
    restored: FrozenTrial,
    *,
    learned: Sequence[LearnedTrial] = (),
) -> dict[str, Any]:
    """Reconstruct the attributes that the sampler sets on a trial, by drawing it again.

    Those that it sets on the study are written. `trials` are those before this one.
    """
    number = len(trials)
    if not choose_sampler(
        spec.search.sampler, spec.space, trial=number, objectives=len(study.directions)
    ).stores_attributes:
        return {}
    begun = create_trial(state=TrialState.WAITING, system_attrs=dict(restored.system_attrs))
    begun.number = begun._trial_id = number
    queued = begun if FIXED in restored.system_attrs else None
    draft = Draft(study, trials, queued, learned=learned_trials(learned, spec.space, trials))
    _draw_until_suitable(draft, spec)
    draft.write_study_attrs()
    drawn_alike = draft.trial.params == restored.params
    return {
        name: value
        for name, value in draft.trial.system_attrs.items()
        if name not in restored.system_attrs and (drawn_alike or name != VECTOR)
    }


def _draw_until_suitable(draft: Draft, spec: SweepSpec) -> dict[str, Any]:
    """Draw until a point is suitable.

    A suitable point satisfies `require`, and its cell has not been proposed `MOST_PROPOSED` times:
    a Gaussian process whose best point lies in a corner proposes that corner for ever. All draws
    but the last must also not be predicted to fail. Where no draw is suitable, the result is a
    point near the last one, or around it if only its cell is worn. A sampler that learns nothing
    draws evenly at random, so it gets a point anywhere.
    """
    requirements, objectives = spec.requirements, len(draft.study.directions)
    suited = choose_sampler(
        spec.search.sampler, spec.space, trial=draft.number, objectives=objectives
    )
    worn = _find_worn_cells(draft.others, spec.space) if _may_repeat(suited, spec.space) else set()
    predictor = FailurePredictor(draft.others if _needs_predictor(suited) else (), spec.space)
    for attempt in range(suited.redraws):
        point = _draw_point(draft, spec, attempt=attempt)
        given = {name: value for name, value in point.items() if name in draft.given_names}
        is_worn = given != point and spec.space.cell(point) in worn
        is_risky = given != point and predictor.predicts_failure(point)
        if is_risky and attempt < suited.redraws - 1:
            continue
        if not is_worn and requirements.broken_by(point) is None:
            return point
        if is_worn and isinstance(suited, Gp):
            break  # it would draw it again
    points = AllowedPoints(
        requirements, given, seed=f"{spec.search.seed} {draft.number}", worn=worn
    )
    if not suited.learns:
        settled = points.draw_anywhere()
    else:
        settled = points.draw_around(point) if is_worn else points.draw_near(point)
    draft.set_values({name: (spec.space[name], value) for name, value in settled.items()})
    return settled


def _may_repeat(suited: Sampler, space: Space) -> bool:
    """Return True if the sampler may propose a cell again and again.

    One that draws real numbers by chance does not; a Gaussian process goes to its best point.
    """
    real = any(dimension.is_real and not dimension.when for _, dimension in space.items())
    return isinstance(suited, Gp) or (suited.learns and not real)


def _needs_predictor(suited: Sampler) -> bool:
    """Return True if the sampler learns, and does not model where trials fail by itself.

    A Gaussian process does: its scores fall steeply there.
    """
    return suited.learns and not isinstance(suited, Gp)


def _find_worn_cells(trials: Sequence[FrozenTrial], space: Space) -> set[str]:
    """Find the cells that were proposed so often that others should be tried."""
    assignments = (
        {name: decode(space[name], value) for name, value in trial.params.items() if name in space}
        for trial in trials
    )
    proposed = Counter(map(space.cell, assignments))
    return {cell for cell, times in proposed.items() if times >= MOST_PROPOSED}


def _draw_point(draft: Draft, spec: SweepSpec, *, attempt: int) -> dict[str, Any]:
    """Draw a value for each active dimension, parents first.

    A dimension's seed depends on its name only, so the order in the file has no effect. Samplers of
    whole vectors draw all dimensions with the first one's, as soon as that is asked for.
    """
    trial = draft.restart()
    assignment: dict[str, Any] = {}
    places = {name: place for place, name in enumerate(sorted(spec.space), start=1)}
    for name in spec.space.ordered():
        if spec.space.is_active(name, assignment):
            draft.study.sampler = build_sampler(
                spec.search,
                spec.space,
                trial=draft.number,
                dimension=places[name],
                attempt=attempt,
                objectives=len(draft.study.directions),
            )
            assignment[name] = suggest(trial, name, spec.space[name])
    return assignment
