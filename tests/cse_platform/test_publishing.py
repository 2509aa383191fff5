import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from cse_platform.runner import publishing
from cse_platform.runner.publishing import Publisher
from cse_platform.sweep.spec import SweepSpec
from cse_platform.sweep.stores import sweep_stores
from cse_platform.tracking.events import SweepFinished
from cse_platform.tracking.journal import Journal

SPEC = SweepSpec.model_validate(
    {"sweep": "first", "method": "simcse", "backbone": "mini", "corpus": "builtin"}
    | {"data": "builtin", "space": {"temperature": [0.05, 0.1]}, "search": {"trials": 2}}
)
SECRET = "postgresql+psycopg://me:secret@db/lab"
NOTES = """#!/bin/sh
echo "$@ $CSE_STORE $CSE_MLFLOW_URI" >> "$LAB/calls"
"""
FAILS = NOTES + "echo Traceback >&2; echo 'Error: no ink left' >&2; exit 1\n"
HANGS = "#!/bin/sh\nexec sleep 600\n"


@dataclass
class Lab:
    """A sweep, and the command that publishes it."""

    folder: Path
    journal: Journal
    warned: Callable[[], list[str]]

    def install(self, script: str) -> None:
        file = self.folder / "publishes"
        file.write_text(script)
        file.chmod(0o755)

    def finish(self, *, complete: bool = True) -> None:
        stores = sweep_stores(SPEC, runs=self.folder)
        stores.folder.mkdir(parents=True, exist_ok=True)
        publisher = Publisher("first", stores)
        publisher.publish(self.journal, complete=complete)
        publisher.wait()

    @property
    def calls(self) -> list[str]:
        file = self.folder / "calls"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def lab(tmp_path, monkeypatch, caplog) -> Lab:
    caplog.set_level(logging.WARNING, "cse_platform")
    monkeypatch.setenv("LAB", str(tmp_path))
    monkeypatch.setenv("CSE_STORE", SECRET)
    monkeypatch.setenv("CSE_MLFLOW_URI", "http://mlflow")
    monkeypatch.setenv("CSE_DASHBOARD", str(tmp_path / "publishes"))
    made = Lab(tmp_path, Journal(tmp_path / "journal"), lambda: list(caplog.messages))
    made.install(NOTES)
    return made


def test_the_end_is_published_once_with_the_stores_in_the_environment(lab) -> None:
    for _ in range(2):
        lab.finish(complete=False)
    assert len(lab.calls) == 2
    (lab.folder / "calls").unlink()
    lab.finish()
    assert lab.calls == [f"publish first {SECRET} http://mlflow"]
    lab.finish()  # the next start has nothing to add
    assert len(lab.calls) == 1
    lab.journal.append(SweepFinished(sweep="first", state="COMPLETE"))
    lab.finish()
    assert len(lab.calls) == 2
    assert lab.warned() == []


def test_a_failure_is_one_line_of_warning_and_is_tried_again(lab) -> None:
    lab.install(FAILS)
    lab.finish()
    [warning] = lab.warned()
    assert "'first'" in warning and "no ink left" in warning and "Traceback" not in warning
    assert "\n" not in warning
    lab.install(NOTES)
    lab.finish()
    assert len(lab.calls) == 2
    (lab.folder / "publishes").unlink()  # no such command
    lab.journal.append(SweepFinished(sweep="first", state="COMPLETE"))
    lab.finish()
    assert len(lab.warned()) == 2


def test_it_can_be_turned_off_and_is_ended_after_a_while(lab, monkeypatch) -> None:
    lab.install(HANGS)
    monkeypatch.setattr(publishing, "INTERRUPTED_SECONDS", 1.0)
    lab.finish(complete=False)
    [warning] = lab.warned()
    assert "longer than 1 s; `cse-dashboard publish first` updates it" in warning
    monkeypatch.setenv("CSE_DASHBOARD", "")
    lab.finish()
    assert lab.warned() == [warning]
