"""Propose configurations: start points first, then values that the sampler draws."""

import copy
import random
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, cast

import optuna
from optuna.distributions import BaseDistribution
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from cse_platform.search.failures import FailurePredictor, show_failures
from cse_platform.search.learning import learned_trials
from cse_platform.search.samplers.build import build_sampler, choose_sampler
from cse_platform.search.samplers.fitting import show_to_gp
from cse_platform.stores.optuna.trials import (
    FIXED,
    build_distribution,
    decode,
    encode_point,
    suggest,
)
from cse_platform.sweep.samplers import Gp, Sampler
from cse_platform.sweep.space.space import Space
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.events import LearnedTrial, SearchNotes
from cse_platform.values import canonical_json


class Draft:
    """Stands in for a study's storage while a sampler draws a trial that is not in the study yet.

    The sampler sees the study's trials, with failures as the worst, and those of other studies.
    What it sets is kept here; nothing is written to the study.

    Args:
        study: the study for which the next trial is drawn.
        point: encoded values that are given, not drawn.
        learned: trials of other studies, shown to the sampler as older trials of this study.
        fits_gp: whether a Gaussian process is fitted to the trials.
    """

    def __init__(
        self,
        study: optuna.Study,
        point: Mapping[str, Any] | None = None,
        *,
        learned: Sequence[FrozenTrial] = (),
        fits_gp: bool = False,
    ) -> None:
        self._directions = study.directions
        self.others = study.get_trials(deepcopy=False)
        self.number = len(self.others)
        self.given = {} if point is None else dict(point)
        self._learned, self._fits_gp = learned, fits_gp
        self._study_attrs = study.user_attrs
        self.study_notes: dict[str, Any] = {}
        """The attributes of the study that the sampler has set."""
        storage = cast(BaseStorage, self)
        self.study = optuna.load_study(
            study_name=study.study_name, storage=storage, pruner=study.pruner
        )
        """The study as a sampler sees it."""
        self.trial: FrozenTrial

    def restart(self) -> Trial:
        """Reset the trial to its given values, and return it for the sampler.

        Study attributes that the sampler has set are kept.
        """
        given = {FIXED: dict(self.given)} if self.given else {}
        self.trial = create_trial(state=TrialState.RUNNING, system_attrs=given)
        self.trial.number = self.trial._trial_id = self.number
        return Trial(self.study, self.number)

    # What follows is the part of Optuna's storage interface that samplers and trials call. There is
    # no fallback to the study's own storage, which lacks the trial.

    def get_study_id_from_name(self, study_name: str) -> int:
        return 0

    def get_study_directions(self, study_id: int) -> list[StudyDirection]:
        return self._directions

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[TrialState] | None = None
    ) -> list[FrozenTrial]:
        trials = [*self._shown_trials, self.trial]
        shown = [trial for trial in trials if states is None or trial.state in states]
        return copy.deepcopy(shown) if deepcopy else shown

    def get_trial(self, trial_id: int) -> FrozenTrial:
        """Return the trial being drawn; KeyError for any other."""
        if trial_id != self.number:
            raise KeyError(f"trial {trial_id} is not drawn here; {self.number} is")
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
        shown = show_failures([*self._learned, *self.others])
        shown.sort(key=lambda trial: trial.number)
        return show_to_gp(shown) if self._fits_gp else shown

    def get_study_system_attrs(self, study_id: int) -> dict[str, Any]:
        return self._study_attrs

    def set_study_system_attr(self, study_id: int, key: str, value: Any) -> None:
        self._study_attrs[key] = self.study_notes[key] = value


ProposedPoints = Sequence[Mapping[str, Any]]
"""Points to try: values of dimensions by name."""

MOST_PROPOSED = 3
"""The most times that a learning sampler may propose a cell: once, and for two more seeds."""


@dataclass(frozen=True)
class Proposal:
    """A configuration that is proposed for a trial."""

    number: int
    """The number that its Optuna trial gets."""
    assignment: dict[str, Any]
    """Values of the active dimensions, by name."""
    notes: SearchNotes
    """What the trial's start records of the proposal."""


def list_given_points(spec: SweepSpec, start_points: ProposedPoints) -> Iterator[dict[str, Any]]:
    """Yield the points to try before the sampler draws, each once.

    These are the start points, or all points of a grid, those that match a start point first. They
    are made one by one, because a grid can have millions.
    """
    points, given = iter(start_points), set[str]()
    if spec.search.sampler.kind == "grid":
        points = chain(chain.from_iterable(map(spec.grid_points, points)), spec.grid_points())
    for point in points:
        if (text := canonical_json(encode_point(point))) not in given:
            given.add(text)
            yield dict(point)


