"""Deletes kept models that nobody needs, when a sweep is complete."""

import logging
from collections.abc import Collection
from itertools import chain

from cse_methods.errors import BackboneError
from cse_platform.errors import StoreError
from cse_platform.leaderboard.query.trials.model_uses import used_elsewhere
from cse_platform.runner.models import NOT_ITS_MODEL, delete_folder, holds_other_model
from cse_platform.runner.planning.choice import chosen_trials, pareto_front
from cse_platform.runner.state import SweepState
from cse_platform.secrets import mask_url
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.events import MODEL_DIGITS, ModelDeleted
from cse_platform.tracking.history import History
from cse_platform.tracking.trial_history import TrialHistory

_log = logging.getLogger(__name__)


def delete_surplus_models(state: SweepState) -> None:
    """Keep the models of the best configurations, and those that other sweeps need.

    The journal has each deletion before it happens: no record ever names a model that is gone.
    While the leaderboard is down, which knows what others need, nothing is deleted.
    """
    if state.spec.kept is None:
        return
    surplus = surplus_models(state.history, state.spec, configurations=state.spec.kept)
    try:
        with state.leaderboard.session() as session:
            used = used_elsewhere(session, [one.key for one in surplus], sweep=state.spec.sweep)
    except StoreError as error:
        _log.warning("%s; so no model was deleted", error)
        return
    for trial in surplus:
        place = trial.model
        if trial.key not in used and place is not None and _may_delete(place, trial.key):
            state.record(ModelDeleted(sweep=state.spec.sweep, trial=trial.key))
            delete_folder(place)


def _may_delete(place: str, trial: str) -> bool:
    """Whether a place has nothing but the model of this trial; if not, a warning says so."""
    try:
        if not holds_other_model(place, trial):
            return True
    except BackboneError as error:
        _log.warning("%s; so it was not deleted", error)
    else:
        said = NOT_ITS_MODEL.format(trial[:MODEL_DIGITS])
        _log.warning("%s %s; so it was not deleted", mask_url(place), said)
    return False


def surplus_models(
    history: History, spec: SweepSpec, *, configurations: int
) -> Collection[TrialHistory]:
    """The trials that ran here and kept a model, and are none of the best configurations.

    Those on the Pareto front keep theirs, too. The trial with the highest value keeps its model in
    any case: it is what `best:` stands for.
    """
    trials = history.trials.values()
    front = pareto_front(history, spec.search) if spec.search.objectives else []
    chosen = [*chosen_trials(history, spec, top=configurations), *chain.from_iterable(front)]
    best = {trial.key for trial in chosen}
    highest = max((t.best_value or 0.0 for t in trials if t.model is not None), default=0.0)
    return [
        trial
        for trial in trials
        if trial.model is not None
        and trial.reused_from is None
        and trial.key not in best
        and trial.best_value != highest
    ]
