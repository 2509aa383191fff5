"""The Optuna study of a sweep: one Optuna trial is one configuration on its first seed."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.exceptions import StorageInternalError, UpdateFinishedTrialError
from optuna.storages._rdb.models import NOT_FOUND_MSG
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial
from sqlalchemy.exc import SQLAlchemyError

from cse_platform.errors import StoreDownError, StoreLostError, SweepRefusedError
from cse_platform.search.distributions import build_distribution
from cse_platform.search.failures import FAILURE_CAUSE, RETRY_OF
from cse_platform.search.learning import SOURCE
from cse_platform.search.proposals import (
    Proposal,
    ProposedPoints,
    complete_trial,
    list_given_points,
    propose,
    reconstruct_sampler_attrs,
)
from cse_platform.search.pruners.build import build_pruner
from cse_platform.search.restoring import (
    CLOSED,
    REQUEST,
    SEED,
    convert_to_local,
    encode_values,
    explain_closing,
    matches_journal,
    read_final_values,
    restore_trials,
)
from cse_platform.search.storage import JOURNAL, TrialCache, open_search_store
from cse_platform.secrets import mask_url
from cse_platform.sweep.objectives import compute_excesses
from cse_platform.sweep.space.dimensions import Choices, encode
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.events import LearnedTrial, now
from cse_platform.tracking.history import History, TrialHistory
from cse_platform.urls import sqlite_file


class SearchStudy:
    """Asks Optuna for configurations, and reports to it how each trial went and ended.

    The study has the sweep's name. Start points are tried first, each once. The constructor raises
    StoreError if the database cannot be opened, and SweepRefusedError if its study of that name can
    be another sweep's. Every method raises StoreDownError while the
    database is down, in which case `reconcile` later reports what was missed, and StoreLostError if
    the database answers but lacks a trial that it must have.
    """

    def __init__(
        self,
        spec: SweepSpec,
        *,
        url: str,
        runs: Path,
        start_points: ProposedPoints,
        journal: str,
        history: History,
        learned: Sequence[LearnedTrial] = (),
    ) -> None:
        self.spec = spec
        self.url = url
        self._has_own_store = url.startswith("sqlite") and (
            sqlite_file(url).resolve().is_relative_to(runs.resolve())
        )
        self.start_points = start_points
        self.learned = learned
        """Trials of other sweeps from which the sampler learns; they are not in the study."""
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._cache = TrialCache(self._read_trials)
        with self._translate_errors():
            self._opened = open_search_store(url)
            self.study = self._open_study()
            try:
                self._bind_journal(journal, history)
            except SweepRefusedError:
                self.close_store()
                raise
            self._restore_missing(history)
            if learned:
                self.study.set_user_attr(SOURCE, [trial.source for trial in learned])
            self._points = list_given_points(spec, start_points, self._list_trials())
            self._next_point = next(self._points, None)

    def ask(self) -> Proposal:
        """Propose the next configuration: the next unused start point, else a sample."""
        with self._translate_errors():
            trials = self._list_trials()
            proposal = propose(
                self.study, self.spec, trials, point=self._next_point, learned=self.learned
            )
            if proposal.number == len(trials):  # otherwise it waited in the store
                self._next_point = next(self._points, None)
            self._cache.put(proposal.trial)
            return proposal

    def has_tried_grid(self) -> bool:
        """Whether the search is a grid, and each of its points was proposed."""
        if self.spec.search.sampler.kind != "grid" or self._next_point is not None:
            return False
        with self._translate_errors():
            return all(trial.state != TrialState.WAITING for trial in self._list_trials())

    def retry(self, number: int) -> int:
        """Begin a trial with the values of an ended one. Returns its number.

        The ended trial stays as it is. If such a retry was begun but never started, it is returned.
        """
        with self._translate_errors():
            for trial in self._list_trials():
                begun = trial.state == TrialState.RUNNING
                if begun and trial.user_attrs.get(RETRY_OF) == number:
                    return trial.number
            failed = self._read_trial(number)
            return self._add_running(failed.params, failed.distributions, {RETRY_OF: number})

    def repeat(self, number: int) -> int:
        """Begin a trial with the values of another one for a further seed. Returns its number."""
        with self._translate_errors():
            known = self._read_trial(number)
            return self._add_running(known.params, known.distributions, {})

    def begin(self, request: str, values: Mapping[str, Any]) -> int:
        """Begin a trial with these values, once for each request. Returns its number.

        `adopt` draws the values that are missing.
        """
        with self._translate_errors():
            for trial in self._list_trials():
                if trial.user_attrs.get(REQUEST) == request:
                    return trial.number
            space = self.spec.space
            params = {name: encode(space[name].find(value)) for name, value in values.items()}
            return self._add_running(
                params, {n: build_distribution(space[n]) for n in params}, {REQUEST: request}
            )

    def adopt(self, number: int) -> Proposal:
        """Draw the values that a begun trial lacks."""
        with self._translate_errors():
            begun, trials = self._read_trial(number), self._list_trials()
            proposal = complete_trial(self.study, self.spec, trials, begun, learned=self.learned)
            self._cache.put(proposal.trial)
            return proposal

    def running(self) -> list[int]:
        """List the numbers of trials that were proposed and have no result yet."""
        with self._translate_errors():
            return [
                trial.number for trial in self._list_trials() if trial.state == TrialState.RUNNING
            ]

    def report(self, trial: TrialHistory, *, step: int) -> bool:
        """Report the best value so far after a step. Returns True if the pruner stops the trial.

        Optuna's pruners judge a trial by its highest value so far, so step 0, before training, is
        not reported, and a fall after the peak does not count. Trials of further seeds, and trials
        that have ended in the study, are never stopped. With several objectives nothing is
        reported, because Optuna has no curves for them.
        """
        number = self._find_number(trial)
        if number is None or step not in trial.kept:
            return False
        if self.spec.search.objectives:
            return False
        with self._translate_errors():
            frozen = self._find_trial(number)
            if frozen.state.is_finished():
                return False
            # As `Trial.report` and `Trial.should_prune`, without reading earlier reports.
            if step not in frozen.intermediate_values:
                self._add_point(frozen, step, trial.kept[step])
            frozen.intermediate_values.pop(0, None)  # older versions reported it
            stops = self.study.pruner.prune(self._cache.wrap_study(self.study), frozen)
            return bool(stops) and trial.role == "search"

    def _find_number(self, trial: TrialHistory) -> int | None:
        """Return a trial's number in the study; None if the study does not have its results."""
        return None if explain_closing(trial, self.spec) else trial.search_number

    def _add_point(self, frozen: FrozenTrial, step: int, value: float) -> None:
        with self._expect_trial(frozen.number):
            self.study._storage.set_trial_intermediate_value(frozen._trial_id, step, value)
        frozen.intermediate_values[step] = value

    def tell(self, trial: TrialHistory) -> None:
        """Report how a trial ended: COMPLETE has its best values, which are never NaN.

        Constraint violations are reported first. Trials that are not in the study are skipped:
        those of further seeds, except with `seeds.repeats`.
        """
        if (number := self._find_number(trial)) is None:
            return
        with self._translate_errors():
            frozen = self._find_trial(number)
            if frozen.state.is_finished():
                return
            frozen = self._report_outcome(frozen, trial)
            values: Sequence[float] | None = None
            if trial.state == "COMPLETE":
                values = read_final_values(trial, self.spec)
            elif trial.state == "PRUNED":
                values = _read_last_value(frozen)
            self._end_trial(frozen, TrialState[trial.state], values)

    def _report_outcome(self, frozen: FrozenTrial, trial: TrialHistory) -> FrozenTrial:
        """Report the seed of a repeat, the cause of a failure, or the constraint violations.

        Returns the trial as it is stored then.
        """
        if trial.role == "repeat":
            self._set_user_attr(frozen, SEED, trial.seed)
        if trial.state == "FAIL":
            self._set_user_attr(frozen, FAILURE_CAUSE, trial.cause)
            return frozen
        violations = compute_excesses(self.spec.search.constraints, [trial]) or {}
        for text in [text for text in violations if text not in frozen.constraints]:
            with self._expect_trial(frozen.number):
                Trial(self.study, frozen._trial_id).set_constraint(text, violations[text])
        return self._read_trial(frozen.number) if violations else frozen

    def _set_user_attr(self, frozen: FrozenTrial, name: str, value: Any) -> None:
        with self._expect_trial(frozen.number):
            self.study._storage.set_trial_user_attr(frozen._trial_id, name, value)
        frozen.user_attrs[name] = value

    def _end_trial(
        self, frozen: FrozenTrial, state: TrialState, values: Sequence[float] | None = None
    ) -> None:
        """End a trial in the store and in the cache.

        This writes the same as `Study.tell` in one transaction; `tell` would also read the trial
        twice.
        """
        with self._expect_trial(frozen.number):
            try:
                self.study._storage.set_trial_state_values(frozen._trial_id, state, values)
            except UpdateFinishedTrialError:  # a driver that held the lease before has ended it
                self._read_trial(frozen.number)
                return
        frozen.state, frozen.values = state, values
        frozen.datetime_complete = convert_to_local(now())

    def close(self, number: int, *, why: str) -> None:
        """Close a trial that will not be run as FAIL, with the reason as a user attribute."""
        with self._translate_errors():
            frozen = self._read_trial(number)
            self._set_user_attr(frozen, CLOSED, why)
            self._end_trial(frozen, TrialState.FAIL)

    def close_store(self) -> None:
        """Close all database connections; SQLite then merges its log into the file."""
        self._opened.remove_session()
        self._opened.engine.dispose()

    def reconcile(self, history: History) -> None:
        """Report to the study everything that the journal has and the study lacks."""
        with self._translate_errors():
            self._cache.clear()
            self._restore_missing(history)
            known = {trial.number: trial for trial in self._list_trials()}
        for number, trial in history.attempts.items():
            if not known[number].state.is_finished():
                self._catch_up(known[number], trial)

    def _open_study(self) -> optuna.Study:
        return optuna.create_study(
            study_name=self.spec.sweep,
            storage=self._opened,
            directions=self.spec.search.directions,
            load_if_exists=True,
            pruner=build_pruner(self.spec.pruner),
        )

    def _bind_journal(self, journal: str, history: History) -> None:
        """Bind the study to the journal; an unbound study of an older version only if it matches.

        A study whose choices are others is made anew, because Optuna knows one set of choices: the
        best encoders among them lie in a runs folder that was moved or copied. Outside this runs
        folder the study can still be that of the original.

        Raises SweepRefusedError if the study belongs to another journal, or can be the original's.
        """
        owner = self.study.user_attrs.get(JOURNAL)
        if owner is None and matches_journal(self._list_trials(), history, self.spec):
            self.study.set_user_attr(JOURNAL, journal)
        elif owner != journal or (self._has_other_choices() and not self._has_own_store):
            whose = (
                "belongs to another journal"
                if owner != journal
                else "has other choices, as that of a runs folder that was copied or moved"
            )
            raise SweepRefusedError(
                f"search store {mask_url(self.url)} has a search of the name {self.spec.sweep!r} "
                f"that {whose}; run this one as another sweep, --set sweep=NEWNAME, or with "
                "another search store, --set stores.search=URL"
            )
        elif self._has_other_choices():
            optuna.delete_study(study_name=self.spec.sweep, storage=self._opened)
            self._cache.clear()
            self.study = self._open_study()
            self.study.set_user_attr(JOURNAL, journal)

    def _has_other_choices(self) -> bool:
        """Whether a trial of the study was drawn from choices that the sweep does not have now."""
        space = self.spec.space.items()
        now = {name: build_distribution(one) for name, one in space if isinstance(one, Choices)}
        return any(
            name in now and now[name] != drawn_from
            for trial in self._list_trials()
            for name, drawn_from in trial.distributions.items()
        )

    def _restore_missing(self, history: History) -> None:
        """Restore the trials that the journal knows and the study lacks."""
        known = self._list_trials()
        waiting = [trial for trial in known if trial.state == TrialState.WAITING]
        for trial in waiting:
            if (attempt := history.attempts.get(trial.number)) is not None:
                self._begin_waiting(trial, encode_values(attempt, self.spec))
        points = self.start_points
        for trial in restore_trials(history, self.spec, points, first=len(known)):
            if trial.params and not trial.user_attrs.keys() & {RETRY_OF, REQUEST}:  # it was drawn
                notes = reconstruct_sampler_attrs(
                    self.study, self.spec, known, trial, learned=self.learned
                )
                trial.system_attrs = {**trial.system_attrs, **notes}
            self.study.add_trial(trial)
            known.append(self._read_trial(len(known)))
        self._cache.clear()

    def _begin_waiting(self, waiting: FrozenTrial, params: dict[str, Any]) -> None:
        """Start a waiting trial with all its values."""
        storage = self.study._storage
        for name, value in params.items():
            asked = build_distribution(self.spec.space[name])
            internal = asked.to_internal_repr(value)
            storage.set_trial_param(waiting._trial_id, name, internal, asked)
        storage.set_trial_state_values(waiting._trial_id, TrialState.RUNNING)

    def _catch_up(self, frozen: FrozenTrial, trial: TrialHistory) -> None:
        if why := explain_closing(trial, self.spec):
            self.close(frozen.number, why=why)
            return
        for step in sorted(set(trial.kept) - set(frozen.intermediate_values)):
            self.report(trial, step=step)
        if trial.state != "RUNNING":
            self.tell(trial)

    def _add_running(
        self,
        params: dict[str, Any],
        distributions: dict[str, BaseDistribution],
        mark: dict[str, Any],
    ) -> int:
        again = create_trial(
            state=TrialState.RUNNING, params=params, distributions=distributions, user_attrs=mark
        )
        self.study.add_trial(again)
        self._cache.clear()
        return self._list_trials()[-1].number

    def _find_trial(self, number: int) -> FrozenTrial:
        """Return the trial from the cache, else from the store."""
        return self._cache.get(number) or self._read_trial(number)

    def _read_trial(self, number: int) -> FrozenTrial:
        """Read the trial from the store; StoreLostError if it is gone, even if cached."""
        storage = self.study._storage
        with self._expect_trial(number):
            trial_id = storage.get_trial_id_from_study_id_trial_number(self.study._study_id, number)
            frozen = storage.get_trial(trial_id)
        self._cache.put(frozen)
        return frozen

    @contextmanager
    def _expect_trial(self, number: int) -> Iterator[None]:
        """Raise StoreLostError instead of Optuna's KeyError, which means that the trial is gone."""
        try:
            yield
        except KeyError as error:
            raise self._make_lost_error(f"trial {number}") from error

    def _list_trials(self) -> list[FrozenTrial]:
        return self._cache.list_all()

    def _read_trials(self) -> list[FrozenTrial]:
        return self.study.get_trials(deepcopy=False)

    def _make_lost_error(self, what: str) -> StoreLostError:
        return StoreLostError(
            f"search store {mask_url(self.url)} has lost {what} of sweep "
            f"{self.spec.sweep!r}, which the journal knows; the same command fills the store from "
            "the journal again"
        )

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except (StorageInternalError, SQLAlchemyError) as error:
            self._cache.clear()
            cause = str(error.__cause__ or error).splitlines()[0]
            raise StoreDownError(f"search store {mask_url(self.url)}: {cause}") from error
        except KeyError as error:
            if error.args == (NOT_FOUND_MSG,):
                raise self._make_lost_error("the study") from error
            raise


def _read_last_value(pruned: FrozenTrial) -> list[float] | None:
    """Return the value that Optuna gives a pruned trial: its last dev point, if not NaN."""
    if pruned.last_step is None:
        return None
    last = pruned.intermediate_values[pruned.last_step]
    return None if math.isnan(last) else [last]
