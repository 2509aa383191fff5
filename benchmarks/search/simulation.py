"""Simulate a search on a surface with the package's samplers, pruners and races.

Time is measured as work, in whole trials: while one of eight simultaneous trials runs, the work of
eight is done. A trial that is stopped or diverges at a dev point counts with its share of the work.
"""

import heapq
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np
import optuna
from optuna.samplers import GPSampler
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial
from surfaces import Array, Surface

from cse_platform.search import proposals
from cse_platform.search.proposals import add_proposal, propose
from cse_platform.search.pruners.curve import PastCurves, judge
from cse_platform.search.repeats import choose_repeat
from cse_platform.search.samplers import build
from cse_platform.stores.optuna.trials import FAILURE_CAUSE
from cse_platform.sweep.pruners import CurvePruner
from cse_platform.sweep.samplers import Gp
from cse_platform.sweep.spec import SweepSpec


@dataclass(frozen=True)
class Ended:
    """A trial of the search that has ended."""

    time: float
    """The time when it ended."""
    assignment: Mapping[str, Any]
    curve: Array
    """The dev curve up to its end."""
    complete: bool

    @property
    def score(self) -> float:
        return float(self.curve.max())

    @property
    def name(self) -> str:
        """The name of its configuration."""
        return name_of(self.assignment)


@dataclass(order=True)
class _Running:
    time: float
    number: int
    trial: Any = field(compare=False)
    assignment: Mapping[str, Any] = field(compare=False)
    curve: Array = field(compare=False)
    repeats: bool = field(compare=False)
    reported: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Strategy:
    """A row of the benchmark: how a search proposes, stops and chooses configurations."""

    sampler: str
    pruner: optuna.pruners.BasePruner | None = None
    curve: bool = False
    """Whether the package's own pruner replaces Optuna's."""
    start_points: bool = False
    repeats: bool = False
    """Whether configurations get further seeds during the search."""
    race: int = 0
    """How many of the best race over further seeds; 0 takes the best without a race."""
    optunas_gp: bool = False
    """Whether `gp` is Optuna's own Gaussian process, with the trials that it sees."""


NEXT_SEED = 1_000_003
"""The difference between the seeds of consecutive repeats."""


def name_of(assignment: Mapping[str, Any]) -> str:
    """Make the name of a configuration."""
    return json.dumps(sorted(assignment.items()))


def seeds_of(ended: Iterable[Ended]) -> dict[str, list[Ended]]:
    """Group the complete trials by configuration, in order."""
    found: dict[str, list[Ended]] = {}
    for one in ended:
        if one.complete:
            found.setdefault(one.name, []).append(one)
    return found


def spec_of(surface: Surface, strategy: Strategy, *, seed: int) -> SweepSpec:
    """Make a sweep over the surface's space; its method is never called."""
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


@contextmanager
def use_optunas_gp() -> Iterator[None]:
    """Let `gp` be Optuna's own Gaussian process."""

    def build_optunas(options: Gp, *, seed: int) -> GPSampler:
        return GPSampler(seed=seed, n_startup_trials=options.startup_trials)

    with patch.object(build, "NoisyGp", build_optunas), patch.object(proposals, "show_to_gp", list):
        yield


def search(
    surface: Surface, strategy: Strategy, *, seed: int, slots: int, until: float
) -> list[Ended]:
    """Search until a time with `slots` simultaneous trials. Returns ended trials in that order."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    spec = spec_of(surface, strategy, seed=seed)
    pruner = strategy.pruner or optuna.pruners.NopPruner()
    study = optuna.create_study(direction="maximize", pruner=pruner)
    running: list[_Running] = []
    ended: list[Ended] = []
    past = PastCurves()
    begun: Counter[str] = Counter()
    step = slots / surface.points
    if strategy.start_points:
        study.enqueue_trial(dict(surface.start))

    def repeated() -> tuple[FrozenTrial, Mapping[str, Any]] | None:
        """Start a new trial of a tried configuration. Returns it, or None for a new one."""
        several = seeds_of(ended)
        scores = {name: [one.score for one in seeds] for name, seeds in several.items()}
        again = [name_of(one.assignment) for one in running if one.repeats]
        chosen = choose_repeat(scores, running=again, trials=begun.total())
        if chosen is None:
            return None
        assignment = several[chosen][0].assignment
        trials = study.get_trials(deepcopy=False)
        first = next(one for one in trials if one.params == assignment)
        study.add_trial(
            create_trial(
                state=TrialState.RUNNING, params=first.params, distributions=first.distributions
            )
        )
        return study.get_trials(deepcopy=False)[-1], assignment

    def begin(now: float) -> None:
        repeat = repeated() if strategy.repeats else None
        if repeat is None:
            with use_optunas_gp() if strategy.optunas_gp else nullcontext():
                proposal = propose(study, spec)
            add_proposal(study, spec, proposal)
            known = study.get_trials(deepcopy=False)[proposal.number]
            assignment: Mapping[str, Any] = proposal.assignment
        else:
            known, assignment = repeat
        earlier = begun[name_of(assignment)] if strategy.repeats else 0
        begun[name_of(assignment)] += 1
        curve = surface.curve(assignment, seed=seed + NEXT_SEED * earlier)
        trial = Trial(study, known._trial_id)
        heapq.heappush(
            running,
            _Running(now + step, known.number, trial, assignment, curve, repeat is not None),
        )

    def stopped(curve: Array) -> bool:
        scores = [one.score for one in ended]
        rule = CurvePruner(kind="curve")
        verdict = judge(
            _steps(curve), steps=surface.points, past=past, best=scores, rule=rule, top=3
        )
        return verdict.stop

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
        judged = not (last or one.repeats)
        stop = judged and (stopped(so_far) if strategy.curve else one.trial.should_prune())
        if not (stop or last):
            one.time += step
            heapq.heappush(running, one)
            continue
        ended.append(Ended(one.time, one.assignment, so_far, complete=last))
        if last:
            name = ended[-1].name if strategy.repeats else str(len(ended))
            past.add(_steps(so_far), configuration=name)
            study.tell(one.trial, float(so_far.max()))
        else:
            study.tell(one.trial, state=TrialState.PRUNED)
        begin(one.time)
    return ended


def _steps(curve: Array) -> dict[int, float]:
    return dict(enumerate(map(float, curve), start=1))
