"""Check every value of a sweep, and the rules between values, before anything runs."""

import random
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import chain, islice
from typing import Annotated, Any, get_args

from pydantic import TypeAdapter, ValidationError

from cse_methods.contract import Method, MethodConfig, TrainingConfig
from cse_methods.errors import BrokenMethodError
from cse_methods.registry import available_methods, get_method
from cse_platform.errors import SweepRefusedError
from cse_platform.sweep.problems import Problem, Steps, did_you_mean, format_value, problems_in
from cse_platform.sweep.references import best_reference_problems, with_placeholders
from cse_platform.sweep.space.dimensions import Choices, Dimension, Range
from cse_platform.sweep.space.space import Space
from cse_platform.sweep.spec import METHOD_WIDE, MOST_DRAWN, SweepSpec
from cse_platform.sweep.values import canonical_json


def type_changes(config: type[MethodConfig], name: str, value: Any) -> list[Problem]:
    """List the scalars in a setting's value that validation would convert to another type.

    The paths of the problems are relative to the value.
    """
    try:
        read = _build_adapter(config, name).validate_python(value)
    except ValidationError:
        return []  # validating the whole configuration reports this, and more clearly
    return _find_type_changes(value, read, ())


@cache
def _build_adapter(config: type[MethodConfig], name: str) -> TypeAdapter[Any]:
    field = config.model_fields[name]
    kind: Any = Annotated[field.annotation, field]
    return TypeAdapter(kind)


def _find_type_changes(given: Any, read: Any, path: Steps) -> list[Problem]:
    if isinstance(given, list) and isinstance(read, (list, tuple)) and len(given) == len(read):
        inside = [(*pair, (*path, i)) for i, pair in enumerate(zip(given, read, strict=True))]
    elif isinstance(given, dict):
        entries = read if isinstance(read, dict) else vars(read)
        inside = [(given[key], entries.get(key), (*path, key)) for key in given]
    else:
        wanted = _describe_expected_type(given, read)
        text = f"expected {wanted}, got {format_value(given)}"
        return [Problem(path, text)] if wanted else []
    return [problem for step in inside for problem in _find_type_changes(*step)]


def _describe_expected_type(given: Any, read: Any) -> str | None:
    if isinstance(read, bool):
        return None if isinstance(given, bool) else "true or false"
    if isinstance(read, (int, float)) and isinstance(given, (bool, str)):
        return "a number"
    return None


MAX_TRIED = 400
"""The most configurations that are built to check the rules between settings."""
MOST_SAMPLED = 2_000
"""The most random points by which the share of a space that a method accepts is measured."""


def value_problems(spec: SweepSpec, method: Method) -> list[Problem]:
    """List unknown settings, and fixed values, choices and bounds that their setting refuses."""
    problems = []
    for section, names in (("fixed", spec.fixed), ("space", spec.space)):
        for name in names:
            if text := _explain_misplaced(name, section, spec, method):
                problems.append(Problem((section, name), text))
            elif section == "fixed":
                problems += _check_value(method, name, spec.fixed[name], ("fixed", name))
            else:
                problems += _check_dimension(method, name, spec.space[name])
    return problems + _check_conditions(spec, method)


def average_problems(spec: SweepSpec, method: Method) -> list[Problem]:
    """List a problem if `average` is asked for and the method trains no weights."""
    confirm = spec.seeds.confirm
    if confirm is None or not confirm.average or issubclass(method.config, TrainingConfig):
        return []
    text = (
        f"{method.name} trains no weights in the loop of this package, so its seeds have none to "
        "average; leave it out"
    )
    return [Problem(("seeds", "confirm", "average"), text)]


def _check_conditions(spec: SweepSpec, method: Method) -> list[Problem]:
    """List condition values that are no choice of the space and that the method refuses."""
    return [
        problem
        for name, dimension in spec.space.items()
        for condition in dimension.when
        for value in condition.values
        if condition.sign == "=" and condition.name in method.config.model_fields
        if not spec.space[condition.name].has(value)
        for problem in _check_value(
            method, condition.name, value, ("space", name, "when", condition.name)
        )
    ]


def get_method_on_base(method: str, base: str) -> Method:
    """Return the method on a base method; SweepRefusedError if it does not take this base."""
    found, values = get_method(method), {"base": base}
    problems: list[Problem] = []
    try:
        found.config.model_validate(values)
    except ValidationError as error:
        problems = [p for p in problems_in(error, values) if p.path[:1] == ("base",)]
    if "base" not in found.config.model_fields:
        raise SweepRefusedError(f"method {method!r} stands on no other method")
    if problems:
        raise SweepRefusedError(f"method {method!r} on {base!r}: {problems[0].text}")
    return found.beside({"base": (base,)})


