"""Runs folders and stores that a stranger has prepared, to make a command harm its user.

Each fault works in a copy of the sweep's runs folder, with a private folder beside it: whatever the
copy names, the private folder and the original must stay as they are.
"""

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from faults import Fault, Scene, driver_and_children_killed
from processes import run_command
from servers import new_folder
from sweeps import Sweep

from cse_platform.tracking.events import TrialPoint

NAMES = (
    "../../private/letter.txt",
    "/tmp/../{private}/letter.txt",
    "a/../../../private/letter.txt",
)
LOCATIONS = ("{private}", "file://{private}", "runs:/{run}/", "http://127.0.0.1:9/", "s3://b/k")
LINKED = (
    *("sweeps", "sweeps/{name}", "sweeps/{name}/journal.jsonl", "sweeps/{name}/output"),
    *("sweeps/{name}/errors", "sweeps/{name}/code", "sweeps/{name}/ray", "evaluations"),
    *("annotations", "imports", "artifacts", "artifacts/models"),
)


@contextmanager
def _copy_for_stranger(scene: Scene) -> Iterator[tuple[Sweep, Path]]:
    """Copy the sweep, and check that a private folder and the original stay as they are."""
    driver_and_children_killed(scene)
    copy, private = scene.sweep.copied(new_folder()), new_folder() / "private"
    private.mkdir()
    (private / "letter.txt").write_text("dear diary")
    kept = {folder: _read_files(folder) for folder in (private, scene.sweep.runs)}
    yield copy, private
    for folder, files in kept.items():
        if changed := files.items() ^ _read_files(folder).items():
            raise AssertionError(f"a stranger has changed {sorted({name for name, _ in changed})}")


def _read_files(folder: Path) -> dict[str, str]:
    """Read the hash of each file, by its path; logs of SQLite go when it is opened."""
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in folder.rglob("*")
        if file.is_file() and not file.name.endswith(("-wal", "-shm", ".lock"))
    }


def _run(*arguments: object, code: int | None = None) -> str:
    """Run a command, which never ends in a traceback. Returns what it said."""
    name, *words = map(str, arguments)
    done = run_command(name, *words)
    said = done.stdout + done.stderr
    if "Traceback" in said or code not in (None, done.returncode):
        raise AssertionError(f"{name} {' '.join(words)}: exit {done.returncode}: {said}")
    return said


def _change_events(
    journal: Path, change: Callable[[dict[str, Any]], None], header: Mapping[str, str] | None = None
) -> None:
    """Change the header of a journal, and each event whose line is whole."""
    lines = journal.read_text().splitlines(keepends=True)
    first, *events = [json.loads(line) for line in lines if line.endswith("\n")]
    for event in events:
        change(event)
    changed = (first | dict(header or {}), *events)
    journal.write_text("".join(f"{json.dumps(entry)}\n" for entry in changed))


def code_forged(scene: Scene) -> None:
    """Let a bundle of code name files elsewhere, which no reproduction writes."""
    with _copy_for_stranger(scene) as (copy, private):
        name = scene.random.choice(NAMES).format(private=private)
        bundle = {"package": "cheap", "version": "1", "methods": {}, "files": {name: "stolen"}}
        content = json.dumps(bundle).encode()
        sha256 = hashlib.sha256(content).hexdigest()
        (copy.journal_file.parent / "code").mkdir(exist_ok=True)
        (copy.journal_file.parent / "code" / f"{sha256}.json").write_bytes(content)

        def name_bundle(event: dict[str, Any]) -> None:
            if event["kind"] == "sweep_started":
                event["provenance"]["method_source"] = sha256

        _change_events(copy.journal_file, name_bundle)
        (copy.runs / "leaderboard.db").unlink()
        _run("cse-leaderboard", "rebuild", "--only", "leaderboard", "--runs", copy.runs, code=0)
        to = ("--to", private.parent / "out", "--runs", copy.runs)
        said = _run("cse-leaderboard", "reproduce", f"{copy.name}#0", *to, code=1)
        assert "is not the source of a method" in said, said


def mlflow_forged(scene: Scene) -> None:
    """Let MLflow's database name other places for artifacts, where no deletion deletes."""
    with _copy_for_stranger(scene) as (copy, private):
        _run("cse-leaderboard", "rebuild", "--only", "mlflow", "--runs", copy.runs, code=0)
        with closing(sqlite3.connect(copy.runs / "mlflow.db")) as store, store:
            runs = [run for (run,) in store.execute("SELECT run_uuid FROM runs")]
            location = scene.random.choice(LOCATIONS).format(private=private, run=runs[0])
            store.execute("UPDATE runs SET artifact_uri = ?", [location])
            if location.startswith("runs:"):
                told = "UPDATE runs SET artifact_uri = ? WHERE run_uuid = ?"
                store.execute(told, (private.as_uri(), runs[0]))
        _run("cse-sweep", "delete", copy.name, "--yes", "--runs", copy.runs, code=0)


def journal_foreign(scene: Scene) -> None:
    """Let a colleague's journal tell other and earlier results of the same trials."""
    with _copy_for_stranger(scene) as (copy, _):
        theirs = copy.copied(new_folder())

        def lie(event: dict[str, Any]) -> None:
            event["time"] = "2020-01-01T00:00:00Z"
            for name in ("value", "best_value"):
                event |= {name: 0.123} if event.get(name) is not None else {}
            for name in ("metrics", "best_metrics"):
                event |= {name: dict.fromkeys(event[name], 0.123)} if name in event else {}

        _change_events(theirs.journal_file, lie, header={"journal": "theirs"})
        rebuild = ("cse-leaderboard", "rebuild", "--only", "leaderboard", "--runs", copy.runs)
        _run(*rebuild, code=0)
        before = _read_values(copy.runs)
        said = _run(*rebuild, "--from", theirs.runs, code=0)
        has_points = any(isinstance(event, TrialPoint) for event in copy.events())
        assert ("add --prefer theirs" in said) == has_points, said
        assert _read_values(copy.runs) == before, said


def _read_values(runs: Path) -> list[Any]:
    """Read the dev values of all trials on a leaderboard."""
    with closing(sqlite3.connect(runs / "leaderboard.db")) as board:
        return board.execute(
            "SELECT key, best_value, step, value FROM trials t "
            "JOIN attempts a ON a.id = t.shown_attempt "
            "LEFT JOIN dev_points p ON p.attempt_id = a.id ORDER BY key, step"
        ).fetchall()


def folders_linked(scene: Scene) -> None:
    """Put a link to a private copy in the place of a folder, behind which nothing is touched."""
    with _copy_for_stranger(scene) as (copy, private):
        link = copy.runs / scene.random.choice(LINKED).format(name=copy.name)
        target = new_folder() / link.name
        if link.exists():
            shutil.move(link, target)
        else:
            target.mkdir()
        link.symlink_to(target)
        before = _read_files(target.parent)
        place = ("--runs", copy.runs)
        _run("cse-sweep", copy.file, *place)
        _run("cse-leaderboard", "rebuild", *place)
        _run("cse-leaderboard", "export", copy.name, private.parent / "model", *place)
        _run("cse-sweep", "delete", copy.name, "--yes", *place)
        assert _read_files(target.parent) == before, link


OF_STRANGERS: tuple[Fault, ...] = (code_forged, mlflow_forged, journal_foreign, folders_linked)
