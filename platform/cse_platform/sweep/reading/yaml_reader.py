"""A YAML file as plain values, with the line of each."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import MaxDepthExceededError
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from cse_platform.sweep.reading.problems import Path, Problem, format_value

MAX_DEPTH = 40
MAX_VALUES = 10_000  # aliases of aliases can stand for more values than memory holds
MAX_CHARACTERS = 400_000  # a second to read; a sweep file has some thousands

_CORE = "tag:yaml.org,2002:"
_PLAIN_TAGS = {_CORE + kind for kind in ("null", "bool", "int", "float", "str")}
_TEXT_TAG = _CORE + "str"
_DATE_TAG = _CORE + "timestamp"
_MERGE_TAG = _CORE + "merge"


class UnreadableYamlError(ValueError):
    """Not one YAML document; the message says why and, where it can, on which line."""


@dataclass
class YamlDocument:
    """The values of a file, where each of them stands, and what is wrong with the YAML itself."""

    data: Any = None
    places: dict[Path, int | str] = field(default_factory=dict)
    """Path -> its line, from 1, or the `--set` that gave it."""
    problems: list[Problem] = field(default_factory=list)

    def place(self, path: Path) -> int | str:
        """The line, or the `--set`, of the longest known part of the path."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, 1)


def real_path(path: Path, data: Any) -> Path:
    """The steps that lead somewhere in `data`; others, such as a union's tag, are left out."""
    steps: list[str | int] = []
    for step in path:
        in_list = isinstance(data, list) and isinstance(step, int) and step < len(data)
        if in_list or (isinstance(data, dict) and step in data):
            data = data[step]
            steps.append(step)
    return tuple(steps)


def read_yaml(text: str) -> YamlDocument:
    """Read one YAML 1.2 document, else UnreadableYamlError; aliases and merge keys are written out.

    Second keys of one name, keys that are not text, and values that JSON has not (NaN, tags) are
    gathered as problems of the result.
    """
    if len(text) > MAX_CHARACTERS:
        raise UnreadableYamlError(
            f"line {text.count(chr(10), 0, MAX_CHARACTERS) + 1}: a file has {MAX_CHARACTERS} "
            "characters at most"
        )
    yaml = YAML(typ="safe", pure=True)
    yaml.composer.warn_double_anchors = False  # YAML 1.2 lets a later anchor take the name
    yaml.max_depth = MAX_DEPTH + 1  # the document itself is the first level
    _refuse_many_nodes(yaml)
    reader = _Reader(yaml)
    try:
        root = yaml.compose(text)
        if root is not None:
            reader.source.data = reader.value(root, ())
    except MaxDepthExceededError as error:
        raise UnreadableYamlError(_too_deep(error.problem_mark.line)) from None
    except RecursionError:  # a mapping that merges itself
        raise UnreadableYamlError(_too_deep(root.start_mark.line)) from None
    except MarkedYAMLError as error:
        raise UnreadableYamlError(_reason(error)) from None
    except UnreadableYamlError:
        raise
    except (YAMLError, ValueError, TypeError, LookupError, AttributeError) as error:
        # ruamel.yaml answers some damaged escapes, tags and directives with Python's own errors.
        raise UnreadableYamlError(f"not YAML: {(str(error).splitlines() or ['?'])[0]}") from None
    return reader.source


def _refuse_many_nodes(yaml: YAML) -> None:
    """Make the composer give up at the first value too many: all of them could take minutes."""
    compose, composed = yaml.composer.compose_node, count(1)

    def compose_node(parent: Any, index: Any) -> Any:
        if next(composed) > 2 * MAX_VALUES:  # keys are nodes, too
            line = yaml.composer.parser.peek_event().start_mark.line
            raise UnreadableYamlError(f"line {line + 1}: more than {MAX_VALUES} values")
        return compose(parent, index)

    yaml.composer.compose_node = compose_node


def _too_deep(line: int) -> str:
    return f"line {line + 1}: values nest deeper than {MAX_DEPTH}"


