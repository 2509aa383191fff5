import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pytest
from click.testing import Result
from commands import invoke
from sweep_events import sweep_started, trial_life

from cse_dashboards.cli import main
from cse_platform.leaderboard import open_leaderboard
from cse_platform.stores.mlflow.mirror import MLflowMirror
from cse_platform.stores.mlflow.sweep_run import sweep_run
from cse_platform.stores.mlflow.tags import USER_LINE
from cse_platform.stores.sql.sink import LeaderboardSink
from cse_platform.stores.sql.store import open_store
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.events import Event, SweepFinished
from cse_platform.tracking.journal import Journal
from cse_platform.tracking.recorder import Recorder

SPEC = SweepSpec.model_validate(
    {"sweep": "first", "method": "rankcse", "backbone": "mini", "corpus": "builtin"}
    | {"data": "builtin", "space": {"tau2": [0.025, 0.05]}, "search": {"trials": 3}}
)
A, B = "aaaaaaaa" + "0" * 56, "bbbbbbbb" + "0" * 56


@dataclass
class Lab:
    """A sweep's stores."""

    recorder: Recorder
    leaderboard: str
    mlflow: str

    def record(self, *events: Event) -> None:
        for event in events:
            self.recorder.record(event)
        assert not any(sink.behind for sink in self.recorder.flush(60))

    def find(self, sweep: str = "first") -> Any:
        """A sweep's run as the page finds it."""
        with open_leaderboard(self.leaderboard) as board:
            journal = board.sweep(sweep).journal
        return sweep_run(self.mlflow, experiment="cse", sweep=sweep, journal=journal)

    @property
    def run(self) -> Any:
        found = self.find()
        return None if found is None else found.client.get_run(found.id)

    @property
    def description(self) -> str:
        said: str = self.run.data.tags["mlflow.note.content"]
        return said

    @property
    def files(self) -> dict[str, str]:
        root = Path(unquote(urlparse(self.run.info.artifact_uri).path))
        found = (path for path in root.rglob("*") if path.is_file())
        return {str(path.relative_to(root)): path.read_text() for path in found}


@pytest.fixture
def lab(tmp_path, empty_mlflow, empty_leaderboard) -> Iterator[Lab]:
    """Two configurations, one of them with two seeds."""
    mlflow = empty_mlflow(tmp_path / "mlflow.db")
    leaderboard = empty_leaderboard(tmp_path / "leaderboard.db")
    mirror = MLflowMirror(mlflow, artifacts=tmp_path / "artifacts")
    with open_store(leaderboard) as board:
        sinks = [LeaderboardSink(board), mirror]
        with Recorder(Journal(tmp_path / "journal"), sinks) as recorder:
            made = Lab(recorder, leaderboard, mlflow)
            made.record(
                sweep_started(spec=SPEC.model_dump(mode="json")),
                *trial_life(0, {0: 0.5, 9: 0.7}, configuration=A, seed=42),
                *trial_life(1, {0: 0.5, 9: 0.6}, configuration=B, seed=42, values={"tau2": 0.05}),
                *trial_life(2, {0: 0.5, 9: 0.8}, configuration=A, seed=0, role="confirm"),
            )
            yield made


def publish(lab: Lab, sweep: str = "first", *, mlflow: str | None = None, code: int = 0) -> Result:
    stores = {"CSE_STORE": lab.leaderboard, "CSE_MLFLOW_URI": mlflow or lab.mlflow}
    return invoke(main, "publish", sweep, env=stores, code=code)


def test_a_running_sweep_has_its_description_and_its_report(lab: Lab) -> None:
    publish(lab)

    said = lab.description
    assert "Sweep **first**, rankcse on mini: running, 3 of 3 trials ended, 3 complete." in said
    assert "Best on dev stsb: 80.00 (at step 9, trial 2, seed 0)." in said
    table = [line for line in said.splitlines() if line.startswith("|")]
    assert table[0] == "| rank | configuration | searched | seeds | dev stsb | best trial |"
    first, second = table[2:]
    searched = r"tau2=0.025 rank\_loss=listnet"
    assert first.startswith(f"| 1 | aaaaaaaa | {searched} | 0, 42 | 75.00 ±7.07 | [aaaaaaaa](")
    assert second.startswith("| 2 | bbbbbbbb | tau2=0.05 | 42 | 60.00 | [bbbbbbbb](")

    found = lab.find()
    (link,) = found.links([f"{A}-0", "unknown"]).values()
    assert f"[aaaaaaaa]({link})" in said
    child = found.client.get_run(link.rpartition("/")[2].partition("?")[0])
    assert child.info.run_name == "rankcse aaaaaaaa seed 0 (#2)"
    assert list(lab.files) == ["report.html"]


@pytest.mark.slow
def test_a_sweep_without_a_complete_trial_has_a_description_only(lab: Lab) -> None:
    spec = SPEC.model_copy(update={"sweep": "second"}).model_dump(mode="json")
    lab.record(sweep_started("second", spec=spec))

    def note() -> str:
        run = lab.find("second")
        return str(run.tags["mlflow.note.content"])

    publish(lab, "second")
    assert "0 of " in note()
    found = lab.find("second")
    assert found.client.list_artifacts(found.id) == []
    # What a user wrote below stays.
    found.client.set_tag(found.id, "mlflow.note.content", note() + "\nbuy *milk*")
    publish(lab, "second")
    assert note().count(USER_LINE) == 1
    assert note().endswith(f"\n\n{USER_LINE}\nbuy *milk*")
    found.client.set_tag(found.id, "mlflow.note.content", "all my own")
    publish(lab, "second")
    assert note().startswith("Sweep **second**")
    assert note().endswith(f"\n\n{USER_LINE}\n\nall my own")


def test_a_complete_sweep_has_its_chapters_and_a_deleted_run_stays_deleted(lab: Lab) -> None:
    lab.record(SweepFinished(sweep="first", state="COMPLETE"))
    publish(lab)
    files = lab.files
    assert {"report.html", "figures/ranking.html", "figures/search.html"} <= {*files}
    assert "rankcse" in files["report.html"]

    unknown = publish(lab, "frist", code=1)
    assert "first" in unknown.output
    found = lab.find()
    found.client.delete_run(found.id)
    deleted = publish(lab, code=1)
    assert "first" in deleted.output
    assert lab.run is None


def test_a_store_that_is_away_is_one_line(lab: Lab) -> None:
    with socket.socket() as bound:  # nobody listens here
        bound.bind(("127.0.0.1", 0))
        away = f"http://someone:secret@127.0.0.1:{bound.getsockname()[1]}"
        ended = publish(lab, mlflow=away, code=1)
    [line] = ended.output.splitlines()
    assert "secret" not in line
