"""The best encoders that a sweep refers to, and the folders that take their places."""

from collections.abc import Mapping
from typing import Any

from cse_platform.sweep.best import (
    BestReference,
    references_in,
    replace_references,
)
from cse_platform.sweep.space.dimensions import Choices
from cse_platform.sweep.space.space import Space
from cse_platform.sweep.spec import SweepSpec


def best_references(spec: SweepSpec) -> list[BestReference]:
    """The references that must be resolved before the sweep starts, each once, in file order."""
    choices = [d.choices for _, d in spec.space.items() if isinstance(d, Choices)]
    places = (spec.fixed, choices, spec.search.start_from)
    return list(dict.fromkeys(reference for place in places for reference in references_in(place)))


def with_best(spec: SweepSpec, folders: Mapping[BestReference, str]) -> SweepSpec:
    """The sweep with references replaced by folders, wherever `folders` has one."""

    if not folders:
        return spec

    def folder(reference: BestReference) -> Any:
        unresolved = {"best": {"method": reference.method, "backbone": reference.backbone}}
        return folders.get(reference, unresolved)

    space = replace_references(spec.space.model_dump(mode="json"), folder)
    start_from = replace_references(spec.search.start_from, folder)
    changed = {
        "fixed": replace_references(spec.fixed, folder),
        "space": Space.model_validate(space),
        "search": spec.search.model_copy(update={"start_from": tuple(start_from)}),
    }
    return spec.model_copy(update=changed)
