"""Where a trial failed: the last line of the method's own code in a worker's traceback."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cse_methods.contract import Method
from cse_methods.errors import CseError
from cse_methods.registry import get_method
from cse_platform.runner.failures import (
    failure_from_report,
    failure_without_report,
    report_of,
    with_last_lines,
)
from cse_platform.runner.reports import RaisedError

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


def test_the_last_line_of_the_method_itself() -> None:
    for module, place in {
        "labcse.method": "labcse/parts/loss.py:41: z = first @ second",
        "cse_methods.papers.simcse": "cse_methods/training/loop.py:9: parts = objective(student",
        "method": "method.py:12: return loop.train(config, run)",  # a single file
    }.items():
        told = RaisedError(said="RuntimeError: shapes", says_what_to_do=False, traceback=REMOTE)
        said = failure_from_report(told, of_module(module)).said
        assert said.startswith(f"RuntimeError: shapes, at {place}")


def test_what_a_worker_tells_of_an_error_that_says_what_to_do() -> None:
    def fail() -> None:
        raise CseError("try a lower learning rate; mysql://ann:secret@host/db")

    failure = failure_from_report(report_of(raised(fail)), of_module(__name__))
    assert failure.said == "try a lower learning rate; mysql://ann:***@host/db"
    assert "secret" not in failure.traceback


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
        assert (failure.said, failure.end) == (said, "crash")


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
        (tmp_path / "trial-0.txt").write_text(failure.traceback + failure.said)
        assert failure.said.startswith("ValueError: no caf\\udce9\\x00: x x")
        assert failure.said.endswith("x x is the last word") and len(failure.said) < 1000
        assert "399," in failure.said
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
        ("End of file.", "loss 0.5\n\n", r"was killed .*SIGKILL.*; it printed last: loss 0.5"),
        ("End of file.", "", r"was killed .*SIGKILL.*; it printed nothing"),
        (f"{ended} 1. The process receives a SIGTERM.", "a\n", "was ended by SIGTERM; .*: a"),
        (f"{ended} 3.", "a\nb", "ended with exit code 3; it printed last: b"),
    ):
        failure = failure_without_report(DIED + detail, printed, of_module("labcse.method"))
        assert re.fullmatch(f"its process {said}", failure.said) and failure.end == "crash"
        whole = with_last_lines(failure, printed).traceback
        assert whole.startswith(DIED + detail) and whole.endswith(printed.rstrip() or detail)
    lost = failure_without_report(
        "The actor died because its node has died.", "a\n", of_module("x")
    )
    assert lost.said == "The actor died because its node has died."
