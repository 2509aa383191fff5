"""Check every value of a sweep, and the rules between values, before anything runs."""

import random
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Any, get_args

from pydantic import ValidationError

from cse_methods.contract import Method
from cse_methods.errors import BrokenMethodError
from cse_methods.registry import available_methods, get_method
from cse_platform.errors import SweepRefusedError
from cse_platform.sweep.examples import find_examples, list_corners
from cse_platform.sweep.problems import (
    NULL_HINT,
    PYTHON_NULL,
    Problem,
    Steps,
    did_you_mean,
    format_value,
    problems_in,
)
from cse_platform.sweep.references import best_reference_problems, with_placeholders
from cse_platform.sweep.space.dimensions import Range
from cse_platform.sweep.space.space import Space, build_adapter
from cse_platform.sweep.spec import METHOD_WIDE, SweepSpec

SEEDS_BLOCK = "seeds: {search: 42, confirm: {top: 3, seeds: [0, 1, 2]}}"
"""An example of the block that says which seeds trials have."""
MOST_SAMPLED = 2_000
"""The most random points by which the share of a space that a method accepts is measured."""


def value_problems(spec: SweepSpec, method: Method) -> list[Problem]:
    """List unknown settings, and fixed values, choices and bounds that their setting refuses.

    So are values in conditions that are no choice of the space.
    """
    fields, problems = method.config.model_fields, list[Problem]()
    known = sorted(set(fields) - set(METHOD_WIDE))
    values: list[tuple[str, Any, Steps]] = []
    for section, name in [("fixed", n) for n in spec.fixed] + [("space", n) for n in spec.space]:
        dimension = spec.space[name] if section == "space" else None
        kinds = _collect_types(fields[name].annotation) if name in fields else set()
        text = None
        if name in METHOD_WIDE:
            text = f"{name!r} is the same for every trial; move it to the top of the sweep"
        elif name not in known and name in ("seed", "seeds"):
            text = f"a seed is no setting of a trial; {SEEDS_BLOCK} beside {section!r} gives seeds"
        elif name not in known:
            hint = did_you_mean(name, known) or f"; known: {', '.join(known)}"
            text = f"method {method.name!r} has no setting {name!r}{hint}"
        elif dimension is None:
            values.append((name, spec.fixed[name], ("fixed", name)))
        elif name in spec.fixed:
            text = f"{name!r} is also in 'fixed'; keep one of the two"
        elif isinstance(dimension, Range) and not kinds & {int, float}:
            text = "not a number, so it has no range; list its choices"
        elif isinstance(dimension, Range) and float not in kinds and not dimension.is_whole:
            text = f"a whole number; write low, high and step as such, got {dimension}"
        else:
            values += [(name, value, path) for path, value in list_corners(name, dimension)]
        if text is not None:
            problems.append(Problem((section, name), text))
    values += [
        (condition.name, value, ("space", name, "when", condition.name))
        for name, dimension in spec.space.items()
        for condition in dimension.when
        for value in condition.values
        if condition.sign == "=" and condition.name in fields
        if not spec.space[condition.name].has(value)
    ]
    return problems + [p for each in values for p in _check_value(method, *each)]


def get_method_on_base(method: str, base: str) -> Method:
    """Return the method on a base method; SweepRefusedError if it does not take this base."""
    definition, values = get_method(method), {"base": base}
    problems: list[Problem] = []
    try:
        definition.config.model_validate(values)
    except ValidationError as error:
        problems = [p for p in problems_in(error, values) if p.path[:1] == ("base",)]
    if "base" not in definition.config.model_fields:
        raise SweepRefusedError(f"method {method!r} takes no base")
    if problems:
        raise SweepRefusedError(f"method {method!r} on {base!r}: {problems[0].text}")
    return definition.specialise_for({"base": (base,)})


def list_unknown_names(spec: SweepSpec) -> list[Problem]:
    """List settings that exist in no method, for a file whose method is unknown."""
    known = set(METHOD_WIDE)
    for name in available_methods():
        with suppress(BrokenMethodError):
            known |= set(get_method(name).config.model_fields)
    return [
        Problem((section, name), f"no method has a setting {name!r}{did_you_mean(name, known)}")
        for section, names in (("fixed", spec.fixed), ("space", spec.space))
        for name in names
        if name not in known
    ]


def _check_value(method: Method, name: str, value: Any, path: Steps) -> list[Problem]:
    """List the reasons why a setting refuses a value; rules between settings are checked later."""
    if problems := best_reference_problems(value):
        return [problem.with_prefix(path) for problem in problems]
    given = with_placeholders(value)
    if given == PYTHON_NULL and type(None) in get_args(method.config.model_fields[name].annotation):
        return [Problem(path, f"got {format_value(given)}{NULL_HINT}")]
    try:
        method.config.model_validate({name: given})
    except ValidationError as error:
        # The other settings are missing here, so problems of theirs are ignored.
        raised = problems_in(error, {name: value}, model=method.config)
        problems = [Problem(p.path[1:], p.text) for p in raised if p.path[:1] == (name,)]
    if not problems:
        with suppress(ValidationError):
            read = build_adapter(method.config, name).validate_python(given)
            problems = list(_find_type_changes(given, read, ()))
    return [problem.with_prefix(path) for problem in problems]


