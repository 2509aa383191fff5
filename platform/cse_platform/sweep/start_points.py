"""Collect the configurations that a search tries first: published, of the leaderboard, or given."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from cse_methods.contract import Method, PublishedSettings
from cse_platform.errors import SweepRefusedError
from cse_platform.sweep.problems import Problem, Steps, did_you_mean, format_value, joined_problems
from cse_platform.sweep.references import best_reference_problems, with_examples
from cse_platform.sweep.space.space import find_value
from cse_platform.sweep.spec import SweepSpec
from cse_platform.values import canonical_json


@dataclass(frozen=True)
class _Candidate:
    path: Steps
    values: Mapping[str, Any]
    notes: Sequence[str] = ()
    """Changes of a point that does not come from the file."""


Leaders = Mapping[str, Mapping[str, Any]]
"""The configurations that `leaderboard` stands for, by a description of their origin."""
NO_LEADERS: Leaders = {}


def start_points(
    spec: SweepSpec, method: Method, leaders: Leaders = NO_LEADERS
) -> list[dict[str, Any]]:
    """List the distinct start points of a sweep; `start_problems` must have found none.

    A point holds values as the dimensions sample them. It may lack dimensions; those that its other
    values make inactive are left out.
    """
    points: dict[str, dict[str, Any]] = {}
    for candidate in _list_candidates(spec, method, leaders):
        if point := _build_point(spec, candidate):
            points.setdefault(canonical_json(point), point)
    return list(points.values())


def published_notes(spec: SweepSpec, method: Method) -> list[str]:
    """Describe what is not the authors' whole setup in published start points, one line each."""
    if "published" not in spec.search.start_from:
        return []
    return [note for candidate in _list_published(spec, method, ()) for note in candidate.notes]


def leader_notes(spec: SweepSpec, leaders: Leaders | None) -> list[str]:
    """Describe the leaders and their changes, one line each; `leaders` is None if not asked for."""
    if leaders is None:
        return []
    if not leaders:
        return [f"start_from: the leaderboard has no other trial of {spec.method}"]
    candidates = [_find_nearest(spec, (), values, whose) for whose, values in leaders.items()]
    changes = [note for candidate in candidates for note in candidate.notes]
    return [*(f"start_from: {whose}" for whose in leaders), *changes]


def start_problems(spec: SweepSpec, method: Method, *, with_rules: bool = True) -> list[Problem]:
    """List the problems of `search.start_from`; paths start at the sweep.

    Without `with_rules`, points that the method refuses pass: rules are broken anywhere then.
    """
    problems = [
        problem
        for candidate in _list_candidates(spec, method)
        for problem in _check_candidate(spec, candidate)
        if with_rules or problem.path != candidate.path
    ]
    if "published" in spec.search.start_from and not _find_columns(spec, method):
        position = spec.search.start_from.index("published")
        text = f"no published settings of {method.name!r} for backbone {spec.backbone!r}"
        own = [column.variant for column in method.published if column.backbone == spec.backbone]
        if own:
            variants = ", ".join(format_value(dict(variant)) for variant in own)
            text += f" agree with 'fixed' and 'space'; they are for {variants}"
        else:
            others = ", ".join(dict.fromkeys(column.backbone for column in method.published))
            text += f"; there are {f'some for {others}' if others else 'none at all'}"
            text += "; leave 'published' out or give values"
        problems.append(Problem(("search", "start_from", position), text))
    return problems


