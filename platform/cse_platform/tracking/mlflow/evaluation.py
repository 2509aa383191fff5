"""Openings of test sets and scores into MLflow. Imports MLflow, as `mlflow_runs` does."""

from typing import Any

from mlflow.entities import Metric, RunTag

from cse_platform.tracking.events import MAIN_METRICS, TestAccessed, TrialEvaluated
from cse_platform.tracking.mlflow.values import TAG_LENGTH, clean_name, milliseconds, text

FOLDERS = {"test": "test", "dev": "evaluation"}
"""Where the scores of a split stand among the metrics."""
OPENED = "tests_opened"
"""Tag of a trial for which test sets were opened: when first, and by whom."""


def add_evaluation(client: Any, run_id: str, event: TestAccessed | TrialEvaluated) -> None:
    """Add to a trial's run, finished as it may be; adding it again changes nothing.

    A score is the metric `test/<task>_<metric>`, at the step of the kept checkpoint; one on a dev
    set is `evaluation/…`, because `dev/…` is the curve, of another protocol. The tag
    `evaluation.<task>` is the identity that it is of.

    Args:
        client: of MLflow.
        run_id: the trial's run.
        event: of that trial.
    """
    known = client.get_run(run_id).data
    if isinstance(event, TrialEvaluated):
        step = int(known.metrics.get("best/step", 0))
        client.log_batch(run_id, metrics=_metrics(event, step), tags=_identities(event))
    elif OPENED not in known.tags:
        told = f"{event.time.isoformat()} {event.who}"
        client.log_batch(run_id, tags=[RunTag(OPENED, text(told, limit=TAG_LENGTH))])


def _metrics(event: TrialEvaluated, step: int) -> list[Metric]:
    time = milliseconds(event.time)
    return [
        Metric(clean_name(f"{FOLDERS[one.split]}/{one.task}_{one.metric}"), one.value, time, step)
        for one in event.scores
    ]


def _identities(event: TrialEvaluated) -> list[RunTag]:
    """Of each task the identity of its main metric, where it has one."""
    main_last = sorted(event.scores, key=lambda score: score.metric in MAIN_METRICS)
    identities = {f"evaluation.{score.task}": score.identity for score in main_last}
    return [RunTag(clean_name(name), identity) for name, identity in identities.items()]
