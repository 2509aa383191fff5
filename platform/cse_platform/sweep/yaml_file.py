"""Read a YAML file and the files that it includes, with the line of each value."""

import math
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import MaxDepthExceededError
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from cse_methods.errors import DataError
from cse_methods.files.text import decode_text
from cse_platform.errors import SweepFileError
from cse_platform.sweep.problems import (
    Problem,
    Steps,
    decimal_hint,
    dotted_path,
    format_value,
    real_path,
)
from cse_platform.sweep.shipped import suggest_sweep_file

MAX_DEPTH = 40
MAX_VALUES = 10_000  # aliases of aliases can expand to more values than fit into memory
MAX_CHARACTERS = 100_000  # takes a second to read; a sweep file has a few thousand

STANDARD_INPUT = Path("-")
"""The name of standard input, as in other commands."""

_CORE = "tag:yaml.org,2002:"
_PLAIN_TAGS = {_CORE + kind for kind in ("null", "bool", "int", "float", "str")}
_TEXT_TAG = _CORE + "str"
_DATE_TAG = _CORE + "timestamp"
_MERGE_TAG = _CORE + "merge"


class UnreadableYamlError(ValueError):
    """The text is not one YAML document; the message says why and, if possible, on which line."""


@dataclass
class YamlDocument:
    """The values of a file, where each comes from, and the problems of the YAML itself."""

    data: Any = None
    origins: dict[Steps, int | str] = field(default_factory=dict)
    """Line (from 1) of each path, or the `--set` that set it."""
    problems: list[Problem] = field(default_factory=list)

    def find_origin(self, path: Steps) -> int | str:
        """Return the line, or the `--set`, of a path or its longest known prefix."""
        while path and path not in self.origins:
            path = path[:-1]
        return self.origins.get(path, 1)

    def forget_origins(self, path: Steps) -> None:
        """Drop the origins of a path and of all inside it."""
        self.origins = {p: o for p, o in self.origins.items() if p[: len(path)] != path}


_INDENTED = "; is it indented as the lines that it belongs to?"
_SYNTAX_HINTS = {
    "'\\t'": "; indent with spaces, not tabs",
    "<block": _INDENTED,
    "<document start>": "; does the key above it end in ': '?",
    "mapping values": f"{_INDENTED} a text with ': ' in it needs quotes",
}
"""What mostly helps, by a part of the parser's message."""
_UNSPACED = re.compile(r"\s*(?:- )?([\w.]+):[^\s:/]")
"""A line such as `trials:8`."""


def read_yaml(text: str) -> YamlDocument:
    """Read one YAML 1.2 document and expand aliases and merge keys; raises UnreadableYamlError.

    Duplicate keys, keys that are not text, and values that JSON does not have (NaN, tags) become
    problems of the result.
    """
    if len(text) > MAX_CHARACTERS:
        raise UnreadableYamlError(
            f"line {text.count(chr(10), 0, MAX_CHARACTERS) + 1}: a file has {MAX_CHARACTERS} "
            "characters at most"
        )
    yaml = YAML(typ="safe", pure=True)
    yaml.composer.warn_double_anchors = False  # YAML 1.2 allows a later anchor of the same name
    yaml.max_depth = MAX_DEPTH + 1  # the document itself is the first level
    reader = _Reader(yaml)
    try:
        root = yaml.compose(text)
        if root is not None:
            reader.source.data = reader.value(root, ())
    except MaxDepthExceededError as error:
        raise UnreadableYamlError(_format_too_deep(error.problem_mark.line)) from None
    except RecursionError:  # a mapping that merges itself
        raise UnreadableYamlError(_format_too_deep(root.start_mark.line)) from None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        if mark is not None:
            _refuse_common_slips(text, mark.line, error)
        line = f"line {mark.line + 1}: " if mark else ""
        problem = error.problem or error.context or "not YAML"
        hint = next((hint for part, hint in _SYNTAX_HINTS.items() if part in problem), "")
        if "flow" in (error.context or "") and error.context_mark.line < mark.line:
            hint = f"; close the bracket of line {error.context_mark.line + 1}"
        raise UnreadableYamlError(f"{line}{problem}{hint}") from None
    except UnreadableYamlError:
        raise
    except (YAMLError, ValueError, TypeError, LookupError, AttributeError) as error:
        # For some broken escapes, tags and directives ruamel.yaml raises Python's own errors.
        raise UnreadableYamlError(f"not YAML: {(str(error).splitlines() or ['?'])[0]}") from None
    return reader.source


