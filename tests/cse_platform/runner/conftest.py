from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Self

import cheap as _registers_it  # noqa: F401
import optuna
import pytest
from in_process import InProcessExecutor, NewDrive, Score, lucky, new_spec
from quick_optuna import quick_optuna as quick_optuna

from cse_methods.contract import Method
from cse_methods.registry import get_method
from cse_platform.runner import driver
from cse_platform.runner.driver import SweepDriver
from cse_platform.stores.sql.lease import Lease
from cse_platform.stores.sql.sink import LeaderboardSink
from cse_platform.stores.sql.store import Store, open_store
from cse_platform.sweep.identity import DevData, Identity
from cse_platform.sweep.spec import SweepSpec
from cse_platform.sweep.stores import SweepStores
from cse_platform.tracking.events import Event, SweepFinished, TrialPoint
from cse_platform.tracking.history import History, TrialHistory
from cse_platform.tracking.journal import Journal, read_journal
from cse_platform.tracking.recorder import Recorder


class Drive(InProcessExecutor):
    """One start of a sweep's driver, whose trials a test moves on step by step."""

    def __init__(
        self,
        folder: Path,
        spec: SweepSpec,
        identity: Identity,
        leaderboard: Store,
        *,
        capacity: int = 1,
        score: Score = lucky,
        reuse: bool = True,
        packages: Mapping[str, str] | None = None,
        storage: Path | None = None,
    ) -> None:
        super().__init__(score=score, capacity=capacity)
        self.folder, self.spec = folder, spec
        places = SweepStores(
            leaderboard="",  # it is open
            search="",
            mlflow="",
            storage=str(storage or folder),
            folder=folder,
            artifacts=folder,
            sweep=spec.sweep,
        )
        journal = Journal(places.journal)
        try:
            self.lease = Lease(leaderboard, spec.sweep, journal)
        except BaseException:
            journal.close()
            raise
        self.recorder = Recorder(journal, [LeaderboardSink(leaderboard, self.lease)])
        try:
            self.driver = SweepDriver(
                spec, places, self, leaderboard, journal, self.lease, reuse=reuse
            )
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(driver, "Identity", lambda *of: identity)
                patch.setattr(driver, "installed_packages", lambda: dict(packages or {}))
                self.driver.find_stage_values()
                self.driver.identify()
            self.driver.prepare()
            self.open(self.driver.begin(self.recorder), places)
        except BaseException:
            self.recorder.close(10)
            self.lease.close()
            raise

    @property
    def history(self) -> History:
        return self.state.history

    @property
    def trials(self) -> list[TrialHistory]:
        return list(self.history.trials.values())

    def events(self) -> list[Event]:
        """What the journal says."""
        return [event for _, event in read_journal(self.folder / "journal.jsonl")]

    def finish(self, *keys: str) -> None:
        """Run trials to their end, one after another."""
        for key in keys:
            while key in self.running:
                self.advance(key)

    def run(self) -> Self:
        self.run_until_idle()
        assert self.state.finished
        self.state.record(SweepFinished(sweep=self.spec.sweep, state="COMPLETE"))
        return self

    def close(self) -> Self:
        """As after a kill: nothing more is said."""
        self.state.folders.close()
        health = self.recorder.close(10)
        self.lease.close()
        assert [sink.error for sink in health] == [None]
        return self

    def outcome(self) -> dict[tuple[str, int], tuple[str, float | None, dict[int, float]]]:
        """(configuration, seed) -> state, best value and dev curve."""
        return {
            (trial.configuration, trial.seed): (trial.state, trial.best_value, trial.curve)
            for trial in self.trials
        }

    def study(self) -> optuna.Study:
        return self.state.search.study

    def told(self) -> list[dict[str, Any]]:
        """All that its study knows of the trials, but the times."""
        names = ("state", "values", "params", "distributions", "user_attrs", "system_attrs",
                 "intermediate_values")  # fmt: skip
        return [{name: getattr(one, name) for name in names} for one in self.study().trials]

    def assert_sound(self) -> Self:
        """No point twice, nothing RUNNING, and Optuna says what the journal says."""
        points = [(one.trial, one.step) for one in self.events() if isinstance(one, TrialPoint)]
        assert len(points) == len(set(points))
        told = {trial.number: trial for trial in self.study().trials}
        assert "RUNNING" not in {trial.state.name for trial in told.values()}
        for trial in self.trials:
            assert trial.state != "RUNNING"
            if trial.role == "search":
                assert trial.search_number is not None
                there = told[trial.search_number]
                assert there.state.name == trial.state
                assert there.intermediate_values == trial.kept
                if trial.state == "COMPLETE":
                    assert there.value == trial.best_value
        return self


READ_ONCE = {
    name: cache(getattr(driver, name))
    for name in ("sweep_provenance", "code_diffs", "collect_method_code")
}


@pytest.fixture(scope="module", autouse=True)
def read_once() -> Iterator[None]:
    """What git and the installed packages say of the code is the same for all sweeps here.

    It is undone after each module: tests of other rooms may run in this process, too.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name, read in READ_ONCE.items():
            patch.setattr(driver, name, read)
        yield


@pytest.fixture(scope="session")
def cheap() -> Method:
    return get_method("cheap")


@pytest.fixture(scope="session")
def identity(cheap: Method) -> Identity:
    """Of all sweeps here, which differ in nothing that it depends on."""
    return Identity(new_spec(), cheap, DevData(new_spec()))


def _drives(identity: Identity, empty_leaderboard: Callable[[Path], str]) -> Iterator[NewDrive]:
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
        boards.append(open_store(f"sqlite:///{file}"))
        opened.append(Drive(folder, spec, how.pop("identity", identity), boards[-1], **how))
        return opened[-1]

    yield make
    for drive in opened:
        drive.state.folders.close()
        drive.recorder.close(10)
        drive.lease.close()
    for board in boards:
        board.close()


new_drive = pytest.fixture(_drives)
shared_drive = pytest.fixture(_drives, scope="module")
"""The same for a sweep that the tests of a file share."""


@pytest.fixture
def start(tmp_path: Path, new_drive: NewDrive) -> NewDrive:
    """Starts the driver of a sweep, or of the small one with changes at its top level.

    Its folder, and that of the leaderboard, is the test's own or one in it.
    """
    of_drive = {"identity", "capacity", "score", "reuse", "packages", "storage"}

    def make(spec: SweepSpec | None = None, *, folder: Path | str = "", **changes: Any) -> Drive:
        how = {name: changes.pop(name) for name in of_drive & changes.keys()}
        if "leaderboard" in changes:
            how["leaderboard"] = tmp_path / changes.pop("leaderboard")
        drive: Drive = new_drive(tmp_path / folder, spec or new_spec(**changes), **how)
        return drive

    return make
