"""Snapshots of the data of tasks: the rows that are read, kept by their checksum.

A command makes them while the hub is there; drivers and workers read nothing else. A record names
the snapshot of each reference. This module imports no library of tasks.
"""

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from filelock import FileLock

from cse_methods.errors import DataError
from cse_methods.files.cache import cache_folder, cache_key, cache_root, written_whole
from cse_methods.files.text import sha256_of
from cse_methods.referenced_tasks.reference import Reference, parse_reference
from cse_methods.tasks import Tasks

Parts = Mapping[str, Iterable[Mapping[str, Any]]]
"""The rows of a task by the names of their files, such as `en/test/rows` or `default/dev/qrels`."""


@cache
def library_version() -> str | None:
    """Return the version of mteb; None if it is not installed."""
    try:
        return version("mteb")
    except PackageNotFoundError:
        return None


def find_snapshot(reference: Reference, split: str | None = None) -> Reference | None:
    """Return a reference with the checksum of its snapshot; None if there is none here.

    A benchmark has the names of its members instead. `split` names a split to develop on; None is
    the one on which the task is evaluated.
    """
    file = _record_file(reference, split)
    if not file.is_file():
        return None
    found = Reference.model_validate_json(file.read_text("utf-8"))
    there = found.kind == "benchmark" or _snapshot_folder(found, split).is_dir()
    return found if there else None


def record_snapshot(reference: Reference, split: str | None, source: Mapping[str, Any]) -> None:
    """Note the snapshot of a reference, and where its rows come from, such as a revision."""
    file = _record_file(reference, split)
    file.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(file, file.with_suffix(".partial")) as stream:
        stream.write(reference.model_dump_json().encode())
    notes = json.dumps({"task": reference.task, **source}, indent=2)
    file.with_suffix(".source").write_text(notes + "\n", encoding="utf-8")


def with_snapshots(tasks: Tasks) -> Tasks:
    """Return the tasks with the checksums of their snapshots, and the members of benchmarks.

    DataError if the data of one is not here.
    """
    found = dict[str, Reference]()
    for reference in tasks.referenced:
        one = _with_snapshot(reference)
        members = [_with_snapshot(member) for member in members_of(one)]
        found |= {each.task: each for each in (one, *members)}
    return replace(tasks, referenced=tuple(found.values()))


def members_of(benchmark: Reference) -> list[Reference]:
    """Return references to the tasks of a benchmark that was fetched; of other tasks, none."""
    return [parse_reference(name) for name in benchmark.members]


def missing_references(references: Iterable[Reference]) -> list[str]:
    """Describe the references of whose data there is no snapshot here, one line each."""
    missing = []
    for reference in references:
        found = find_snapshot(reference)
        whole = found and all(find_snapshot(member) for member in members_of(found))
        if not whole:
            missing.append(f"task {reference.task} (mteb)")
    return missing


def write_snapshot(parts: Parts, *, split: str | None) -> str:
    """Store rows in the cache and return their checksum.

    DataError if they are not text and numbers, or cannot be stored.
    """
    root = cache_folder(_kind(split))
    partial = root / ".partial"
    try:
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(root / ".lock"):
            shutil.rmtree(partial, ignore_errors=True)
            checksums = {
                name: _write_rows(partial / f"{name}.jsonl", parts[name]) for name in parts
            }
            sha256 = _join_checksums(checksums)
            if not (root / sha256).is_dir():
                partial.rename(root / sha256)
    except TypeError as error:
        raise DataError(f"the rows hold more than text and numbers: {error}") from error
    except OSError as error:
        raise DataError(
            f"cannot store the data of tasks in {root}: {error.strerror or error}; free space "
            "there, or set CSE_CACHE to a folder on another disk"
        ) from error
    return sha256


def read_snapshot(
    reference: Reference, split: str | None = None
) -> dict[str, list[dict[str, Any]]]:
    """Read the rows of a reference by the names of their files.

    DataError if there is no snapshot of this checksum here, or it was changed.
    """
    folder = _snapshot_folder(reference, split)
    rows, checksums = dict[str, list[dict[str, Any]]](), dict[str, str]()
    for file in sorted(folder.rglob("*.jsonl")):
        name = str(file.relative_to(folder).with_suffix(""))
        content = file.read_bytes()
        checksums[name] = hashlib.sha256(content).hexdigest()
        rows[name] = [json.loads(line) for line in content.splitlines()]
    if not rows:
        raise _absent(reference)
    if _join_checksums(checksums) != reference.sha256:
        raise DataError(f"{folder}: its rows were changed; delete it, and fetch the task again")
    return rows


def _with_snapshot(reference: Reference) -> Reference:
    if reference.sha256 or reference.members:
        return reference
    found = find_snapshot(reference)
    if found is None:
        raise _absent(reference)
    return found


def _absent(reference: Reference) -> DataError:
    return DataError(
        f"{reference.task}: its data is not in the cache {cache_root()}; cse-evaluate or the "
        "start of a sweep fetches it, and all nodes need the same CSE_CACHE"
    )


def _kind(split: str | None) -> str:
    """Name the kind of cache; the guard of trials closes that of test splits by its name."""
    return "test-tasks" if split is None else "dev-tasks"


def _record_file(reference: Reference, split: str | None) -> Path:
    named = {"task": reference.task, "split": split, "mteb": library_version()}
    return cache_folder(_kind(split)) / "references" / f"{cache_key(named)}.json"


def _snapshot_folder(reference: Reference, split: str | None) -> Path:
    return cache_folder(_kind(split)) / (reference.sha256 or "absent")


def _write_rows(file: Path, rows: Iterable[Mapping[str, Any]]) -> str:
    """Write rows as lines of JSON and return the checksum of the file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    checksum = hashlib.sha256()
    with file.open("wb") as stream:
        for row in rows:
            line = json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
            checksum.update(line)
            stream.write(line)
    return checksum.hexdigest()


def _join_checksums(checksums: Mapping[str, str]) -> str:
    return sha256_of(f"{name}\t{checksum}" for name, checksum in sorted(checksums.items()))