def names_of_no_method(spec: SweepSpec) -> list[Problem]:
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


def _explain_misplaced(name: str, section: str, spec: SweepSpec, method: Method) -> str | None:
    if name in METHOD_WIDE:
        return f"{name!r} belongs at the top of the sweep, and is the same for every trial"
    known = sorted(set(method.config.model_fields) - set(METHOD_WIDE))
    if name not in known:
        hint = did_you_mean(name, known) or f"; known: {', '.join(known)}"
        return f"method {method.name!r} has no setting {name!r}{hint}"
    if section == "space" and name in spec.fixed:
        return f"{name!r} stands under 'fixed' too; keep one of the two"
    return None


def _check_dimension(method: Method, name: str, dimension: Dimension) -> list[Problem]:
    if isinstance(dimension, Range):
        kinds = _collect_types(method.config.model_fields[name].annotation)
        if not kinds & {int, float}:
            return [Problem(("space", name), "no number, so it takes no range; list its choices")]
        if float not in kinds and not dimension.whole:
            text = f"a whole number; write low, high and step as such, got {dimension}"
            return [Problem(("space", name), text)]
    corners = _list_corners(name, dimension)
    return [problem for path, v in corners for problem in _check_value(method, name, v, path)]


def _list_corners(name: str, dimension: Dimension) -> list[tuple[Steps, Any]]:
    """List a dimension's values to try, each with its path: all choices, or both bounds."""
    path: Steps = ("space", name)
    if isinstance(dimension, Choices):
        return [((*path, "choices", i), choice) for i, choice in enumerate(dimension.choices)]
    return [((*path, "low"), dimension.low), ((*path, "high"), dimension.high)]


def _check_value(method: Method, name: str, value: Any, path: Steps) -> list[Problem]:
    """List the reasons why a setting refuses a value; rules between settings are checked later."""
    if problems := best_reference_problems(value):
        return [problem.under(path) for problem in problems]
    try:
        method.config.model_validate({name: with_placeholders(value)})
    except ValidationError as error:
        # The other settings are missing here, so problems of theirs are ignored.
        raised = problems_in(error, {name: value})
        problems = [Problem(p.path[1:], p.text) for p in raised if p.path[:1] == (name,)]
    problems = problems or type_changes(method.config, name, with_placeholders(value))
    return [problem.under(path) for problem in problems]


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
    if any(p[0] == "fixed" or len(p) < 3 or p[1] not in spec.space for p in refused):
        return []
    sound = {
        name: [
            value
            for path, value in _list_corners(name, dimension)
            if not any(other[: len(path)] == path for other in refused)
        ]
        for name, dimension in spec.space.items()
    }
    if not all(sound.values()):
        return []
    if missing := _find_missing(spec, method):
        return missing
    wrong = {p.path[0] for p in known if p.path} - {"space"}
    _, problems = _find_representatives(spec, method, sound)
    blamed: dict[tuple[Steps, str], Problem] = {}
    for problem in problems:
        if not problem.path or problem.path[0] not in wrong:
            # A rule can refuse many values of a setting; its first problem is enough.
            blamed.setdefault((problem.path, "" if problem.path else problem.text), problem)
    return list(blamed.values()) or ([] if refused else _measure_share(spec, method))


def _measure_share(spec: SweepSpec, method: Method) -> list[Problem]:
    """List a problem if the method accepts less than a hundredth of the space."""
    rng, accepted = random.Random(spec.search.seed), 0
    for _ in range(MOST_SAMPLED):
        accepted += spec.accepts(spec.space.random_point({}, rng))
        if accepted * 100 >= MOST_SAMPLED:
            return []
    text = (
        f"{method.name} refuses all but {accepted} of {MOST_SAMPLED:,} random points, and fewer "
        "than one in a hundred is too few to draw again; narrow the ranges to what it accepts"
    )
    return [Problem(("space",), text)]


def list_representatives(spec: SweepSpec, method: Method) -> list[dict[str, Any]]:
    """List at most `MAX_TRIED` active assignments that cover each choice and bound of the space.

    Choices and bounds that the method accepts beside no others are not covered.
    """
    sound = {name: [v for _, v in _list_corners(name, d)] for name, d in spec.space.items()}
    return _find_representatives(spec, method, sound)[0]


def _find_parents(spec: SweepSpec, method: Method) -> set[str]:
    """Find the dimensions on which conditions depend, in the file or in the method."""
    ours = {condition.name for _, dimension in spec.space.items() for condition in dimension.when}
    theirs = {other for name in spec.space for other in method.config.conditions.get(name, {})}
    searched = {name for name, dimension in spec.space.items() if isinstance(dimension, Choices)}
    return ours | theirs & searched


