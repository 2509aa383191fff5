"""References in a sweep file to results: of the leaderboard, and of an earlier stage.

`{best: {method: …, backbone: …}}` is the leaderboard's best encoder, allowed wherever a teacher is.
It is resolved before the first trial starts.

`fixed: {alpha: {best_of: STAGE}}` is the value in the best configuration of an earlier stage of the
file. Until that stage is complete, the later stage is checked with every value that it can get, and
one of these serves as an example wherever a configuration is shown or counted.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cse_methods.errors import UnknownMethodError
from cse_methods.registry import get_method
from cse_platform.sweep.problems import Problem, Steps, did_you_mean, format_value
from cse_platform.values import canonical_json


@dataclass(frozen=True)
class BestReference:
    """Refers to the trial with the best dev score of a method on a backbone."""

    method: str
    backbone: str

    @property
    def placeholder(self) -> str:
        """The text used instead of the model's folder until the reference is resolved."""
        return f"best:{self.method}/{self.backbone}"


def find_best_references(value: Any) -> list[BestReference]:
    """List the distinct well-formed references inside a value, in order."""
    references = (_parse_best(inner) for _, inner in _find_best(value, ()))
    return list(dict.fromkeys(filter(None, references)))


def replace_best_references(value: Any, stand_in: Callable[[BestReference], Any]) -> Any:
    """Copy a value with each reference replaced by what `stand_in` returns for it."""
    if isinstance(value, Mapping):
        if set(value) == {"best"} and (reference := _parse_best(value["best"])) is not None:
            return stand_in(reference)
        return {key: replace_best_references(inner, stand_in) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [replace_best_references(inner, stand_in) for inner in value]
    return value


def with_placeholders(value: Any) -> Any:
    """Copy a value with each reference replaced by its placeholder."""
    return replace_best_references(value, lambda reference: reference.placeholder)


def best_reference_problems(value: Any) -> list[Problem]:
    """List the invalid references inside a value; their paths are relative to it."""
    problems = []
    for path, inner in _find_best(value, ()):
        if (reference := _parse_best(inner)) is None:
            got = format_value({"best": inner})
            text = f"expected {{best: {{method: …, backbone: …}}}}, got {got}"
            problems.append(Problem(path, text))
            continue
        try:
            get_method(reference.method)
        except UnknownMethodError as error:
            problems.append(Problem(path, str(error)))
    return problems


def _parse_best(inner: Any) -> BestReference | None:
    if not isinstance(inner, Mapping) or set(inner) != {"method", "backbone"}:
        return None
    if not all(isinstance(name, str) and name for name in inner.values()):
        return None
    return BestReference(inner["method"], inner["backbone"])


def _find_best(value: Any, path: Steps) -> Iterator[tuple[Steps, Any]]:
    if isinstance(value, Mapping) and set(value) == {"best"}:
        yield path, value["best"]
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _find_best(inner, (*path, key))
    elif isinstance(value, (list, tuple)):
        for position, inner in enumerate(value):
            yield from _find_best(inner, (*path, position))


BEST_OF, OTHER_NAME, EXAMPLE = "best_of", "hyperparameter", "example"

Configurations = Sequence[Mapping[str, Any]]
"""Configurations that together cover each value that a stage can find."""


@dataclass(frozen=True)
class StageReference:
    """The value of a hyperparameter in the best configuration of an earlier stage."""

    stage: str
    hyperparameter: str

    def __str__(self) -> str:
        return f"the best {self.hyperparameter} of {self.stage!r}"


def _is_stage_reference(value: Any) -> bool:
    return isinstance(value, Mapping) and BEST_OF in value


def find_stage_references(fixed: Mapping[str, Any]) -> dict[str, StageReference]:
    """Map each setting that takes its value from an earlier stage to its reference."""
    return {
        name: StageReference(value[BEST_OF], value.get(OTHER_NAME, name))
        for name, value in fixed.items()
        if _is_stage_reference(value)
    }


def with_examples(fixed: Mapping[str, Any]) -> dict[str, Any]:
    """Replace each reference in `fixed` that has an example by that example."""
    return {
        name: value[EXAMPLE] if _is_stage_reference(value) and EXAMPLE in value else value
        for name, value in fixed.items()
    }


def resolve_references(
    fixed: Mapping[str, Any],
    *,
    own_stage: str,
    earlier: Mapping[str, Configurations],
    later: Collection[str],
) -> tuple[list[Problem], dict[str, StageReference], list[dict[str, Any]]]:
    """Find the values that settings of `fixed` can get from earlier stages.

    Args:
        fixed: the block as in the file.
        own_stage: the name of the stage with these references.
        earlier: the configurations that each earlier stage can find; empty if unknown.
        later: the names of the stages after this one.

    Returns:
        The problems of references, with paths relative to `fixed`; the valid references by
        setting; and combinations of values that cover each value at least once. Values from the
        same stage stay together as its configurations have them. The first combination has a value
        for each setting whose stage is known.
    """
    problems, references = [], dict[str, StageReference]()
    for name, value in fixed.items():
        if not _is_stage_reference(value):
            continue
        texts = all(isinstance(part, str) and part for part in value.values())
        if not texts or not set(value) <= {BEST_OF, OTHER_NAME}:
            expected = (
                f"expected {{{BEST_OF}: STAGE}} or {{{BEST_OF}: STAGE, {OTHER_NAME}: NAME}}, "
                f"got {format_value(value)}"
            )
            problems.append(Problem((name,), expected))
            continue
        reference = StageReference(value[BEST_OF], value.get(OTHER_NAME, name))
        if text := _check_stage(reference.stage, own_stage, earlier, later):
            problems.append(Problem((name, BEST_OF), text))
        elif text := _check_name(reference, earlier[reference.stage]):
            problems.append(Problem((name, OTHER_NAME if OTHER_NAME in value else BEST_OF), text))
        else:
            references[name] = reference
    by_stage: list[list[dict[str, Any]]] = []
    for stage in dict.fromkeys(reference.stage for reference in references.values()):
        names = {name: ref.hyperparameter for name, ref in references.items() if ref.stage == stage}
        together = [
            {name: values[other] for name, other in names.items()}
            for values in earlier[stage]
            if all(other in values for other in names.values())
        ]
        if together:
            by_stage.append(together)
        elif earlier[stage]:
            text = f"no configuration of stage {stage!r} has every value that is taken from it"
            problems += [Problem((name,), text) for name in names]
    first = {name: value for together in by_stage for name, value in together[0].items()}
    every = [first, *(first | values for together in by_stage for values in together[1:])]
    distinct = {canonical_json(values): values for values in every}
    return problems, references, list(distinct.values())


def _check_stage(
    stage: str, own_stage: str, earlier: Collection[str], later: Collection[str]
) -> str | None:
    if stage in earlier:
        return None
    if stage == own_stage:
        return f"{stage!r} is this stage; name an earlier one"
    if stage in later:
        return f"stage {stage!r} comes later; move it before this one"
    if not earlier:
        return f"no earlier stage {stage!r} in this file"
    hint = did_you_mean(stage, earlier) or f"; earlier stages: {', '.join(earlier)}"
    return f"no stage {stage!r} in this file{hint}"


def _check_name(reference: StageReference, possible: Configurations) -> str | None:
    if not possible or any(reference.hyperparameter in values for values in possible):
        return None
    known = sorted({name for values in possible for name in values})
    hint = did_you_mean(reference.hyperparameter, known)
    other = hint or f"; it has {', '.join(known)}; choose one with '{OTHER_NAME}'"
    stage, name = reference.stage, reference.hyperparameter
    return f"stage {stage!r} neither searches nor fixes {name!r}{other}"
