"""Plan what a sweep runs next: cut-off trials first, then the search, then the confirmation."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

from cse_methods.config import MethodConfig
from cse_methods.data.corpus_spec import test_sets_of
from cse_methods.errors import BackboneError
from cse_methods.tasks import Tasks
from cse_platform.errors import StoreError, SweepRefusedError
from cse_platform.kept_models import exists, refuse_links
from cse_platform.leaderboard.trials import trial_of_key
from cse_platform.runner.failure_policy import common_cause
from cse_platform.runner.state import LiveTrial, SweepState
from cse_platform.search.budgets import spent_budget, trials_to_begin
from cse_platform.search.confirmation import choose_repeated, further_seeds
from cse_platform.secrets import mask_url
from cse_platform.stores.optuna.trials import explain_closing
from cse_platform.sweep.identity import ConfigurationIdentity
from cse_platform.tracking.events import (
    Role,
    SearchEnded,
    SearchNotes,
    TrialReused,
    TrialStarted,
    copy_shared_fields,
)
from cse_platform.tracking.history import TrialHistory

_log = logging.getLogger(__name__)


def make_start_event(
    state: SweepState,
    config: MethodConfig,
    identity: ConfigurationIdentity,
    role: Role,
    seed: int,
    *,
    searched: tuple[str, ...],
    number: int | None = None,
    **search: Any,
) -> TrialStarted:
    """Make the start event of a trial; its number is the next free one if None is given.

    Its values have the searched settings that are null, which `hyperparameters` leaves out.
    `search` is what the search knows of it: `search_number` and `search_notes`.
    """
    nulls = {name: None for name in searched if getattr(config, name) is None}
    return TrialStarted(
        trial=identity.key(seed),
        number=len(state.history.trials) if number is None else number,
        role=role,
        seed=seed,
        configuration=identity.hash,
        code=identity.code,
        values=config.hyperparameters() | nulls,
        searched=searched,
        **{"search_number": None, **search},
        **build_sweep_fields(state),
    )


def build_sweep_fields(state: SweepState) -> dict[str, Any]:
    """Return the fields of a trial's first event that describe its sweep."""
    spec = state.spec
    return {
        "sweep": spec.sweep,
        "method": spec.method,
        "revision": state.method.revision,
        "backbone": spec.backbone,
        "dev": state.identity.dev,
    }


def find_reused(state: SweepState, planned: TrialStarted) -> TrialReused | None:
    """Find the results of the planned trial on the leaderboard; None if it must run."""
    if not state.reuse or planned.code is None:
        return None
    try:
        with state.leaderboard.session() as session:
            done = trial_of_key(session, planned.trial, curves="metrics")
    except StoreError as error:
        _log.warning("%s; trials of other sweeps are not reused", error)
        return None
    if done is None or done.state != "COMPLETE":
        return None
    if done.best_step is None or done.best_value is None:
        return None
    if done.model is None and state.spec.evaluate is not None:
        return None  # the model was deleted, and this sweep needs it
    kept = next((point.metrics for point in done.points if point.kept), {})
    return TrialReused(
        trial=planned.trial,
        reused_from=done.sweep,
        curve={p.step: p.value for p in done.points if p.value is not None},
        best_step=done.best_step,
        best_value=done.best_value,
        best_metrics={n: value for n, value in kept.items() if value is not None},
        started=done.started,
        finished=done.finished or done.started,
        wall_seconds=done.wall_seconds,
        gpus=done.gpus,
        model=done.model,
        **build_sweep_fields(state),
        **copy_shared_fields(planned),
    )


