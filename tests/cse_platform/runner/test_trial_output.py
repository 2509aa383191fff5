"""What trials print: captured in the worker, written by the driver, the oldest and newest kept."""

import gzip
import os
import re
import sys
from contextlib import AbstractContextManager, closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cse_platform.runner import output_capture
from cse_platform.runner.output_capture import OUTPUT, OutputCapture
from cse_platform.runner.reports import Printed
from cse_platform.runner.trial_outputs import TrialOutputs
from cse_platform.tracking import output
from cse_platform.tracking.output import LEFT_OUT, OutputFile, output_file, read_output

KEY = "0a1b2c3d" + "0" * 56
HEAD = re.compile(r"=== [-\d]{10} [:\d]{8} UTC: trial 0a1b2c3d from step (\d+)\n")


def new_capture(folder: Path) -> AbstractContextManager[OutputCapture]:
    """A capture of what this process prints; not as a fixture, for pytest has its own."""
    return closing(OutputCapture(folder / "ray" / "process" / OUTPUT))


@pytest.fixture
def trial() -> Any:
    """What is asked of a running trial."""
    history = SimpleNamespace(key=KEY, number=3, resumed_from=None)
    return SimpleNamespace(trial=history, output=None)


def printed(text: str, total: int, offset: int) -> Printed:
    return Printed(text=text, total=total, offset=offset)


def test_a_trial_prints_on_where_there_is_no_room(tmp_path) -> None:
    (tmp_path / "full").symlink_to("/dev/full")
    (tmp_path / "file").touch()
    before = sys.stdout
    for place in ("full", "file/inside"):
        with closing(OutputCapture(tmp_path / place)) as capture:
            sys.stdout.write("lost " * 10_000)
            sys.stdout.flush()
            os.system("echo lost")
            taken = capture.take(last=True)
        assert (taken, sys.stdout) == (None, before)


def test_a_flood_is_cut_and_its_file_emptied(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(output_capture, "MAX_REPORTED", 8)
    monkeypatch.setattr(output_capture, "_MAX_FILE", 20)
    with new_capture(tmp_path) as capture:
        os.write(1, b"abc\n" + 5 * b"12345" + b"xyz\n")
        flood = capture.take()
        size = (tmp_path / "ray" / "process" / OUTPUT).stat().st_size
        os.write(1, b"on\n")
        then = capture.take()
    assert flood == printed("abc\n\n… 25 bytes left out …\nxyz\n", 33, 0)
    assert (size, then) == (0, printed("on\n", 36, 3))
    # A line that an emptied file began goes on.
    monkeypatch.setattr(output_capture, "MAX_REPORTED", 80)
    monkeypatch.setattr(output_capture, "_MAX_FILE", 4)
    with new_capture(tmp_path / "other") as capture:
        os.write(1, b"one\ntwo\nth")
        first = capture.take()
        os.write(1, b"ree\n")
        assert [first, capture.take()] == [printed("one\ntwo\n", 8, 0), printed("three\n", 14, 0)]


def test_a_flood_is_not_cut_inside_a_secret(tmp_path, trial, monkeypatch) -> None:
    monkeypatch.setattr(output_capture, "MAX_REPORTED", 40)
    outputs = TrialOutputs(tmp_path, "s3://bucket/lab")
    with new_capture(tmp_path) as capture:
        os.write(1, b"first\n" + 50 * b"-" + b"\npassword=hunter2-hunter2\nlast\n")
        outputs.add(trial, capture.take())
    text = read_output(output_file(tmp_path, 3))
    assert HEAD.sub("", text) == "first\n\n… 76 bytes left out …\nlast\n"


def test_the_oldest_and_the_newest_are_kept(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(output, "KEPT_BYTES", 10)
    file = output_file(tmp_path, 3)
    written = OutputFile(file)
    for number in range(13):
        written.append(f"{number:2}\n")  # 39 bytes: not more than four times as many
    assert read_output(file).count("\n") == 13
    written.append("13\n")
    assert read_output(file) == f" 0\n 1\n 2\n{LEFT_OUT}11\n12\n13\n"
    OutputFile(file).append("14\n")  # by the next start
    assert gzip.decompress(file.read_bytes()).decode().endswith("13\n14\n")


def test_a_file_that_a_crash_has_torn_goes_on(tmp_path) -> None:
    file = output_file(tmp_path, 3)
    OutputFile(file).append("first\n")
    with file.open("ab") as stream:
        stream.write(gzip.compress(b"second\n")[:-5])
    assert read_output(file) == "first\nsecond\n"
    OutputFile(file).append("third\n")
    assert gzip.decompress(file.read_bytes()) == b"first\nsecond\nthird\n"


def test_each_report_is_written_once_and_without_secrets(tmp_path, trial) -> None:
    outputs = TrialOutputs(tmp_path, "s3://bucket/lab")
    for _ in range(2):
        outputs.add(trial, printed("\x1b[31mpassword: hunter2\x1b[0m\n", 20, 20))
    outputs.end(trial, "process")
    trial.trial.resumed_from = 4
    outputs.add(trial, printed("again\n", 6, 6))
    text = read_output(output_file(tmp_path, 3))
    assert HEAD.split(text) == ["", "0", "password: ***\n", "4", "again\n"]
    assert outputs.end(trial, "process") == "again\n"


@pytest.mark.parametrize("reported", [True, False])
def test_what_a_killed_process_printed_is_in_its_file(tmp_path, trial, reported) -> None:
    outputs = TrialOutputs(tmp_path, str(tmp_path / "ray"))
    with new_capture(tmp_path) as capture:
        os.write(1, b"one\ntwo")
        if reported:
            outputs.add(trial, capture.take())
        assert [outputs.end(trial, "process") for _ in range(2)] == ["one\ntwo", ""]
    assert HEAD.sub("", read_output(output_file(tmp_path, 3))) == "one\ntwo"


def test_the_file_of_a_trial_that_has_ended_is_one_member(tmp_path, trial) -> None:
    outputs = TrialOutputs(tmp_path, "s3://bucket/lab")
    for total in range(1, 50):
        outputs.add(trial, printed("a line\n", total, total))
    file = output_file(tmp_path, 3)
    before = read_output(file)
    outputs.end(trial, "process")
    assert file.read_bytes() == gzip.compress(before.encode(), mtime=0)


def test_output_that_cannot_be_written_harms_nothing(tmp_path, trial, caplog) -> None:
    (tmp_path / "output").write_text("no folder")
    outputs = TrialOutputs(tmp_path, "s3://bucket/lab")
    for total in (5, 10):
        outputs.add(trial, printed("text\n", total, total))
    assert caplog.text.count("cannot be written") == 1