def propose(
    study: optuna.Study,
    spec: SweepSpec,
    *,
    start_point: Mapping[str, Any] | None = None,
    values: Mapping[str, Any] | None = None,
    request: str | None = None,
    learned: Sequence[LearnedTrial] = (),
) -> Proposal:
    """Propose the next configuration of a study, which stays as it is.

    The sampler draws what a start point, or other given values, lack; `learned` holds trials of
    other sweeps from which it learns.
    """
    point = encode_point(start_point or values or {})
    older = learned_trials(learned, spec.space, study.get_trials(deepcopy=False))
    number = len(study.get_trials(deepcopy=False))
    sampler = choose_sampler(spec.search.sampler, spec.space, trial=number)
    draft = Draft(study, point, learned=older, fits_gp=isinstance(sampler, Gp))
    assignment = _draw_until_suitable(draft, spec, sampler)
    set_by_sampler = {n: value for n, value in draft.trial.system_attrs.items() if n != FIXED}
    return Proposal(
        draft.number,
        assignment,
        SearchNotes(
            start_point=None if start_point is None else dict(start_point),
            request=request,
            trial=set_by_sampler,
            study=draft.study_notes,
        ),
    )


def add_proposal(study: optuna.Study, spec: SweepSpec, proposal: Proposal) -> None:
    """Add a proposed trial to a study, as running."""
    params = encode_point(proposal.assignment)
    study.add_trial(
        create_trial(
            state=TrialState.RUNNING,
            params=params,
            distributions={name: build_distribution(spec.space[name]) for name in params},
            system_attrs=proposal.notes.trial,
        )
    )
    for name, value in proposal.notes.study.items():
        study.set_user_attr(name, value)


MOST_NEAR = 200
"""The most points near the sampler's last draw that are tried."""


def _draw_until_suitable(draft: Draft, spec: SweepSpec, sampler: Sampler) -> dict[str, Any]:
    """Draw until a point is suitable.

    The method accepts a suitable point, and its cell has been proposed fewer than `MOST_PROPOSED`
    times, because a Gaussian process whose best point is in a corner proposes that corner for ever.
    All draws but the last must also not be predicted to fail. If no draw is suitable, a point near
    the last one is tried: each further try keeps fewer of its values, and draws the others at
    random. If the method accepts nothing, returns the last draw.
    """
    worn = _find_worn_cells(sampler, draft.others, spec.space)
    # A Gaussian process itself models where trials fail, which are shown to it as very low scores.
    predicts = sampler.learns and not isinstance(sampler, Gp)
    predictor = FailurePredictor(draft.others if predicts else (), spec.space)
    for attempt in range(sampler.redraws):
        point = _draw_point(draft, spec, attempt=attempt)
        given = {name: value for name, value in point.items() if name in draft.given}
        is_worn = given != point and spec.space.cell(point) in worn
        is_risky = given != point and predictor.predicts_failure(point)
        if is_risky and attempt < sampler.redraws - 1:
            continue
        if given == point or (not is_worn and spec.accepts(point)):
            return point
    rng = random.Random(f"{spec.search.seed} {draft.number}")
    accepted = None
    for attempt in range(MOST_NEAR):
        share = 0.9 * (1 - attempt / MOST_NEAR)
        kept = {n: v for n, v in point.items() if n in given or rng.random() < share}
        near = spec.space.random_point(kept, rng)
        if spec.accepts(near):
            accepted = accepted or near
            if spec.space.cell(near) not in worn:
                return near
    return accepted or spec.complete_point(given, seed=rng.random()) or point


def _find_worn_cells(sampler: Sampler, trials: Sequence[FrozenTrial], space: Space) -> set[str]:
    """Find the cells that a sampler may not propose again, after `MOST_PROPOSED` times.

    A Gaussian process proposes its best point again and again. Other learning samplers do only
    without an unconditional real dimension, whose values practically never repeat.
    """
    real = any(dimension.is_real and not dimension.when for _, dimension in space.items())
    if not isinstance(sampler, Gp) and (real or not sampler.learns):
        return set()
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
    indices = {name: index for index, name in enumerate(sorted(spec.space), start=1)}
    for name in spec.space.order:
        if spec.space.is_active(name, assignment):
            draft.study.sampler = build_sampler(
                spec.search,
                spec.space,
                trial=draft.number,
                dimension=indices[name],
                attempt=attempt,
            )
            assignment[name] = suggest(trial, name, spec.space[name])
    return assignment
