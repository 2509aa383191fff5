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
class LoggedRun:
    id: str
    name: str
    user: str
    status: str
    """RUNNING, SCHEDULED, FINISHED, FAILED or KILLED."""
    started: datetime
    ended: datetime | None
    params: dict[str, str]
    tags: dict[str, str]
    metrics: dict[str, float]
    """The last value of each metric."""


@dataclass(frozen=True)
class LoggedValue:
    step: int
    time: datetime
    value: float


class LoggedRuns:
    """The runs of an MLflow store: a tracking server, a database's URL or a folder (`file:…`).

    Every method raises StoreError if there is no store or it does not answer.
    """

    kind = "MLflow"

    def __init__(self, uri: str) -> None:
        check_there(uri)
        if uri.startswith("file:"):
            os.environ.setdefault(_FOLDERS_ALLOWED, "true")
        self._uri = uri
        self._client = connect(uri)

    def find_runs(self, experiments: Sequence[str], *, condition: str = "") -> Iterator[LoggedRun]:
        """Yield the runs of these experiments that are not deleted, in MLflow's order.

        `condition` is a filter string of MLflow's search, e.g. `params.stage = 'final'`. Raises
        StoreError if it is invalid, or an experiment is missing.
        """
        ids = [self._find_experiment_id(name) for name in experiments]
        token: str | None = None
        while True:
            with store_errors(self._uri):
                page = self._client.search_runs(ids, condition, max_results=PAGE, page_token=token)
            yield from map(_convert_run, page)
            token = page.token
            if not token:
                return

    def history(self, run: str, metric: str) -> list[LoggedValue]:
        """Read all values of a run's metric, in order of step and time."""
        with store_errors(self._uri):
            points = self._client.get_metric_history(run, metric)
        values = [LoggedValue(p.step, _parse_time(p.timestamp), p.value) for p in points]
        return sorted(values, key=lambda value: (value.step, value.time))

    def _find_experiment_id(self, name: str) -> str:
        with store_errors(self._uri):
            experiment = self._client.get_experiment_by_name(name)
            others = [] if experiment else self._client.search_experiments()
            known = [other.name for other in others]
        if experiment is None:
            raise NotFoundError(
                f"MLflow at {mask_url(self._uri)} has no experiment {name!r}; "
                f"there are {', '.join(sorted(known)) or 'none'}"
            )
        return str(experiment.experiment_id)


def _convert_run(run: Any) -> LoggedRun:
    info, data = run.info, run.data
    return LoggedRun(
        id=info.run_id,
        name=info.run_name or info.run_id,
        user=info.user_id or data.tags.get("mlflow.user", ""),
        status=info.status,
        started=_parse_time(info.start_time),
        ended=None if info.end_time is None else _parse_time(info.end_time),
        params=dict(data.params),
        tags=dict(data.tags),
        metrics=dict(data.metrics),
    )


def _parse_time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
