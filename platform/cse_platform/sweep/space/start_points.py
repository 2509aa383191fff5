"""Configurations that a search tries first: a paper's own, and those the file gives."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cse_methods.contract import Method, PublishedSettings
from cse_platform.errors import SweepRefusedError
from cse_platform.sweep.best import reference_problems
from cse_platform.sweep.reading.problems import (
    Path,
    Problem,
    did_you_mean,
    format_value,
    joined_problems,
)
from cse_platform.sweep.space.dimensions import canonical_json
from cse_platform.sweep.spec import SweepSpec


@dataclass(frozen=True)
class _Candidate:
    path: Path
    values: Mapping[str, Any]
    source: str | None
    """Of the paper; None for a point that the file gives."""


def start_points(spec: SweepSpec, method: Method) -> list[dict[str, Any]]:
    """The distinct start points of a sweep that `start_problems` finds nothing against.

    A point holds values of dimensions, as these sample them; it may leave dimensions out, and
    those that are inactive beside its other values are left out.
    """
    points: dict[str, dict[str, Any]] = {}
    for candidate in _candidates(spec, method):
        if point := _point(spec, candidate):
            points.setdefault(canonical_json(point), point)
    return list(points.values())


def start_problems(spec: SweepSpec, method: Method) -> list[Problem]:
    """What is wrong with `search.start_from`; paths start at the sweep."""
    problems = [
        problem for candidate in _candidates(spec, method) for problem in _problems(spec, candidate)
    ]
    if "published" in spec.search.start_from and (text := _nothing_published(spec, method)):
        position = spec.search.start_from.index("published")
        problems.append(Problem(("search", "start_from", position), text))
    return problems


def point_to_try(spec: SweepSpec, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values that a person wants tried, as the space samples them; SweepRefusedError if it cannot.

    Dimensions that are left out are drawn.
    """
    candidate = _Candidate((), values, source=None)
    if problems := _problems(spec, candidate):
        raise SweepRefusedError(f"sweep {spec.sweep!r} cannot try {joined_problems(problems)}")
    return {name: spec.space[name].find(value) for name, value in values.items()}


def _candidates(spec: SweepSpec, method: Method) -> Iterator[_Candidate]:
    for position, entry in enumerate(spec.search.start_from):
        path: Path = ("search", "start_from", position)
        if entry != "published":
            yield _Candidate(path, entry, source=None)
            continue
        for column in _columns(spec, method):
            settings = {**column.settings, **column.variant}
            values = {name: settings[name] for name in spec.space if name in settings}
            yield _Candidate(path, _defaults(spec, method) | values, source=column.source)


def _defaults(spec: SweepSpec, method: Method) -> dict[str, Any]:
    """The method's own values of what a paper's table leaves open, where the space has them."""
    fields = method.config.model_fields
    defaults = {name: fields[name].default for name in spec.space if not fields[name].is_required()}
    return {name: value for name, value in defaults.items() if _has(spec, name, value)}


def _columns(spec: SweepSpec, method: Method) -> list[PublishedSettings]:
    own = [column for column in method.published if column.backbone == spec.backbone]
    return [column for column in own if not _contradicted(column, spec, method)]


def _contradicted(column: PublishedSettings, spec: SweepSpec, method: Method) -> bool:
    """Whether the column is of a variant that this sweep does not train."""
    for name, value in column.variant.items():
        if name in spec.space:
            if not _has(spec, name, value):
                return True
        else:
            here = spec.fixed.get(name, method.config.model_fields[name].default)
            if canonical_json(here) != canonical_json(value):
                return True
    return False


def _has(spec: SweepSpec, name: str, value: Any) -> bool:
    try:
        spec.space[name].find(value)
    except LookupError:
        return False
    return True


def _nothing_published(spec: SweepSpec, method: Method) -> str | None:
    if _columns(spec, method):
        return None
    backbones = list(dict.fromkeys(column.backbone for column in method.published))
    whose = f"no published settings of {method.name!r} for backbone {spec.backbone!r}"
    if spec.backbone in backbones:
        own = [column.variant for column in method.published if column.backbone == spec.backbone]
        variants = ", ".join(format_value(dict(variant)) for variant in own)
        return f"{whose} agree with 'fixed' and 'space'; they are of {variants}"
    there = f"there are some for {', '.join(backbones)}" if backbones else "there are none at all"
    return f"{whose}; {there}; leave 'published' out or give values"


def _problems(spec: SweepSpec, candidate: _Candidate) -> list[Problem]:
    values = candidate.values
    found = [problem for name in values if (problem := _objection(spec, candidate, name))]
    return found or _broken(spec, candidate)


def _broken(spec: SweepSpec, candidate: _Candidate) -> list[Problem]:
    """What `require` has against a point; the values that it leaves open may still satisfy it."""
    requirements = spec.requirements
    point = _point(spec, candidate)
    if (text := requirements.broken_by(point)) is not None:
        broken = f"breaks require {text!r}"
    elif spec.require and requirements.some_point(point) is None:
        broken = "breaks 'require', whatever values the other hyperparameters have"
    else:
        return []
    if candidate.source:
        whose = f"the published point ({candidate.source}) {broken}; leave 'published' out"
        return [Problem(candidate.path, whose)]
    return [Problem(candidate.path, f"{broken}, got {format_value(point)}")]


def _point(spec: SweepSpec, candidate: _Candidate) -> dict[str, Any]:
    return {
        name: spec.space[name].find(value)
        for name, value in candidate.values.items()
        if not spec.space.is_excluded(name, candidate.values)
    }


def _objection(spec: SweepSpec, candidate: _Candidate, name: str) -> Problem | None:
    value, path = candidate.values[name], (*candidate.path, name)
    if name not in spec.space:
        fixed = "; it is fixed" if name in spec.fixed else did_you_mean(name, spec.space)
        return Problem(path, f"no such dimension in space{fixed}")
    if spec.space.is_excluded(name, candidate.values):
        if candidate.source:
            return None
        return Problem(path, f"inactive beside the point's other values, got {format_value(value)}")
    if problems := reference_problems(value):
        return problems[0].under(path)
    if _has(spec, name, value):
        return None
    dimension = spec.space[name]
    if candidate.source:
        text = (
            f"the published {name}={format_value(value)} ({candidate.source}) is not in "
            f"space.{name}, which is {dimension}; add it there, or leave 'published' out"
        )
        return Problem(candidate.path, text)
    return Problem(path, f"{format_value(value)} is not in space.{name}, which is {dimension}")
