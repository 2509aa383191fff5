"""Find configurations that show what a sweep can try, each of them accepted by its method."""

import random
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

from pydantic import ValidationError

from cse_methods.contract import Method
from cse_platform.sweep.problems import Problem, Steps, problems_in
from cse_platform.sweep.space.dimensions import Choices, Dimension
from cse_platform.sweep.space.space import Space
from cse_platform.values import canonical_json

MAX_TRIED = 400
"""The most configurations that are built to check the rules between settings."""
MOST_DRAWN = 1_000
"""The most random points that are drawn for one that the method accepts."""

Examples = tuple[list[dict[str, Any]], list[Problem]]
"""Assignments that the method accepts, and its reasons against values that it accepts nowhere. The
paths of the problems are those of settings."""


def list_corners(name: str, dimension: Dimension) -> list[tuple[Steps, Any]]:
    """List a dimension's values to try, each with its path: all choices, or both bounds."""
    path: Steps = ("space", name)
    if isinstance(dimension, Choices):
        return [((*path, "choices", i), choice) for i, choice in enumerate(dimension.choices)]
    return [((*path, "low"), dimension.low), ((*path, "high"), dimension.high)]


def find_examples(
    space: Space,
    method: Method,
    settings: Callable[[Mapping[str, Any]], dict[str, Any]],
    *,
    seed: int,
    values: Mapping[str, list[Any]] | None = None,
) -> Examples:
    """Find an assignment for each outcome of the conditions, then for each further value.

    All other dimensions have their first values, because all combinations would be too many; if the
    method refuses these, upper bounds of ranges, or random values.

    Args:
        space: the dimensions.
        method: the method, with the settings that these dimensions give it.
        settings: makes all settings of a trial of an assignment.
        seed: seed of random values.
        values: the values of each dimension to cover; by default its choices, or both bounds.
    """
    sound = values or {name: [v for _, v in list_corners(name, d)] for name, d in space.items()}
    parents = {condition.name for _, dimension in space.items() for condition in dimension.when}
    theirs = {other for name in space for other in method.config.conditions.get(name, {})}
    parents |= {name for name in theirs & {*space} if isinstance(space[name], Choices)}
    first = {name: values[0] for name, values in sound.items()}
    outcomes = list(islice(_list_outcomes(space, sound, parents), MAX_TRIED // 4))
    varied = (
        outcome | {name: value}
        for outcome in outcomes
        for name, values in sound.items()
        if name not in parents
        for value in values[1:]
    )
    accepted: dict[str, dict[str, Any]] = {}
    refused = list[tuple[dict[str, Any], list[Problem]]]()
    problems, seen, covered = list[Problem](), set[str](), set[str]()

    def accept(assignment: dict[str, Any]) -> None:
        accepted.setdefault(canonical_json(assignment), assignment)
        covered.update(_list_pairs(assignment))

    for chosen in chain(outcomes, varied):
        assignment = space.select_active({**first, **chosen})
        if (key := canonical_json(assignment)) in seen:
            continue
        seen.add(key)
        if len(seen) > MAX_TRIED:
            break
        tried = settings(assignment)
        reasons = _list_refusals(method, tried)
        if lacking := [problem for problem in reasons if _lacks_when(method, problem, tried)]:
            problems += lacking
        elif reasons:
            refused.append((assignment, reasons))
        else:
            accept(assignment)
    rng, hopeless = random.Random(seed), set[str]()
    for assignment, reasons in refused:
        for wanted in ({}, *({name: value} for name, value in assignment.items())):
            if accepted and covered.issuperset(_list_pairs(wanted)):
                continue
            if (key := canonical_json(wanted)) not in hopeless:
                points = _list_points(space, {**first, **wanted}, wanted, rng)
                accepts = (p for p in points if not _list_refusals(method, settings(p)))
                if (point := next(accepts, None)) is not None:
                    accept(point)
                    continue
            hopeless.add(key)
            if all(isinstance(space[name], Choices) for name in wanted):
                problems += [problem for problem in reasons if problem not in problems]
                break
    return list(accepted.values()), problems


def _list_points(
    space: Space, first: dict[str, Any], wanted: dict[str, Any], rng: random.Random
) -> Iterator[dict[str, Any]]:
    """Yield points with the wanted values: with the upper bounds of ranges, then random ones."""
    highs = {name: d.high for name, d in space.items() if not isinstance(d, Choices)}
    ends = [{name: high} for name, high in highs.items()]
    bounds = (space.select_active(first | end | wanted) for end in (*ends, highs))
    drawn = (space.random_point(wanted, rng) for _ in range(MOST_DRAWN))
    return (point for point in chain(bounds, drawn) if wanted.keys() <= point.keys())


def _list_outcomes(
    space: Space, sound: Mapping[str, list[Any]], parents: set[str]
) -> Iterator[dict[str, Any]]:
    # Not validated, because a condition may name a choice that was left out.
    choices: dict[str, Dimension] = {
        name: Choices.model_construct(
            choices=(*sound[name], *space.turning_values(name)), when=space[name].when
        )
        for name in space
        if name in parents
    }
    return Space.model_construct(choices).grid_points()


def _list_refusals(method: Method, settings: dict[str, Any]) -> list[Problem]:
    """List the method's reasons against settings; their paths are those of settings."""
    try:
        method.config.model_validate(settings)
    except ValidationError as error:
        return problems_in(error, settings)
    return []


def _lacks_when(method: Method, problem: Problem, settings: Mapping[str, Any]) -> bool:
    """Whether a setting was refused because it has no effect beside these values of others."""
    name = str(problem.path[0]) if problem.path else ""
    fields, others = method.config.model_fields, method.config.conditions.get(name, {})
    return any(
        settings.get(other, fields[other].default) not in allowed
        for other, allowed in others.items()
    )


def _list_pairs(values: Mapping[str, Any]) -> list[str]:
    """List names with their values, as texts to compare."""
    return [canonical_json(pair) for pair in values.items()]
