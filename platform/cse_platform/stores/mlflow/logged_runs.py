"""Reads runs from any MLflow store, without writing to it."""

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from cse_platform.errors import NotFoundError
from cse_platform.render.table import HASH_DIGITS
from cse_platform.secrets import mask_url
from cse_platform.stores.mlflow.store import check_there, connect, iterate_pages, store_errors

_FOLDERS_ALLOWED = "MLFLOW_ALLOW_FILE_STORE"
"""Without this variable, MLflow refuses the folders that its earlier versions wrote to."""


def read_logged_runs(
    uri: str, experiments: Sequence[str], condition: str, metric: str
) -> Iterator[list[tuple[str, dict[str, str]]]]:
    """Yield the runs of an MLflow store's experiments that are not deleted, in MLflow's order.

    A run comes as rows of a table, each with the run's name for people: one row for each step of
    the metric, in their order, with its last value there, or one alone. Columns are `run_id`,
    `user`, `state`, `created`, `runtime`, `step`, `logged`, `params.NAME`, `tags.NAME` and
    `metrics.NAME`.

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
    for run in iterate_pages(uri, client.search_runs, ids, condition):
        points = []
        if metric in run.data.metrics:
            with store_errors(uri):
                points = client.get_metric_history(run.info.run_id, metric)
        points = sorted(points, key=lambda point: (point.step, point.timestamp))
        cells = _read_cells(run)
        label = f"run {run.info.run_name or run.info.run_id} ({run.info.run_id[:HASH_DIGITS]})"
        steps = {
            point.step: {
                "step": f"{point.step}",
                "logged": _format_time(point.timestamp),
                f"metrics.{metric}": repr(point.value),
            }
            for point in points
        }
        yield [(label, cells | point) for point in steps.values()] or [(label, cells)]


def _read_cells(run: Any) -> dict[str, str]:
    info, data = run.info, run.data
    return {
        "run_id": info.run_id,
        "user": info.user_id or data.tags.get("mlflow.user", ""),
        "state": info.status,
        "created": _format_time(info.start_time),
        "runtime": "" if info.end_time is None else repr((info.end_time - info.start_time) / 1000),
        **{f"params.{name}": value for name, value in data.params.items()},
        **{f"tags.{name}": value for name, value in data.tags.items()},
        **{f"metrics.{name}": repr(value) for name, value in data.metrics.items()},
    }


def _format_time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()
