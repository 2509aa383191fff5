"""The pruner `patient`."""

import optuna
from optuna.pruners import BasePruner
from optuna.trial import FrozenTrial

from cse_platform.sweep import pruners


class PatientPruner(BasePruner):
    """Stops a trial that came no higher for some points.

    Optuna's own looks for a fall, which the highest value so far never shows.
    """

    def __init__(self, spec: pruners.PatientPruner, then: BasePruner | None) -> None:
        self.spec, self.then = spec, then

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        """Return True if the trial came no higher, and the pruner that then decides stops it."""
        points = sorted(trial.intermediate_values.items())
        if len(points) <= self.spec.patience or points[-1][0] < self.spec.min_step:
            return False
        values = [value for _, value in points]
        if values[-1] > values[-1 - self.spec.patience] + self.spec.min_rise:
            return False
        return self.then is None or self.then.prune(study, trial)
