"""What is told of code, command and machine, and that no password is."""

import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cse_platform.tracking.provenance import hide_password, sweep_provenance, trial_provenance

PASSWORDS = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1)


@given(password=PASSWORDS.filter(lambda text: "=" not in text))
def test_any_password_is_hidden_quoted_or_not(password: str) -> None:
    for written in (password, quote(password), quote(password, safe="")):
        for before in ("postgresql+psycopg://user", "https://", "--store=sqlite://lab"):
            url = f"{before}:{written}@lab:5432/cse"
            assert hide_password(url) == f"{before}:***@lab:5432/cse"


@given(password=PASSWORDS, parameter=st.sampled_from(["password", "PWD", "sslpassword", "token"]))
def test_any_password_among_the_parameters_is_hidden(password: str, parameter: str) -> None:
    url = f"postgresql://lab/cse?{parameter}={quote(password, safe='')}&sslmode=require"
    assert hide_password(url) == f"postgresql://lab/cse?{parameter}=***&sslmode=require"


@given(text=st.text())
def test_hiding_never_fails_and_what_is_hidden_stays_so(text: str) -> None:
    assert hide_password(hide_password(text)) == hide_password(text)


@pytest.mark.parametrize(
    "url",
    ["sqlite:///runs/cse.db", "http://lab:5000/", "postgresql://user@lab/cse", "rankcse@c0ffee"],
)
def test_what_holds_no_password_stays_as_it_is(url: str) -> None:
    assert hide_password(url) == url


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql:/user:secret@lab/cse", "postgresql:***@lab/cse"),
        ("user:secret@lab", "user:***@lab"),
        ("postgresql://user:sec?ret&pwd=x@lab", "postgresql://user:***"),
        ("postgresql://user:se@cr@lab", "postgresql://user:***@lab"),
        ("postgresql://u:a@lab/x?password=b@c", "postgresql://u:***@lab/x?password=***"),
        ("stores: {a: p://u:secret@h, b: p://u:secret@h}", "stores: {a: p://u:***@h}"),
    ],
)
def test_malformed_urls(url: str, shown: str) -> None:
    assert hide_password(url) == shown


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    done = subprocess.run(
        ["git", "-C", str(folder), *who, *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "sweep.yaml").write_text("sweep: a\n")
    git(tmp_path, "add", "sweep.yaml")
    git(tmp_path, "commit", "--quiet", "--message", "first")
    return tmp_path


def test_git_state(repository: Path) -> None:
    clean = sweep_provenance(repository)
    assert clean["git_commit"] == git(repository, "rev-parse", "HEAD")
    (repository / "runs").mkdir()  # what a sweep writes is not a change of the code
    (repository / "runs" / "journal").touch()
    assert sweep_provenance(repository)["git_dirty"] == clean["git_dirty"] == "false"
    (repository / "sweep.yaml").write_text("sweep: b\n")
    assert sweep_provenance(repository)["git_dirty"] == "true"


def test_the_working_directory_is_the_default(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    assert sweep_provenance(None)["git_commit"] == git(repository, "rev-parse", "HEAD")


def test_without_git_the_rest_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "git_commit" not in sweep_provenance(tmp_path)
    monkeypatch.setenv("PATH", "")
    facts = sweep_provenance(tmp_path)
    assert not {"git_commit", "package_commit"} & set(facts)
    assert facts["python"] == platform.python_version()


def test_the_command_line_has_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["my sweep.yaml", "--set", "stores.search=postgresql://user:secret@lab/s"]
    monkeypatch.setattr(sys, "argv", ["/home/someone/bin/cse-sweep", *arguments])
    command = sweep_provenance(None)["command"]
    assert shlex.split(command) == [
        "cse-sweep",
        "my sweep.yaml",
        "--set",
        "stores.search=postgresql://user:***@lab/s",
    ]


def test_versions_of_libraries() -> None:
    import optuna

    facts = sweep_provenance(None)
    assert facts["optuna"] == optuna.__version__
    assert {"ray", "torch", "transformers", "mlflow", "sqlalchemy", "host"} <= set(facts)


def test_a_trial_tells_its_machine() -> None:
    facts = trial_provenance(device="cpu", precision="bf16", attention="sdpa", threads=3)
    given = {"device": "cpu", "precision": "bf16", "attention": "sdpa", "threads": "3"}
    assert given.items() <= facts.items()
    assert facts["cpu"]
    assert int(facts["cpu_count"]) == os.cpu_count()
    assert "gpu" not in facts


def test_peak_memory_is_the_process_s() -> None:
    code = (
        "from cse_platform.tracking.provenance import trial_provenance as facts\n"
        "import sys\n"
        "block = bytearray(300 * 2**20); block[::4096] = b'x' * len(block[::4096]); del block\n"
        "told = facts(device='cuda', precision='fp32', attention='sdpa', threads=1)\n"
        "print(told['peak_memory_mib'], 'torch' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    peak, torch = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout.split()
    assert 300 <= int(peak) < 600
    assert torch == "False"