class Planner:
    """Plans one trial at a time, from the history; nothing runs yet when it is created.

    `capacity` returns how many trials the cluster can run at once now.
    """

    def __init__(self, state: SweepState, *, capacity: Callable[[], int]) -> None:
        self.state, self.capacity = state, capacity
        state.live.clear()  # such as of a Ray that has died
        state.left_over[:] = map(LiveTrial, state.history.unfinished())

    def next(self) -> TrialHistory | None:
        """Start the next trial; None if there is none now, or ever once `state.finished` is set."""
        capacity = self.capacity()
        if len(self.state.live) >= min(capacity, self.state.history.at_most or capacity):
            return None
        while self.state.left_over:
            live = self.state.left_over.pop(0)
            if again := self._plan_resume(live.trial):
                return self._start_trial(again, live)
        for planned in self._iter_plans():
            if (reused := find_reused(self.state, planned)) is None:
                return self._start_trial(planned)
            self.state.record(reused)
            self.state.search.begin(self.state.history.trials[reused.trial])
        return None

    def _iter_plans(self) -> Iterator[TrialStarted]:
        """Yield the trials that may start now: retries, the search, then further seeds.

        Sets `state.gave_up` or `state.finished` where it ends for good.
        """
        state = self.state
        while state.to_retry:
            if planned := self._plan_retry(state.to_retry.pop(0)):
                yield planned
        if cause := common_cause(state):
            if not state.live:  # otherwise a running trial may still succeed
                state.gave_up = cause
            return
        while state.searches_on:
            spent = None
            if state.next_enqueued is None:
                grid = "every point of the grid" if state.search.has_tried_grid else None
                spent = spent_budget(state.spec, state.history) or grid
            if spent is not None:
                state.record(SearchEnded(sweep=state.spec.sweep, budget=spent))
                break
            if planned := self._plan_proposal():
                yield planned
        if any(state.history.trials[key].role != "confirm" for key in state.live):
            return  # the confirmation depends on all results of the search
        for first, seed in further_seeds(state.history, state.spec):
            config = state.spec.config_of(first.values)
            identity = state.identity.of_config(config)
            yield make_start_event(
                state, config, identity, "confirm", seed, searched=first.searched
            )
        if not state.live:  # a confirmation may still crash and have to resume
            state.finished = True

    def count_startable(self) -> int:
        """Count the trials that could start now if there were room for all.

        A search without a number of trials could double those that run.
        """
        state, limit = self.state, self.state.history.at_most
        count = len(state.left_over) + len(state.to_retry)
        if state.searches_on:
            to_begin = trials_to_begin(state.spec, state.history)
            count += max(len(state.live), 1) if to_begin is None else to_begin
        elif all(state.history.trials[key].role == "confirm" for key in state.live):
            count += sum(1 for _ in further_seeds(state.history, state.spec))
        return count if limit is None else min(count, max(limit - len(state.live), 0))

    def param_space(self, trial: TrialHistory) -> dict[str, Any]:
        """Make the arguments of the trainable for a trial that `next` has started."""
        config, folders = self.state.spec.config_of(trial.values), self.state.folders
        checkpoint = None if trial.checkpoint is None else trial.checkpoint[1]
        return {
            **config.model_dump(mode="json"),
            "seed": trial.seed,
            "resume_from": checkpoint,
            "code": trial.code,
            "checkpoint_every": self.state.spec.resources.checkpoint_every,
            "own_tests": self.state.spec.own_test_files,
            "kept_model": {"location": folders.model_location(trial.key), "trial": trial.key},
            "checkpoints": folders.checkpoints,
        }

    def _plan_proposal(self) -> TrialStarted | None:
        """Plan an enqueued configuration, one to repeat, or a new one.

        One that was tried before gets the next seed. Returns None if the method refuses a
        configuration that a person has enqueued.
        """
        search, history, spec = self.state.search, self.state.history, self.state.spec
        values = None
        if (request := self.state.next_enqueued) is not None:
            values = history.enqueued[request]
        elif spec.seeds.repeats:
            repeated = choose_repeated(history)
            values = None if repeated is None else repeated.searched_values
        proposal = search.ask(values, request=request)
        try:
            config = spec.config(proposal.assignment)
        except SweepRefusedError as error:
            if request is None:
                raise
            _log.warning("%s", error)
            self.state.refused.add(request)
            return None
        identity = self.state.identity.of_config(config)
        earlier = {t.seed for t in history.trials.values() if t.configuration == identity.hash}
        return make_start_event(
            self.state,
            config,
            identity,
            role="repeat" if earlier else "search",
            seed=max(earlier) + 1 if earlier else spec.seeds.search,
            searched=tuple(name for name in spec.space if name in proposal.assignment),
            search_number=proposal.number,
            search_notes=proposal.notes,
        )

    def _accepted_config(self, trial: TrialHistory) -> MethodConfig | None:
        """Return a trial's configuration, or None if the method no longer accepts it."""
        try:
            return self.state.spec.config_of(trial.values)
        except SweepRefusedError:
            return None

    def _plan_retry(self, failed: TrialHistory) -> TrialStarted | None:
        """Plan a failed trial again: same configuration, seed and number, with the current code.

        Returns None if the method no longer accepts the configuration.
        """
        if (config := self._accepted_config(failed)) is None:
            return None
        number, notes = failed.search_number, failed.search_notes
        if number is not None and explain_closing(failed, self.state.spec) is None:
            number, notes = self.state.search.next_number, SearchNotes(retry_of=number)
        return make_start_event(
            self.state,
            config,
            self.state.identity.of_config(config),
            failed.role,
            failed.seed,
            searched=failed.searched,
            number=failed.number,
            search_number=number,
            search_notes=notes,
        )

    def _plan_resume(self, trial: TrialHistory) -> TrialStarted | None:
        """Plan the rest of a cut-off trial. If it cannot resume, record FAIL and return None."""
        config = self._accepted_config(trial)
        if config is None or self.state.identity.of_config(config).key(trial.seed) != trial.key:
            again = f"cse-sweep retry {self.state.spec.sweep} {trial.number} tries it again"
            self.state.end_trial(
                trial,
                "FAIL",
                error=f"cannot be resumed: weights, data or the method changed; {again}",
                cause="refusal",
                best_step=None,
                best_value=None,
            )
            return None
        step, checkpoint = trial.checkpoint or (0, None)
        if checkpoint is not None:
            try:
                refuse_links(checkpoint)
                problem = "" if exists(checkpoint) else f"{mask_url(checkpoint)} is gone"
            except BackboneError as error:
                problem = str(error)
            if problem:
                _log.warning("trial %d starts over: %s", trial.number, problem)
                step = 0
        known = copy_shared_fields(trial) | build_sweep_fields(self.state)
        return TrialStarted(trial=trial.key, resumed_from=step, **known)

    def _start_trial(self, started: TrialStarted, live: LiveTrial | None = None) -> TrialHistory:
        self.state.record(started)
        if test_sets := test_sets_of(self.state.spec.corpus):
            self.state.record_test_access(started.trial, Tasks(sts=tuple(test_sets)))
        trial = self.state.history.trials[started.trial]
        self.state.live[trial.key] = live or LiveTrial(trial)
        self.state.search.begin(trial)
        return trial
