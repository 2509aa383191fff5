"""Decide after each dev point whether a trial stops, by Optuna's pruners or the `curve` rule."""

import logging
from collections.abc import Mapping
from statistics import fmean
from typing import Any

from cse_platform.errors import StoreError
from cse_platform.leaderboard.trials import complete_curves
from cse_platform.search.pruners.curve import PastCurves, explain_collapse, judge
from cse_platform.search.study import SearchStudy
from cse_platform.stores.sql.store import Store
from cse_platform.sweep.pruners import CurvePruner
from cse_platform.tracking.history import History, TrialHistory

_log = logging.getLogger(__name__)

MOST_CURVES = 1000
"""The number of the newest trials of other sweeps that are read."""


class Pruning:
    """Decides after each dev point by the study's pruner or by earlier curves; it changes neither.

    All of its state comes from the journal and the leaderboard, so it resumes with them. Curves of
    other sweeps are read once; those of the sweep's own trials come from its history.

    `dev` is as in TrialStarted.
    """

    def __init__(
        self, study: SearchStudy, history: History, leaderboard: Store, *, dev: Mapping[str, str]
    ) -> None:
        self._study, self._spec, self._history = study, study.spec, history
        self._past = PastCurves()
        self._known: set[str] = set()
        """Keys of the trials in `_past`."""
        if isinstance(self._spec.pruner, CurvePruner):
            self._read_other_sweeps(leaderboard, dev)

    def judge(self, trial: TrialHistory, *, step: int) -> tuple[str | None, dict[str, Any]]:
        """Judge a trial by its curve up to this step, which need not be recorded yet.

        Returns the reason to stop it, or None if it goes on, and the attributes that Optuna's
        pruner sets on it.
        """
        stops, notes = self._study.judge(trial, step=step)
        if isinstance(self._spec.pruner, CurvePruner):
            return self._compare_curves(self._spec.pruner, trial, step=step), notes
        return f"stopped by {self._spec.pruner.kind} at step {step}" if stops else None, notes

    def _compare_curves(self, pruner: CurvePruner, trial: TrialHistory, *, step: int) -> str | None:
        """Return the reason why the `curve` rule stops a trial, which has no further seed."""
        if trial.role != "search" or step == 0:
            return None
        if broken := explain_collapse(trial.curve[step], trial.last_metrics):
            return broken
        progress = trial.last_metrics.get("train/progress", 0.0)
        if progress <= 0:
            return None  # the method does not report its progress
        values: dict[str, list[float]] = {}  # of each other configuration, also while it runs
        for other in self._history.trials.values():
            if other.state == "COMPLETE" and other.key not in self._known:
                self._known.add(other.key)
                self._past.add(other.curve, configuration=other.configuration)
            best = other.value_so_far(picked_by=self._spec.dev.checkpoint_name)
            is_rival = other.state != "FAIL" and other.configuration != trial.configuration
            if best is not None and is_rival:
                values.setdefault(other.configuration, []).append(best)
        confirm = self._spec.seeds.confirm
        verdict = judge(
            trial.curve,
            steps=max(round(step / progress), step),
            past=self._past,
            best=list(map(fmean, values.values())),
            rule=pruner,
            top=confirm.top if confirm else 1,
        )
        return verdict.why if verdict.stop else None

    def _read_other_sweeps(self, leaderboard: Store, dev: Mapping[str, str]) -> None:
        try:
            with leaderboard.session() as session:
                curves = complete_curves(
                    session,
                    method=self._spec.method,
                    backbone=self._spec.backbone,
                    dev=dev,
                    limit=MOST_CURVES,
                )
        except StoreError as error:
            _log.warning("%s; curves of other sweeps are not compared", error)
            return
        for curve in curves:
            if curve.key not in self._history.trials:
                values = {point.step: point.value for point in curve.points}
                known = {step: value for step, value in values.items() if value is not None}
                self._known.add(curve.key)
                self._past.add(known, configuration=curve.configuration)
