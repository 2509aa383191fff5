"""`reproduce.sh`: it gets the code, runs the sweep, and says whether the same value came out."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from cse_platform.tracking.provenance import git_diff

KEY = "0a1b2c3d" + "0" * 56
FOLDER = Path("reproduce-0a1b2c3d")
AGAIN = {"best_value": 0.75, "best_step": 20}


def environment(again: object) -> None:
    """One that is there is taken; this one only notes, and has this trial to show."""
    tools = FOLDER / "venv" / "bin"
    tools.mkdir(parents=True)
    note = '#!/bin/sh\necho "{} $*" "[${{CSE_STORE-}}]"\n'
    for name in ("pip", "cse-sweep"):
        (tools / name).write_text(note.format(name))
    shown = f"case \"$*\" in *--json) echo '{json.dumps(again)}'; exit;; esac\n"
    (tools / "cse-leaderboard").write_text(
        note.format("cse-leaderboard").replace("\n", f"\n{shown}", 1)
    )
    (tools / "python").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)


def launch(**given: str) -> subprocess.CompletedProcess[str]:
    facts = {**os.environ, "CSE_STORE": "sqlite:///lab.db", **given}
    return subprocess.run([FOLDER / "reproduce.sh"], env=facts, text=True, capture_output=True)


def test_the_script_gets_the_code_of_the_commit_with_its_changes(
    runs, fill, began, life, one_run, git
) -> None:
    code = runs.parent / "code of theirs"
    code.mkdir()
    git(code, "init", "--quiet")
    (code / "loss.py").write_bytes(b"one\r\n")
    git(code, "add", ".")
    git(code, "commit", "--quiet", "--message", "first")
    commit = git(code, "rev-parse", "HEAD")
    (code / "loss.py").write_bytes(b"two\r\n")
    facts = {"package_commit": commit, "package_dirty": "true", "package_remote": str(code)}
    fill(began(provenance=facts, diffs={"package": git_diff(code)}), *life())
    git(code, "commit", "--quiet", "--all", "--message", "later")
    assert one_run("reproduce", KEY).exit_code == 0
    environment(AGAIN)
    (FOLDER / "code.part").mkdir()
    (FOLDER / "code.part" / "half").touch()  # of an attempt that was cut off
    for _ in range(2):
        done = launch()
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines() == [
            "pip install --quiet --requirement requirements.txt []",
            "pip install --quiet --no-deps --editable code []",
            "cse-sweep sweep.yaml --runs runs []",
            "cse-leaderboard show 0a1b2c3d --runs runs []",
            "Expected: dev stsb 0.75 at step 20.",
            "The same dev value came out.",
        ]
    assert (FOLDER / "code" / "loss.py").read_bytes() == b"two\r\n"
    assert git(FOLDER / "code", "rev-parse", "HEAD") == commit


def test_another_value_is_told_and_fails(fill, began, life, one_run) -> None:
    fill(began(packages={"cse-platform": "1"}, provenance={}), *life())
    one_run("reproduce", KEY)
    environment({"best_value": 0.7500000000000001, "best_step": 30})
    done = launch(CODE="code")
    assert (done.returncode, done.stderr) == (
        1,
        "Error: dev stsb is 0.7500000000000001 at step 30, and was 0.75 at step 20; README.md says "
        "what may be different\n",
    )


def test_nothing_is_compared_where_another_value_is_no_wonder(fill, began, life, one_run) -> None:
    imported = {"spec": {}, "provenance": {"imported_from": "a log"}}
    for start, end, shown in (
        ({"provenance": {}}, {"state": "PRUNED"}, "show 0a1b2c3d --runs runs"),
        (imported, {}, "--runs runs"),
    ):
        fill(began(**start), *life(**end))
        one_run("reproduce", KEY)
        environment({"best_value": 0.5, "best_step": 30})
        done = launch(CODE="code")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines()[-2:] == [
            f"cse-leaderboard {shown} []",
            "Expected: dev stsb 0.75 at step 20.",
        ]
        shutil.rmtree(FOLDER)