def _find_missing(spec: SweepSpec, method: Method) -> list[Problem]:
    return [
        Problem((), f"method {method.name!r} needs {name!r}; give it under 'fixed' or 'space'")
        for name, field in method.config.model_fields.items()
        if field.is_required() and not (name in METHOD_WIDE or name in spec.fixed)
        if name not in spec.space
    ]


def _find_refusals(spec: SweepSpec, method: Method, assignment: dict[str, Any]) -> list[Problem]:
    """List the reasons why the method refuses an assignment; paths are those of settings."""
    values = spec.settings(assignment)
    try:
        method.config.model_validate(values)
    except ValidationError as error:
        return problems_in(error, values)
    return []


def _lacks_condition(spec: SweepSpec, method: Method, problem: Problem, values: Any) -> bool:
    """Whether a setting was refused because it has no effect beside these values of others."""
    name = str(problem.path[0]) if problem.path else ""
    fields, others = method.config.model_fields, method.config.conditions.get(name, {})
    return any(
        spec.settings(values).get(other, fields[other].default) not in allowed
        for other, allowed in others.items()
    )


def _place_problem(problem: Problem, spec: SweepSpec) -> Problem:
    if not problem.path:
        return problem
    setting = str(problem.path[0])
    for section, names in (("space", spec.space), ("fixed", spec.fixed)):
        if setting in names:
            return Problem((section, setting), problem.text)
    if setting in METHOD_WIDE:
        return problem
    return Problem((), f"{setting}: {problem.text}")


def _find_representatives(
    spec: SweepSpec, method: Method, sound: Mapping[str, list[Any]]
) -> tuple[list[dict[str, Any]], list[Problem]]:
    """Find an assignment for each outcome of the conditions, then for each further value.

    All other dimensions have their first values, because all combinations would be too many; if the
    method refuses these, random ones. Returns the assignments that it accepts, and its reasons
    against values for which there is none.
    """
    parents, space = _find_parents(spec, method), spec.space
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
    rng, draws = random.Random(spec.search.seed), iter(range(10 * MOST_DRAWN))
    for chosen in chain(outcomes, varied):
        assignment = space.active({**first, **chosen})
        if (key := canonical_json(assignment)) in seen:
            continue
        seen.add(key)
        if len(seen) > MAX_TRIED:
            break
        reasons = _find_refusals(spec, method, assignment)
        if lacking := [p for p in reasons if _lacks_condition(spec, method, p, assignment)]:
            problems += lacking
            continue
        given = space.active(chosen)
        if reasons and not (accepted and covered.issuperset(_list_pairs(given))):
            drawn = (space.random_point(given, rng) for _ in islice(draws, MOST_DRAWN))
            accepts = (point for point in drawn if not _find_refusals(spec, method, point))
            if (found := next(accepts, None)) is not None:
                assignment, reasons = found, []
            else:
                refused.append((given, reasons))
        if not reasons:
            accepted.setdefault(canonical_json(assignment), assignment)
            covered.update(_list_pairs(assignment))
    for given, reasons in refused:
        choices = {name: v for name, v in given.items() if isinstance(space[name], Choices)}
        if not accepted or not covered.issuperset(_list_pairs(choices)):
            problems += reasons
    return list(accepted.values()), [_place_problem(problem, spec) for problem in problems]


def _list_pairs(values: Mapping[str, Any]) -> list[str]:
    """List names with their values, as texts to compare."""
    return [canonical_json(pair) for pair in values.items()]


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


def without_unreachable(spec: SweepSpec) -> tuple[SweepSpec, tuple[str, ...]]:
    """Drop dimensions whose condition can never hold. Returns the sweep and a note for each."""
    space, notes = spec.space, []
    while never := {name: why for name in space if (why := space.why_unreachable(name))}:
        notes += [f"space.{name} is left out: {why}" for name, why in never.items()]
        space = Space.model_construct({n: d for n, d in space.items() if n not in never})
    return spec.model_copy(update={"space": space}), tuple(notes)


def with_real_ranges(spec: SweepSpec, method: Method) -> SweepSpec:
    """Convert the ranges of real-valued settings to real numbers, even if written as 1 to 3."""
    ranges = {
        name: dimension.as_real()
        for name, dimension in spec.space.items()
        if isinstance(dimension, Range)
        and float in _collect_types(method.config.model_fields[name].annotation)
    }
    space = Space(dict(spec.space.items()) | ranges)
    return spec.model_copy(update={"space": space})
