"""Conditions between hyperparameters: parse them, and find points that satisfy them."""

import ast
import math
import operator
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice, pairwise
from typing import Any

from cse_platform.sweep.problems import Problem, did_you_mean
from cse_platform.sweep.space.dimensions import Dimension
from cse_platform.sweep.space.space import Space

LONGEST = 500
"""The most characters of an expression, because Python's parser cannot nest without limit."""

GRAMMAR = "names, numbers and texts in quotes, with + - * / ( ), < <= == != >= >, and, or, not"

WORDS = {"true": True, "false": False, "null": None}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
ORDER: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


@dataclass(frozen=True)
class Expression:
    """A parsed condition.

    Raises:
        ValueError: if the text is not a condition; the message says why, and what is allowed.
    """

    text: str

    @property
    def names(self) -> frozenset[str]:
        """The names of the settings in the condition."""
        return _collect_names(self.text)

    @property
    def tree(self) -> ast.expr:
        """The syntax tree; `_is_allowed` accepts all of its nodes."""
        return _parse_expression(self.text)

    def __post_init__(self) -> None:
        _refuse_foreign(self.tree, self.text)

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Whether the condition holds for these values; True if one of its names has no value.

        A hyperparameter without a value is inactive in the trial. A division by 0 gives False.
        """
        if not self.names <= values.keys():
            return True
        try:
            return bool(_evaluate_node(self.tree, values))
        except ArithmeticError:
            return False


@lru_cache(maxsize=1024)
def _parse_expression(text: str) -> ast.expr:
    if len(text) > LONGEST:
        raise ValueError(f"an expression has at most {LONGEST} characters, got {len(text)}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about syntax that is refused here anyway
            return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"no expression: {text!r}; one is made of {GRAMMAR}") from None


@lru_cache(maxsize=1024)
def _collect_names(text: str) -> frozenset[str]:
    names = {node.id for node in ast.walk(_parse_expression(text)) if isinstance(node, ast.Name)}
    return frozenset(names - WORDS.keys())


def _refuse_foreign(tree: ast.expr, text: str) -> None:
    for node in ast.walk(tree):
        if not _is_allowed(node):
            part = ast.unparse(node)
            where = f" in {text!r}" if part and part != text else ""
            raise ValueError(f"cannot read {part!r}{where}; an expression is made of {GRAMMAR}")


def _is_allowed(node: ast.AST) -> bool:
    match node:
        case ast.Constant(value=value):
            return value is None or type(value) in (bool, int, float, str)
        case ast.BinOp(op=op):
            return type(op) in _ARITHMETIC
        case ast.UnaryOp(op=op):
            return isinstance(op, ast.USub | ast.UAdd | ast.Not)
        case ast.Compare(ops=ops):
            return all(type(op) in ORDER or isinstance(op, ast.Eq | ast.NotEq) for op in ops)
    return not isinstance(node, ast.expr) or isinstance(node, ast.Name | ast.BoolOp)


def _evaluate_node(node: ast.expr, values: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return values[name] if name in values else WORDS[name]
        case ast.BoolOp(op=op, values=parts):
            every = all if isinstance(op, ast.And) else any
            return every(_evaluate_node(part, values) for part in parts)
        case ast.UnaryOp(op=op, operand=operand):
            value = _evaluate_node(operand, values)
            if isinstance(op, ast.Not):
                return not value
            return -value if isinstance(op, ast.USub) else value
        case ast.BinOp(left=left, op=op, right=right):
            return _ARITHMETIC[type(op)](
                _evaluate_node(left, values), _evaluate_node(right, values)
            )
        case ast.Compare(left=left, ops=ops, comparators=others):
            sides = [_evaluate_node(side, values) for side in (left, *others)]
            return all(map(_compare_values, ops, sides, sides[1:]))
    raise AssertionError(node)


def _compare_values(op: ast.cmpop, left: Any, right: Any) -> bool:
    if type(op) in ORDER:
        return ORDER[type(op)](left, right)
    # As in a sweep file, `true` does not equal 1.
    equal = left == right and isinstance(left, bool) == isinstance(right, bool)
    return equal == isinstance(op, ast.Eq)


_KINDS = {bool: "true or false", int: "a number", float: "a number", str: "text"}

Possible = Mapping[str, tuple[Any, ...]]
"""The possible values of each name; of a range, its two bounds."""


def kind_problems(expression: Expression, possible: Possible) -> list[str]:
    """List the operands of an expression whose types do not fit its operators."""
    tree = expression.tree
    return list(dict.fromkeys([*_check_node(tree, possible), *_check_is_condition(tree, possible)]))


def _check_node(node: ast.expr, possible: Possible) -> Iterator[str]:
    match node:
        case ast.BoolOp(values=parts):
            for part in parts:
                yield from _check_node(part, possible)
                yield from _check_is_condition(part, possible)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _check_node(operand, possible)
            yield from _check_is_condition(operand, possible)
        case ast.UnaryOp(operand=operand):
            yield from _check_node(operand, possible)
            yield from _check_is_number(operand, possible)
        case ast.BinOp(left=left, right=right):
            for side in (left, right):
                yield from _check_node(side, possible)
                yield from _check_is_number(side, possible)
        case ast.Compare(left=left, ops=ops, comparators=others):
            sides = [left, *others]
            for side in sides:
                yield from _check_node(side, possible)
            for op, (one, other) in zip(ops, pairwise(sides), strict=True):
                yield from _check_comparison(op, one, other, possible)


def _check_comparison(
    op: ast.cmpop, one: ast.expr, other: ast.expr, possible: Possible
) -> Iterator[str]:
    if type(op) in ORDER:
        yield from _check_is_number(one, possible)
        yield from _check_is_number(other, possible)
        return
    for name, constant in ((one, other), (other, one)):
        if isinstance(name, ast.Name) and isinstance(constant, ast.Constant):
            values = possible.get(name.id, ())
            if isinstance(constant.value, str) and constant.value not in values:
                texts = [value for value in values if isinstance(value, str)]
                hint = did_you_mean(constant.value, texts)
                yield f"{constant.value!r} is not a value of {name.id}{hint}"
                return
    kinds = _infer_kinds(one, possible), _infer_kinds(other, possible)
    if not kinds[0] & kinds[1]:
        sides = f"{_describe_kinds(one, possible)}, {_describe_kinds(other, possible)}"
        yield f"{sides}; they are never equal"


def _check_is_number(node: ast.expr, possible: Possible) -> Iterator[str]:
    if _infer_kinds(node, possible) != {"a number"}:
        yield f"expected a number, and {_describe_kinds(node, possible)}"


def _check_is_condition(node: ast.expr, possible: Possible) -> Iterator[str]:
    if _infer_kinds(node, possible) != {"true or false"}:
        yield f"expected a comparison such as a >= b, and {_describe_kinds(node, possible)}"


def _describe_kinds(node: ast.expr, possible: Possible) -> str:
    return f"{ast.unparse(node)} is {' or '.join(sorted(_infer_kinds(node, possible)))}"


def _infer_kinds(node: ast.expr, possible: Possible) -> set[str]:
    match node:
        case ast.Constant(value=value):
            return {_KINDS.get(type(value), "null")}
        case ast.Name(id=name):
            values = possible.get(name, (WORDS.get(name),))
            return {_name_kind(value) for value in values}
        case ast.UnaryOp(op=ast.Not()) | ast.BoolOp() | ast.Compare():
            return {"true or false"}
    return {"a number"}


def _name_kind(value: Any) -> str:
    return "null" if value is None else _KINDS.get(type(value), "a list or mapping")


MOST_TRIED = 20_000
"""The most points that are tried before conditions count as unsatisfiable."""
MANY = 1_000
"""A dimension with more values than this is sampled instead of enumerated."""

Values = Mapping[str, Any]


class Requirements:
    """The conditions that must hold in every trial of a sweep.

    Args:
        texts: the expressions.
        space: the dimensions.
        fixed: the settings that every trial shares.
    """

    def __init__(self, texts: Sequence[str], space: Space, fixed: Values) -> None:
        self.expressions = [Expression(text) for text in texts]
        self.space, self.fixed = space, fixed

    @cached_property
    def deciding(self) -> Space:
        """The dimensions that expressions name, and those that decide whether these are active."""
        named = {name for expression in self.expressions for name in expression.names}
        names = {name for name in named if name in self.space}
        while more := {parent for name in names for parent in self.space[name].when} - names:
            names |= more
        return Space({name: self.space[name] for name in self.space if name in names})

    def broken_by(self, assignment: Values) -> str | None:
        """Return the first expression that an assignment violates; None if there is none."""
        values = {**self.fixed, **assignment}
        return next((e.text for e in self.expressions if not e.holds(values)), None)

    def problems(self) -> list[Problem]:
        """List the problems of the expressions; paths are relative to their list."""
        wrong = [
            Problem((place,), text)
            for place, expression in enumerate(self.expressions)
            for text in self._check_expression(expression)
        ]
        return wrong or list(self._find_unsatisfiable())

    def _check_expression(self, expression: Expression) -> list[str]:
        known = {name: (value,) for name, value in self.fixed.items()}
        known |= {name: dimension.ends for name, dimension in self.space.items()}
        unknown = sorted(expression.names - known.keys())
        if unknown:
            near = {name: did_you_mean(name, known) for name in unknown}
            way_out = "; give it under one of the two"
            said = "{!r} is neither in 'space' nor in 'fixed'{}"
            return [said.format(name, near[name] or way_out) for name in unknown]
        if not expression.names & set(self.space):
            return [f"no hyperparameter of 'space' in {expression.text!r}, so it decides nothing"]
        return kind_problems(expression, known)

    def _find_unsatisfiable(self) -> Iterator[Problem]:
        alone = [Requirements([e.text], self.space, self.fixed) for e in self.expressions]
        nowhere = [place for place, single in enumerate(alone) if single.some_point({}) is None]
        for place in nowhere:
            yield Problem(
                (place,), f"holds nowhere in the space: {alone[place].how_it_was_tried()}"
            )
        if not nowhere and self.some_point({}) is None:
            how = self.how_it_was_tried()
            yield Problem((), f"each holds somewhere, but all together nowhere: {how}")

    def some_point(self, given: Values) -> dict[str, Any] | None:
        """Find values of the deciding dimensions that satisfy all expressions; None if not found.

        `given` holds values that are already set. None is certain if the dimensions have few
        values; otherwise ranges are tried at both bounds and at random.
        """
        deciding = self.deciding
        values = {
            name: _list_few_values(deciding[name]) or deciding[name].ends for name in deciding
        }
        values |= {name: (given[name],) for name in deciding if name in given}
        points = islice(_combine_values(deciding, deciding.ordered(), values, {}), MOST_TRIED)
        allowed = next((point for point in points if self._is_satisfied(given, point)), None)
        if allowed is not None or self._is_counted():
            return allowed
        rng = random.Random(0)
        drawn = (random_point(deciding, given, rng) for _ in range(MOST_TRIED))
        return next((point for point in drawn if self._is_satisfied(given, point)), None)

    def how_it_was_tried(self) -> str:
        """Describe how `some_point` looks for a point."""
        names = ", ".join(self.deciding)
        if self._is_counted():
            return f"every combination of {names} was tried"
        return f"both ends of {names} were tried, and {MOST_TRIED} points between"

    def _is_satisfied(self, given: Values, point: Values) -> bool:
        return self.broken_by({**given, **point}) is None

    def _is_counted(self) -> bool:
        few = [_list_few_values(dimension) for _, dimension in self.deciding.items()]
        return math.prod(len(values) or MOST_TRIED + 1 for values in few) <= MOST_TRIED


def require_problems(texts: Sequence[str], space: Space, fixed: Values) -> list[Problem]:
    """List the problems of expressions; paths are relative to their list."""
    unread = []
    for place, text in enumerate(texts):
        try:
            Expression(text)
        except ValueError as error:
            unread.append(Problem((place,), str(error)))
    return unread or Requirements(texts, space, fixed).problems()


def _list_few_values(dimension: Dimension) -> tuple[Any, ...]:
    """List all values of a dimension; empty if there are more than `MANY`."""
    if dimension.is_real:
        return ()
    values = tuple(islice(dimension.grid_values(), MANY + 1))
    return values if len(values) <= MANY else ()


def _combine_values(
    space: Space, names: Sequence[str], values: Mapping[str, tuple[Any, ...]], point: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    if not names:
        yield point
    elif not space.is_active(names[0], point):
        yield from _combine_values(space, names[1:], values, point)
    else:
        for value in values[names[0]]:
            yield from _combine_values(space, names[1:], values, point | {names[0]: value})


def random_point(space: Space, given: Values, rng: random.Random) -> dict[str, Any]:
    """Draw a value for each active dimension that is not given, parents first."""
    point: dict[str, Any] = {}
    for name in space.ordered():
        if space.is_active(name, point):
            point[name] = given[name] if name in given else space[name].at(rng.random())
    return point
