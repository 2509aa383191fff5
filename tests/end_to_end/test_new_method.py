"""A new method from its command to a complete sweep, without a line changed."""

import subprocess
import sys
from pathlib import Path

import pytest
from outside_methods import lay_metadata
from processes import SECONDS, environment, run_command, script


@pytest.mark.slow
def test_a_new_method_passes_its_tests_and_completes_its_sweep(tmp_path: Path) -> None:
    folder = tmp_path / "a lab" / "labcse"
    assert run_command("cse-sweep", "new-method", "labcse", str(folder)).returncode == 0
    lay_metadata(folder, "labcse", {"labcse": "labcse"})

    def run(*command: str) -> str:
        done = subprocess.run(
            command,
            env=environment() | {"PYTHONPATH": str(folder)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout

    tested = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder))
    assert "8 passed" in tested
    searched = run(script("cse-sweep"), str(folder / "labcse.yaml"), "--set", "search.trials=2")
    assert "labcse-mini: complete, 2 trials (2 complete)" in searched
    assert "labcse" in run(script("cse-leaderboard"), "--json")
