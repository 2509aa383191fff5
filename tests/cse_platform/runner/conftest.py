"""Whole sweeps without Ray: real stores, the real planner and results, made-up scores."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import cheap as _registers_it  # noqa: F401
import optuna
import pytest
from optuna.storages._rdb.storage import _VersionManager
from pyarrow.fs import LocalFileSystem

from cse_methods.contract import BEST_FOLDER, Method
from cse_methods.registry import get_method
from cse_platform.leaderboard.ingest.journal_sink import LeaderboardSink
from cse_platform.leaderboard.ingest.lease import Lease
from cse_platform.leaderboard.store import Store, open_store
from cse_platform.runner.failures import End, Failure
from cse_platform.runner.models import keep_model
from cse_platform.runner.planning.compatibility import (
    environment_hash,
    refuse_other_content,
    to_try_again,
)
from cse_platform.runner.planning.planner import Planner
from cse_platform.runner.planning.prior_results import gather
from cse_platform.runner.results import Results
from cse_platform.runner.state import Reuse, SweepState
from cse_platform.search.study import SearchStudy
from cse_platform.sweep.identity import DevData, Identity
from cse_platform.sweep.spec import SweepSpec
from cse_platform.sweep.start_points import start_points
from cse_platform.tracking.events import SweepFinished, SweepStarted
from cse_platform.tracking.history import History, TrialHistory
from cse_platform.tracking.journal import Journal, read_journal
from cse_platform.tracking.recorder import Recorder, Sink

STEPS = (0, 2, 4)
"""Where a trial reports."""

SWEEP: dict[str, Any] = {
    "sweep": "small", "method": "cheap", "backbone": "mini", "corpus": "builtin",
    "data": "builtin",
    "space": {"temperature": {"low": 0.01, "high": 1.0, "log": True}, "kind": ["a", "b"]},
    "search": {"sampler": "random", "trials": 3, "seed": 1},
}  # fmt: skip

Score = Callable[[Mapping[str, Any], int, int], float]
"""(hyperparameters, seed, step) -> dev score."""


def lucky(values: Mapping[str, Any], seed: int, step: int) -> float:
    """A score that follows from what it is given, and from nothing else."""
    return random.Random(f"{sorted(values.items())} {seed} {step}").uniform(0.2, 0.8)


class Drive:
    """One start of a sweep's driver.

    Args:
        folder: of the journal, the search store and the checkpoints.
        spec: the sweep.
        identity: of the sweep.
        leaderboard: which completed trials are taken over from.
        capacity: trials at a time.
        score: what trials report.
        reuse: which complete trials of other sweeps are taken over.
        packages: that are installed.
        search: the URL of the search store; by default a file in the folder.
        sinks: of the journal, beside the leaderboard.
    """

    def __init__(
        self,
        folder: Path,
        spec: SweepSpec,
        identity: Identity,
        leaderboard: Store,
        *,
        capacity: int = 1,
        score: Score = lucky,
        reuse: Reuse = "same code",
        packages: Mapping[str, str] | None = None,
        search: str | None = None,
        sinks: Sequence[Sink] = (),
    ) -> None:
        self.folder, self.spec, self.score = folder, spec, score
        method = get_method(spec.method)
        journal = Journal(folder / "journal.jsonl")
        try:
            self.lease = Lease(leaderboard, spec.sweep, journal)
        except BaseException:
            journal.close()
            raise
        self.recorder = Recorder(journal, [LeaderboardSink(leaderboard, self.lease), *sinks])
        try:
            history = History(event for _, event in journal.read())
            asked, content = spec.model_dump(mode="json"), identity.content()
            environment = environment_hash(asked, content, packages or {})
            failed = to_try_again(history, environment)
            refuse_other_content(history, spec, identity, unknown_code=reuse == "unknown code too")
            evidence = gather(history, spec, leaderboard, dev=identity.dev)
            study = SearchStudy(
                spec,
                url=search or f"sqlite:///{folder / 'search.db'}",
                start_points=start_points(spec, method, evidence.leaders or {}),
                journal=journal.id,
                history=history,
                learned=evidence.learned,
            )
            stores = (self.recorder, study, leaderboard, self.lease)
            self.state = SweepState(spec, method, identity, history, *stores, reuse, failed)
            self.state.record(
                SweepStarted(
                    sweep=spec.sweep, method=spec.method, backbone=spec.backbone,
                    spec=asked, content=content, environment=environment, provenance={},
                    leaders=evidence.leaders, learned=evidence.learned,
                )
            )  # fmt: skip
            self.planner = Planner(self.state, capacity=lambda: capacity)
        except BaseException:
            self.recorder.close(10)
            self.lease.close()
            raise
        self.results = Results(
            self.state,
            checkpoints=str(folder / "ray"),
            models=str(folder / "models"),
            errors=folder / "errors",
        )
        self.running: dict[str, Iterator[int]] = {}

    @property
    def history(self) -> History:
        return self.state.history

    def start(self) -> list[TrialHistory]:
        """Start what the planner wants now."""
        plans = []
        while (plan := self.planner.next()) is not None:
            last = plan.resumed_from if plan.checkpoint else None
            self.running[plan.key] = iter([s for s in STEPS if last is None or s > last])
            plans.append(plan)
        return plans

    def report(self, key: str, step: int, **metrics: float) -> bool:
        """One dev point, with a checkpoint from the first trained step on."""
        trial = self.history.trials[key]
        value = self.score(trial.values, trial.seed, step)
        given = {"dev/stsb_spearman": value, "train/progress": step / STEPS[-1], **metrics}
        checkpoint = self.folder / "checkpoints" / key[:12] / str(step) if step else None
        if checkpoint is not None:
            (checkpoint / BEST_FOLDER).mkdir(parents=True, exist_ok=True)
        place = str(checkpoint) if checkpoint else None
        return self.results.point(key, step=step, metrics=given, checkpoint=place)

    def advance(self, key: str) -> None:
        """The next report of a trial, or its end."""
        step = next(self.running[key], None)
        if step is None:
            del self.running[key]
            self.complete(key)
        elif self.report(key, step):
            del self.running[key]
            self.results.ended(key)

    def complete(self, key: str) -> None:
        """The end of a trial at its last step; its worker puts its model in its place before."""
        if (last := self.history.trials[key].checkpoint) is not None:
            target = self.results.model_place(key)
            problem = keep_model(LocalFileSystem(), last[1], target, trial=key)
            self.results.model_kept(key, problem=problem)
        self.results.ended(key)

    def fail(self, key: str, error: str, *, crashed: bool) -> None:
        """A trial raises an error, or its process dies."""
        self.running.pop(key)
        end: End = "crash" if crashed else "error"
        self.results.failed(key, Failure(error, traceback=f"all of {error}", end=end))

    def run(self) -> None:
        """To the end of the sweep."""
        self.run_until_idle()
        assert self.state.finished
        self.state.record(SweepFinished(sweep=self.spec.sweep, state="COMPLETE"))

    def run_until_idle(self) -> None:
        """Until nothing runs and nothing more is started."""
        while self.start() or self.running:
            for key in list(self.running):
                self.advance(key)

    def close(self) -> None:
        """As after a kill: nothing more is said."""
        self.state.deletions.close()
        health = self.recorder.close(10)
        self.lease.close()
        assert [sink.error for sink in health] == [None]

    def outcome(self) -> dict[tuple[str, int], tuple[str, float | None, dict[int, float]]]:
        """(configuration, seed) -> state, best value and dev curve."""
        return {
            (trial.configuration, trial.seed): (trial.state, trial.best_value, trial.curve)
            for trial in self.history.trials.values()
        }

    def study(self) -> optuna.Study:
        """The study as Optuna alone sees it."""
        return optuna.load_study(
            study_name=self.spec.sweep, storage=f"sqlite:///{self.folder / 'search.db'}"
        )

    def assert_sound(self) -> None:
        """No point twice, nothing RUNNING, and Optuna says what the journal says."""
        points = [
            (event.trial, event.step)
            for _, event in read_journal(self.folder / "journal.jsonl")
            if event.kind == "trial_point"
        ]
        assert len(points) == len(set(points))
        told = {trial.number: trial for trial in self.study().trials}
        assert "RUNNING" not in {trial.state.name for trial in told.values()}
        for trial in self.history.trials.values():
            assert trial.state != "RUNNING"
            if trial.role == "search":
                assert trial.search_number is not None
                there = told[trial.search_number]
                older = 0 in there.intermediate_values  # it was told whole curves
                kept = trial.curve if older else trial.kept
                assert (there.state.name, there.intermediate_values) == (trial.state, kept)
                if trial.state == "COMPLETE":
                    assert there.value == trial.best_value


NewSpec = Callable[..., SweepSpec]
NewDrive = Callable[..., Drive]
NewStore = Callable[[Path], str]


@pytest.fixture(scope="session", autouse=True)
def _quick_optuna() -> Iterator[None]:
    """Optuna loads all its migrations, for their newest number, whenever a store is opened."""
    with pytest.MonkeyPatch.context() as patch:
        newest = cache(lambda: _VersionManager._create_alembic_script(manager).get_current_head())
        manager = _VersionManager.__new__(_VersionManager)
        manager.url = "sqlite://"
        patch.setattr(_VersionManager, "get_head_version", lambda self: newest())
        yield


@pytest.fixture(scope="session")
def new_spec() -> NewSpec:
    """Makes a sweep: the small one, with changes at its top level."""

    def make(**changes: Any) -> SweepSpec:
        search = SWEEP["search"] | changes.pop("search", {})
        return SweepSpec.model_validate(SWEEP | {"search": search} | changes)

    return make


@pytest.fixture(scope="session")
def cheap() -> Method:
    """The method `cheap`."""
    return get_method("cheap")


@pytest.fixture(scope="session")
def identity(new_spec: NewSpec, cheap: Method) -> Identity:
    """Of all sweeps here, which differ in nothing that it depends on."""
    return Identity(new_spec(), cheap, DevData(new_spec()))


@pytest.fixture
def new_drive(
    identity: Identity, empty_leaderboard: NewStore, empty_search: NewStore
) -> Iterator[NewDrive]:
    """Starts a driver in a folder; `leaderboard` names the folder of another one's database."""
    opened: list[Drive] = []
    boards: list[Store] = []

    def make(
        folder: Path, spec: SweepSpec, *, leaderboard: Path | None = None, **how: Any
    ) -> Drive:
        folder.mkdir(parents=True, exist_ok=True)
        file = (leaderboard or folder) / "leaderboard.db"
        if not file.exists():
            empty_leaderboard(file)
        if not (search := folder / "search.db").exists():
            empty_search(search)
        boards.append(open_store(f"sqlite:///{file}"))
        opened.append(Drive(folder, spec, how.pop("identity", identity), boards[-1], **how))
        return opened[-1]

    yield make
    for drive in opened:
        drive.state.deletions.close()
        drive.recorder.close(10)
        drive.lease.close()
    for board in boards:
        board.close()
