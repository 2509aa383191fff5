"""Builds all metrics and parameters that the mirror writes to MLflow."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from math import nan
from statistics import fmean, stdev

from mlflow.entities import Metric, Param

from cse_methods.data.dev_selection import dev_metric
from cse_platform.stores.mlflow.tags import PARAM_LENGTH, clean_name, milliseconds, text
from cse_platform.tracking import events
from cse_platform.tracking.history import TRAIN_MINUTES, order_metrics

_FOLDERS = {"test": "test", "dev": "evaluation"}
"""Metric prefixes by split; `dev/…` is used for the dev curve, which has another protocol."""
ESTIMATE = "confirmed/"
"""Prefix of the metrics of a sweep's best configuration over seeds that did not choose it."""
SPACE = "space."
"""Prefix of the parameters that describe the search space in a sweep's run."""

Ended = events.TrialFinished | events.TrialReused


def start_params(event: events.TrialBegun | events.SweepStarted) -> list[Param]:
    """Build the parameters of a trial's run; of a sweep's its search, space and fixed settings.

    Parameters cannot change in MLflow, so budgets and the pruner, which can, are tags.
    """
    if isinstance(event, events.TrialBegun):
        values = {**event.values, "seed": event.seed}
    else:
        search = event.spec.get("search") or {}
        known = {
            "search.sampler": search.get("sampler"),
            "search.seed": search.get("seed"),
            **{f"{SPACE}{name}": dim for name, dim in (event.spec.get("space") or {}).items()},
            **(event.spec.get("fixed") or {}),
        }
        values = {name: value for name, value in known.items() if value is not None}
    return [Param(clean_name(name), text(v, limit=PARAM_LENGTH)) for name, v in values.items()]


def trial_metrics(event: events.TrialPoint | events.TrialFinished) -> list[Metric]:
    """Build the metrics of a dev point, or of a trial's end: `best/…`, its step, and the time."""
    if isinstance(event, events.TrialPoint):
        # Dev scores come first: MLflow compares runs by the first metric.
        values = {name: event.metrics[name] for name in order_metrics(event.metrics)}
        step = event.step
    else:
        values, step = _collect_best_values(event), event.best_step or 0
        if event.wall_seconds is not None:
            values["perf/wall_seconds"] = event.wall_seconds
        if TRAIN_MINUTES in event.costs:  # other costs are metrics of each step
            values[f"perf/{TRAIN_MINUTES}"] = event.costs[TRAIN_MINUTES]
    return _build_metrics(values, event.time, step)


def best_metric(dev_search: str) -> str:
    """Return the metric of a run with the best value of the dev score that the search climbs."""
    return clean_name(dev_metric(dev_search).replace("dev/", "best/", 1))


def best_so_far_metrics(
    event: Ended,
    *,
    step: int,
    best: float | None,
    dev_search: str,
    leads: bool,
    logged: Iterable[str] = (),
) -> list[Metric]:
    """Build the best dev score of a sweep after `step` trials, with all values of a new leader.

    Of what is `logged` of an earlier leader, NaN replaces all that the new one lacks.
    """
    values = {}
    if leads:
        values = {name: nan for name in logged if name.startswith("best/")}
        values |= {clean_name(name): v for name, v in _collect_best_values(event).items()}
    if best is not None:
        values |= {best_metric(dev_search): best}
    return _build_metrics(values, event.time, step)


def estimate_metrics(
    seeds: Mapping[int, float], *, dev_search: str, time: datetime, chosen_by: float | None
) -> list[Metric]:
    """Build the dev score of a sweep's best configuration over the further seeds of it."""
    name = dev_metric(dev_search).replace("dev/", ESTIMATE, 1)
    values = {name: fmean(seeds.values()), f"{name}_std": stdev(seeds.values())}
    values[f"{ESTIMATE}seeds"] = len(seeds)
    if chosen_by is not None:
        values[f"{ESTIMATE}chosen_by"] = chosen_by
    return _build_metrics(values, time, 0)


def withdrawn_metrics(logged: Iterable[str], time: datetime) -> list[Metric]:
    """Build NaN for each metric of an estimate that is logged; MLflow cannot remove one."""
    names = (name for name in logged if name.startswith(ESTIMATE))
    return _build_metrics(dict.fromkeys(names, nan), time, 0)


def reused_metrics(event: events.TrialReused, *, dev_search: str) -> list[Metric]:
    """Build the dev curve and the best value of a reused trial."""
    curve, best = dev_metric(dev_search), best_metric(dev_search)
    values = {best: event.best_value, "best/step": event.best_step}
    points = [
        point
        for step, value in event.curve.items()
        for point in _build_metrics({curve: value}, event.time, step)
    ]
    return points + _build_metrics(values, event.time, event.best_step)


def evaluation_metrics(event: events.TrialEvaluated, *, step: int) -> list[Metric]:
    """Build `test/<task>_<metric>` for each test score, and `evaluation/…` for each dev score.

    Those on built-in data begin with `test/builtin/`, so that they never stand for real data.
    """
    values = dict[str, float]()
    for score in event.scores:
        is_builtin = event.source_of(score.identity) == "builtin"
        folder = _FOLDERS[score.split] + "/builtin" * is_builtin
        values[f"{folder}/{score.task}_{score.metric}"] = score.value
    return _build_metrics(values, event.time, step)


def _build_metrics(values: Mapping[str, float], time: datetime, step: int) -> list[Metric]:
    stamp = milliseconds(time)
    return [Metric(clean_name(name), value, stamp, step) for name, value in values.items()]


def _collect_best_values(event: Ended) -> dict[str, float]:
    """Collect `best/…` for each `dev/…` metric of the best step, and that step."""
    dev = {name: v for name, v in event.best_metrics.items() if name.startswith("dev/")}
    values = {name.replace("dev/", "best/", 1): value for name, value in dev.items()}
    return values if event.best_step is None else values | {"best/step": event.best_step}
