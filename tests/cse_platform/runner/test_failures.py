"""Where a trial failed: the last line of the method's own code in a worker's traceback."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from cse_methods.contract import Method
from cse_methods.errors import CseError
from cse_methods.registry import get_method
from cse_platform.runner.failures import (
    failure_from_report,
    failure_without_report,
    format_error_with_location,
    report_of,
)

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
        said = format_error_with_location(RuntimeError("shapes"), REMOTE, of_module(module))
        assert said.startswith(f"RuntimeError: shapes, at {place}")


def test_no_place_where_none_is_known_or_needed() -> None:
    error, ours = ValueError("x"), CseError("try a lower learning rate")
    lab = of_module("labcse.method")
    assert format_error_with_location(error, REMOTE, of_module("other")) == "ValueError: x"
    assert format_error_with_location(error, "killed", lab) == "ValueError: x"
    assert format_error_with_location(ours, REMOTE, lab) == "try a lower learning rate"


def test_what_a_worker_tells_of_a_plain_error() -> None:
    told = raised(lambda: get_method("simcse").train(None, SimpleNamespace(seed=0)))
    failure = failure_from_report(report_of(told), get_method("simcse"))
    assert failure.end == "error"
    assert failure.said.startswith("AttributeError: ")
    assert ", at cse_methods/training/loop.py:" in failure.said
    assert "in train" in failure.traceback


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
        failure = failure_without_report(told)
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
        failure_without_report(f"ValueError: {error}"),
    ):
        (tmp_path / "trial-0.txt").write_text(failure.traceback + failure.said)
        assert failure.said.startswith("ValueError: no caf\\udce9\\x00: x x")
        assert failure.said.endswith("x x is the last word") and len(failure.said) < 1000
        assert "399," in failure.said
        assert 200_000 * "x " in failure.traceback


def test_an_exit_of_a_method_is_a_sentence() -> None:
    told = report_of(SystemExit(0))
    assert told.said == "the method ended its process, by sys.exit(0)"
