import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from quick_optuna import quick_optuna as quick_optuna
from scored_boards import scored as scored
from scored_boards import two_methods as two_methods

if TYPE_CHECKING:
    from cse_platform.stores.sql.store import Store


class Lab:
    """A runs folder, its leaderboard, and the sweeps that are run there."""

    def __init__(self, runs: Path) -> None:
        self.runs, self.url = runs, f"sqlite:///{runs / 'leaderboard.db'}"

    def run(self, **changes: Any) -> None:
        """Run a sweep to its end: the small one, with changes at its top level."""
        import cheap as _registers_it  # noqa: F401
        from in_process import InProcessExecutor, new_spec

        from cse_platform.runner.driver import drive_sweep
        from cse_platform.sweep.stores import sweep_stores

        spec = new_spec(**changes | {"search": {"trials": 5} | changes.get("search", {})})
        stores = sweep_stores(spec, runs=self.runs)
        drive_sweep(spec, stores, InProcessExecutor())

    @contextmanager
    def board(self) -> Iterator["Store"]:
        from cse_platform.stores.sql.store import open_store

        with open_store(self.url) as board:
            yield board

    def ask(self, query: str) -> list[Any]:
        """What the leaderboard answers: of one column its values, else rows."""
        from sqlalchemy import text

        with self.board() as board, board.session() as session:
            rows = session.execute(text(query)).all()
        return [row[0] if len(row) == 1 else tuple(row) for row in rows]

    def models(self) -> set[str]:
        """The folders of models, by name."""
        return {folder.name for folder in (self.runs / "artifacts" / "models").iterdir()}

    def folder(self, sweep: str) -> Path:
        return self.runs / "sweeps" / sweep

    def restore(self) -> None:
        """Put the sweeps back as they were run."""
        shutil.rmtree(self.runs)
        shutil.copytree(self.runs.with_name("copy"), self.runs)

    def files(self) -> set[str]:
        """All files of sweeps and models."""
        return {
            str(file.relative_to(self.runs))
            for place in ("sweeps", "artifacts")
            for file in (self.runs / place).rglob("*")
        }


class _NoMirror:
    """Takes the place of MLflow, which takes seconds to open."""

    name = "mlflow"
    can_be_refilled = True
    pause = 0.0

    def __init__(self, *_: Any, **__: Any) -> None:
        self.positions: dict[str, int] = {}

    def position(self, journal: str) -> int:
        return self.positions.get(journal, 0)

    def apply(self, journal: str, entries: Any) -> None:
        self.positions[journal] = entries[-1][0]


@pytest.fixture
def no_mlflow(monkeypatch) -> None:
    """MLflow has no runs, and gets none."""
    monkeypatch.setattr("cse_platform.runner.driver.MLflowMirror", _NoMirror)
    monkeypatch.setattr("cse_platform.upkeep.deletion.find_mirrored_sweep", lambda *_, **__: None)


@pytest.fixture(scope="session")
def new_lab() -> type[Lab]:
    """Makes an empty runs folder."""
    return Lab


@pytest.fixture(scope="session")
def _swept_once(tmp_path_factory) -> Lab:
    lab = Lab(tmp_path_factory.mktemp("lab") / "runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cse_platform.runner.driver.MLflowMirror", _NoMirror)
        lab.run()
        lab.run(sweep="heir", search={"trials": 2})
        lab.run(sweep="third", search={"seed": 7, "trials": 3})
    shutil.copytree(lab.runs, lab.runs.with_name("copy"))
    return lab


@pytest.fixture
def lab(_swept_once, no_mlflow) -> Lab:
    """Three sweeps: `small`, `heir`, which took two trials over from it, and `third`.

    The folder is the same for all tests, since the stores name it.
    """
    _swept_once.restore()
    return _swept_once
