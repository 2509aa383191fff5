"""Find on a machine what a sweep's results depend on, and compare a node with the driver."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import cse_platform.errors
from cse_methods import code_hash
from cse_methods.contract import Method
from cse_methods.data.corpora import load_corpus
from cse_methods.data.corpus_spec import CorpusSpec
from cse_methods.data.dev_identity import identify_dev_set
from cse_methods.data.dev_selection import DevSelection
from cse_methods.files.digest import file_sha256
from cse_methods.files.places import filesystem
from cse_methods.registry import get_method
from cse_platform.errors import OutputError, SweepRefusedError
from cse_platform.runner.failures import one_line
from cse_platform.runner.pinned_packages import find_installed
from cse_platform.secrets import mask_url
from cse_platform.sweep.identity import encoder_sha256
from cse_platform.sweep.spec import SweepSpec

Kind = Literal["version", "code", "data", "storage"]

_WAYS_OUT: Mapping[Kind, str] = {
    "version": "install there what is installed here",
    "code": "install the same code there",
    "data": "put the same files there",
    "storage": "let `storage:` name a place that every node can read and write",
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


def describe_differences(there: Mapping[str, Fact], here: Mapping[str, Fact]) -> str:
    """Describe in one line what differs on a node, and how to mend it; empty if nothing does.

    `here` are the facts of the driver; one that it lacks itself is skipped.
    """
    differing: dict[Kind, list[str]] = {}
    for name, fact in here.items():
        other = there.get(name, Fact(fact.kind, None, "not known there"))
        if fact.value is None or other.value == fact.value:
            continue
        what = f"{name} is another one"
        if other.value is None:
            what = f"{name}: {other.problem}"
        elif fact.kind == "version":
            what = f"{name} is {other.value} and not {fact.value}"
        differing.setdefault(fact.kind, []).append(what)
    named: list[str] = []
    for words in differing.values():
        more = len(words) - _MAX_NAMED
        named += [*words[:_MAX_NAMED], *([f"and {more} more"] if more > 0 else [])]
    wayout = ", and ".join(_WAYS_OUT[kind] for kind in differing)
    return f"{'; '.join(named)}; {wayout}" if differing else ""


_PACKAGES = ("cse-platform", "transformers")
"""Packages whose versions must be the same everywhere, besides Python and torch."""


@dataclass(frozen=True)
class NodeQuestions:
    """What a node is asked about; stores are left out, because workers never access them."""

    method: str
    corpus: tuple[CorpusSpec, ...]
    data: str | None
    dev: DevSelection
    encoders: tuple[str, ...]
    """Names of encoders, the backbone first."""
    files: tuple[str, ...]
    settings: tuple[dict[str, Any], ...]
    """Settings of configurations whose results depend on a further installed package."""
    storage: str | None
    """A file that the driver has written into the folder of checkpoints; None if it has not."""
    bases: tuple[str, ...] = ()
    """Methods that the method extends."""


def questions_of(spec: SweepSpec, method: Method, *, storage: str | None) -> NodeQuestions:
    """Collect what a sweep's trials need; `storage` is the path or URI of the driver's file."""
    configs = [spec.config(example) for example in spec.examples]
    further = {json.dumps(c.ingredients(), sort_keys=True): c for c in configs if c.ingredients()}
    encoders = (name for config in configs for name in config.encoders())
    return NodeQuestions(
        method=method.name,
        corpus=tuple(spec.corpus),
        data=spec.data,
        dev=spec.dev,
        encoders=tuple(dict.fromkeys([spec.backbone, *encoders])),
        files=tuple(dict.fromkeys(name for config in configs for name in config.files())),
        settings=tuple(config.model_dump(mode="json") for config in further.values()),
        storage=storage,
        bases=method.config.bases,
    )


def find_facts(questions: NodeQuestions) -> dict[str, Fact]:
    """Find all facts of this machine, by readable names; an error becomes a fact's problem.

    Files that are only on the hub are downloaded, as a trial would do.
    """
    facts = {name: Fact("version", value) for name, value in find_installed(_PACKAGES).items()}
    facts["the code of cse-platform"] = _make_fact("code", _hash_package_code)
    facts |= _find_code_facts(questions)
    facts["the corpus"] = _make_fact("data", _hash_corpus, questions)
    for task in questions.dev.tasks:
        facts[f"the dev set {task}"] = _make_fact("data", _hash_dev_set, questions, task)
    for name in questions.encoders:
        facts[f"the encoder {name}"] = _make_fact("data", encoder_sha256, name)
    for name in questions.files:
        facts[f"the file {name}"] = _make_fact("data", file_sha256, Path(name))
    if questions.storage is not None:
        folder = mask_url(questions.storage.rpartition("/")[0])
        facts[f"the storage {folder}"] = _make_fact("storage", _read_mark_back, questions.storage)
    return facts


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
            f"{mask_url(file)} cannot be written: {one_line(error)}; let `storage:` name a place "
            "that can be"
        ) from error


def _make_fact(kind: Kind, find: Callable[..., str], *arguments: Any) -> Fact:
    try:
        return Fact(kind, find(*arguments))
    except Exception as error:  # something is missing here, which can raise anything
        return Fact(kind, None, one_line(error))


def _hash_corpus(questions: NodeQuestions) -> str:
    from cse_methods.evaluation.test_sets.texts import hand_out_texts

    hand_out_texts(questions.corpus, questions.data)
    return load_corpus(questions.corpus, questions.data, backbone=questions.encoders[0]).sha256


def _hash_dev_set(questions: NodeQuestions, task: str) -> str:
    return identify_dev_set(questions.dev, task, questions.data).sha256


def _hash_package_code() -> str:
    """Hash all modules of the platform and of `cse_methods`."""
    digest = hashlib.sha256()
    for folder in (Path(cse_platform.errors.__file__).parent, Path(code_hash.__file__).parent):
        for file in sorted(folder.rglob("*.py")):
            digest.update(f"{file.relative_to(folder)} {file_sha256(file)}\n".encode())
    return digest.hexdigest()


def _find_code_facts(questions: NodeQuestions) -> dict[str, Fact]:
    """Find the method's revision, the hashes of its modules, and the packages it depends on."""
    known = _make_fact("code", lambda: str(get_method(questions.method).revision))
    facts = {f"the method {questions.method}": known}
    if known.value is None:  # it is not installed, or its import fails
        return facts
    method = get_method(questions.method)
    for one in (method, *map(get_method, questions.bases)):
        for module, sha256 in code_hash.code_hashes(one).items():
            facts[f"the code of {module}"] = Fact("code", sha256)
    for settings in questions.settings:
        config = method.config.model_validate(settings)
        for name in config.ingredients():
            facts[f"the {name}"] = Fact("version", config.ingredients()[name])
    return facts


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
