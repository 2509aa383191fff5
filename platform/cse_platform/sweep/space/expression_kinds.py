"""Whether an expression compares like with like, told before any value is known."""

import ast
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from cse_platform.sweep.reading.problems import did_you_mean
from cse_platform.sweep.space.expressions import ORDER, WORDS, Expression

_KINDS = {bool: "true or false", int: "a number", float: "a number", str: "text"}

Possible = Mapping[str, tuple[Any, ...]]
"""The values that each name can have; of a range, both bounds."""


def kind_problems(expression: Expression, possible: Possible) -> list[str]:
    """What cannot be compared or reckoned with in an expression."""
    tree = expression.tree
    return list(dict.fromkeys([*_problems(tree, possible), *_no_condition(tree, possible)]))


def _problems(node: ast.expr, possible: Possible) -> Iterator[str]:
    match node:
        case ast.BoolOp(values=parts):
            for part in parts:
                yield from _problems(part, possible)
                yield from _no_condition(part, possible)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _problems(operand, possible)
            yield from _no_condition(operand, possible)
        case ast.UnaryOp(operand=operand):
            yield from _problems(operand, possible)
            yield from _no_number(operand, possible)
        case ast.BinOp(left=left, right=right):
            for side in (left, right):
                yield from _problems(side, possible)
                yield from _no_number(side, possible)
        case ast.Compare(left=left, ops=ops, comparators=others):
            sides = [left, *others]
            for side in sides:
                yield from _problems(side, possible)
            for op, (one, other) in zip(ops, pairwise(sides), strict=True):
                yield from _incomparable(op, one, other, possible)


def _incomparable(
    op: ast.cmpop, one: ast.expr, other: ast.expr, possible: Possible
) -> Iterator[str]:
    if type(op) in ORDER:
        yield from _no_number(one, possible)
        yield from _no_number(other, possible)
        return
    for name, constant in ((one, other), (other, one)):
        if isinstance(name, ast.Name) and isinstance(constant, ast.Constant):
            values = possible.get(name.id, ())
            if isinstance(constant.value, str) and constant.value not in values:
                texts = [value for value in values if isinstance(value, str)]
                hint = did_you_mean(constant.value, texts)
                yield f"{constant.value!r} is not a value of {name.id}{hint}"
                return
    kinds = _kinds(one, possible), _kinds(other, possible)
    if not kinds[0] & kinds[1]:
        yield f"{_said(one, possible)}, {_said(other, possible)}; they are never equal"


def _no_number(node: ast.expr, possible: Possible) -> Iterator[str]:
    if _kinds(node, possible) != {"a number"}:
        yield f"expected a number, and {_said(node, possible)}"


def _no_condition(node: ast.expr, possible: Possible) -> Iterator[str]:
    if _kinds(node, possible) != {"true or false"}:
        yield f"expected a comparison such as a >= b, and {_said(node, possible)}"


def _said(node: ast.expr, possible: Possible) -> str:
    return f"{ast.unparse(node)} is {' or '.join(sorted(_kinds(node, possible)))}"


def _kinds(node: ast.expr, possible: Possible) -> set[str]:
    match node:
        case ast.Constant(value=value):
            return {_KINDS.get(type(value), "null")}
        case ast.Name(id=name):
            values = possible.get(name, (WORDS.get(name),))
            return {_kind(value) for value in values}
        case ast.UnaryOp(op=ast.Not()) | ast.BoolOp() | ast.Compare():
            return {"true or false"}
    return {"a number"}


def _kind(value: Any) -> str:
    return "null" if value is None else _KINDS.get(type(value), "a list or mapping")
