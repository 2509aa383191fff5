"""What a sweep's stored file says, which may be of another version, or empty."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from cse_methods.data.dev_selection import DevSelection
from cse_platform.sweep.space.space import Space


def search_dev(spec: Mapping[str, Any]) -> str:
    """What a sweep climbs, by its stored file."""
    try:
        return DevSelection.model_validate(spec.get("dev") or {}).search_name
    except ValidationError:  # of another version
        return DevSelection().search_name


def sampler_of(spec: Mapping[str, Any]) -> str:
    """What proposes a sweep's trials, by its stored file; empty where that does not say so."""
    search = spec.get("search")
    sampler = search.get("sampler", "") if isinstance(search, Mapping) else ""
    return str(sampler.get("kind", "") if isinstance(sampler, Mapping) else sampler)


def space_of(spec: Mapping[str, Any]) -> Space:
    """What a sweep searches, by its stored file; empty where that says nothing we can read."""
    try:
        return Space.model_validate(spec.get("space") or {})
    except ValidationError:  # of another version
        return Space({})
