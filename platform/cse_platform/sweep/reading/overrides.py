"""`--set a.b=VALUE`: one value of a sweep file, written from the command line.

`space.NAME=null` takes a dimension out.
"""

from collections.abc import Sequence
from typing import Any

from cse_platform.secrets import mask_url
from cse_platform.sweep.reading.problems import (
    Path,
    Problem,
    did_you_mean,
    dotted_path,
    format_value,
)
from cse_platform.sweep.reading.yaml_reader import UnreadableYamlError, YamlDocument, read_yaml


class OverrideError(ValueError):
    """An override that cannot be applied."""


def apply_overrides(source: YamlDocument, overrides: Sequence[str]) -> None:
    """Write each `a.b=VALUE` into the source, in order; the bad ones become its problems."""
    for override in overrides:
        place = f"--set {mask_url(override)}"
        try:
            steps, value = _parsed(override, staged="stages" in source.data)
            _write(source, steps, value, place)
        except OverrideError as error:
            source.problems.append(Problem((), str(error), place=place))


def read_setting(override: str) -> tuple[str, Any]:
    """The name and the value of a single `NAME=VALUE`, else OverrideError."""
    (name, *below), value = _parsed(override, staged=False)
    if below:
        raise OverrideError(f"expected NAME=VALUE, got {mask_url(override)}")
    return name, value


def _parsed(override: str, *, staged: bool) -> tuple[list[str], Any]:
    path, equals, text = override.partition("=")
    steps = path.strip().split(".")
    if not equals or not all(steps):
        raise OverrideError("expected a.b=VALUE, a dotted path and a YAML value")
    if staged and steps[0] != "stages":
        raise OverrideError(f"the file has stages; write stages.0.{path}=…")
    if steps[0] == "stages" and not staged:
        raise OverrideError("the file has no stages; leave 'stages.N.' out")
    try:
        value = read_yaml(text)
    except UnreadableYamlError as error:
        raise OverrideError(f"the value cannot be read: {error}") from None
    if value.problems:
        raise OverrideError(value.problems[0].text)
    return steps, value.data


def _write(source: YamlDocument, steps: list[str], value: Any, place: str) -> None:
    parent, path = source.data, Path()
    for step in steps[:-1]:
        key = _key(parent, step, path)
        path = (*path, key)
        if isinstance(parent, dict) and parent.get(step) is None:
            parent[step] = {}
            source.places[path] = place
        parent = parent[key]
    key = _key(parent, steps[-1], path)
    if value is None and isinstance(parent, dict) and path[-1:] == ("space",):
        if key not in parent:
            hint = did_you_mean(str(key), parent)
            raise OverrideError(f"no such dimension in {dotted_path(path)}{hint}")
        del parent[key]
    else:
        parent[key] = value
    path = (*path, key)
    for known in [known for known in source.places if known[: len(path)] == path]:
        del source.places[known]
    source.places[path] = place


def _key(parent: Any, step: str, path: Path) -> str | int:
    if isinstance(parent, dict):
        return step
    if not isinstance(parent, list):
        here = f"{dotted_path(path)} is {format_value(parent)}"
        raise OverrideError(f"{here}, which has no {step!r} inside")
    if step in map(str, range(len(parent))):
        return int(step)
    raise OverrideError(f"{dotted_path(path)} has {len(parent)} entries, from 0, and no {step!r}")
