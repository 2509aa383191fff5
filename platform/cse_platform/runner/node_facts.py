"""Find on a machine what a sweep's results depend on, and compare a node with the driver."""

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from pydantic import ValidationError

import cse_platform.errors
from cse_methods import code_hash
from cse_methods.data.dev_sets import identify_dev_set
from cse_methods.errors import CseError
from cse_methods.files.places import filesystem
from cse_methods.files.text import file_sha256
from cse_platform.errors import OutputError, SweepRefusedError
from cse_platform.runner.failures import one_line
from cse_platform.runner.pinned_packages import find_installed
from cse_platform.secrets import mask_url
from cse_platform.sweep.identity import encoder_sha256
from cse_platform.sweep.preflight import read_corpus
from cse_platform.sweep.spec import SweepSpec

Kind = Literal["version", "code", "data", "storage"]

_WAYS_OUT: Mapping[Kind, str] = {
    "version": "install there what is installed here",
    "code": "install the same code there",
    "data": "put the same files there",
    "storage": "set `storage:` to a place that every node can read and write",
}
_MAX_NAMED = 3
"""How many differences of a kind are named; another version of a package can cause dozens."""


@dataclass(frozen=True)
class Fact:
    """Something that results depend on or that a trial needs, as found on one machine."""

    kind: Kind
    value: str | None
    """A version or a hash; None if it could not be determined."""
    problem: str = ""
    """Why it could not be determined."""


def describe_differences(node_facts: Mapping[str, Fact], driver_facts: Mapping[str, Fact]) -> str:
    """Describe in one line what differs on a node, and how to mend it; empty if nothing does.

    A fact that the driver lacks itself is skipped.
    """
    differing: dict[Kind, list[str]] = {}
    for name, fact in driver_facts.items():
        other = node_facts.get(name, Fact(fact.kind, None, "not known there"))
        if fact.value is None or other.value == fact.value:
            continue
        text = f"{name} is different"
        if other.value is None:
            text = f"{name}: {other.problem}"
        elif fact.kind == "version":
            text = f"{name} is {other.value} and not {fact.value}"
        differing.setdefault(fact.kind, []).append(text)
    named: list[str] = []
    for texts in differing.values():
        more = len(texts) - _MAX_NAMED
        named += [*texts[:_MAX_NAMED], *([f"and {more} more"] if more > 0 else [])]
    way_out = ", and ".join(_WAYS_OUT[kind] for kind in differing)
    return f"{'; '.join(named)}; {way_out}" if differing else ""


_PACKAGES = ("cse-platform", "transformers")
"""Packages whose versions must be the same everywhere, besides Python and torch."""


def find_facts(sweep: Mapping[str, Any], storage: str | None) -> dict[str, Fact]:
    """Find all facts of this machine, by readable names; an error becomes a fact's problem.

    Files that are only on the hub are downloaded, as a trial would do.

    Args:
        sweep: its spec, as `describe_sweep` returns it.
        storage: a file that the driver has written into the folder of checkpoints, or None.
    """
    facts = {name: Fact("version", value) for name, value in find_installed(_PACKAGES).items()}
    facts["the code of cse-platform"] = _make_fact("code", _hash_package_code)
    try:
        spec = SweepSpec.model_validate(sweep)
    except ValidationError:  # of another version, which is among the facts
        return facts
    known = _make_fact("code", lambda: str(spec.find_method().revision))
    facts[f"the method {spec.method}"] = known
    encoders, files = [spec.backbone], list[str]()
    if known.value is not None:  # otherwise it is not installed, or its import fails
        for module, sha256 in code_hash.code_hashes(spec.find_method()).items():
            facts[f"the code of {module}"] = Fact("code", sha256)
        with suppress(CseError):  # then what they name is not known there
            for config in map(spec.config, spec.examples):
                encoders += config.encoders()
                files += config.files()
                for name, value in config.ingredients().items():
                    facts[f"the {name}"] = Fact("version", value)
    facts["the corpus"] = _make_fact("data", lambda: read_corpus(spec).sha256)
    for task in spec.dev.tasks:
        facts[f"the dev set {task}"] = _make_fact("data", _hash_dev_set, spec, task)
    for name in dict.fromkeys(encoders):
        facts[f"the encoder {name}"] = _make_fact("data", encoder_sha256, name)
    for name in dict.fromkeys(files):
        facts[f"the file {name}"] = _make_fact("data", file_sha256, Path(name))
    if storage is not None:
        folder = mask_url(storage.rpartition("/")[0])
        facts[f"the storage {folder}"] = _make_fact("storage", _read_mark_back, storage)
    return facts


def describe_sweep(spec: SweepSpec) -> dict[str, Any]:
    """Describe a sweep for its nodes: without what workers never access and may hold passwords."""
    return spec.model_dump(mode="json", exclude={"stores", "notify"})


def write_mark(file: str) -> None:
    """Write a random word to the storage; a node that can read it shares the driver's storage.

    Raises SweepRefusedError if it cannot be written.
    """
    try:
        files, path = filesystem(file)
        files.create_dir(path.rpartition("/")[0], recursive=True)
        with files.open_output_stream(path) as stream:
            stream.write(uuid4().hex.encode())
    except OSError as error:
        raise SweepRefusedError(
            f"{mask_url(file)} cannot be written: {one_line(error)}; set `storage:` to a place "
            "that can be written"
        ) from error


def _make_fact(kind: Kind, find: Callable[..., str], *arguments: Any) -> Fact:
    try:
        return Fact(kind, find(*arguments))
    except Exception as error:  # something is missing here, which can raise anything
        return Fact(kind, None, one_line(error))


def _hash_dev_set(spec: SweepSpec, task: str) -> str:
    _, sha256 = identify_dev_set(spec.dev, task, spec.data)
    return sha256


def _hash_package_code() -> str:
    """Hash all modules of the platform and of `cse_methods`."""
    digest = hashlib.sha256()
    for folder in (Path(cse_platform.errors.__file__).parent, Path(code_hash.__file__).parent):
        for file in sorted(folder.rglob("*.py")):
            digest.update(f"{file.relative_to(folder)} {file_sha256(file)}\n".encode())
    return digest.hexdigest()


def _read_mark_back(file: str) -> str:
    """Read the driver's word, write it to a second file, and return what that file holds."""
    files, path = filesystem(file)
    own = f"{path}-{uuid4().hex}"
    try:
        with files.open_input_stream(path) as stream:
            word = stream.read()
    except FileNotFoundError:
        raise OutputError("it does not hold there what the driver has written to it") from None
    with files.open_output_stream(own) as stream:
        stream.write(word)
    with files.open_input_stream(own) as stream:
        back: bytes = stream.read()
    files.delete_file(own)
    return back.decode()