def _find_type_changes(given: Any, read: Any, path: Steps) -> Iterator[Problem]:
    """Yield a problem for each scalar in a value that validation converts to another type."""
    expected = None
    if isinstance(given, list) and isinstance(read, (list, tuple)) and len(given) == len(read):
        for index, inside in enumerate(zip(given, read, strict=True)):
            yield from _find_type_changes(*inside, (*path, index))
    elif isinstance(given, dict):
        entries = read if isinstance(read, dict) else vars(read)
        for key in given:
            yield from _find_type_changes(given[key], entries.get(key), (*path, key))
    elif isinstance(read, bool):
        expected = None if isinstance(given, bool) else "true or false"
    elif isinstance(read, (int, float)) and isinstance(given, (bool, str)):
        expected = "a number"
    if expected:
        yield Problem(path, f"expected {expected}, got {format_value(given)}")


def _collect_types(annotation: Any) -> set[Any]:
    """Collect the types in a setting's annotation, without None."""
    parts = get_args(annotation)
    return set().union(*map(_collect_types, parts)) if parts else {annotation} - {type(None)}


def rule_problems(spec: SweepSpec, method: Method, *, known: Collection[Problem]) -> list[Problem]:
    """List violations of the method's rules between settings that drawing again does not mend.

    These are settings that lack a `when`, values that no other values go with, and a space of which
    the method accepts less than a hundredth. Values and keys with a known problem are left out. If
    a setting has no valid value left, its rules cannot be checked, and no problem is reported.
    """
    refused = [p.path for p in known if p.path and p.path[0] in ("fixed", "space")]
    if any(
        p[0] == "fixed" or len(p) < 3 or p[1] not in spec.space or p[2] == "when" for p in refused
    ):
        return []
    if missing := [
        Problem((), f"method {method.name!r} needs {name!r}; set it in 'fixed' or 'space'")
        for name, field in method.config.model_fields.items()
        if field.is_required() and name not in {*METHOD_WIDE, *spec.fixed, *spec.space}
    ]:
        return missing
    problems = spec.examined[1]
    if refused:
        sound = {
            name: [
                value
                for path, value in list_corners(name, dimension)
                if not any(other[: len(path)] == path for other in refused)
            ]
            for name, dimension in spec.space.items()
        }
        if not all(sound.values()):
            return []
        seed = spec.search.seed
        _, problems = find_examples(spec.space, method, spec.settings, seed=seed, values=sound)
    wrong = {p.path[0] for p in known if p.path} - {"space"}
    blamed: dict[tuple[Steps, str], Problem] = {}
    for problem in problems:
        path, text = problem.path, problem.text
        if path and path[0] not in METHOD_WIDE:
            setting = str(path[0])
            sections = [key for key in ("space", "fixed") if setting in getattr(spec, key)]
            path = (sections[0], setting) if sections else ()
            text = text if sections else f"{setting}: {text}"
        if not path or path[0] not in wrong:
            # A rule can refuse many values of a setting; its first problem is enough.
            blamed.setdefault((path, "" if path else text), Problem(path, text))
    if blamed or refused or wrong.intersection(METHOD_WIDE):
        return list(blamed.values())
    rng, accepted = random.Random(spec.search.seed), 0
    for _ in range(MOST_SAMPLED):
        accepted += spec.accepts(spec.space.random_point({}, rng))
        if accepted * 100 >= MOST_SAMPLED:
            return []
    share = f"all but {accepted} of" if accepted else "all"
    text = (
        f"{method.name} refuses {share} {MOST_SAMPLED:,} random points, which is "
        "too few for a search; narrow the ranges to what it accepts"
    )
    return [Problem(("space",), text)]


def settle_space(spec: SweepSpec, method: Method) -> tuple[SweepSpec, tuple[str, ...]]:
    """Drop dimensions that are never active, and make ranges of real-valued settings real.

    The latter may be written as 1 to 3. Returns the sweep, and a note for each dropped dimension.
    """
    space, notes = spec.space, []
    while never := {name: why for name in space if (why := space.why_unreachable(name))}:
        notes += [f"space.{name} is left out: {why}" for name, why in never.items()]
        space = Space.model_construct({n: d for n, d in space.items() if n not in never})
    fields, dimensions = method.config.model_fields, dict(space.items())
    for name, dimension in space.items():
        kinds = _collect_types(fields[name].annotation) if name in fields else set()
        if isinstance(dimension, Range) and float in kinds:
            step = None if dimension.step is None else float(dimension.step)
            bounds = {"low": float(dimension.low), "high": float(dimension.high), "step": step}
            dimensions[name] = dimension.model_copy(update=bounds)
    return spec.model_copy(update={"space": Space.model_construct(dimensions)}), tuple(notes)