def point_to_try(spec: SweepSpec, values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert values that a person wants to try to the space's; SweepRefusedError if impossible.

    The sampler draws the dimensions that are left out.
    """
    candidate = _Candidate((), values)
    if problems := _check_candidate(spec, candidate):
        raise SweepRefusedError(f"sweep {spec.sweep!r} cannot try {joined_problems(problems)}")
    return {name: spec.space[name].find(value) for name, value in values.items()}


def _list_candidates(
    spec: SweepSpec, method: Method, leaders: Leaders = NO_LEADERS
) -> Iterator[_Candidate]:
    for position, entry in enumerate(spec.search.start_from):
        path: Steps = ("search", "start_from", position)
        if entry == "published":
            yield from _list_published(spec, method, path)
        elif entry == "leaderboard":
            for whose, values in leaders.items():
                yield _find_nearest(spec, path, values, whose)
        else:
            yield _Candidate(path, entry)


def _list_published(spec: SweepSpec, method: Method, path: Steps) -> Iterator[_Candidate]:
    """Yield published points; notes name settings that are fixed to another value in the sweep."""
    # For what a paper does not state, the method's defaults that lie in the space.
    fields = method.config.model_fields
    defaults = {name: fields[name].default for name in spec.space if not fields[name].is_required()}
    defaults = {name: value for name, value in defaults.items() if spec.space[name].has(value)}
    for column in _find_columns(spec, method):
        settings = {**column.settings, **column.variant}
        values = {name: settings[name] for name in spec.space if name in settings}
        whose = f"published ({column.source})"
        candidate = _find_nearest(spec, path, defaults | values, whose)
        notes = [column.note] if column.note else []
        own = spec.settings(candidate.values)
        with suppress(SweepRefusedError):  # the sampler draws what is missing, or it is left out
            ours, theirs = (spec.config_of(own | values) for values in ({}, settings))
            others = [
                f"{name}={format_value(getattr(ours, name))}, not {format_value(value)}"
                for name, value in settings.items()
                if name not in spec.space and getattr(ours, name) != getattr(theirs, name)
            ]
            notes += [f"the sweep has {', '.join(others)}"] if others else []
        yield replace(candidate, notes=[*candidate.notes, *(f"{whose}: {note}" for note in notes)])


def _find_nearest(
    spec: SweepSpec, path: Steps, values: Mapping[str, Any], whose: str
) -> _Candidate:
    """Find the nearest point of the space, with notes on the changes; empty if the method refuses
    it.

    Values that the others make inactive are left out, and so are values without a near one, which
    the sampler draws. `whose` names their origin in notes.
    """
    point: dict[str, Any] = {}
    notes = []
    for name in spec.space.order:
        if name not in values or spec.space.is_excluded(name, point):
            continue
        dimension, value = spec.space[name], values[name]
        try:
            point[name] = find_value(spec.space, spec.method, name, value)
        except LookupError:
            try:
                point[name] = dimension.nearest(value)
            except LookupError:
                instead = "the sampler draws it"
            else:
                instead = f"{format_value(point[name])} is tried instead"
            notes.append(
                f"{whose}: {name}={format_value(value)} is not in space.{name}, which is "
                f"{dimension}; {instead}"
            )
    if refusal := _explain_refusal(spec, point):
        return _Candidate(path, {}, [*notes, f"{whose} is left out: {refusal}"])
    return _Candidate(path, point, notes)


def _find_columns(spec: SweepSpec, method: Method) -> list[PublishedSettings]:
    """Find the published settings of the backbone, without variants that are not trained here."""
    fixed, fields = with_examples(spec.fixed), method.config.model_fields

    def is_trained(name: str, value: Any) -> bool:
        if name in spec.space:
            return spec.space[name].has(value)
        setting = fixed[name] if name in fixed else fields[name].default
        return canonical_json(setting) == canonical_json(value)

    own = [column for column in method.published if column.backbone == spec.backbone]
    return [each for each in own if all(is_trained(*setting) for setting in each.variant.items())]


def _check_candidate(spec: SweepSpec, candidate: _Candidate) -> list[Problem]:
    problems = []
    for name, value in candidate.values.items():
        path = (*candidate.path, name)
        if name not in spec.space:
            hint = did_you_mean(name, spec.space) or f"; known: {', '.join(spec.space)}"
            hint = "; it is fixed" if name in spec.fixed else hint
            problems.append(Problem(path, f"no such dimension in space{hint}"))
        elif spec.space.is_excluded(name, candidate.values):
            text = f"inactive beside the point's other values, got {format_value(value)}"
            problems.append(Problem(path, text))
        elif wrong := best_reference_problems(value):
            problems.append(wrong[0].with_prefix(path))
        elif not spec.space[name].has(value):
            text = f"{format_value(value)} is not in space.{name}, which is {spec.space[name]}"
            problems.append(Problem(path, text))
    if not problems and (refusal := _explain_refusal(spec, _build_point(spec, candidate))):
        problems.append(Problem(candidate.path, refusal))
    return problems


def _explain_refusal(spec: SweepSpec, point: Mapping[str, Any]) -> str | None:
    """Explain why the method refuses a point, whatever its missing values; None if it does not."""
    if not all(name in point or spec.space.is_excluded(name, point) for name in spec.space):
        if spec.complete_point(point, seed=spec.search.seed) is None:
            return f"{spec.method} refuses {format_value(dict(point))} beside any other values"
        return None
    try:
        spec.config(point)
    except SweepRefusedError as error:
        return str(error).removeprefix(f"sweep {spec.sweep!r} cannot try ")
    return None


def _build_point(spec: SweepSpec, candidate: _Candidate) -> dict[str, Any]:
    return {
        name: spec.space[name].find(value)
        for name, value in candidate.values.items()
        if not spec.space.is_excluded(name, candidate.values)
    }
