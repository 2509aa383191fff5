"""The pruner `patient`."""

import optuna
from optuna.pruners import BasePruner
from optuna.trial import FrozenTrial

from cse_platform.sweep import pruners


class StagnationPruner(BasePruner):
    """Stops a trial that has not improved for some dev points.

    Optuna's PatientPruner waits for a decrease, which the best value so far never shows.
    """

    def __init__(self, spec: pruners.PatientPruner) -> None:
        self.spec = spec

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        """Return whether the last dev points are no improvement."""
        points = sorted(trial.intermediate_values.items())
        if len(points) <= self.spec.patience or points[-1][0] < self.spec.min_step:
            return False
        values = [value for _, value in points]
        return values[-1] <= values[-1 - self.spec.patience] + self.spec.min_rise
