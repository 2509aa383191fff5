"""Conditions on values by name, such as `tau2 >= tau3`: a small grammar, read and never run.

Comparisons of sums and products of numbers and names; `==` and `!=` of any values; `and`, `or`,
`not`. Python's parser reads the text, and what is not listed here is refused.
"""

import ast
import operator
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

LONGEST = 500
"""Characters of an expression; Python's parser takes nothing that is nested without end."""

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
    """A condition, read from a text.

    Raises:
        ValueError: if the text is none; it says why, and what an expression is made of.
    """

    text: str

    @property
    def names(self) -> frozenset[str]:
        """The names whose values decide."""
        return _names(self.text)

    @property
    def tree(self) -> ast.expr:
        """The text as Python's parser reads it; of the nodes that `_known` lists."""
        return _read(self.text)

    def __post_init__(self) -> None:
        _refuse_foreign(self.tree, self.text)

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Whether it is true of these values, and also where a name has none of them.

        A hyperparameter without a value takes no part in the trial. What divides by 0 is not true.
        """
        if not self.names <= values.keys():
            return True
        try:
            return bool(_value(self.tree, values))
        except ArithmeticError:
            return False


@lru_cache(maxsize=1024)
def _read(text: str) -> ast.expr:
    if len(text) > LONGEST:
        raise ValueError(f"an expression has at most {LONGEST} characters, got {len(text)}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of texts that no expression here is made of
            return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"no expression: {text!r}; one is made of {GRAMMAR}") from None


@lru_cache(maxsize=1024)
def _names(text: str) -> frozenset[str]:
    names = {node.id for node in ast.walk(_read(text)) if isinstance(node, ast.Name)}
    return frozenset(names - WORDS.keys())


def _refuse_foreign(tree: ast.expr, text: str) -> None:
    for node in ast.walk(tree):
        if not _known(node):
            part = ast.unparse(node)
            where = f" in {text!r}" if part and part != text else ""
            raise ValueError(f"cannot read {part!r}{where}; an expression is made of {GRAMMAR}")


def _known(node: ast.AST) -> bool:
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


def _value(node: ast.expr, values: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return values[name] if name in values else WORDS[name]
        case ast.BoolOp(op=op, values=parts):
            every = all if isinstance(op, ast.And) else any
            return every(_value(part, values) for part in parts)
        case ast.UnaryOp(op=op, operand=operand):
            value = _value(operand, values)
            if isinstance(op, ast.Not):
                return not value
            return -value if isinstance(op, ast.USub) else value
        case ast.BinOp(left=left, op=op, right=right):
            return _ARITHMETIC[type(op)](_value(left, values), _value(right, values))
        case ast.Compare(left=left, ops=ops, comparators=others):
            sides = [_value(side, values) for side in (left, *others)]
            return all(map(_compare, ops, sides, sides[1:]))
    raise AssertionError(node)


def _compare(op: ast.cmpop, left: Any, right: Any) -> bool:
    if type(op) in ORDER:
        return ORDER[type(op)](left, right)
    # As in a sweep file, where `true` is not 1.
    equal = left == right and isinstance(left, bool) == isinstance(right, bool)
    return equal == isinstance(op, ast.Eq)
