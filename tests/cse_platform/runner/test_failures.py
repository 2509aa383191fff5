import gzip
import importlib
import os
import re
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cse_methods.contract import Method
from cse_methods.errors import CseError, DivergenceError
from cse_methods.registry import get_method
from cse_platform.runner import output_capture
from cse_platform.runner.failure_policy import CAUSES
from cse_platform.runner.failures import (
    failure_from_report,
    failure_without_report,
    keep_source_lines,
    report_of,
    with_last_lines,
)
from cse_platform.runner.output_capture import OUTPUT, OutputCapture
from cse_platform.runner.report_messages import Printed, RaisedError
from cse_platform.runner.trial_outputs import TrialOutputs
from cse_platform.tracking import output
from cse_platform.tracking.output import LEFT_OUT, OutputFile, output_file, read_output

REMOTE = """ray::ImplicitFunc.train() (pid=7, ip=10.0.0.1)
  File "/opt/ray/tune/trainable.py", line 330, in train
    result = self.step()
  File "/home/ann/labcse/labcse/method.py", line 12, in train
    return loop.train(config, run)
  File "/opt/site-packages/cse_methods/training/loop.py", line 9, in train
    parts = objective(student, batch)
  File "/home/ann/labcse/labcse/parts/loss.py", line 41, in forward
    z = first @ second
  File "/opt/site-packages/torch/matmul.py", line 5, in matmul
    raise RuntimeError("shapes")
RuntimeError: shapes
"""


def of_module(module: str) -> Method:
    def train(config: Any, run: Any) -> dict[str, float]:
        return {}

    train.__module__ = module
    return replace(get_method("simcse"), train=train)


def test_what_a_worker_tells_of_an_error_and_the_last_line_of_the_method() -> None:
    def fail() -> None:
        raise CseError("try a lower learning rate; mysql://ann:secret@host/db")

    failure = failure_from_report(report_of(raised(fail)), of_module(__name__))
    assert failure.message == "try a lower learning rate; mysql://ann:***@host/db"
    assert "secret" not in failure.traceback
    diverged = failure_from_report(report_of(DivergenceError("nan")), of_module(__name__))
    assert [CAUSES[one.end] for one in (failure, diverged)] == ["error", "trial"]
    for module, place in {
        "labcse.method": "labcse/parts/loss.py:41: z = first @ second",
        "cse_methods.papers.simcse": "cse_methods/training/loop.py:9: parts = objective(student",
        "method": "method.py:12: return loop.train(config, run)",  # a single file
        "torch.linear": "torch/matmul.py:5",  # the message says what is raised there
    }.items():
        told = RaisedError(message="RuntimeError: shapes", says_what_to_do=False, traceback=REMOTE)
        said = failure_from_report(told, of_module(module)).message
        assert said.startswith(f"RuntimeError: shapes, at {place}")
        assert "raise" not in said


