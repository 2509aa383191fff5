"""Propose configurations: start points first, then values that the sampler draws."""

import copy
from collections import Counter
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, cast

import optuna
from optuna.distributions import BaseDistribution
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from cse_platform.search.distributions import build_distribution, decode, suggest
from cse_platform.search.failures import FailurePredictor, show_failures
from cse_platform.search.learning import learned_trials
from cse_platform.search.samplers.build import build_sampler
from cse_platform.search.samplers.cmaes import VECTOR
from cse_platform.sweep.samplers import Gp, Sampler, choose_sampler
from cse_platform.sweep.space.allowed_points import AllowedPoints
from cse_platform.sweep.space.dimensions import Dimension, canonical_json, encode
from cse_platform.sweep.space.space import Space
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.events import LearnedTrial

FIXED = "fixed_params"
"""Optuna's system attribute that holds the values with which a trial was queued."""
_NEW = -1
"""Id of a trial that is not in the storage yet."""


class Draft:
    """A layer between a sampler and the study's storage while one trial is drawn.

    Trials are read once, because only the caller writes to the study. What the sampler sets is held
    back until `accept`, which writes a new trial with all its values in one transaction, so that a
    kill never leaves a trial with only some of them.

    Args:
        study: the study of the trial.
        trials: all trials of the study, by number.
        begun: the trial to complete, with its known values; None for a new one.
        learned: trials of other studies, shown to the sampler as older trials of this study.
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
        self._learned = learned
        self._changed: dict[str, Any] = {}
        self.study = copy.copy(study)
        """The study as a sampler sees it."""
        self.study._storage = cast(BaseStorage, self)
        self.number: int = self._begun.number
        self.trial = self._begun

    def restart(self) -> Trial:
        """Reset the trial to its given values, and return it for the sampler.

        Study attributes that the sampler has set are kept.
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
        """Replace the values that were drawn last by these."""
        self.trial.params = {name: encode(value) for name, (_, value) in values.items()}
        self.trial.distributions = {
            name: build_distribution(dim) for name, (dim, _) in values.items()
        }

    def write_study_attrs(self) -> None:
        """Write the study attributes that the sampler has set to the storage."""
        for key, value in self._changed.items():
            self._storage.set_study_system_attr(self._study_id, key, value)

    def accept(self) -> FrozenTrial:
        """Write the values that were drawn last to the storage. Returns the stored trial.

        A new trial is not read back.
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

    # What follows is the part of Optuna's storage interface that samplers and trials call. There is
    # no fallback to the study's own storage, which lacks what is held back.

    def get_all_trials(
        self,
        study_id: int,
        deepcopy: bool = True,
        states: Container[TrialState] | None = None,
    ) -> list[FrozenTrial]:
        trials = sorted([*self._shown_trials, self.trial], key=lambda trial: trial.number)
        shown = [trial for trial in trials if states is None or trial.state in states]
        return copy.deepcopy(shown) if deepcopy else shown

    def get_trial(self, trial_id: int) -> FrozenTrial:
        """Return the trial being drawn; KeyError for any other."""
        if trial_id != self.trial._trial_id:
            raise KeyError(f"trial {trial_id} is not drawn here; {self.trial._trial_id} is")
        return self.trial

    def get_trial_system_attrs(self, trial_id: int) -> dict[str, Any]:
        return self.get_trial(trial_id).system_attrs

    def set_trial_param(
        self, trial_id: int, name: str, internal: float, distribution: BaseDistribution
    ) -> None:
        """Only check the id: Optuna's `Trial` itself adds the value to the trial."""
        self.get_trial(trial_id)

    def set_trial_system_attr(self, trial_id: int, key: str, value: Any) -> None:
        self.get_trial(trial_id).system_attrs[key] = value

    @cached_property
    def _shown_trials(self) -> list[FrozenTrial]:
        """The other trials as a sampler sees them; only samplers that learn read them."""
        return show_failures([*self._learned, *self.others], self.study.directions)

    @cached_property
    def _study_attrs(self) -> dict[str, Any]:
        """The study's attributes, read only if a sampler asks for them."""
        return dict(self._storage.get_study_system_attrs(self._study_id))

    def get_study_system_attrs(self, study_id: int) -> dict[str, Any]:
        return self._study_attrs

    def set_study_system_attr(self, study_id: int, key: str, value: Any) -> None:
        self._study_attrs[key] = self._changed[key] = value


def _make_blank_trial(number: int, point: Mapping[str, Any] | None = None) -> FrozenTrial:
    """Make a trial that is not in the storage yet; `point` holds values that are given."""
    trial = create_trial(
        state=TrialState.RUNNING, system_attrs={} if point is None else {FIXED: dict(point)}
    )
    trial.number, trial._trial_id = number, _NEW
    return trial


ProposedPoints = Sequence[Mapping[str, Any]]
"""Points to try: values of dimensions by name."""


