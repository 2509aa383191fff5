"""Writes the progress of a search to the sweep's run: the best value so far over ended trials."""

import json
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from mlflow.entities import Metric, RunTag

from cse_platform.stores.mlflow import tags
from cse_platform.stores.mlflow.metrics import CONSTRAINTS, SPACE, Ended, best_so_far_metrics
from cse_platform.stores.mlflow.tags import milliseconds
from cse_platform.sweep.objectives import is_feasible


@dataclass(frozen=True)
class MirroredProgress:
    """The progress of a sweep, stored as a tag of its run."""

    ended: int = 0
    """Number of ended trials; each attempt counts."""
    best: float | None = None
    """The highest dev score of a complete trial that satisfies the constraints."""

    def tag(self) -> RunTag:
        return RunTag(tags.PROGRESS, json.dumps(asdict(self)))


class BestSoFarWriter:
    """Collects the progress of sweeps; `flush` writes it to their runs.

    The step at which a trial ended is a tag of its run, so that a repeated end counts once. The
    caller must log that tag before `flush`.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._known: dict[str, MirroredProgress] = {}
        self._points: defaultdict[str, list[Metric]] = defaultdict(list)
        self._leaders: dict[str, dict[str, str]] = {}

    def add(
        self, sweep: Any, read_trial: Callable[[], Any], event: Ended, *, is_first: bool
    ) -> dict[str, str]:
        """Count a trial that has ended, before its run is terminated in MLflow.

        Args:
            sweep: the sweep's run in MLflow.
            read_trial: reads the trial's run from MLflow.
            event: the trial's end.
            is_first: whether no earlier end of this run has been counted, so that the run need not
                be read to find out.

        Returns:
            The tags to add to the trial's run.
        """
        run_id, dev_search = sweep.info.run_id, sweep.data.tags["dev_search"]
        logged = MirroredProgress(**json.loads(sweep.data.tags.get(tags.PROGRESS, "{}")))
        known = self._known.setdefault(run_id, logged)
        stored = None if is_first else read_trial().data.tags.get(tags.PLACE)
        step, time = known.ended + 1, milliseconds(event.time)
        place = {tags.PLACE: f"{step} {time}"}
        if stored is not None:
            stored_step, _, stored_time = stored.partition(" ")
            if time <= int(stored_time):  # of this end or a later one
                step, place = int(stored_step), {}
        if step <= known.ended:
            return place
        # The new best is complete, feasible and higher.
        leads, value, constraints = False, event.best_value, list[str]()
        with suppress(ValueError):  # MLflow had to truncate them
            constraints = json.loads(sweep.data.params.get(CONSTRAINTS, "[]"))
        if value is not None and getattr(event, "state", "COMPLETE") == "COMPLETE":
            higher = known.best is None or value > known.best
            leads = higher and is_feasible(constraints, [event])
        best = value if leads else known.best
        self._known[run_id] = MirroredProgress(step, best)
        self._points[run_id] += best_so_far_metrics(
            event, step=step, best=best, dev_search=dev_search, leads=leads
        )
        if leads:
            self._leaders[run_id] = tags.leader_tags(
                read_trial(),
                [name.removeprefix(SPACE) for name in sweep.data.params if name.startswith(SPACE)],
            )
        return place

    def flush(self) -> None:
        """Log what is pending, and the progress last: without it, everything is logged again."""
        for run_id, points in self._points.items():
            leader = [RunTag(name, value) for name, value in self._leaders.get(run_id, {}).items()]
            self._client.log_batch(run_id, metrics=points)
            self._client.log_batch(run_id, tags=[*leader, self._known[run_id].tag()])
        self._points.clear()
        self._leaders.clear()