def _refuse_common_slips(text: str, line: int, error: MarkedYAMLError) -> None:
    """Raise UnreadableYamlError if the parser fails at a line, counted from 0, for a cause that its
    own message hides: a no-break space, a colon without a space, or a second document.
    """
    lines = text.split("\n")
    for index in (line, line - 1):  # the parser notices it in the next line
        content = lines[index] if 0 <= index < len(lines) else ""
        before, space, _ = content.partition("\N{NO-BREAK SPACE}")
        if space and not any(mark in before for mark in "#'\""):
            after = f" after {before.strip()!r}" if before.strip() else ""
            raise UnreadableYamlError(
                f"line {index + 1}: a no-break space{after}; write an ordinary space"
            ) from error
    unspaced = None
    for index in range(min(line, len(lines) - 1), -1, -1):  # it joins such lines, up to this one
        if match := _UNSPACED.match(lines[index]):
            unspaced = f"line {index + 1}: no space after {match[1] + ':'!r}"
        elif index < line:
            break
    if unspaced:
        raise UnreadableYamlError(unspaced) from error
    if "another document" in (error.problem or ""):
        raise UnreadableYamlError(
            f"a second document begins on line {line + 1}; put several sweeps under stages:"
        ) from error


def _format_too_deep(line: int) -> str:
    return f"line {line + 1}: values are nested deeper than {MAX_DEPTH}"


class _Reader:
    """Converts the nodes of one document into a `YamlDocument`."""

    def __init__(self, yaml: YAML) -> None:
        self.source = YamlDocument()
        self._construct = yaml.constructor.construct_object
        self._values = 0

    def value(self, node: Node, path: Steps) -> Any:
        """Convert a node to plain values, and note the lines of all of them."""
        self._count_value(node)
        if len(path) > MAX_DEPTH:
            raise UnreadableYamlError(_format_too_deep(node.start_mark.line))
        self.source.origins.setdefault(path, _get_line(node))
        if isinstance(node, MappingNode | SequenceNode):
            self._refuse_tag(node, path)
        if isinstance(node, MappingNode):
            return self._read_mapping(node, path)
        if isinstance(node, SequenceNode):
            return [self.value(item, (*path, i)) for i, item in enumerate(node.value)]
        return self._read_scalar(node, path)

    def _read_mapping(self, node: MappingNode, path: Steps) -> dict[str, Any]:
        entries: dict[str, tuple[Node, Node]] = {}
        for key, child in node.value:
            is_text = key.tag == _TEXT_TAG and isinstance(key, ScalarNode)
            before: Any = None
            if entries and isinstance(child, ScalarNode) and not child.value:
                _, before = next(reversed(entries.values()))  # {low: 0,5} is {low: 0, 5: }
            if key.tag == _MERGE_TAG:
                continue
            in_space = path[-1:] == ("space",) and isinstance(before, ScalarNode)
            if in_space and re.search(r"\([^)]*$", before.value):
                before.value += f", {key.value}"  # a call of another tool: uniform(0, 1)
            elif not is_text or not _is_text(key.value):
                got = "half a character" if is_text else _format_node(key)
                if not isinstance(key, ScalarNode):
                    got += "; a text that begins with { or [ needs quotes"
                if before is not None:
                    got += decimal_hint(f"{before.value},{key.value}")
                self._add_problem(path, _get_line(key), f"a key must be text, got {got}")
            elif key.value in entries:
                first = _get_line(entries[key.value][0])
                text = f"a second {key.value!r}; the first is on line {first}"
                self._add_problem((*path, key.value), _get_line(key), text)
            else:
                entries[key.value] = key, child
        for key, child in self._iterate_merged(node):
            if key.tag == _TEXT_TAG and isinstance(key.value, str):
                entries.setdefault(key.value, (key, child))
        for name, (key, _) in entries.items():
            self.source.origins[(*path, name)] = _get_line(key)
        return {name: self.value(child, (*path, name)) for name, (_, child) in entries.items()}

    def _iterate_merged(self, node: MappingNode) -> Iterator[tuple[Node, Node]]:
        """Yield the pairs that `<<` merges in, nearest first."""
        merged = [child for key, child in node.value if key.tag == _MERGE_TAG]
        for child in merged:
            for base in child.value if isinstance(child, SequenceNode) else [child]:
                self._count_value(base)
                if not isinstance(base, MappingNode):
                    raise UnreadableYamlError(f"line {_get_line(base)}: '<<' merges mappings only")
                self._refuse_tag(base, ())
                yield from (pair for pair in base.value if pair[0].tag != _MERGE_TAG)
                yield from self._iterate_merged(base)

    def _read_scalar(self, node: Node, path: Steps) -> Any:
        if node.tag == _DATE_TAG:
            return node.value
        if node.tag not in _PLAIN_TAGS:
            return self._refuse_tag(node, path)
        value, problem = None, None
        try:
            value = self._construct(node)
        except (ValueError, LookupError):
            problem = f"cannot read {_format_node(node)}"
        if isinstance(value, str) and not _is_text(value):
            problem = "expected text, got half a character"
        elif isinstance(value, float) and not math.isfinite(value):
            problem = f"expected a finite number, got {node.value}"
        elif isinstance(value, int) and abs(value) >= 2**63:
            problem = f"the number {_format_node(node)} is too large"
        if problem is None:
            return value
        return self._add_problem(path, _get_line(node), problem)

    def _refuse_tag(self, node: Node, path: Steps) -> None:
        """Note a tag that makes a value something else than a plain one."""
        tag = str(node.tag)
        if tag not in _PLAIN_TAGS | {_CORE + "map", _CORE + "seq"}:
            name = f"!!{tag.removeprefix(_CORE)}" if tag.startswith(_CORE) else tag
            text = f"no such kind of value: {name}; remove the tag, and write the value itself"
            self._add_problem(path, _get_line(node), text)

    def _add_problem(self, path: Steps, line: int, text: str) -> None:
        self.source.problems.append(Problem(path, text, origin=line))

    def _count_value(self, node: Node) -> None:
        self._values += 1
        if self._values > MAX_VALUES:
            raise UnreadableYamlError(
                f"line {_get_line(node)}: more than {MAX_VALUES} values with aliases written out"
            )