def test_a_line_is_quoted_as_it_ran(tmp_path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "edited_method.py"
    file.write_text("def train():\n    return 1 / 0\n")
    train, method = importlib.import_module("edited_method").train, of_module("edited_method")
    for _ in range(2):  # as at each trial of a process
        keep_source_lines(method)
        file.write_text("import math\ndef train():\n    return math.inf\n")
        failure = failure_from_report(report_of(raised(train)), method)
        assert failure.message.endswith(", at edited_method.py:2: return 1 / 0")
        assert "def train" not in failure.traceback


def test_an_end_without_a_word_of_the_worker_is_a_crash() -> None:
    actor = "Failure # 1 (occurred at 2025-01-01_00-00-00)\nThe actor died.\n\tid: 7"
    again = f"Failure # 1 (occurred at 2025)\nold\nFailure # 2 (occurred at 2026)\n{REMOTE}"
    secret = "\x1b[1;31mOut of memory\x1b[0m of s3://key:secret@bucket"
    for told, said in {
        "": "it left no error",
        actor: "The actor died.",
        again: "RuntimeError: shapes",
        secret: "Out of memory of s3://key:***@bucket",
    }.items():
        failure = failure_without_report(told, "", of_module("labcse.method"))
        assert (failure.message, failure.end) == (said, "crash")


def raised(call: Callable[[], Any]) -> Exception:
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def test_what_no_file_takes_is_written_out_and_a_long_line_is_cut(tmp_path) -> None:
    error = ValueError("no caf\udce9\0: " + 200_000 * "x " + "is the last word")
    for failure in (
        failure_from_report(report_of(error), of_module("labcse.method")),
        failure_without_report(f"ValueError: {error}", "", of_module("labcse.method")),
    ):
        (tmp_path / "trial-0.txt").write_text(failure.traceback + failure.message)
        assert failure.message.startswith("ValueError: no caf\\udce9\\x00: x x")
        assert failure.message.endswith("x x is the last word") and len(failure.message) < 1000
        assert "399," in failure.message
        assert 200_000 * "x " in failure.traceback


DIED = """The actor died unexpectedly before finishing this task.
\tpid: 7
The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR """
SEGFAULT = """step 5
*** SIGSEGV received at time=1795787635 on cpu 1 ***
PC: @     0x7f230e574219  (unknown)  (unknown)
[2026-11-27 13:53:55,276 E 29409 29563] logging.cc:474: *** SIGSEGV received at time=1795 ***
Fatal Python error: Segmentation fault

Stack (most recent call first):
  File "/opt/python3.11/ctypes/__init__.py", line 519 in string_at
  File "/home/ann/labcse/labcse/method.py", line 29 in train
  File "/opt/site-packages/cse_methods/registry.py", line 75 in train_seeded
"""


def test_the_end_of_a_process_names_signal_or_exit_code_and_the_last_line_printed() -> None:
    ended = "Worker exits with an exit code"
    for detail, printed, said in (
        (
            "End of file.",
            SEGFAULT,
            "ended by SIGSEGV, at labcse/method.py:29; it printed last: step 5",
        ),
        (
            "End of file.",
            "loss 0.5\n\n",
            r"ended without saying why: .*SIGKILL.* or .*os\._exit.*; it printed last: loss 0.5",
        ),
        ("End of file.", "", "ended without saying why: .*; it printed nothing"),
        (f"{ended} 1. The process receives a SIGTERM.", "a\n", "was ended by SIGTERM; .*: a"),
        (f"{ended} 3.", "a\nb", "ended with exit code 3; it printed last: b"),
    ):
        failure = failure_without_report(DIED + detail, printed, of_module("labcse.method"))
        assert re.fullmatch(f"its process {said}", failure.message) and failure.end == "crash"
        whole = with_last_lines(failure, printed).traceback
        assert whole.startswith(DIED + detail) and whole.endswith(printed.rstrip() or detail)
    unreachable = (
        "The actor c7c5 is unavailable: The actor is temporarily unavailable: RpcError: RPC error: "
        "Socket closed rpc_code: 14. The task may or may not have been executed on the actor."
    )
    failure = failure_without_report(unreachable, "loss 0.5\n", of_module("x"))
    assert (failure.message, failure.traceback) == (
        "its process was killed, or its machine can no longer be reached; it printed last: "
        "loss 0.5",
        unreachable,
    )
    lost = failure_without_report(
        "The actor died because its node has died.", "a\n", of_module("x")
    )
    assert lost.message == "The actor died because its node has died."


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
    outputs.end_process(trial, "process")
    trial.trial.resumed_from = 4
    outputs.add(trial, printed("again\n", 6, 6))
    text = read_output(output_file(tmp_path, 3))
    assert HEAD.split(text) == ["", "0", "password: ***\n", "4", "again\n"]
    assert outputs.end_process(trial, "process") == "again\n"


@pytest.mark.parametrize("reported", [True, False])
def test_what_a_killed_process_printed_is_in_its_file(tmp_path, trial, reported) -> None:
    outputs = TrialOutputs(tmp_path, str(tmp_path / "ray"))
    with new_capture(tmp_path) as capture:
        os.write(1, b"one\ntwo")
        if reported:
            outputs.add(trial, capture.take())
        assert [outputs.end_process(trial, "process") for _ in range(2)] == ["one\ntwo", ""]
    assert HEAD.sub("", read_output(output_file(tmp_path, 3))) == "one\ntwo"


def test_the_file_of_a_trial_that_has_ended_is_one_member(tmp_path, trial) -> None:
    outputs = TrialOutputs(tmp_path, "s3://bucket/lab")
    for total in range(1, 50):
        outputs.add(trial, printed("a line\n", total, total))
    file = output_file(tmp_path, 3)
    before = read_output(file)
    outputs.end_process(trial, "process")
    assert file.read_bytes() == gzip.compress(before.encode(), mtime=0)


def test_output_that_cannot_be_written_harms_nothing(tmp_path, trial, caplog) -> None:
    (tmp_path / "output").write_text("no folder")
    outputs = TrialOutputs(tmp_path, "s3://bucket/lab")
    for total in (5, 10):
        outputs.add(trial, printed("text\n", total, total))
    assert caplog.text.count("cannot be written") == 1
