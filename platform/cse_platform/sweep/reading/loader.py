"""A sweep file, read and checked as a whole: it loads, or every problem is named."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cse_methods.contract import Method
from cse_methods.errors import UnknownMethodError
from cse_methods.registry import get_method
from cse_platform.errors import SweepFileError
from cse_platform.sweep.check import check_against, value_problems, with_real_ranges
from cse_platform.sweep.reading.overrides import apply_overrides
from cse_platform.sweep.reading.problems import Problem, format_value
from cse_platform.sweep.reading.pydantic_errors import problems_in
from cse_platform.sweep.reading.yaml_file import problem_list, read_yaml_file
from cse_platform.sweep.space.start_points import start_problems
from cse_platform.sweep.spec import METHOD_WIDE, SweepFile, SweepSpec


def load_sweep(path: Path, *, overrides: Sequence[str] = ()) -> SweepFile:
    """Read a sweep file and check it against its methods.

    Args:
        path: a YAML 1.2 file with one sweep, or with `stages:`, a list of sweeps.
        overrides: `a.b=VALUE`, a dotted path and a YAML value each; they replace what the file
            says, or add to it.

    Raises:
        SweepFileError: names every problem of the file and of the overrides.
    """
    source = read_yaml_file(path, what="a sweep", refusal=SweepFileError)
    apply_overrides(source, overrides)
    stages, problems = _stages(source.data)
    known = {problem.path for problem in source.problems}
    problems = source.problems + [problem for problem in problems if problem.path not in known]
    if problems:
        raise SweepFileError(problem_list(path, "a sweep", problems, source))
    return SweepFile(path, tuple(with_absolute_names(stage, path.parent) for stage in stages))


def with_absolute_names(spec: SweepSpec, folder: Path) -> SweepSpec:
    """The sweep with the data files that it names made absolute, as seen from the file's folder.

    Trials then read the same files on whatever node and from whatever directory they run.
    """
    corpus = tuple(one.from_folder(folder) for one in spec.corpus)
    dev = spec.dev.with_files(lambda own: own.from_folder(folder))
    tests = spec.evaluate and spec.evaluate.with_files(lambda own: own.from_folder(folder))
    return spec.model_copy(update={"corpus": corpus, "dev": dev, "evaluate": tests})


def _stages(data: dict[str, Any]) -> tuple[list[SweepSpec], list[Problem]]:
    if "stages" not in data:
        spec, problems = _sweep(data)
        return [spec] if spec else [], problems
    stages = data["stages"]
    text = "stands beside 'stages'; a file is one sweep, or 'stages:' and nothing else"
    problems = [Problem((key,), text) for key in data if key != "stages"]
    if not isinstance(stages, list) or not stages:
        text = f"expected a list of sweeps, got {format_value(stages)}"
        return [], [*problems, Problem(("stages",), text)]
    specs = []
    for position, stage in enumerate(stages):
        spec, found = _sweep(stage)
        specs += [spec] if spec else []
        problems += [problem.under(("stages", position)) for problem in found]
    return specs, problems + _shared_names(stages)


def _shared_names(stages: list[Any]) -> list[Problem]:
    problems = []
    first: dict[str, int] = {}
    for position, stage in enumerate(stages):
        name = stage.get("sweep") if isinstance(stage, dict) else None
        if isinstance(name, str) and first.setdefault(name, position) != position:
            text = f"{name!r} names stages.{first[name]} too; each stage needs its own name"
            problems.append(Problem(("stages", position, "sweep"), text))
    return problems


def _sweep(data: Any) -> tuple[SweepSpec | None, list[Problem]]:
    if not isinstance(data, dict):
        return None, [Problem((), f"expected a sweep, a mapping, got {format_value(data)}")]
    try:
        spec = SweepSpec.model_validate(data)
    except ValidationError as error:
        problems = problems_in(error, data, model=SweepSpec)
        return None, problems + _more_problems(data, problems)
    method = _method(spec.method)
    if isinstance(method, Problem):
        return None, [method]
    problems = check_against(spec, method) + start_problems(spec, method)
    return (None if problems else with_real_ranges(spec, method)), problems


def _method(name: str) -> Method | Problem:
    try:
        return get_method(name)
    except UnknownMethodError as error:
        return Problem(("method",), str(error))


def _more_problems(data: dict[str, Any], problems: list[Problem]) -> list[Problem]:
    """What the method has against the sound parts of a sweep that cannot be read as a whole."""
    broken = {problem.path[:1] for problem in problems}
    kept = ("method", "fixed", *METHOD_WIDE)
    draft: dict[str, Any] = dict.fromkeys(("sweep", "backbone", "corpus"), "draft")
    draft["search"] = {"trials": 1}
    draft |= {key: data[key] for key in kept if key in data and (key,) not in broken}
    if "method" not in draft:
        return []
    draft["space"] = _sound_dimensions(data.get("space"), problems)
    spec, method = SweepSpec.model_validate(draft), _method(draft["method"])
    if isinstance(method, Problem):
        return [method]
    if ("space",) in broken or ("fixed",) in broken:
        return value_problems(spec, method)
    return check_against(spec, method)


def _sound_dimensions(space: Any, problems: list[Problem]) -> dict[str, Any]:
    broken = {problem.path[:2] for problem in problems if problem.path[:1] == ("space",)}
    if not isinstance(space, dict) or ("space",) in broken:
        return {}
    sound = {name: space[name] for name in space if ("space", name) not in broken}
    return {name: _unconditional(entry) for name, entry in sound.items()} if broken else sound


def _unconditional(entry: Any) -> Any:
    """Without its condition, which may be on a dimension that is left out."""
    if not isinstance(entry, dict):
        return entry
    return {key: value for key, value in entry.items() if key != "when"}
