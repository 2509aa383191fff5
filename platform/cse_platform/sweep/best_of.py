"""References such as `fixed: {alpha: {best_of: STAGE}}`, to a value that an earlier stage finds.

The stage stands in the same file. The value is the one in the configuration that the stage takes
for the best. Until that stage is complete, the later one is checked with every value that it can
then have, and one of these stands for it as an example wherever a configuration is shown or
counted.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cse_platform.sweep.problems import Problem, did_you_mean, format_value
from cse_platform.sweep.space.dimensions import canonical_json

KEY, OTHER_NAME, EXAMPLE = "best_of", "hyperparameter", "example"

Configurations = Sequence[Mapping[str, Any]]
"""Configurations that between them have each value which a stage can find."""


@dataclass(frozen=True)
class BestOf:
    """The value of a hyperparameter in the best configuration of an earlier stage."""

    stage: str
    hyperparameter: str

    def __str__(self) -> str:
        return f"the best {self.hyperparameter} of {self.stage!r}"


def has_references(fixed: Mapping[str, Any]) -> bool:
    """Return True if a setting of `fixed` takes its value from an earlier stage."""
    return any(map(_is_reference, fixed.values()))


def values_to_find(fixed: Mapping[str, Any]) -> dict[str, BestOf]:
    """Map each setting that takes its value from an earlier stage to its reference."""
    return {
        name: BestOf(value[KEY], value.get(OTHER_NAME, name))
        for name, value in fixed.items()
        if _is_reference(value)
    }


def with_examples(fixed: Mapping[str, Any]) -> dict[str, Any]:
    """Replace each reference in `fixed` that has an example by that example."""
    return {
        name: value[EXAMPLE] if _is_reference(value) and EXAMPLE in value else value
        for name, value in fixed.items()
    }


def without_references(fixed: Mapping[str, Any]) -> dict[str, Any]:
    """Keep the settings of `fixed` whose values the file gives itself."""
    return {name: value for name, value in fixed.items() if not _is_reference(value)}


def reference_problems(
    fixed: Mapping[str, Any],
    *,
    here: Any,
    earlier: Mapping[str, Configurations],
    later: Collection[str],
) -> list[Problem]:
    """List the problems of the references in `fixed`; paths start at `fixed`.

    Args:
        fixed: the block as the file has it.
        here: the name of the stage that the references stand in.
        earlier: what each earlier stage can find; empty where that is not known.
        later: the names of the stages after this one.
    """
    problems = []
    for name, value in fixed.items():
        if not _is_reference(value):
            continue
        if text := _check_form(value):
            problems.append(Problem((name,), text))
            continue
        wanted = BestOf(value[KEY], value.get(OTHER_NAME, name))
        if text := _check_stage(wanted.stage, here, earlier, later):
            problems.append(Problem((name, KEY), text))
        elif text := _check_name(wanted, earlier[wanted.stage]):
            problems.append(Problem((name, OTHER_NAME if OTHER_NAME in value else KEY), text))
    return problems


def possible_values(
    wanted: Mapping[str, BestOf], earlier: Mapping[str, Configurations]
) -> list[dict[str, Any]]:
    """List combinations of the values that settings can get, with each value at least once.

    Values of one stage come together as it tries them. The first entry has a value of each setting
    whose stage is known.
    """
    by_stage: list[list[dict[str, Any]]] = []
    for stage in dict.fromkeys(reference.stage for reference in wanted.values()):
        names = {name: ref.hyperparameter for name, ref in wanted.items() if ref.stage == stage}
        together = [
            {name: values[other] for name, other in names.items()}
            for values in earlier.get(stage, ())
            if all(other in values for other in names.values())
        ]
        if together:
            by_stage.append(together)
    first = {name: value for together in by_stage for name, value in together[0].items()}
    every = [first, *(first | values for together in by_stage for values in together[1:])]
    return list({canonical_json(values): values for values in every}.values())


def _is_reference(value: Any) -> bool:
    return isinstance(value, Mapping) and KEY in value


def _check_form(value: Mapping[str, Any]) -> str | None:
    if set(value) <= {KEY, OTHER_NAME} and all(isinstance(v, str) and v for v in value.values()):
        return None
    return (
        f"expected {{{KEY}: STAGE}} or {{{KEY}: STAGE, {OTHER_NAME}: NAME}}, "
        f"got {format_value(value)}"
    )


def _check_stage(
    stage: str, here: Any, earlier: Collection[str], later: Collection[str]
) -> str | None:
    if stage in earlier:
        return None
    if stage == here:
        return f"{stage!r} is this stage itself; name an earlier one"
    if stage in later:
        return f"stage {stage!r} comes later; move it before this one"
    if not earlier:
        return (
            f"no earlier stage {stage!r} in this file; a value comes from a stage before this one"
        )
    hint = did_you_mean(stage, earlier) or f"; earlier stages: {', '.join(earlier)}"
    return f"no stage {stage!r} in this file{hint}"


def _check_name(wanted: BestOf, found: Configurations) -> str | None:
    if not found or any(wanted.hyperparameter in values for values in found):
        return None
    known = sorted({name for values in found for name in values})
    hint = did_you_mean(wanted.hyperparameter, known)
    other = hint or f"; it has {', '.join(known)}; name one of them by '{OTHER_NAME}'"
    return f"stage {wanted.stage!r} neither searches nor fixes {wanted.hyperparameter!r}{other}"
