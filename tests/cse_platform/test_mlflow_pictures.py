"""What a sweep's run in MLflow shows: a ranking, and pictures by whoever paints them."""

import logging
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cse_platform.leaderboard.store import open_leaderboard
from cse_platform.leaderboard.writer import LeaderboardSink
from cse_platform.runner import painting as painting_module
from cse_platform.runner.painting import SweepPainting
from cse_platform.sweep.spec import SweepSpec
from cse_platform.sweep.stores import places
from cse_platform.tracking.events import Event, SweepFinished
from cse_platform.tracking.journal import Journal
from cse_platform.tracking.mlflow_mirror import MLflowMirror
from cse_platform.tracking.mlflow_pictures import sweep_run
from cse_platform.tracking.mlflow_values import YOURS
from cse_platform.tracking.recorder import Recorder

SPEC = SweepSpec.model_validate(
    {"sweep": "first", "method": "rankcse", "backbone": "mini", "corpus": "builtin"}
    | {"data": "builtin", "space": {"tau2": [0.025, 0.05]}, "search": {"trials": 3}}
)
A, B = "aaaaaaaa" + "0" * 56, "bbbbbbbb" + "0" * 56
# A distribution of our own name that stands first is the one whose painters count.
PAINTERS = "[cse_platform.painters]\n{lines}"
LAB = """
import os, time
from pathlib import Path

def paint(url, sweep, folder, *, whole):
    with Path(os.environ["LAB"], "calls").open("a") as calls:
        calls.write(f"{url} {sweep} {whole}\\n")
    (folder / "report.html").write_text(f"pictures of {sweep}")

def breaks(url, sweep, folder, *, whole):
    raise ValueError("no ink\\nleft")

def hangs(url, sweep, folder, *, whole):
    (folder / "half").write_text("<")
    Path(os.environ["LAB"], "pid").write_text(str(os.getpid()))
    time.sleep(600)
"""


@dataclass
class Lab:
    """A sweep's stores, and the painters that are installed."""

    folder: Path
    journal: Journal
    recorder: Recorder
    mlflow: str

    def record(self, *events: Event) -> None:
        for event in events:
            self.recorder.record(event)
        assert not any(sink.behind for sink in self.recorder.flush(60))

    def painting(self, *, mlflow: str | None = None) -> SweepPainting:
        environment = {"CSE_MLFLOW_URI": mlflow or self.mlflow}
        where = places(SPEC, runs=self.folder, environment=environment)
        return SweepPainting(SPEC, where, self.journal, self.recorder)

    def install(self, **painters: str) -> None:
        """Name by place, `module:function`."""
        lines = "\n".join(f"{name} = lab:{function}" for name, function in painters.items())
        installed = self.folder / "site" / "cse_platform-0.dist-info"
        installed.mkdir(exist_ok=True)
        (installed / "METADATA").write_text("Name: cse-platform\nVersion: 0\n")
        (installed / "entry_points.txt").write_text(PAINTERS.format(lines=lines))

    @property
    def calls(self) -> list[str]:
        with suppress(FileNotFoundError):
            return (self.folder / "calls").read_text().splitlines()
        return []

    @property
    def run(self) -> Any:
        """The sweep's run, as MLflow has it now."""
        found = sweep_run(self.mlflow, experiment="cse", sweep="first")
        return None if found is None else found.client.get_run(found.id)

    @property
    def files(self) -> dict[str, str]:
        """The run's artifacts."""
        root = Path(self.run.info.artifact_uri)
        found = (path for path in root.rglob("*") if path.is_file())
        return {str(path.relative_to(root)): path.read_text() for path in found}


@pytest.fixture(scope="session")
def empty_mlflow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with MLflow's tables, which take seconds to make."""
    path = tmp_path_factory.mktemp("empty") / "mlflow.db"
    MLflowMirror(f"sqlite:///{path}", experiment="none").position("none")  # for its tables
    return path


