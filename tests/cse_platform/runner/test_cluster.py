"""Ray's workers start wherever this Python lies."""

import shlex
import sys

import pytest

from cse_platform.runner import ray_process as cluster


def test_workers_of_this_machine_find_a_python_below_a_blank(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", "/home/a b/.venv/bin/python3")
    for address in (None, "127.0.0.1:6379"):
        [command] = cluster.worker_environment(address).values()  # Ray hands it to a shell
        assert shlex.split(command) == [sys.executable]


def test_elsewhere_and_for_plain_paths_ray_knows_best(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/home/a b/.venv/bin/python3")
    assert cluster.worker_environment("192.0.2.250:6379") == {}
    monkeypatch.setattr(sys, "executable", "/home/ab/.venv/bin/python3")
    assert cluster.worker_environment(None) == {}
