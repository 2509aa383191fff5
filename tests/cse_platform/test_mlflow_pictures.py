"""What a sweep's run in MLflow shows: a ranking, and pictures by whoever paints them."""

import logging
import os
import socket
import time
from collections.abc import Callable

import pytest
from painter_lab import *  # noqa: F403
from painter_lab import SPEC, A, B, Lab

from cse_platform.runner import painting as painting_module
from cse_platform.runner.painting import SweepPainting
from cse_platform.sweep.stores import sweep_stores
from cse_platform.tracking.events import SweepFinished
from cse_platform.tracking.mlflow.sweep_run import sweep_run
from cse_platform.tracking.mlflow.tags import YOURS


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
    where = sweep_stores(spec, runs=lab.folder, environment={"CSE_MLFLOW_URI": lab.mlflow})
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
