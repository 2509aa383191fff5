"""A search in simulated time: samplers, pruners and races of the package, on a surface.

Time is told as work, in whole trials: while one of eight trials at once runs, the work of eight is
done. A trial that is stopped at a dev point, or diverges there, has been that share of the work.
"""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np
import optuna
from optuna.samplers import GPSampler
from optuna.trial import Trial, TrialState
from surfaces import Array, Surface

from cse_platform.search.failures import FAILURE_CAUSE
from cse_platform.search.proposals import propose
from cse_platform.search.pruners.curve import PastCurves, Rule, judge
from cse_platform.search.samplers import gp
from cse_platform.search.samplers.gp import NoisyGp
from cse_platform.sweep.spec import SweepSpec


@dataclass(frozen=True)
class Ended:
    """A trial of the search that has ended."""

    time: float
    """When."""
    assignment: Mapping[str, Any]
    curve: Array
    """As far as it came."""
    complete: bool

    @property
    def score(self) -> float:
        return float(self.curve.max())


@dataclass(order=True)
class _Running:
    time: float
    number: int
    trial: Any = field(compare=False)
    assignment: Mapping[str, Any] = field(compare=False)
    curve: Array = field(compare=False)
    reported: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Strategy:
    """A row of the benchmark: how a search proposes, stops and chooses."""

    sampler: str
    pruner: optuna.pruners.BasePruner | None = None
    curve: Rule | None = None
    """Of the package's own pruner, in the place of Optuna's."""
    start_points: bool = False
    race: int = 0
    """So many of the best race over further seeds; 0 takes the best as it is."""
    gp: type[GPSampler] = NoisyGp
    """The Gaussian process: the package's own, or Optuna's."""


def spec_of(surface: Surface, strategy: Strategy, *, seed: int) -> SweepSpec:
    """A sweep over the surface's space; its method is not asked."""
    return SweepSpec.model_validate(
        {
            "sweep": surface.name,
            "method": "simcse",
            "backbone": "mini",
            "corpus": "builtin",
            "space": surface.space.model_dump(mode="json"),
            "search": {"sampler": strategy.sampler, "trials": 1_000_000, "seed": seed},
        }
    )


def search(
    surface: Surface, strategy: Strategy, *, seed: int, slots: int, until: float
) -> list[Ended]:
    """Search for so long with so many trials at once; the trials that ended, in that order."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    spec = spec_of(surface, strategy, seed=seed)
    pruner = strategy.pruner or optuna.pruners.NopPruner()
    study = optuna.create_study(direction="maximize", pruner=pruner)
    running: list[_Running] = []
    ended: list[Ended] = []
    past = PastCurves()
    step = slots / surface.points
    if strategy.start_points:
        study.enqueue_trial(dict(surface.start))

    def begin(now: float) -> None:
        with patch.object(gp, "NoisyGp", strategy.gp):
            proposal = propose(study, spec, study.get_trials(deepcopy=False))
        known = study.get_trials(deepcopy=False)[proposal.number]
        trial, assignment = Trial(study, known._trial_id), proposal.assignment
        curve = surface.curve(assignment, seed=seed)
        heapq.heappush(running, _Running(now + step, proposal.number, trial, assignment, curve))

    def stopped(curve: Array) -> bool:
        scores = [one.score for one in ended]
        rule = strategy.curve or Rule()
        return judge(_steps(curve), steps=surface.points, past=past, best=scores, rule=rule).stop

    for _ in range(slots):
        begin(0.0)
    while running:
        one = heapq.heappop(running)
        if one.time > until:
            break
        one.reported += 1
        so_far = one.curve[: one.reported]
        if np.isnan(so_far[-1]):
            one.trial.set_user_attr(FAILURE_CAUSE, "trial")
            study.tell(one.trial, state=TrialState.FAIL)
            begin(one.time)
            continue
        one.trial.report(float(so_far.max()), one.reported)
        last = one.reported == surface.points
        stop = not last and (stopped(so_far) if strategy.curve else one.trial.should_prune())
        if not (stop or last):
            one.time += step
            heapq.heappush(running, one)
            continue
        ended.append(Ended(one.time, one.assignment, so_far, complete=last))
        if last:
            past.add(_steps(so_far), configuration=str(len(ended)))
            study.tell(one.trial, float(so_far.max()))
        else:
            study.tell(one.trial, state=TrialState.PRUNED)
        begin(one.time)
    return ended


def _steps(curve: Array) -> dict[int, float]:
    return dict(enumerate(map(float, curve), start=1))
