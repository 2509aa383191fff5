"""Sweeps that are run by the real command with real stores; a browser; one Ray for the small ones.

What exists once is made by the group of tests that needs it: `swept`, which the pages are about,
and `cluster`.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browser import PATIENCE, chromium, chromium_path, dashboard, note_troubles
from click.testing import Result
from commands import invoke
from empty_stores import made_once
from hook_server import *  # noqa: F403
from processes import git, wait_until
from sweeps import CHEAP, TINY, Sweep, write_sweep

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

RunHere = Callable[..., Result]


@pytest.fixture(scope="session")
def swept(tmp_path_factory, empty_mlflow) -> Sweep:
    """The tiny sweep, run once without any interruption, with test scores; read only.

    What the command said lies beside its file, in `said.txt`.
    """
    evaluate = {"top": 2, "tasks": ["sts", "geometry"]}

    def run(folder: Path) -> None:
        git(folder, "init", "--quiet")
        git(folder, "commit", "--quiet", "--allow-empty", "--message", "first")
        sweep = write_sweep(folder, TINY, evaluate=evaluate)
        empty_mlflow(sweep.runs / "mlflow.db")
        ended = sweep.run()
        assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout
        (folder / "said.txt").write_text(ended.stdout)

    folder = made_once(tmp_path_factory, "a sweep", run)  # a blank in all paths
    return Sweep(folder / "sweep.yaml", folder / "runs", str(TINY["sweep"]))


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    """The address of a Ray with two CPUs whose workers know `cheap` and `bad`."""
    from ray_nodes import ray_nodes

    with ray_nodes(num_cpus=2, include_dashboard=False) as nodes:
        yield nodes.address


@pytest.fixture
def joined(cluster: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Connects this process to the cluster, as a user's script would; all CPUs are free then."""
    import ray

    from cse_platform.runner.ray_process import RAY_SETTINGS, worker_environment

    def are_all_free() -> bool:
        return bool(ray.available_resources().get("CPU") == ray.cluster_resources()["CPU"])

    for name, value in RAY_SETTINGS.items():
        monkeypatch.setenv(name, value)
    ray.init(address=cluster, log_to_driver=False, runtime_env=worker_environment(cluster))
    wait_until(are_all_free, "all CPUs are free")  # a sweep may just have been killed
    yield
    ray.shutdown()


@pytest.fixture(scope="session")
def new_sweep(empty_leaderboard, empty_mlflow, empty_search) -> Callable[..., Sweep]:
    """Writes a sweep file into a folder, whose stores are there already, without rows."""

    def write(folder: Path, base: Mapping[str, Any] = CHEAP, **changes: Any) -> Sweep:
        sweep = write_sweep(folder, base, **changes)
        empty_leaderboard(sweep.runs / "leaderboard.db")
        empty_mlflow(sweep.runs / "mlflow.db")
        empty_search(sweep.runs / "search.db")
        return sweep

    return write


@pytest.fixture
def run_here(cluster: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunHere]:
    """Runs `cse-sweep` in this process, on the cluster."""
    import ray

    from cse_platform.cli.sweep import main
    from cse_platform.runner.ray_process import RAY_SETTINGS

    def run(sweep: Sweep, *arguments: str, **how: Any) -> Result:
        words = [sweep.file, "--runs", sweep.runs, "--address", cluster, *arguments]
        return invoke(main, *words, **how)

    for name, value in RAY_SETTINGS.items():
        monkeypatch.setenv(name, value)
    yield run
    ray.shutdown()


@contextmanager
def _without_ray() -> Iterator[RunHere]:
    """Runs `cse-sweep` in this process, in which the methods train, too."""
    from in_process import TrainingExecutor

    from cse_platform.cli.sweep import main
    from cse_platform.launch import rehearse, run

    def run_sweep(sweep: Sweep, *arguments: str, **how: Any) -> Result:
        return invoke(main, sweep.file, "--runs", sweep.runs, *arguments, **how)

    with pytest.MonkeyPatch.context() as patch:
        for module in (run, rehearse):
            patch.setattr(module, "RayExecutor", lambda **how: TrainingExecutor())
        yield run_sweep


@pytest.fixture(scope="session")
def sweeps_in_process() -> Callable[[], AbstractContextManager[RunHere]]:
    """Runs `cse-sweep` without Ray, until the context is closed."""
    return _without_ray


@pytest.fixture
def run_in_process() -> Iterator[RunHere]:
    """Runs `cse-sweep` without Ray; no sweep of this process needs it."""
    with _without_ray() as run:
        yield run


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    if chromium_path() is None:
        pytest.skip("no Chromium on this machine; CSE_CHROMIUM can name one")
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="session")
def page_address(swept: Sweep) -> Iterator[str]:
    """Of `cse-dashboard` on the store of the tiny sweep; it ends in a slash."""
    with dashboard(swept.runs) as address:
        yield address


@pytest.fixture(scope="session")
def best_trial(swept: Sweep) -> str:
    from cse_platform.leaderboard.api import open_leaderboard

    with open_leaderboard(f"sqlite:///{swept.runs / 'leaderboard.db'}") as board:
        best = board.sweep(swept.name).best
    assert best is not None
    return best.key


@pytest.fixture
def wrong() -> list[str]:
    """What has gone wrong in `tab`; a test that provokes it looks at it and clears it away."""
    return []


@pytest.fixture
def tab(browser: "Browser", wrong: list[str]) -> "Iterator[Page]":
    """A tab that may ask only the servers of this machine, and in which nothing may go wrong."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE)
    note_troubles(context, wrong, allowed="http://127.0.0.1:")
    yield context.new_page()
    context.close()
    assert wrong == []
