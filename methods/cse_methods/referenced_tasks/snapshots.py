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
from cse_methods.referenced_tasks.own_files import read_own_rows
from cse_methods.task_reference import Reference, parse_reference
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


def find_snapshot(reference: Reference) -> Reference | None:
    """Return a reference with the checksum of its snapshot; None if there is none here.

    A benchmark has the names of its members instead. Own files need no snapshot: the checksum is
    that of their rows, and a DataError says why they cannot be read.
    """
    if reference.is_own:
        sha256 = _checksum_rows(read_own_rows(reference))
        return reference.model_copy(update={"sha256": sha256})
    file = _locate_record(reference)
    try:
        found = Reference.model_validate(json.loads(file.read_text("utf-8"))["reference"])
    except (OSError, ValueError, KeyError):  # there is no record, or it was damaged since
        return None
    there = found.kind == "benchmark" or _locate_snapshot(found).is_dir()
    return found if there else None


def record_snapshot(reference: Reference, source: Mapping[str, Any]) -> None:
    """Note the snapshot of a reference, and where its rows come from, such as a revision."""
    file = _locate_record(reference)
    file.parent.mkdir(parents=True, exist_ok=True)
    record = {"reference": reference.model_dump(mode="json"), "source": dict(source)}
    with written_whole(file, file.with_suffix(".partial")) as stream:
        stream.write(json.dumps(record, indent=2).encode())


def with_snapshots(tasks: Tasks) -> Tasks:
    """Return the tasks with the checksums of their snapshots, and the members of benchmarks.

    DataError if the data of one is not here.
    """
    found = dict[str, Reference]()
    for reference in tasks.referenced:
        one = with_snapshot(reference)
        members = [with_snapshot(member) for member in members_of(one)]
        found |= {each.task: each for each in (one, *members)}
    return replace(tasks, referenced=tuple(found.values()))


def members_of(benchmark: Reference) -> list[Reference]:
    """Return references to the tasks of a benchmark that was fetched; of other tasks, none."""
    return [parse_reference(name) for name in benchmark.members]


def missing_references(references: Iterable[Reference]) -> list[str]:
    """Describe the references of whose data there is no snapshot here, one line each."""
    missing = []
    for reference in (one for one in references if not one.is_own):
        found = find_snapshot(reference)
        whole = found and all(find_snapshot(member) for member in members_of(found))
        if not whole:
            missing.append(f"task {reference.task} (mteb)")
    return missing


def write_snapshot(parts: Parts, reference: Reference) -> str:
    """Store the rows of a reference in the cache and return their checksum.

    DataError if they are not text and numbers, or cannot be stored.
    """
    root = cache_folder(_name_cache(reference))
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


def read_rows(reference: Reference) -> dict[str, list[dict[str, Any]]]:
    """Read the rows of a reference, of its snapshot or of own files, by the names of their files.

    DataError if there are none of this checksum here, or own files cannot be read.
    """
    if reference.is_own:
        own = read_own_rows(reference)
        if reference.sha256 not in (None, sha256 := _checksum_rows(own)):
            raise DataError(
                f"{', '.join(reference.paths)}: the content has changed: sha256 {sha256[:12]}, "
                f"expected {str(reference.sha256)[:12]}; restore it, or start another sweep with it"
            )
        return own
    folder = _locate_snapshot(reference)
    rows, checksums = dict[str, list[dict[str, Any]]](), dict[str, str]()
    for file in sorted(folder.rglob("*.jsonl")):
        name = str(file.relative_to(folder).with_suffix(""))
        content = file.read_bytes()
        checksums[name] = hashlib.sha256(content).hexdigest()
        rows[name] = [json.loads(line) for line in content.splitlines()]
    if not rows:
        raise _make_absent_error(reference)
    if _join_checksums(checksums) != reference.sha256:
        raise DataError(f"{folder}: its rows were changed; delete it, and fetch the task again")
    return rows


def with_snapshot(reference: Reference) -> Reference:
    """Return a reference with its checksum, or a benchmark with its members; DataError if the data
    is not here.
    """
    if reference.sha256 or reference.members:
        return reference
    found = find_snapshot(reference)
    if found is None:
        raise _make_absent_error(reference)
    return found


def _make_absent_error(reference: Reference) -> DataError:
    return DataError(
        f"{reference.task}: its data is not in the cache {cache_root()}; cse-evaluate or the "
        "start of a sweep fetches it, and all nodes need the same CSE_CACHE"
    )


def _name_cache(reference: Reference) -> str:
    """Name the cache of the data; the guard of trials closes that of test splits by its name."""
    return "test-tasks" if reference.split is None else "dev-tasks"


def _locate_record(reference: Reference) -> Path:
    named = {"task": reference.task, "split": reference.split, "mteb": library_version()}
    return cache_folder(_name_cache(reference)) / "references" / f"{cache_key(named)}.json"


def _locate_snapshot(reference: Reference) -> Path:
    return cache_folder(_name_cache(reference)) / (reference.sha256 or "absent")


def _write_rows(file: Path, rows: Iterable[Mapping[str, Any]]) -> str:
    """Write rows as lines of JSON and return the checksum of the file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    checksum = hashlib.sha256()
    with file.open("wb") as stream:
        for row in rows:
            line = _encode_row(row)
            checksum.update(line)
            stream.write(line)
    return checksum.hexdigest()


def _encode_row(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _checksum_rows(parts: Parts) -> str:
    """Compute the checksum that a snapshot of these rows would have."""
    checksums = {
        name: hashlib.sha256(b"".join(map(_encode_row, rows))).hexdigest()
        for name, rows in parts.items()
    }
    return _join_checksums(checksums)


def _join_checksums(checksums: Mapping[str, str]) -> str:
    return sha256_of(f"{name}\t{checksum}" for name, checksum in sorted(checksums.items()))
