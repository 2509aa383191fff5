"""A YAML file that holds one mapping, with what it includes, and its problems with their lines.

A stage `{file: NAME, KEY: VALUE, …}` stands for the stages of another file in the same folder; the
other keys replace theirs in each of them.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cse_platform.errors import PlatformError
from cse_platform.sweep.reading.problems import Path as Steps
from cse_platform.sweep.reading.problems import Problem, dotted_path, format_value
from cse_platform.sweep.reading.yaml_reader import (
    MAX_CHARACTERS,
    UnreadableYamlError,
    YamlDocument,
    read_yaml,
    real_path,
)

INCLUDE = "file"
"""The key of a stage that stands for the stages of another file."""


def read_yaml_file(path: Path, *, what: str, refusal: type[PlatformError]) -> YamlDocument:
    """Read a file whose one document is a mapping with the key `sweep` or `stages`.

    Stages that name another file are replaced by the stages of that file.

    Args:
        path: the file.
        what: what the file should be, e.g. `a sweep`; goes into the message.
        refusal: the error that is raised if the file cannot be read.
    """
    source = _read_one(path, what=what, refusal=refusal)
    return _with_included(source, path, (path,), refusal)


def _with_included(
    source: YamlDocument, path: Path, opened: tuple[Path, ...], refusal: type[PlatformError]
) -> YamlDocument:
    """The document with each stage `{file: NAME}` replaced by the stages of that file."""
    stages = source.data.get("stages")
    if not isinstance(stages, list) or not any(map(_is_include, stages)):
        return source
    whole = YamlDocument({**source.data, "stages": []})
    whole.places = {at: line for at, line in source.places.items() if at[:1] != ("stages",)}
    whole.places[("stages",)] = source.place(("stages",))
    whole.problems = [p for p in source.problems if p.path[:1] != ("stages",)]
    for position, stage in enumerate(stages):
        here: Steps = ("stages", position)
        if not _is_include(stage):
            _append(whole, stage, source, here)
            continue
        try:
            included = _read_included(stage[INCLUDE], path, opened, refusal)
        except refusal as error:
            # No stage stands in its place, so the problem has its line with it.
            line = source.place((*here, INCLUDE))
            whole.problems.append(Problem((), str(error), place=line))
            continue
        replaced = {key: value for key, value in stage.items() if key != INCLUDE}
        for theirs, inner in _stages_of(included):
            both = {**inner, **replaced} if isinstance(inner, dict) else inner
            at = _append(whole, both, included, theirs)
            for key in replaced:
                _move_places(whole, source, (*here, key), (*at, key))
    return whole


def _is_include(stage: Any) -> bool:
    return isinstance(stage, dict) and INCLUDE in stage


def _read_included(
    name: Any, path: Path, opened: tuple[Path, ...], refusal: type[PlatformError]
) -> YamlDocument:
    """The other file; its lines and problems are placed by its name and line."""
    if not isinstance(name, str) or not name or Path(name).name != name:
        raise refusal(
            f"expected the name of a sweep file in the same folder, got {format_value(name)}"
        )
    other = path.parent / name
    if other in opened:
        raise refusal(f"{name} includes itself, by {', '.join(file.name for file in opened)}")
    source = _read_one(other, what="a sweep", refusal=refusal)
    placed: dict[Steps, int | str] = {
        at: _place_in(name, line) for at, line in source.places.items()
    }
    problems = [
        p if p.place is None else replace(p, place=_place_in(name, p.place))
        for p in source.problems
    ]
    return _with_included(
        YamlDocument(source.data, placed, problems), other, (*opened, other), refusal
    )


def _place_in(name: str, place: int | str) -> str:
    """A line of an included file, as one of the file that includes it."""
    return f"{name}, line {place}" if isinstance(place, int) else place


def _stages_of(source: YamlDocument) -> list[tuple[Steps, Any]]:
    """The sweeps of a file, and where they stand in it."""
    stages = source.data.get("stages")
    if not isinstance(stages, list):
        return [((), source.data)]
    return [(("stages", position), stage) for position, stage in enumerate(stages)]


def _append(whole: YamlDocument, stage: Any, source: YamlDocument, steps: Steps) -> Steps:
    """Add a stage, with its places and problems, to the end. Returns where it stands."""
    at: Steps = ("stages", len(whole.data["stages"]))
    whole.data["stages"].append(stage)
    _move_places(whole, source, steps, at)
    whole.problems += [
        replace(p, path=at + p.path[len(steps) :])
        for p in source.problems
        if p.path[: len(steps)] == steps
    ]
    return at


def _move_places(whole: YamlDocument, source: YamlDocument, steps: Steps, at: Steps) -> None:
    """Note where a value of `source` and all below it stands, under its path in the whole."""
    for known in [known for known in whole.places if known[: len(at)] == at]:
        del whole.places[known]
    for known, line in source.places.items():
        if known[: len(steps)] == steps:
            whole.places[at + known[len(steps) :]] = line


def _read_one(path: Path, *, what: str, refusal: type[PlatformError]) -> YamlDocument:
    """Read one file, without what it includes."""
    try:
        with path.open("rb") as file:  # no more than what is too much: it may be a disk image
            content = file.read(4 * MAX_CHARACTERS + 1)
        source = read_yaml(content.decode("utf-8-sig"))
    except FileNotFoundError:
        raise refusal(f"{path}: no such file") from None
    except IsADirectoryError:
        raise refusal(f"{path} is a folder; name a file in it") from None
    except OSError as error:
        raise refusal(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        text = f"byte {error.start} is not UTF-8 text"
        raise refusal(f"{path} is not {what}:\n  {text}") from None
    except UnreadableYamlError as error:
        raise refusal(f"{path} is not {what}:\n  {error}") from None
    if not isinstance(source.data, dict):
        found = "it is empty" if source.data is None else f"got {format_value(source.data)}"
        text = f"expected a mapping that begins with 'sweep: NAME', {found}"
        raise refusal(f"{path} is not {what}:\n  line {source.place(())}: {text}")
    return source


def problem_list(path: Path, what: str, problems: Sequence[Problem], source: YamlDocument) -> str:
    """A line for each problem of a file, in the order of the file, after what they mean for it."""
    lines = []
    for problem in problems:
        steps = real_path(problem.path, source.data)
        place = source.place(steps) if problem.place is None else problem.place
        where = f"line {place}" if isinstance(place, int) else place
        name = f", {dotted_path(steps)}" if steps else ""
        order = (place if isinstance(place, int) else float("inf"), where, name)
        lines.append((order, f"  {where}{name}: {problem.text}"))
    texts = [text for _, text in sorted(dict.fromkeys(lines))]
    return "\n".join([f"{path} {what}:", *texts])