@pytest.fixture
def lab(
    tmp_path: Path, empty_mlflow: Path, monkeypatch: pytest.MonkeyPatch, sweep_started, trial_life
) -> Iterator[Lab]:
    """Two configurations, one of them with two seeds; the lab's own painter."""
    shutil.copy(empty_mlflow, tmp_path / "mlflow.db")
    site = tmp_path / "site"
    site.mkdir()
    (site / "lab.py").write_text(LAB)
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PYTHONPATH", f"{site}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("LAB", str(tmp_path))
    mlflow = f"sqlite:///{tmp_path / 'mlflow.db'}"
    mirror = MLflowMirror(mlflow, artifacts=tmp_path / "artifacts")
    with open_leaderboard(f"sqlite:///{tmp_path / 'leaderboard.db'}") as board:
        journal = Journal(tmp_path / "journal")
        with Recorder(journal, [LeaderboardSink(board), mirror]) as recorder:
            made = Lab(tmp_path, journal, recorder, mlflow)
            made.install(lab="paint")
            made.record(
                sweep_started(spec=SPEC.model_dump(mode="json")),
                *trial_life(0, {0: 0.5, 9: 0.7}, configuration=A, seed=42),
                *trial_life(1, {0: 0.5, 9: 0.6}, configuration=B, seed=42, values={"tau2": 0.05}),
                *trial_life(2, {0: 0.5, 9: 0.8}, configuration=A, seed=0, role="confirm"),
            )
            yield made


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """The warnings so far."""
    caplog.set_level(logging.WARNING, "cse_platform")
    return lambda: [r.getMessage() for r in caplog.records if r.name.startswith("cse_")]


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_description_ranks_the_configurations(lab: Lab) -> None:
    lab.painting().finish(whole=True)

    said = lab.run.data.tags["mlflow.note.content"]
    assert "Sweep **first**, rankcse on mini: running, 3 of 3 trials ended, 3 complete." in said
    assert "Best on dev stsb: 80.00 (at step 9, trial 2, seed 0)." in said
    table = [line for line in said.splitlines() if line.startswith("|")]
    assert table[0] == "| rank | configuration | searched | seeds | dev stsb | best trial |"
    first, second = table[2:]
    assert first.startswith(
        r"| 1 | aaaaaaaa | tau2=0.025 rank\_loss=listnet | 0, 42 | 75.00 ±7.07 | [aaaaaaaa]("
    )
    assert second.startswith("| 2 | bbbbbbbb | tau2=0.05 | 42 | 60.00 | [bbbbbbbb](")


def test_a_trial_in_the_ranking_leads_to_its_run(lab: Lab) -> None:
    lab.painting().finish(whole=True)
    found = sweep_run(lab.mlflow, experiment="cse", sweep="first")
    (link,) = found.links([f"{A}-0", "unknown"]).values()
    assert f"[aaaaaaaa]({link})" in lab.run.data.tags["mlflow.note.content"]
    child = found.client.get_run(link.rpartition("/")[2])
    assert child.info.run_name == "rankcse aaaaaaaa seed 0 (#2)"


def test_what_a_user_wrote_below_stays(lab: Lab) -> None:
    def note(text: str) -> None:
        found = sweep_run(lab.mlflow, experiment="cse", sweep="first")
        found.client.set_tag(found.id, "mlflow.note.content", text)

    note(lab.run.data.tags["mlflow.note.content"] + "\nbuy *milk*")
    lab.painting().finish(whole=False)
    assert lab.run.data.tags["mlflow.note.content"].endswith(f"\n\n{YOURS}\nbuy *milk*")
    note("all my own")
    lab.painting().finish(whole=False)
    said = lab.run.data.tags["mlflow.note.content"]
    assert said.startswith("Sweep **first**")
    assert said.endswith(f"\n\n{YOURS}\n\nall my own")


