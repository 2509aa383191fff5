"""The pruner `hyperband`."""

import optuna
from optuna import pruners
from optuna.trial import TrialState


class ReplayedHyperband(pruners.HyperbandPruner):
    """Optuna's, whose brackets follow from the study's trials alone.

    Without `max_step` the last rung is that of the first complete trial. Optuna takes the longest
    of those that are complete when a process asks first, so a resumed search had other brackets.
    """

    def _try_initialization(self, study: optuna.Study) -> None:
        if self._max_resource == "auto":
            complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
            ends = [
                (trial.datetime_complete, trial.last_step)
                for trial in complete
                if trial.datetime_complete is not None and trial.last_step is not None
            ]
            if not ends:
                return
            self._max_resource = min(ends)[1] + 1
        super()._try_initialization(study)
