import gc
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from empty_stores import *  # noqa: F403
from hypothesis import settings
from loopback_hub import *  # noqa: F403
from shared_statements import share_compiled_statements, wait_for_no_disk

from cse_methods.data.manifest import manifest
from cse_methods.data.source import HubFile

settings.register_profile("patient", deadline=None)  # a busy machine is no failure
settings.load_profile("patient")

for variable in (  # no test reads or writes what is of the lab of who runs it
    "CSE_DATA", "CSE_STORE", "CSE_SEARCH_STORE", "CSE_MLFLOW_URI", "MLFLOW_TRACKING_URI",
    "RAY_ADDRESS",
):  # fmt: skip
    os.environ.pop(variable, None)
os.environ["MLFLOW_LOGGING_LEVEL"] = "CRITICAL"  # as commands set it, but tests import MLflow first

share_compiled_statements()
wait_for_no_disk()
gc.disable()


def pytest_collection_finish() -> None:
    """Look for garbage from now on, and not among what has been imported, which takes seconds."""
    gc.freeze()
    gc.enable()


DEAR = ("cluster", "swept", "tests/documents/test_documents.py", "tests/end_to_end/")
"""What groups that take longest begin with; these begin first, in this order."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests that share something dear into one group, and else those of a file.

    With `--dist loadgroup` one process then makes what they share. What needs `swept` comes last in
    its group, because another process may still be making it.
    """
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(_group_of(item)))

    def order(item: pytest.Item) -> tuple[int, bool]:
        mark = item.get_closest_marker("xdist_group")
        group = mark.args[0] if mark else ""
        first = [number for number, name in enumerate(DEAR) if group.startswith(name)]
        needs = group != "swept" and "swept" in getattr(item, "fixturenames", ())
        return (first[0], needs) if first else (len(DEAR), False)

    items.sort(key=order)


def _group_of(item: pytest.Item) -> str:
    """The dear thing that a test asks for, or its file."""
    fixtures = getattr(item, "fixturenames", ())
    shared = [name for name in ("cluster", "swept") if name in fixtures]
    return shared[0] if shared else item.nodeid.partition("::")[0]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how long each folder of tests took, over all processes."""
    seconds: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[Path(report.nodeid).parts[1]] += report.duration
    for part, taken in seconds.most_common() if len(seconds) > 1 else ():
        terminalreporter.write_line(f"{taken:7.0f} s  tests/{part}")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of golden values and real data beside the project, or a skip."""
    folder = Path(os.environ.get("CSE_SHARED", Path(__file__).parents[2] / "shared"))
    if not folder.is_dir():
        pytest.skip(f"no folder {folder}; set CSE_SHARED to where the golden values lie")
    return folder


@pytest.fixture
def kept_from_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[HubFile], Path]:
    """Offline; gives the place where the hub's client keeps a file that it has fetched."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))

    def place(file: HubFile) -> Path:
        home = tmp_path / "hub" / f"datasets--{file.repository.replace('/', '--')}"
        reference = home / "refs" / file.revision
        reference.parent.mkdir(parents=True, exist_ok=True)
        reference.write_text("0" * 40)
        path = home / "snapshots" / ("0" * 40) / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    return place


@pytest.fixture
def counted_data(tmp_path: Path) -> Path:
    """A data folder whose files have made-up lines, of each as many as are known."""
    for file in manifest().values():
        path = tmp_path / "data" / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        blank = file.lines - file.records if "/STS.gs." in file.path else 0
        path.write_text("\n" * blank + "2.5\n" * (file.lines - blank))
    return tmp_path / "data"
