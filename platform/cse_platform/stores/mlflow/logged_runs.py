"""Reads runs from any MLflow store, without writing to it."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from cse_platform.errors import NotFoundError
from cse_platform.secrets import mask_url
from cse_platform.stores.mlflow.store import check_there, connect, store_errors

PAGE = 1000

_FOLDERS_ALLOWED = "MLFLOW_ALLOW_FILE_STORE"
"""Without this variable, MLflow refuses the folders that its earlier versions wrote to."""


@dataclass(frozen=True)
class LoggedValue:
    step: int
    time: datetime
    value: float


@dataclass(frozen=True)
class LoggedRun:
    id: str
    label: str
    """Its name in messages."""
    user: str
    status: str
    """The state of the run, in the words of its tracker."""
    started: datetime
    ended: datetime | None
    params: dict[str, str]
    tags: dict[str, str]
    metrics: dict[str, float]
    """The last value of each metric."""
    curve: tuple[LoggedValue, ...]
    """All values of the dev metric, in order of step and time."""
    problems: tuple[str, ...] = ()
    """What makes the run unreadable."""


def read_logged_runs(
    uri: str, experiments: Sequence[str], condition: str, metric: str
) -> Iterator[LoggedRun]:
    """Yield the runs of an MLflow store's experiments that are not deleted, in MLflow's order.

    Args:
        uri: a tracking server, a database's URL, or a folder (`file:…`).
        experiments: their names.
        condition: a filter string of MLflow's search, e.g. `params.stage = 'final'`; may be empty.
        metric: the metric whose history is read.

    Raises:
        StoreError: if there is no store, it does not answer, the condition is invalid, or an
            experiment is missing.
    """
    check_there(uri)
    if uri.startswith("file:"):
        os.environ.setdefault(_FOLDERS_ALLOWED, "true")
    client, ids = connect(uri), []
    for name in experiments:
        with store_errors(uri):
            experiment = client.get_experiment_by_name(name)
            others = [] if experiment else client.search_experiments()
            known = [other.name for other in others]
        if experiment is None:
            raise NotFoundError(
                f"MLflow at {mask_url(uri)} has no experiment {name!r}; "
                f"there are {', '.join(sorted(known)) or 'none'}"
            )
        ids.append(str(experiment.experiment_id))
    token: str | None = None
    while True:
        with store_errors(uri):
            page = client.search_runs(ids, condition, max_results=PAGE, page_token=token)
        for run in page:
            points = []
            if metric in run.data.metrics:
                with store_errors(uri):
                    points = client.get_metric_history(run.info.run_id, metric)
            yield _convert_run(run, points)
        token = page.token
        if not token:
            return


def _convert_run(run: Any, points: Sequence[Any]) -> LoggedRun:
    info, data = run.info, run.data
    values = (LoggedValue(p.step, _parse_time(p.timestamp), p.value) for p in points)
    return LoggedRun(
        id=info.run_id,
        label=f"run {info.run_name or info.run_id} ({info.run_id[:8]})",
        user=info.user_id or data.tags.get("mlflow.user", ""),
        status=info.status,
        started=_parse_time(info.start_time),
        ended=None if info.end_time is None else _parse_time(info.end_time),
        params=dict(data.params),
        tags=dict(data.tags),
        metrics=dict(data.metrics),
        curve=tuple(sorted(values, key=lambda value: (value.step, value.time))),
    )


def _parse_time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
