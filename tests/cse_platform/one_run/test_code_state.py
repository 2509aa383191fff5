import os
import platform
import shlex
import sys
from pathlib import Path

import pytest
from processes import git, python

from cse_platform.tracking.provenance import (
    MAX_DIFF_BYTES,
    can_be_applied,
    code_diffs,
    git_diff,
    git_state,
    sweep_provenance,
    trial_provenance,
)


@pytest.fixture
def repository(tmp_path, monkeypatch) -> Path:
    """Three committed files, where one works: of text, with Windows' line ends, and of bytes."""
    folder = tmp_path / "original"
    (folder / "deep").mkdir(parents=True)
    monkeypatch.chdir(folder)
    git(folder, "init", "--quiet")
    (folder / "a.py").write_text("one\n")
    (folder / "deep" / "b.txt").write_bytes(b"one\r\ntwo\r\n")
    (folder / "c.bin").write_bytes(bytes(range(256)))
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "first")
    return folder


def change(folder: Path) -> None:
    (folder / "a.py").write_text("one\nzwei: äöü ∑\n")
    (folder / "deep" / "b.txt").write_bytes(b"one\r\nthree\r\n")
    (folder / "c.bin").write_bytes(bytes(reversed(range(256))))


@pytest.mark.parametrize("seen_from", [".", "deep"])
def test_a_diff_gives_the_changes_back(repository, tmp_path, seen_from) -> None:
    for name, value in (("color.ui", "always"), ("diff.noprefix", "true"), ("diff.relative", "1")):
        git(repository, "config", name, value)
    change(repository)
    diff = git_diff(repository / seen_from)
    assert diff is not None and can_be_applied(diff)
    (tmp_path / "some.diff").write_bytes(diff.encode())
    git(tmp_path, "clone", "--quiet", str(repository), "copy")
    git(tmp_path / "copy", "apply", str(tmp_path / "some.diff"))
    for name in ("a.py", "deep/b.txt", "c.bin"):
        assert (tmp_path / "copy" / name).read_bytes() == (repository / name).read_bytes()


def test_nothing_differs_in_a_clean_tree_or_outside_of_one(repository, tmp_path) -> None:
    (repository / "untracked.py").write_text("no")
    assert git_diff(repository) is None
    assert git_diff(tmp_path) is None
    assert "git" not in code_diffs()


def test_a_diff_that_is_not_whole_says_so(repository) -> None:
    (repository / "a.py").write_text("x" * 99 + "\n" + "é" * MAX_DIFF_BYTES)
    diff = git_diff(repository)
    assert diff is not None and not can_be_applied(diff)
    assert diff.splitlines()[-1].startswith("### not whole: ")
    assert MAX_DIFF_BYTES <= len(diff.encode()) <= MAX_DIFF_BYTES + 100
    (repository / "a.py").write_bytes("grüße\n".encode("latin-1"))
    diff = git_diff(repository)
    assert diff is not None and not can_be_applied(diff)
    assert "it is not UTF-8" in diff.splitlines()[-1]
    (repository / "a.py").write_text("### not whole: says a test")
    diff = git_diff(repository)
    assert diff is not None and can_be_applied(diff)


def test_no_fact_of_the_code_has_a_secret(repository, monkeypatch) -> None:
    (repository / "a.py").write_text("stores: {search: 'postgresql://lab:hunter2@db/s'}\n")
    diff = code_diffs()["git"]
    assert "hunter2" not in diff and not can_be_applied(diff)
    assert "remote" not in git_state(repository)
    git(repository, "remote", "add", "origin", "https://someone:secret@example.org/code.git")
    facts = sweep_provenance()
    assert facts["git_remote"] == "https://someone:***@example.org/code.git"
    assert ":secret" not in " ".join(facts.values())
    arguments = ["my sweep.yaml", "--set", "stores.search=postgresql://user:secret@lab/s"]
    monkeypatch.setattr(sys, "argv", ["/home/someone/bin/cse-sweep", *arguments])
    command = sweep_provenance()["command"]
    masked = "stores.search=postgresql://user:***@lab/s"
    assert shlex.split(command) == ["cse-sweep", "my sweep.yaml", "--set", masked]


def test_a_sweep_tells_the_state_of_its_code_and_its_folder(repository) -> None:
    clean = sweep_provenance()
    assert clean["git_commit"] == git(repository, "rev-parse", "HEAD")
    (repository / "runs").mkdir()  # what a sweep writes is not a change of the code
    (repository / "runs" / "journal").touch()
    assert sweep_provenance()["git_dirty"] == clean["git_dirty"] == "false"
    change(repository)
    assert sweep_provenance()["git_dirty"] == "true"
    assert code_diffs()["git"] == git_diff(repository)
    assert clean["folder"] == str(repository)


def test_without_git_the_rest_is_told(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "git_commit" not in sweep_provenance()
    monkeypatch.setenv("PATH", "")
    facts = sweep_provenance()
    assert not {"git_commit", "package_commit"} & set(facts)
    assert facts["python"] == platform.python_version()


def test_a_trial_tells_its_machine_and_its_peak_of_memory() -> None:
    facts = trial_provenance(device="cpu", precision="bf16", attention="sdpa", threads=3)
    given = {"device": "cpu", "precision": "bf16", "attention": "sdpa", "threads": "3"}
    assert given.items() <= facts.items()
    assert facts["cpu"]
    assert int(facts["cpu_count"]) == os.cpu_count()
    assert "gpu" not in facts
    code = (
        "from cse_platform.tracking.provenance import peak_memory\n"
        "import sys\n"
        "block = bytearray(300 * 2**20); block[::4096] = b'x' * len(block[::4096]); del block\n"
        "print(peak_memory('cuda')['peak_memory_mib'], 'torch' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    peak, torch = python(code, env=environment).stdout.split()
    assert 300 <= int(peak) < 600
    assert torch == "False"
