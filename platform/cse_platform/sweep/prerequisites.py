"""What a sweep needs before its first trial: what is missing, and what can be fetched.

What is found wrong goes into an `Inspection`, so that one wrong part hides no other.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from cse_methods.contract import MethodConfig
from cse_methods.data.corpora import load_corpus, missing_corpora
from cse_methods.data.dev_identity import missing_dev_data
from cse_methods.data.own.reading import describe_own_pairs, refuse_dev_as_test, with_checksum
from cse_methods.data.own.spec import OwnPairs
from cse_methods.data.source import data_source
from cse_methods.encoders.backbones import (
    Backbone,
    fetch_backbone,
    locate_backbone,
    resolve_backbone,
)
from cse_methods.errors import CseError
from cse_methods.registry import get_method
from cse_platform.errors import NotInstalledError
from cse_platform.sweep.best import BestReference
from cse_platform.sweep.best_in_spec import best_references
from cse_platform.sweep.check import representatives
from cse_platform.sweep.reading.problems import Inspection, Problem
from cse_platform.sweep.reading.problems import Path as Steps
from cse_platform.sweep.spec import SweepSpec

SETTINGS = ("method", "backbone", "corpus", "dev", "fixed", "space", "require")
"""Keys that make the configurations of a sweep's trials."""


def with_data_source(spec: SweepSpec, found: Inspection) -> SweepSpec:
    """The sweep with its data source written out, so that it means the same on every node.

    Own dev and test sets are held to the pairs that they have now. Wrong are `data` or CSE_DATA
    that names no folder in the SentEval layout, and sets that cannot be read or are both.
    """
    source = found.attempt(("data",), lambda: data_source(spec.data), needs=("data",))
    data = str(source.absolute()) if isinstance(source, Path) else source

    def read(key: str, own: OwnPairs) -> OwnPairs:
        return found.attempt((key,), partial(with_checksum, own)) or own

    dev = spec.dev.with_files(partial(read, "dev"))
    tests = spec.evaluate and spec.evaluate.with_files(partial(read, "evaluate"))
    if tests:
        refuse = partial(refuse_dev_as_test, dev.files.values(), tests.files.values())
        found.attempt(("evaluate",), refuse, needs=("dev", "evaluate"))
    return spec.model_copy(update={"data": data, "dev": dev, "evaluate": tests})


def sample_configs(spec: SweepSpec, found: Inspection) -> list[MethodConfig]:
    """Configurations with each choice and bound of the space; none where a setting is wrong."""

    def configs() -> list[MethodConfig]:
        assignments = representatives(spec, get_method(spec.method))
        return [spec.config(assignment) for assignment in assignments]

    return found.attempt((), configs, needs=SETTINGS) or []


def missing_downloads(
    spec: SweepSpec, configs: Sequence[MethodConfig], found: Inspection
) -> list[str]:
    """Everything of this sweep that must come from the hub, one line each.

    Wrong is what is missing and cannot be fetched: unknown names, wrong folders, files that the
    method is to read. What a configuration needs and is not installed is noted.
    """
    _find_missing_files(spec, configs, found)
    for config in configs:
        found.attempt((), partial(_refuse_uninstalled, config))
    missing = [f"encoder {one.name}: {one.origin}" for one in _absent(spec, configs, found)]
    wrong = {key for key in ("corpus", "data") if not found.is_sound(key)}
    for place, corpus in enumerate(() if wrong else spec.corpus):
        look = partial(missing_corpora, [corpus], spec.data)
        missing += found.attempt(("corpus", place), look) or []
    dev, tests = partial(missing_dev_data, spec.dev, spec.data), partial(_missing_tests, spec)
    missing += found.attempt(("dev",), dev, needs=("dev", "data")) or []
    missing += found.attempt(("evaluate",), tests, needs=("evaluate", "data")) or []
    return list(dict.fromkeys(missing))


def own_sets(spec: SweepSpec, *, among: Container[str] | None = None) -> list[str]:
    """What was found in the lab's own sets, a line each; DataError if one cannot be read.

    `among` has the files that are looked at; without it all are.
    """
    tests = spec.evaluate.files if spec.evaluate else {}
    kinds = {"dev": spec.dev.files, "test": tests}
    return [
        f"{kind} set {describe_own_pairs(own)}"
        for kind, files in kinds.items()
        for own in files.values()
        if among is None or own.file in among
    ]


def fetch_missing(spec: SweepSpec) -> None:
    """Get the backbone and the corpus onto this machine; a CseError for what cannot be had."""
    fetch_backbone(resolve_backbone(spec.backbone))
    load_corpus(spec.corpus, spec.data, backbone=spec.backbone)


def references_to_resolve(spec: SweepSpec, earlier: Sequence[SweepSpec]) -> list[BestReference]:
    """References to a best encoder that no earlier stage of the same file will train."""
    trained = {(stage.method, stage.backbone) for stage in earlier}
    return [r for r in best_references(spec) if (r.method, r.backbone) not in trained]


def _absent(
    spec: SweepSpec, configs: Sequence[MethodConfig], found: Inspection
) -> Iterator[Backbone]:
    """The encoders that are not on this machine; those that are have to be readable."""
    from cse_methods.encoders.reading import check_encoder

    placeholders = {reference.placeholder for reference in best_references(spec)}
    own = [spec.backbone] if found.is_sound("backbone") else []
    named = dict.fromkeys([*own, *(name for config in configs for name in config.encoders())])
    for name in named:
        if name in placeholders:
            continue
        place = ("backbone",) if name in own else _place_of(name, spec)
        source = found.attempt(place, partial(resolve_backbone, name))
        if source and found.attempt(place, partial(_is_absent, source)):
            yield source
        elif source:
            found.attempt(place, partial(check_encoder, name))
    asked = {(c.backbone, c.pooler, c.first_layer, c.test_prompt(), c.max_length) for c in configs}
    for name, pooler, first_layer, prompt, max_length in sorted(asked, key=str):
        read = partial(check_encoder, name, pooler=pooler, first_layer=first_layer, prompt=prompt)
        found.attempt(("backbone",), partial(read, max_length=max_length), needs=("backbone",))


def _is_absent(source: Backbone) -> bool:
    return locate_backbone(source) is None


def _missing_tests(spec: SweepSpec) -> list[str]:
    from cse_methods.evaluation.test_sets.availability import missing_tests

    asked = spec.evaluate
    return [] if asked is None else missing_tests(asked.asked, spec.data)


def _find_missing_files(
    spec: SweepSpec, configs: Sequence[MethodConfig], found: Inspection
) -> None:
    for name in dict.fromkeys(name for config in configs for name in config.files()):
        if not Path(name).is_file():
            text = f"{spec.method} is to read {name!r}: no such file"
            found.problems.append(Problem(_place_of(name, spec), text))


def _refuse_uninstalled(config: MethodConfig) -> None:
    try:
        config.ingredients()
    except CseError as error:
        raise NotInstalledError(str(error)) from error


def _place_of(text: str, spec: SweepSpec) -> Steps:
    """Where a text stands under `fixed` or `space`; empty if nowhere."""
    told = spec.model_dump(mode="json", include={"fixed", "space"})
    return next((steps for steps, value in _values(told, ()) if value == text), ())


def _values(data: Any, steps: Steps) -> Iterator[tuple[Steps, Any]]:
    if isinstance(data, (Mapping, list)):
        for key, inner in data.items() if isinstance(data, Mapping) else enumerate(data):
            yield from _values(inner, (*steps, key))
    else:
        yield steps, data
