"""The lines that name what a sweep has found: its best trial, or its Pareto front."""

from collections.abc import Iterator
from itertools import islice
from statistics import fmean

from cse_platform.leaderboard.render.front import measured
from cse_platform.leaderboard.statistics.intervals import lower_bound
from cse_platform.render.formats import percent, short_settings
from cse_platform.runner.planning.choice import Seeds, best_configurations, dev_values, pareto_front
from cse_platform.sweep.objectives import is_feasible, measure
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.history import History
from cse_platform.tracking.trial_history import TrialHistory

SHOWN_OF_FRONT = 10
"""Configurations of a front that are shown."""


def best_lines(spec: SweepSpec, history: History) -> Iterator[str]:
    """What a sweep takes for the best; nothing while no trial is complete."""
    ranked = best_configurations(
        history, constraints=spec.search.constraints, value=spec.seeds.value
    )
    if not ranked and history.configurations():
        bounds = " and ".join(spec.search.constraints)
        yield (
            f"no configuration keeps {bounds}, so none is the best, and none gets further seeds "
            "or is evaluated"
        )
    elif spec.search.objectives:
        yield from _front_lines(spec, history)
    elif ranked:
        yield from _best_trial(spec, ranked)


def _best_trial(spec: SweepSpec, ranked: list[Seeds]) -> Iterator[str]:
    """The best trial and, where a lower bound decides, the configuration that has the highest.

    A trial that breaks a constraint, which the means over its seeds keep, is not named if another
    one keeps it.
    """
    every = [trial for seeds in ranked for trial in seeds]
    kept = [trial for trial in every if is_feasible(spec.search.constraints, [trial])]
    best = max(kept or every, key=lambda trial: (trial.best_value or 0.0, -trial.number))
    yield (
        f"best dev {spec.dev.search_name}: {percent(best.best_value)} at step {best.best_step} "
        f"(trial {best.number}, seed {best.seed}{_settings(best)})"
    )
    if said := below_untrained(best):
        yield said
    if spec.seeds.value != "lower_bound":
        return
    first = ranked[0]
    values = dev_values(first)
    if (bound := lower_bound(values)) is not None:
        yield (
            f"best by lower bound: {percent(bound)}, mean {percent(fmean(values))} over "
            f"{len(values)} seeds (trial {first[0].number}{_settings(first[0])})"
        )


def _front_lines(spec: SweepSpec, history: History) -> Iterator[str]:
    names = [one.name for one in spec.search.objectives]
    front = pareto_front(history, spec.search)
    several = "configurations are" if len(front) > 1 else "configuration is"
    yield (
        f"{len(front)} {several} on the Pareto front of "
        f"{', '.join(map(str, spec.search.objectives))}:"
    )
    for seeds in islice(front, SHOWN_OF_FRONT):
        yield f"  {_means(seeds, names)} (trial {seeds[0].number}{_settings(seeds[0])})"
    if len(front) > SHOWN_OF_FRONT:
        yield f"  and {len(front) - SHOWN_OF_FRONT} more: cse-leaderboard --front {spec.sweep}"


def _means(seeds: Seeds, names: list[str]) -> str:
    shown = []
    for name in names:
        found = [value for trial in seeds if (value := measure(trial, name)) is not None]
        shown.append(f"{name} {measured(name, fmean(found))}")
    return ", ".join(shown) + (f", means of {len(seeds)} seeds" if len(seeds) > 1 else "")


def _settings(trial: TrialHistory) -> str:
    return ", " * bool(trial.searched) + short_settings(trial.searched_values)


def below_untrained(best: TrialHistory) -> str | None:
    """What to try where even the best trial is below the backbone before training; else None."""
    untrained = best.curve.get(0)
    if best.best_value is None or untrained is None or best.best_value >= untrained:
        return None
    rate = best.values.get("learning_rate")
    lower = f"a learning_rate below {rate:.2g}" if rate else "a lower learning rate"
    return (
        f"this is below the untrained backbone, {percent(untrained)} at step 0: training made it "
        f"worse; try {lower}, more steps than {best.step}, larger batches, or another pooler"
    )
