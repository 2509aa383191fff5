"""Decide which kept models a sweep deletes."""

import logging
from collections.abc import Collection
from contextlib import suppress

from cse_methods.errors import BackboneError
from cse_platform.errors import JournalError, StoreError
from cse_platform.kept_models import NOT_ITS_MODEL, holds_other_model
from cse_platform.leaderboard.trials import used_elsewhere
from cse_platform.numbers import format_count
from cse_platform.runner.state import SweepState
from cse_platform.search.confirmation import chosen_trials
from cse_platform.secrets import mask_url
from cse_platform.stores.sql.sink import known_journals
from cse_platform.sweep.stores import JOURNAL_FILE
from cse_platform.tracking.events import MODEL_DIGITS, ModelDeleted
from cse_platform.tracking.history import History, TrialHistory
from cse_platform.tracking.journal import is_deleted, read_journal, read_journal_id

_log = logging.getLogger(__name__)


def delete_surplus_models(state: SweepState) -> None:
    """Delete models except those of the best configurations and those that other sweeps need.

    Each deletion is recorded before it happens, so no record ever names a missing model. While the
    leaderboard is down, or has nothing of another sweep in the runs folder, nothing is deleted,
    because only it knows which models others need. Nor are models that lie elsewhere, as in a
    copied runs folder whose journal names those of the original.
    """
    if state.spec.kept is None:
        return
    surplus = surplus_models(state.history, configurations=state.spec.kept)
    try:
        with state.leaderboard.session() as session:
            used = used_elsewhere(session, [trial.key for trial in surplus], sweep=state.spec.sweep)
            lacking = surplus and _find_lacking_sweeps(state, known_journals(session))
    except StoreError as error:
        _log.warning("%s; so no model was deleted", error)
        return
    if lacking:
        _log.warning(
            "the leaderboard has nothing of %s in %s, which may need models of this sweep; so "
            "no model was deleted; add it with cse-leaderboard rebuild",
            lacking[0], state.folders.runs,
        )  # fmt: skip
        return
    elsewhere = []
    for trial in surplus:
        model = trial.model
        if trial.key in used or model is None:
            continue
        if not state.folders.holds_model(model, trial.key):
            elsewhere.append(model)
            continue
        try:
            why = ""
            if holds_other_model(model, trial.key):
                why = f"{mask_url(model)} {NOT_ITS_MODEL.format(trial.key[:MODEL_DIGITS])}"
        except BackboneError as error:
            why = str(error)
        if why:
            _log.warning("%s; so it was not deleted", why)
        else:
            state.record(ModelDeleted(sweep=state.spec.sweep, trial=trial.key))
            state.folders.delete_model(trial.key)
    if elsewhere:
        count, own = format_count(len(elsewhere), "surplus model"), state.folders.models
        message = "%s stay, such as %s: this sweep deletes only the models that are in %s"
        _log.warning(message, count, mask_url(elsewhere[0]), mask_url(own))


def _find_lacking_sweeps(state: SweepState, known: Collection[str]) -> list[str]:
    """Find the other sweeps of the runs folder with journals of which the leaderboard has nothing.

    Such as after it was deleted. Journals that no version reads are left out.
    """
    lacking = []
    for journal in sorted(state.folders.runs.glob(f"sweeps/*/{JOURNAL_FILE}")):
        with suppress(JournalError, OSError):
            is_new = read_journal_id(journal) not in known and not is_deleted(journal)
            if is_new and journal.parent.name != state.spec.sweep and any(read_journal(journal)):
                lacking.append(journal.parent.name)
    return lacking


def surplus_models(history: History, *, configurations: int) -> Collection[TrialHistory]:
    """Find the trials that ran here and whose kept models may be deleted.

    The `configurations` best ones and the trial with the highest value keep their models; the last
    is the one that `best:` refers to.
    """
    trials = history.trials.values()
    best = {trial.key for trial in chosen_trials(history, top=configurations)}
    highest = max((t.best_value or 0.0 for t in trials if t.model is not None), default=0.0)
    return [
        trial
        for trial in trials
        if trial.model is not None
        and trial.reused_from is None
        and trial.key not in best
        and trial.best_value != highest
    ]
