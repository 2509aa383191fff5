"""Every metric and parameter that the mirror writes to MLflow."""

from mlflow.entities import Metric, Param

from cse_methods.data.dev_selection import dev_metric
from cse_platform.tracking import events
from cse_platform.tracking.mlflow.limits import PARAM_LENGTH, clean_name, milliseconds, text

_FOLDERS = {"test": "test", "dev": "evaluation"}
"""Where the scores of a split stand; `dev/…` is the dev curve, which follows another protocol."""


def trial_params(event: events.TrialStarted | events.TrialReused) -> list[Param]:
    values = {**event.values, "seed": event.seed}
    return [Param(clean_name(name), text(v, limit=PARAM_LENGTH)) for name, v in values.items()]


def point_metrics(event: events.TrialPoint) -> list[Metric]:
    """Everything that was reported at one step."""
    time = milliseconds(event.time)
    return [Metric(clean_name(name), v, time, event.step) for name, v in event.metrics.items()]


def end_metrics(event: events.TrialFinished) -> list[Metric]:
    """`best/…` for each `dev/…` of the best step, that step, and the seconds it all took."""
    dev = {name: v for name, v in event.best_metrics.items() if name.startswith("dev/")}
    values = {name.replace("dev/", "best/", 1): value for name, value in dev.items()}
    if event.best_step is not None:
        values["best/step"] = event.best_step
    if event.wall_seconds is not None:
        values["perf/wall_seconds"] = event.wall_seconds
    end, step = milliseconds(event.time), event.best_step or 0
    return [Metric(clean_name(name), value, end, step) for name, value in values.items()]


def reused_metrics(event: events.TrialReused, *, dev_search: str) -> list[Metric]:
    """The dev curve and the best value of a trial that another sweep has completed."""
    name, time = dev_metric(dev_search), milliseconds(event.time)
    best = name.replace("dev/", "best/", 1)
    return [
        *(Metric(name, value, time, step) for step, value in event.curve.items()),
        Metric(best, event.best_value, time, event.best_step),
        Metric("best/step", event.best_step, time, event.best_step),
    ]


def evaluation_metrics(event: events.TrialEvaluated, *, step: int) -> list[Metric]:
    """`test/<task>_<metric>` for each test score; `evaluation/…` for a score on a dev set."""
    time = milliseconds(event.time)
    named = ((f"{_FOLDERS[s.split]}/{s.task}_{s.metric}", s.value) for s in event.scores)
    return [Metric(clean_name(name), value, time, step) for name, value in named]