def _get_line(node: Node) -> int:
    return int(node.start_mark.line) + 1


def _is_text(value: str) -> bool:
    """Whether a text has no lone surrogate, which an escape can write and UTF-8 cannot store."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _format_node(node: Node) -> str:
    return format_value(node.value) if isinstance(node, ScalarNode) else "a list or a mapping"


INCLUDE = "file"
"""The key of a stage that is replaced by the stages of another file."""


def read_yaml_file(path: Path, *, opened: tuple[Path, ...] = ()) -> YamlDocument:
    """Read a sweep file, or `STANDARD_INPUT`, with the files that its stages include.

    `opened` are the files that include this one; then origins name the file, too. Raises
    SweepFileError if the file cannot be read or is not a mapping.
    """
    source = _read_single_file(path)
    if opened:
        name = path.name
        source.origins = {p: f"{name}, line {line}" for p, line in source.origins.items()}
        source.problems = [replace(p, origin=f"{name}, line {p.origin}") for p in source.problems]
    stages = source.data.get("stages")
    if not isinstance(stages, list):
        return source
    merged = YamlDocument({**source.data, "stages": []})
    merged.origins = dict(source.origins)
    merged.forget_origins(("stages",))
    merged.origins[("stages",)] = source.find_origin(("stages",))
    merged.problems = [p for p in source.problems if p.path[:1] != ("stages",)]
    for position, stage in enumerate(stages):
        location: Steps = ("stages", position)
        origin, replaced = source, dict[str, Any]()
        sweeps: list[tuple[Steps, Any]] = [(location, stage)]
        if isinstance(stage, dict) and INCLUDE in stage:
            try:
                origin = _read_included(stage[INCLUDE], (*opened, path))
            except SweepFileError as error:
                # No stage takes its place, so the problem itself must carry the line.
                line = source.find_origin((*location, INCLUDE))
                merged.problems.append(Problem((), str(error), origin=line))
                continue
            replaced = {key: value for key, value in stage.items() if key != INCLUDE}
            included, sweeps = origin.data.get("stages"), [((), origin.data)]
            if isinstance(included, list):
                sweeps = [(("stages", index), inner) for index, inner in enumerate(included)]
        for steps, inner in sweeps:
            target: Steps = ("stages", len(merged.data["stages"]))
            sweep = {**inner, **replaced} if isinstance(inner, dict) else inner
            merged.data["stages"].append(sweep)
            _copy_origins(origin, steps, merged, target)
            for key in replaced:
                _copy_origins(source, (*location, key), merged, (*target, key))
    return merged


def _read_included(name: Any, opened: tuple[Path, ...]) -> YamlDocument:
    """Read a file that the last of the `opened` ones includes."""
    if not isinstance(name, str) or name in ("", str(STANDARD_INPUT)) or Path(name).name != name:
        raise SweepFileError(
            f"expected the name of a sweep file in the same folder, got {format_value(name)}"
        )
    other = opened[-1].parent / name
    if other in opened:
        through = ", ".join(file.name for file in opened)
        raise SweepFileError(f"{name} includes itself, through {through}")
    return read_yaml_file(other, opened=opened)


def _copy_origins(source: YamlDocument, steps: Steps, merged: YamlDocument, target: Steps) -> None:
    """Copy the origins and problems of a value of `source`, and of all inside it, to `merged`."""
    merged.forget_origins(target)
    for known, line in source.origins.items():
        if known[: len(steps)] == steps:
            merged.origins[target + known[len(steps) :]] = line
    for problem in source.problems:
        if problem.path[: len(steps)] == steps:
            merged.problems.append(replace(problem, path=target + problem.path[len(steps) :]))


def _read_single_file(path: Path) -> YamlDocument:
    """Read one file, without the files that it includes."""
    name, most = name_file(path), 4 * MAX_CHARACTERS + 1  # bytes, because it may be a disk image
    try:
        if path == STANDARD_INPUT:
            content = sys.stdin.buffer.read(most)
        else:
            with path.open("rb") as file:
                content = file.read(most)
        source = read_yaml(decode_text(content, Path(name)))
    except FileNotFoundError:
        raise SweepFileError(f"{name}: no such file{suggest_sweep_file(path)}") from None
    except IsADirectoryError:
        raise SweepFileError(f"{name} is a folder; name a file in it") from None
    except OSError as error:
        raise SweepFileError(f"{name} cannot be read: {error.strerror}") from None
    except DataError as error:
        raise SweepFileError(str(error)) from None
    except UnreadableYamlError as error:
        raise SweepFileError(f"{name} is not a sweep:\n  {error}") from None
    if not isinstance(source.data, dict):
        given = f", got {format_value(source.data)}"
        raise SweepFileError(
            f"{name} is not a sweep:\n  line {source.find_origin(())}: expected a mapping that "
            f"begins with 'sweep: NAME'{'; the file is empty' if source.data is None else given}"
        )
    return source


def name_file(path: Path) -> str:
    """Return the name of a file for messages."""
    return "standard input" if path == STANDARD_INPUT else str(path)


def format_problems(
    path: Path, what: str, problems: Sequence[Problem], source: YamlDocument
) -> str:
    """Format the problems of a file under a heading, one per line, in the order of the file.

    A key that is misspelt is not called missing, too.
    """
    misspelt = {
        (*problem.path[:-1], near[1])
        for problem in problems
        if (near := re.fullmatch(r"no such key; did you mean '(.+)'\?", problem.text))
    }
    lines = []
    for problem in problems:
        if problem.path in misspelt and problem.text.startswith("the key "):
            continue
        steps = real_path(problem.path, source.data)
        origin = source.find_origin(steps) if problem.origin is None else problem.origin
        label = f"line {origin}" if isinstance(origin, int) else origin
        name = f", {dotted_path(steps)}" if steps else ""
        order = (origin if isinstance(origin, int) else float("inf"), label, name)
        lines.append((order, f"  {label}{name}: {problem.text}"))
    texts = [text for _, text in sorted(dict.fromkeys(lines))]
    return "\n".join([f"{name_file(path)} {what}:", *texts])