def test_the_end_brings_all_pictures_once(lab: Lab) -> None:
    lab.record(SweepFinished(sweep="first", state="COMPLETE"))
    lab.painting().finish(whole=True)
    assert lab.files == {"report.html": "pictures of first"}
    assert lab.calls == [f"sqlite:///{lab.folder / 'leaderboard.db'} first True"]
    lab.painting().finish(whole=True)  # the next start has nothing to add
    assert len(lab.calls) == 1


def test_a_running_sweep_is_painted_when_there_is_news(
    lab: Lab, trial_life, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(painting_module, "PICTURE_SECONDS", 0.01)
    painting = lab.painting()
    painting.start()
    eventually(lambda: "report.html" in lab.files)
    lab.record(*trial_life(3, {0: 0.5, 9: 0.95}, configuration=B, seed=0))
    eventually(lambda: "| 1 | bbbbbbbb |" in lab.run.data.tags["mlflow.note.content"])
    painting.stop()
    assert all(call.endswith(" False") for call in lab.calls)
    assert lab.calls
    assert "cse.painted" not in lab.run.data.tags


def test_a_sweep_without_a_complete_trial_is_described_and_not_painted(
    lab: Lab, sweep_started
) -> None:
    spec = SPEC.model_copy(update={"sweep": "second"})
    lab.record(sweep_started("second"))
    where = places(spec, runs=lab.folder, environment={"CSE_MLFLOW_URI": lab.mlflow})
    SweepPainting(spec, where, lab.journal, lab.recorder).finish(whole=True)
    found = sweep_run(lab.mlflow, experiment="cse", sweep="second")
    assert "0 of " in found.tags["mlflow.note.content"]
    assert lab.calls == []


def test_a_run_that_a_user_deleted_stays_deleted(lab: Lab, warned) -> None:
    found = sweep_run(lab.mlflow, experiment="cse", sweep="first")
    found.client.delete_run(found.id)
    lab.painting().finish(whole=True)
    assert lab.run is None
    assert (lab.calls, warned()) == ([], [])


def test_a_painter_that_breaks_is_one_warning_and_comes_again(lab: Lab, warned) -> None:
    lab.install(before="breaks", lab="paint")
    lab.painting().finish(whole=True)
    lacks = "MLflow lacks the newest pictures of sweep 'first': painter 'before': no ink left"
    assert warned() == [lacks]
    assert lab.files == {"report.html": "pictures of first"}
    lab.install(lab="paint")
    lab.painting().finish(whole=True)
    assert len(lab.calls) == 2


def test_a_painter_that_hangs_is_ended(lab: Lab, warned, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.install(lab="hangs")
    monkeypatch.setattr(painting_module, "PICTURE_SECONDS", 0.01)
    painting = lab.painting()
    painting.start()
    eventually((lab.folder / "pid").exists)
    lab.install(lab="paint")
    painting.finish(whole=True)  # does not wait for the one at work
    assert lab.files == {"report.html": "pictures of first"}
    assert warned() == []
    with pytest.raises(ProcessLookupError):
        os.kill(int((lab.folder / "pid").read_text()), 0)


def test_the_end_of_a_sweep_waits_for_pictures_so_long_and_no_longer(
    lab: Lab, warned, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.install(lab="hangs")
    monkeypatch.setattr(painting_module, "END_SECONDS", 0.01)
    lab.painting().finish(whole=True)
    (warning,) = warned()
    assert "they take longer than 0.01 s; the same command makes them" in warning


def test_a_store_that_is_away_is_one_warning(lab: Lab, warned) -> None:
    with socket.socket() as bound:  # nobody listens here
        bound.bind(("127.0.0.1", 0))
        away = f"http://127.0.0.1:{bound.getsockname()[1]}"
        lab.painting(mlflow=away).finish(whole=True)
    (warning,) = warned()
    assert f"MLflow at {away} refuses or does not answer" in warning
    assert lab.calls == []