def _reason(error: MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    line = f"line {mark.line + 1}: " if mark else ""
    what = error.problem or error.context or "not YAML"
    hint = "; indent with blanks, not with tabs" if "'\\t'" in what else ""
    return f"{line}{what}{hint}"


class _Reader:
    """Walks the nodes of one document and fills a source."""

    def __init__(self, yaml: YAML) -> None:
        self.source = YamlDocument()
        self._construct = yaml.constructor.construct_object
        self._values = 0

    def value(self, node: Node, path: Path) -> Any:
        """The plain value of a node; the lines of it and of all below it are noted."""
        self._count(node)
        if len(path) > MAX_DEPTH:
            raise UnreadableYamlError(_too_deep(node.start_mark.line))
        self.source.places.setdefault(path, _line(node))
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        if isinstance(node, SequenceNode):
            return [self.value(item, (*path, i)) for i, item in enumerate(node.value)]
        return self._scalar(node, path)

    def _mapping(self, node: MappingNode, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, child in _own_pairs(node):
            if key.tag != _TEXT_TAG or not isinstance(key, ScalarNode):
                self._refuse(path, _line(key), f"a key must be text, got {_written(key)}")
            elif not _is_text(key.value):
                self._refuse(path, _line(key), "a key must be text, got half a character")
            elif key.value in found:
                first = self.source.places[(*path, key.value)]
                text = f"a second {key.value!r}; the first is on line {first}"
                self._refuse((*path, key.value), _line(key), text)
            else:
                self._enter(found, key, child, path)
        for key, child in self._inherited(node):
            if key.tag == _TEXT_TAG and isinstance(key.value, str) and key.value not in found:
                self._enter(found, key, child, path)
        return found

    def _enter(self, found: dict[str, Any], key: Node, child: Node, path: Path) -> None:
        self.source.places[(*path, key.value)] = _line(key)
        found[key.value] = self.value(child, (*path, key.value))

    def _inherited(self, node: MappingNode) -> Iterator[tuple[Node, Node]]:
        """What `<<` brings in, nearest first; what is wrong with it is told where it stands."""
        for base in _bases(node):
            self._count(base)
            if not isinstance(base, MappingNode):
                raise UnreadableYamlError(f"line {_line(base)}: '<<' merges mappings only")
            yield from _own_pairs(base)
            yield from self._inherited(base)

    def _scalar(self, node: Node, path: Path) -> Any:
        if node.tag == _DATE_TAG:
            return node.value
        if node.tag not in _PLAIN_TAGS:
            return self._refuse(path, _line(node), f"no such kind of value: {node.tag}")
        try:
            value = self._construct(node)
        except (ValueError, LookupError):
            return self._refuse(path, _line(node), f"cannot read {_written(node)}")
        if isinstance(value, str) and not _is_text(value):
            return self._refuse(path, _line(node), "expected text, got half a character")
        if isinstance(value, float) and not math.isfinite(value):
            return self._refuse(path, _line(node), f"expected a finite number, got {node.value}")
        if isinstance(value, int) and abs(value) >= 2**63:
            return self._refuse(path, _line(node), f"the number {_written(node)} is too large")
        return value

    def _refuse(self, path: Path, line: int, text: str) -> None:
        self.source.problems.append(Problem(path, text, place=line))

    def _count(self, node: Node) -> None:
        self._values += 1
        if self._values > MAX_VALUES:
            raise UnreadableYamlError(
                f"line {_line(node)}: more than {MAX_VALUES} values with aliases written out"
            )


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1


def _own_pairs(node: MappingNode) -> Iterator[tuple[Node, Node]]:
    return ((key, child) for key, child in node.value if key.tag != _MERGE_TAG)


def _bases(node: MappingNode) -> Iterator[Node]:
    for key, child in node.value:
        if key.tag == _MERGE_TAG:
            yield from child.value if isinstance(child, SequenceNode) else [child]


def _is_text(value: str) -> bool:
    """False for a lone surrogate, which an escape can write and no file can hold."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _written(node: Node) -> str:
    return format_value(node.value) if isinstance(node, ScalarNode) else "a list or a mapping"
