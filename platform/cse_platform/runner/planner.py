"""What a sweep runs next: cut-off trials first, then the search, then the confirmation."""

import logging
import statistics
from collections.abc import Callable, Iterator

from cse_methods.contract import MethodConfig
from cse_platform.errors import StoreError, SweepRefusedError
from cse_platform.leaderboard.query.trials.curves import completed_trial
from cse_platform.runner.models import exists
from cse_platform.runner.plan import TrialPlan
from cse_platform.runner.state import SweepState
from cse_platform.search.study import Proposal
from cse_platform.secrets import mask_url
from cse_platform.tracking.events import Role, TrialFinished, TrialReused, TrialStarted
from cse_platform.tracking.history import TrialHistory

_log = logging.getLogger(__name__)


class Planner:
    """Gives one trial at a time.

    Args:
        state: of the sweep.
        capacity: how many trials the cluster can run at once now.
    """

    def __init__(self, state: SweepState, *, capacity: Callable[[], int]) -> None:
        self.state, self.capacity = state, capacity
        state.search.reconcile(state.history)
        state.left_over.extend(state.history.unfinished())

    def next(self) -> TrialPlan | None:
        """The next trial to start; None to wait, and for good once `state.finished` is set."""
        if len(self.state.live) >= self.capacity():
            return None
        while self.state.left_over:
            if plan := self._resume(self.state.left_over.pop(0)):
                return self._start(plan)
        while self._searched() < self.state.spec.budget:
            proposal = self.state.with_search(self._propose)
            if proposal is None:
                return None
            if plan := self._unless_reused(self._plan_for(proposal)):
                return self._start(plan)
        if self._searching():
            return None  # which configurations to confirm needs every value of the search
        for further in self._confirmations():
            if plan := self._unless_reused(further):
                return self._start(plan)
        if not self.state.live:  # one that crashes has to go on
            self.state.finished = self.state.with_search(self._close_surplus) is not None
        return None

    def _searching(self) -> bool:
        trials = self.state.history.trials
        return any(trials[key].role != "confirm" for key in self.state.live)

    def _searched(self) -> int:
        return sum(trial.role != "confirm" for trial in self.state.history.trials.values())

    def _propose(self) -> Proposal:
        """What was asked for and never started, then what the sampler draws."""
        unstarted = self._unstarted()
        return self.state.search.adopt(unstarted[0]) if unstarted else self.state.search.ask()

    def _unstarted(self) -> list[int]:
        known = {trial.search_number for trial in self.state.history.trials.values()}
        return [number for number in self.state.search.running() if number not in known]

    def _close_surplus(self) -> bool:
        """Leave nothing RUNNING in the study; reached only while the search store answers."""
        for number in self._unstarted():
            self.state.search.close(number, why="the budget was spent")
        return True

    def _plan_for(self, proposal: Proposal) -> TrialPlan:
        """The search's seed, or one more seed of a configuration that was proposed before."""
        spec = self.state.spec
        config = spec.config(proposal.assignment)
        earlier = self._seeds(self.state.identity.configuration(config))
        return self._plan(
            config,
            "repeat" if earlier else "search",
            seed=max(earlier) + 1 if earlier else spec.seeds.search,
            searched=tuple(name for name in spec.space if name in proposal.assignment),
            search_number=proposal.number,
        )

    def _confirmations(self) -> Iterator[TrialPlan]:
        """Further seeds of the best configurations, best first."""
        confirm = self.state.spec.seeds.confirm
        if confirm is None:
            return
        found = {
            name: [trial for trial in trials if trial.role != "confirm"]
            for name, trials in self.state.history.configurations().items()
        }
        means = {
            name: statistics.fmean(t.best_value for t in trials if t.best_value is not None)
            for name, trials in found.items()
            if trials
        }
        best = sorted(means, key=lambda name: (-means[name], found[name][0].number))
        for name in best[: confirm.top]:
            first = found[name][0]
            config = self.state.spec.config_of(first.values)
            for seed in confirm.seeds:
                if seed not in self._seeds(name):
                    yield self._plan(config, "confirm", seed=seed, searched=first.searched)

    def _seeds(self, configuration: str) -> set[int]:
        trials = self.state.history.trials.values()
        return {trial.seed for trial in trials if trial.configuration == configuration}

    def _plan(
        self,
        config: MethodConfig,
        role: Role,
        *,
        seed: int,
        searched: tuple[str, ...],
        search_number: int | None = None,
    ) -> TrialPlan:
        return TrialPlan(
            key=self.state.identity.key(config, seed=seed),
            number=len(self.state.history.trials),
            role=role,
            search_number=search_number,
            seed=seed,
            configuration=self.state.identity.configuration(config),
            values=config.hyperparameters(),
            searched=searched,
            settings=config.model_dump(mode="json"),
        )

    def _resume(self, trial: TrialHistory) -> TrialPlan | None:
        """The rest of a trial that was cut off; None, and FAIL, if it cannot be had."""
        config = self._again(trial)
        if config is None:
            self._give_up(trial, "cannot be resumed: weights, data or the method have changed")
            return None
        step, checkpoint = trial.checkpoint or (0, None)
        if checkpoint is not None and not exists(checkpoint):
            _log.warning("trial %d starts over: %s is gone", trial.number, mask_url(checkpoint))
            step, checkpoint = 0, None
        return TrialPlan(
            key=trial.key,
            number=trial.number,
            role=trial.role,
            search_number=trial.search_number,
            seed=trial.seed,
            configuration=trial.configuration,
            values=trial.values,
            searched=trial.searched,
            settings=config.model_dump(mode="json"),
            resumed_from=step,
            checkpoint=checkpoint,
        )

    def _again(self, trial: TrialHistory) -> MethodConfig | None:
        """The configuration of a trial, if it still means what it meant."""
        try:
            config = self.state.spec.config_of(trial.values)
        except SweepRefusedError:
            return None
        same = self.state.identity.key(config, seed=trial.seed) == trial.key
        return config if same else None

    def _give_up(self, trial: TrialHistory, error: str) -> None:
        self.state.record(
            TrialFinished(
                sweep=self.state.spec.sweep,
                trial=trial.key,
                state="FAIL",
                best_step=None,
                best_value=None,
                error=error,
            )
        )
        self.state.with_search(lambda: self.state.search.tell(trial))

    def _start(self, plan: TrialPlan) -> TrialPlan:
        spec = self.state.spec
        self.state.record(
            TrialStarted(
                sweep=spec.sweep,
                trial=plan.key,
                number=plan.number,
                role=plan.role,
                search_number=plan.search_number,
                seed=plan.seed,
                method=spec.method,
                revision=self.state.method.revision,
                backbone=spec.backbone,
                configuration=plan.configuration,
                values=plan.values,
                searched=plan.searched,
                dev=self.state.identity.dev,
                resumed_from=plan.resumed_from,
            )
        )
        self.state.live.add(plan.key)
        if plan.role == "repeat":
            self._reconcile()
        return plan

    def _reconcile(self) -> None:
        self.state.with_search(lambda: self.state.search.reconcile(self.state.history))

    def _unless_reused(self, plan: TrialPlan) -> TrialPlan | None:
        """The plan, unless another sweep has completed that very trial: then its values."""
        try:
            with self.state.leaderboard.session() as session:
                done = completed_trial(session, plan.key)
        except StoreError as error:
            _log.warning("%s; trials of other sweeps are not reused", error)
            return plan
        if done is None:
            return plan
        self.state.record(
            TrialReused(
                sweep=self.state.spec.sweep,
                trial=plan.key,
                number=plan.number,
                role=plan.role,
                search_number=plan.search_number,
                seed=plan.seed,
                configuration=plan.configuration,
                values=plan.values,
                searched=plan.searched,
                curve=dict(done.curve),
                best_step=done.best_step,
                best_value=done.best_value,
                model=done.model,
            )
        )
        self._reconcile()
        return None
