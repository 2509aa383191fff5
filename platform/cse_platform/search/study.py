"""One sweep's Optuna study: one Optuna trial is one configuration on its first seed.

The journal is the truth and the study follows it: `reconcile` tells it whatever it missed.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import optuna
from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from optuna.trial import Trial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from cse_platform.errors import StoreError
from cse_platform.search import samplers
from cse_platform.search.distributions import encode, suggest
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.history import History, TrialHistory
from cse_platform.tracking.provenance import hide_password

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Proposal:
    """A configuration that the sampler wants tried."""

    number: int
    """Of the Optuna trial."""
    assignment: dict[str, Any]
    """Values of the active dimensions, by name."""


class Search:
    """Asks Optuna for configurations and tells it truthfully what became of them.

    Args:
        spec: the sweep; its name is the study's.
        url: of Optuna's database.
        start_points: assignments to try first, each once.

    Raises:
        StoreError: if the database cannot be opened. Every method raises it while the database
            is down; what was missed is made up by `reconcile`.
    """

    def __init__(
        self, spec: SweepSpec, *, url: str, start_points: Sequence[Mapping[str, Any]]
    ) -> None:
        self.spec = spec
        self.url = url
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        with self._store():
            self.study = optuna.create_study(
                study_name=spec.sweep,
                storage=_storage(url),
                direction="maximize",
                load_if_exists=True,
                pruner=samplers.pruner(spec.pruner),
            )
            _enqueue(self.study, spec, start_points)

    def ask(self) -> Proposal:
        """The next configuration: a start point, or what the sampler draws."""
        with self._store():
            self.study.sampler = samplers.sampler(self.spec.search, trial=self._next_number())
            return _draw(self.study, self.study.ask(), self.spec)

    def adopt(self, number: int) -> Proposal:
        """A configuration asked for before an interruption, with what was missing drawn now."""
        with self._store():
            return _draw(self.study, self._trial(number), self.spec)

    def running(self) -> list[int]:
        """Numbers of the trials that were asked for and never told."""
        with self._store():
            found = self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
            return [trial.number for trial in found]

    def report(self, number: int, *, step: int, value: float) -> bool:
        """Tell a dev point; True if the pruner would stop the trial here."""
        with self._store():
            trial = self._trial(number)
            trial.report(value, step)
            return trial.should_prune()

    def tell(self, trial: TrialHistory) -> None:
        """Tell how a trial ended; COMPLETE with its best value, which is never NaN."""
        assert trial.search_number is not None
        with self._store():
            self.study.tell(
                trial.search_number,
                trial.best_value if trial.state == "COMPLETE" else None,
                state=TrialState[trial.state],
                skip_if_finished=True,
            )

    def close(self, number: int, *, why: str) -> None:
        """End a trial that will not be run, as FAIL, with the reason as user attribute."""
        with self._store():
            self._trial(number).set_user_attr("closed", why)
            self.study.tell(number, state=TrialState.FAIL)

    def reconcile(self, history: History) -> None:
        """Tell the study everything that the journal knows and the study does not."""
        with self._store():
            known = {trial.number: trial for trial in self.study.get_trials(deepcopy=False)}
        for trial in history.trials.values():
            frozen = known.get(trial.search_number) if trial.search_number is not None else None
            if frozen is None or frozen.state.is_finished():
                continue
            for step in sorted(set(trial.curve) - set(frozen.intermediate_values)):
                self.report(frozen.number, step=step, value=trial.curve[step])
            if trial.state != "RUNNING":
                self.tell(trial)

    def _next_number(self) -> int:
        waiting = self.study.get_trials(deepcopy=False, states=(TrialState.WAITING,))
        if waiting:
            return min(trial.number for trial in waiting)
        return len(self.study.get_trials(deepcopy=False))

    def _trial(self, number: int) -> Trial:
        frozen = self.study.get_trials(deepcopy=False)[number]
        return Trial(self.study, frozen._trial_id)

    @contextmanager
    def _store(self) -> Iterator[None]:
        try:
            yield
        except (StorageInternalError, SQLAlchemyError) as error:
            cause = str(error.__cause__ or error).splitlines()[0]
            raise StoreError(f"search store {hide_password(self.url)}: {cause}") from error


def preview(
    spec: SweepSpec, *, start_points: Sequence[Mapping[str, Any]], count: int
) -> list[dict[str, Any]]:
    """The first configurations that a search would try if every trial scored the same."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize")
    _enqueue(study, spec, start_points)
    drawn = []
    for number in range(count):
        study.sampler = samplers.sampler(spec.search, trial=number)
        drawn.append(_draw(study, study.ask(), spec).assignment)
        study.tell(number, 0.0)
    return drawn


def _enqueue(
    study: optuna.Study, spec: SweepSpec, start_points: Sequence[Mapping[str, Any]]
) -> None:
    """Start points come first, each once; a grid is nothing but start points."""
    grid = spec.space.grid_points() if spec.search.sampler == "grid" else ()
    for point in (*start_points, *grid):
        encoded = {name: encode(value) for name, value in point.items()}
        study.enqueue_trial(encoded, skip_if_exists=True)


def _draw(study: optuna.Study, trial: Trial, spec: SweepSpec) -> Proposal:
    """Values for the dimensions that are active, parents first."""
    assignment: dict[str, Any] = {}
    for place, name in enumerate(spec.space.ordered(), start=1):
        if spec.space.is_active(name, assignment):
            study.sampler = samplers.sampler(spec.search, trial=trial.number, dimension=place)
            assignment[name] = suggest(trial, name, spec.space[name])
    return Proposal(trial.number, assignment)


def _storage(url: str) -> RDBStorage:
    storage = RDBStorage(url, engine_kwargs={"pool_pre_ping": True})
    if storage.engine.dialect.name == "sqlite":
        with storage.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode=WAL")
    return storage
