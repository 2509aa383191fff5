"""Read and check a whole sweep file: it loads, or one error names every problem."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cse_methods.errors import BrokenMethodError, UnknownMethodError
from cse_methods.files.named import absolute_name
from cse_platform.errors import SweepFileError
from cse_platform.secrets import mask_url
from cse_platform.sweep.checks import (
    list_unknown_names,
    rule_problems,
    settle_space,
    value_problems,
)
from cse_platform.sweep.problems import (
    BLOCKS,
    Inspection,
    Problem,
    Steps,
    did_you_mean,
    dotted_path,
    find_our_word,
    format_value,
    problems_in,
)
from cse_platform.sweep.references import (
    EXAMPLE,
    Configurations,
    StageReference,
    find_stage_references,
    resolve_references,
)
from cse_platform.sweep.shipped import find_sweep_file
from cse_platform.sweep.spec import WITHOUT_RULES, SweepFile, SweepSpec, broken_rules
from cse_platform.sweep.start_points import start_problems
from cse_platform.sweep.yaml_file import (
    UnreadableYamlError,
    YamlDocument,
    format_problems,
    read_yaml,
    read_yaml_file,
)


class OverrideError(ValueError):
    """An override that cannot be applied."""


def read_setting(override: str) -> tuple[str, Any]:
    """Parse one `NAME=VALUE` into name and value; raises OverrideError if it is anything else."""
    (name, *below), value = _parse_override(override, staged=False)
    if below:
        raise OverrideError(f"expected NAME=VALUE, got {mask_url(override)}")
    return name, value


def _parse_override(override: str, *, staged: bool) -> tuple[list[str], Any]:
    path, equals, text = override.partition("=")
    steps = path.strip().split(".")
    if not equals or not all(steps):
        raise OverrideError("expected a.b=VALUE, a dotted path and a YAML value")
    if staged and steps[0] != "stages":
        raise OverrideError(f"the file has stages; write --set stages.N.{path}=…, with N from 0")
    if steps[0] == "stages" and not staged:
        raise OverrideError("the file has no stages; leave 'stages.N.' out")
    try:
        value = read_yaml(text)
    except UnreadableYamlError as error:
        raise OverrideError(f"the value cannot be read: {error}") from None
    if value.problems:
        raise OverrideError(value.problems[0].text)
    return steps, value.data


def _write_override(source: YamlDocument, steps: list[str], value: Any, option: str) -> None:
    parent, path = source.data, Steps()
    for step in steps[:-1]:
        key = _resolve_key(parent, step, path)
        path = (*path, key)
        if isinstance(parent, dict) and parent.get(step) is None:
            parent[step] = {}
            source.origins[path] = option
        parent = parent[key]
    key = _resolve_key(parent, steps[-1], path)
    is_of_sweep = not path or path[:-1] == ("stages",)
    if is_of_sweep and key not in SweepSpec.model_fields and find_our_word(str(key)) in BLOCKS:
        ours = find_our_word(str(key))
        place = dotted_path((*path, BLOCKS[ours], ours))
        raise OverrideError(f"no such key; write --set {place}={option.partition('=')[2]}")
    if value is None and isinstance(parent, dict) and path[-1:] == ("space",):
        if key not in parent:
            hint = did_you_mean(str(key), parent)
            raise OverrideError(f"no such dimension in {dotted_path(path)}{hint}")
        del parent[key]
    else:
        parent[key] = value
    path = (*path, key)
    source.forget_origins(path)
    source.origins[path] = option


def _resolve_key(parent: Any, step: str, path: Steps) -> str | int:
    if isinstance(parent, dict):
        return step
    if not isinstance(parent, list):
        location = f"{dotted_path(path)} is {format_value(parent)}"
        raise OverrideError(f"{location}, which has no {step!r}")
    if step in map(str, range(len(parent))):
        return int(step)
    raise OverrideError(f"{dotted_path(path)} has {len(parent)} entries, from 0, and no {step!r}")


STAND_INS = {
    **dict.fromkeys(("sweep", "method", "backbone", "corpus"), "draft"),
    "search": {"trials": 1},
}
"""Values in a draft for required keys that are missing or invalid."""


@dataclass(frozen=True)
class DraftSweep:
    """One sweep of a file, as far as it could be read."""

    spec: SweepSpec
    """The sweep without its invalid parts; `STAND_INS` replace required keys."""
    inspection: Inspection
    """The known problems; further checks add theirs."""
    possible: tuple[SweepSpec, ...]
    """The sweep as it can be when it starts: in several ways if it takes values that earlier stages
    find."""
    notes: tuple[str, ...] = ()
    """Descriptions of valid parts that were dropped, such as dimensions that are never active."""
    steps: Steps = ()
    """The path of the sweep within the file."""
    typed: Mapping[str, str] = field(default_factory=dict)
    """The names of data files as the file has them, by absolute path."""


@dataclass(frozen=True)
class DraftFile:
    """A sweep file as far as it could be read, for further checks."""

    path: Path
    source: YamlDocument
    stages: tuple[DraftSweep, ...]
    problems: Sequence[Problem]
    """Problems of the file itself: its YAML, the overrides, and entries that are not sweeps."""

    def finish(self, *, refusal: str = "is not a sweep") -> SweepFile:
        """Return the file if no problem is known.

        Raises SweepFileError, with all problems after the refusal, if there are any.
        """
        problems, refused = list(self.problems), [each.path for each in self.source.problems]
        for stage in self.stages:
            for problem in stage.inspection.problems:
                text, path = problem.text, (*stage.steps, *problem.path)
                for absolute in sorted(stage.typed, key=len, reverse=True):
                    text = text.replace(absolute, stage.typed[absolute])
                # A refused value reads as null, so what is said of it, or of the block that holds
                # it, can be untrue.
                is_sound = not any(steps[: len(path)] == path for steps in refused)
                if is_sound or text.startswith("no such key"):
                    problems.append(replace(problem, path=path, text=text))
        if problems:
            raise SweepFileError(format_problems(self.path, refusal, problems, self.source))
        return SweepFile(self.path, tuple(stage.spec for stage in self.stages))


def load_sweep(path: Path | str, *, overrides: Sequence[str] = ()) -> SweepFile:
    """Read a sweep file and check it against its methods.

    Args:
        path: a YAML 1.2 file with one sweep, or with `stages:`, a list of sweeps; or the name of a
            shipped one, such as `quickstart`.
        overrides: each `a.b=VALUE`, a dotted path and a YAML value; they replace values of the
            file, or add to it.

    Raises:
        SweepFileError: names every problem of the file and of the overrides.
    """
    return read_draft(Path(path), overrides=overrides).finish()


def read_draft(
    path: Path, *, overrides: Sequence[str] = (), trials: int | None = None
) -> DraftFile:
    """Read a sweep file as `load_sweep` does, and collect its problems instead of raising them.

    `trials` overrides `search.trials`; problems name the options as a person types them.

    Raises SweepFileError only if the file is not a YAML mapping.
    """
    path = find_sweep_file(path)
    source = read_yaml_file(path)
    typed = [(f"--set {mask_url(override)}", override) for override in overrides]
    if trials is not None:
        typed.append((f"--trials {trials}", f"search.trials={trials}"))
    for option, override in typed:
        try:
            steps, value = _parse_override(override, staged="stages" in source.data)
            _write_override(source, steps, value, option)
        except OverrideError as error:
            source.problems.append(Problem((), str(error), origin=option))
    return _read_document(path, source)


def draft_sweep(spec: SweepSpec) -> DraftFile:
    """Check a sweep that was made in Python as if it came from an equivalent file.

    Its relative paths start at the working directory.
    """
    data = spec.model_dump(mode="json")
    urls = [url.get_secret_value() for url in spec.notify]  # the dump leaves them out
    source = YamlDocument(data | {"notify": urls}, origins={(): "SweepSpec"})
    return _read_document(Path(spec.sweep), source)


def _read_document(path: Path, source: YamlDocument) -> DraftFile:
    """Read each sweep of a document; `path` names it, and relative paths start at its folder."""
    data, problems = source.data, list(source.problems)
    sweeps: list[tuple[Steps, Any]] = [((), data)]
    if "stages" in data:
        text = "is beside 'stages'; a file has either one sweep or only 'stages:'"
        problems += [Problem((key,), text) for key in data if key != "stages"]
        listed = data["stages"] if isinstance(data["stages"], list) else []
        sweeps = [(("stages", index), sweep) for index, sweep in enumerate(listed)]
        if not sweeps:
            text = f"expected a list of sweeps, got {format_value(data['stages'])}"
            problems.append(Problem(("stages",), text))
    stages: list[DraftSweep] = []
    first: dict[str, int] = {}
    for index, (steps, sweep) in enumerate(sweeps):
        if not isinstance(sweep, dict):
            text = f"expected a sweep, a mapping, got {format_value(sweep)}"
            problems.append(Problem(steps, text))
            continue
        name = _get_stage_name(sweep)
        if name and first.setdefault(name, index) != index:
            text = f"{name!r} names stages.{first[name]} too; each stage needs its own name"
            problems.append(Problem((*steps, "sweep"), text))
        later = [_get_stage_name(other) for _, other in sweeps[index + 1 :]]
        stages.append(_read_stage(sweep, steps, path.parent, stages, later))
    return DraftFile(path, source, tuple(stages), problems)


def _get_stage_name(stage: Any) -> str:
    """Return the name of a stage; empty if it has none."""
    name = stage.get("sweep") if isinstance(stage, dict) else None
    return name if isinstance(name, str) else ""


def _read_stage(
    data: dict[str, Any],
    steps: Steps,
    folder: Path,
    earlier: Sequence[DraftSweep],
    later: Collection[str],
) -> DraftSweep:
    """Read a sweep, and check it with each value that it can get from earlier stages.

    In the returned spec, `fixed` holds each such reference as in the file, plus an example value.
    """
    inspection = Inspection()
    fixed = data["fixed"] if isinstance(data.get("fixed"), dict) else {}
    resolved: dict[str, StageReference] = {}
    combinations: list[dict[str, Any]] = [{}]
    if references := find_stage_references(fixed):
        named = [reference.stage for reference in references.values()]
        findable: dict[str, Configurations] = {stage.spec.sweep: () for stage in earlier}
        for stage in earlier:
            sound = stage.inspection.is_sound("method", "backbone", "fixed", "space")
            if sound and stage.spec.sweep in named:
                findable[stage.spec.sweep] = [
                    spec.fixed | example for spec in stage.possible for example in spec.examples
                ]
        refused, resolved, combinations = resolve_references(
            fixed, own_stage=_get_stage_name(data), earlier=findable, later=later
        )
        inspection.problems += [problem.with_prefix(("fixed",)) for problem in refused]
        given = {name: value for name, value in fixed.items() if name not in references}
        data = {**data, "fixed": given}
    spec = _read_spec(data, inspection)
    typed = spec.data_files
    spec = _locate_data_files(spec, folder, inspection)
    as_typed = dict(zip(spec.data_files, typed, strict=True))
    checked = []
    if inspection.is_sound("method"):
        try:
            for values in combinations:
                possible = spec.model_copy(update={"fixed": spec.fixed | values})
                method = possible.find_method()
                problems = value_problems(possible, method)
                possible, notes = settle_space(possible, method)
                known = [*inspection.problems, *problems]
                broken = rule_problems(possible, method, known=known)
                if inspection.is_sound("backbone", "fixed", "space"):
                    problems += start_problems(possible, method, with_rules=not broken)
                checked.append((possible, notes, problems + broken))
        except BrokenMethodError as error:
            inspection.problems.append(Problem(("method",), str(error)))
        except UnknownMethodError as error:
            inspection.problems += [Problem(("method",), str(error)), *list_unknown_names(spec)]
    by_combination = [problems for *_, problems in checked]
    inspection.problems += _merge_problems(by_combination, combinations, resolved)
    first, notes = checked[0][:2] if checked else (spec, ())
    examples = combinations[0].items()
    if with_examples := {name: {**fixed[name], EXAMPLE: value} for name, value in examples}:
        first = first.model_copy(update={"fixed": first.fixed | with_examples})
    return DraftSweep(
        first, inspection, tuple(s for s, *_ in checked) or (spec,), notes, steps, as_typed
    )


def _locate_data_files(spec: SweepSpec, folder: Path, inspection: Inspection) -> SweepSpec:
    """Give data files absolute names, so that trials on any node read the same ones.

    `folder` is that of the sweep file. Names that cannot be resolved become problems, and stay.
    """
    name_absolutely = partial(absolute_name, folder=folder)
    absolute: dict[str, Callable[[], Any]] = {
        "corpus": lambda: tuple(entry.from_folder(folder) for entry in spec.corpus),
        "dev": lambda: spec.dev.with_files(lambda own: own.with_paths(name_absolutely)),
        "evaluate": lambda: (
            spec.evaluate and spec.evaluate.with_files(lambda own: own.with_paths(name_absolutely))
        ),
    }
    files = {
        key: inspection.run_check((key,), name, needs=(key,)) for key, name in absolute.items()
    }
    return spec.model_copy(update={key: file for key, file in files.items() if file is not None})


def _merge_problems(
    lists: Sequence[Sequence[Problem]],
    values: Sequence[Mapping[str, Any]],
    references: Mapping[str, StageReference],
) -> list[Problem]:
    """Merge the problems of a sweep that was checked with each of these values.

    Problems that depend on the values name their origin; for each path only the first is kept.
    """
    merged: dict[tuple[Steps, str], Problem] = {}
    for problems, taken in zip(lists, values, strict=False):
        for problem in problems:
            of_one = [name for name in taken if problem.path[:2] == ("fixed", name)]
            if of_one or any(problem not in other for other in lists):
                origins = " and ".join(
                    f"{name}={format_value(taken[name])} from stage {references[name].stage!r}"
                    for name in of_one or taken
                )
                text = f"{problem.text}; it can get {origins}"
                merged.setdefault((problem.path, ""), replace(problem, text=text))
            else:
                merged.setdefault((problem.path, problem.text), problem)
    return list(merged.values())


def _read_spec(data: Mapping[str, Any], inspection: Inspection) -> SweepSpec:
    """Read the keys and dimensions of a sweep that are valid, and note the problems of the others.

    Required keys get stand-ins. Rules between the valid keys are checked.
    """
    given, spec = dict(data), None
    lost = set[str]()  # the dimensions that are left out
    while spec is None:
        try:
            spec = SweepSpec.model_validate(given, context=WITHOUT_RULES)
        except ValidationError as error:
            for problem in problems_in(error, given, model=SweepSpec):
                if len(problem.path) < 4 or problem.path[3] not in lost:
                    inspection.problems.append(problem)
                match problem.path:
                    case ("space", str(name), "when", *_) if name in given["space"]:
                        dimension = given["space"][name].items()
                        whole = {key: value for key, value in dimension if key != "when"}
                        given["space"] = {**given["space"], name: whole}
                    case ("space", str(name), *_):
                        given["space"] = {n: d for n, d in given["space"].items() if n != name}
                        lost.add(name)
                    case (str(key), *_):
                        given.pop(key, None)
                        given |= {key: STAND_INS[key]} if key in STAND_INS else {}
    inspection.problems += list(broken_rules(spec, wrong=inspection.wrong_keys))
    return spec