MOST_PROPOSED = 3
"""The most times that a learning sampler may propose a cell: once, and for two more seeds."""


@dataclass(frozen=True)
class Proposal:
    """A configuration that is proposed for a trial."""

    number: int
    """Number of the Optuna trial."""
    assignment: dict[str, Any]
    """Values of the active dimensions, by name."""
    trial: FrozenTrial
    """The Optuna trial as it is stored now."""


def preview(
    spec: SweepSpec,
    *,
    start_points: ProposedPoints,
    count: int,
    learned: Sequence[LearnedTrial] = (),
) -> list[dict[str, Any]]:
    """Draw the first configurations that a search would try if all trials scored the same."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(directions=spec.search.directions)
    points = list_given_points(spec, start_points, ())
    drawn = []
    for number in range(count):
        trials, point = study.get_trials(deepcopy=False), next(points, None)
        drawn.append(propose(study, spec, trials, point=point, learned=learned).assignment)
        study.tell(number, [0.0] * len(spec.search.directions))
    return drawn


def list_given_points(
    spec: SweepSpec, start_points: ProposedPoints, trials: Sequence[FrozenTrial]
) -> Iterator[dict[str, Any]]:
    """Yield the points to try before the sampler draws, encoded, each once and only if new.

    These are the start points, or all points of a grid, those that match a start point first. They
    are made one by one, because a grid can have millions. `trials` are the study's.
    """
    points = iter(start_points)
    known = {canonical_json(trial.system_attrs.get(FIXED, trial.params)) for trial in trials}
    if spec.search.sampler.kind == "grid":
        points = chain(chain.from_iterable(map(spec.grid_points, points)), spec.grid_points())
        known |= {canonical_json(trial.params) for trial in trials}
    for point in points:
        encoded = {name: encode(value) for name, value in point.items()}
        if (text := canonical_json(encoded)) not in known:
            known.add(text)
            yield encoded


def propose(
    study: optuna.Study,
    spec: SweepSpec,
    trials: Sequence[FrozenTrial],
    *,
    point: Mapping[str, Any] | None = None,
    learned: Sequence[LearnedTrial] = (),
) -> Proposal:
    """Begin the next trial, the first waiting one or a new one, with all its values at once.

    `point` holds encoded values for a new trial; the sampler draws those that it lacks.
    """
    begun = next((trial for trial in trials if trial.state == TrialState.WAITING), None)
    if begun is None and point is not None:
        begun = _make_blank_trial(len(trials), point)
    return complete_trial(study, spec, trials, begun, learned=learned)


def complete_trial(
    study: optuna.Study,
    spec: SweepSpec,
    trials: Sequence[FrozenTrial],
    begun: FrozenTrial | None,
    *,
    learned: Sequence[LearnedTrial] = (),
) -> Proposal:
    """Draw the values that a trial lacks, and store them; `begun` is None for a new trial.

    `learned` holds trials of other sweeps from which the sampler learns.
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
    """Reconstruct the attributes that the sampler set on a trial by drawing it again.

    Attributes of the study are written to it. `trials` are the trials before this one.
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

    A suitable point satisfies `require`, and its cell has been proposed fewer than `MOST_PROPOSED`
    times, because a Gaussian process whose best point is in a corner proposes that corner for ever.
    All draws but the last must also not be predicted to fail. If no draw is suitable, use an
    allowed point near the last draw, or around it if only its cell is worn out; for a sampler that
    learns nothing, use a random allowed point.
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
            break  # it would propose the same point again
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
    """Whether the sampler may propose the same cell again and again.

    A Gaussian process does so at its best point. Other learning samplers do only without an
    unconditional real dimension, whose values practically never repeat.
    """
    real = any(dimension.is_real and not dimension.when for _, dimension in space.items())
    return isinstance(suited, Gp) or (suited.learns and not real)


def _needs_predictor(suited: Sampler) -> bool:
    """Whether the sampler learns, and does not itself model where trials fail.

    A Gaussian process does, because failures are shown to it as very low scores.
    """
    return suited.learns and not isinstance(suited, Gp)


def _find_worn_cells(trials: Sequence[FrozenTrial], space: Space) -> set[str]:
    """Find the cells that have been proposed `MOST_PROPOSED` times or more."""
    assignments = (
        {name: decode(space[name], value) for name, value in trial.params.items() if name in space}
        for trial in trials
    )
    proposed = Counter(map(space.cell, assignments))
    return {cell for cell, times in proposed.items() if times >= MOST_PROPOSED}


def _draw_point(draft: Draft, spec: SweepSpec, *, attempt: int) -> dict[str, Any]:
    """Draw a value for each active dimension, parents first.

    The seed of a dimension depends on the sorted names only, so the file's order has no effect.
    Samplers of whole vectors draw all dimensions when the first one is asked for.
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
