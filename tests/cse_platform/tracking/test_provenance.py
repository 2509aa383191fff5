"""What is told of code, command and machine."""

import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from cse_platform.tracking.provenance import sweep_provenance, trial_provenance


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    done = subprocess.run(
        ["git", "-C", str(folder), *who, *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path) -> Path:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "sweep.yaml").write_text("sweep: a\n")
    git(tmp_path, "add", "sweep.yaml")
    git(tmp_path, "commit", "--quiet", "--message", "first")
    return tmp_path


def test_git_state(repository, monkeypatch) -> None:
    clean = sweep_provenance(repository)
    assert clean["git_commit"] == git(repository, "rev-parse", "HEAD")
    (repository / "runs").mkdir()  # what a sweep writes is not a change of the code
    (repository / "runs" / "journal").touch()
    assert sweep_provenance(repository)["git_dirty"] == clean["git_dirty"] == "false"
    (repository / "sweep.yaml").write_text("sweep: b\n")
    assert sweep_provenance(repository)["git_dirty"] == "true"
    monkeypatch.chdir(repository)
    assert sweep_provenance(None)["git_commit"] == git(repository, "rev-parse", "HEAD")


def test_without_git_the_rest_is_told(tmp_path, monkeypatch) -> None:
    assert "git_commit" not in sweep_provenance(tmp_path)
    monkeypatch.setenv("PATH", "")
    facts = sweep_provenance(tmp_path)
    assert not {"git_commit", "package_commit"} & set(facts)
    assert facts["python"] == platform.python_version()


def test_the_command_line_has_no_password(monkeypatch) -> None:
    arguments = ["my sweep.yaml", "--set", "stores.search=postgresql://user:secret@lab/s"]
    monkeypatch.setattr(sys, "argv", ["/home/someone/bin/cse-sweep", *arguments])
    command = sweep_provenance(None)["command"]
    assert shlex.split(command) == [
        "cse-sweep",
        "my sweep.yaml",
        "--set",
        "stores.search=postgresql://user:***@lab/s",
    ]


def test_a_trial_tells_its_machine() -> None:
    facts = trial_provenance(device="cpu", precision="bf16", attention="sdpa", threads=3)
    given = {"device": "cpu", "precision": "bf16", "attention": "sdpa", "threads": "3"}
    assert given.items() <= facts.items()
    assert facts["cpu"]
    assert int(facts["cpu_count"]) == os.cpu_count()
    assert "gpu" not in facts


def test_peak_memory_is_the_process_s() -> None:
    code = (
        "from cse_platform.tracking.provenance import peak_memory\n"
        "import sys\n"
        "block = bytearray(300 * 2**20); block[::4096] = b'x' * len(block[::4096]); del block\n"
        "print(peak_memory('cuda')['peak_memory_mib'], 'torch' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    peak, torch = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout.split()
    assert 300 <= int(peak) < 600
    assert torch == "False"
