"""Bucket predicates: small expressions over a row's parameters, evaluated without `eval`.

Allowed: names of parameters, numbers, text, `and or not`, comparisons, `in`, + - * / // %, and parentheses.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from infer_forge.base.errors import InputUnusable

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b, ast.Mod: operator.mod,
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip


def holds(expression: str, params: Mapping[str, Any]) -> bool:
    """Whether the predicate is true for these parameters.

    Raises:
        InputUnusable: the expression is not of the allowed kind, or names a parameter that the row lacks.
    """
    try:
        tree = ast.parse(expression, mode="eval")
        return bool(_value(tree.body, params))
    except (SyntaxError, ValueError, TypeError, ZeroDivisionError, KeyError, RecursionError, MemoryError) as exc:
        reason = f"no parameter {exc}" if isinstance(exc, KeyError) else str(exc)
        raise InputUnusable(
            f"predicate {expression!r}: {reason}", next_step="use comparisons of row parameters and numbers"
        ) from None


def _value(node: ast.AST, params: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float, str, bool)):
        return node.value
    if isinstance(node, ast.Name):
        return params[node.id]
    if isinstance(node, (ast.Tuple, ast.List)):
        return [_value(e, params) for e in node.elts]
    if isinstance(node, ast.BoolOp):
        parts = (_value(v, params) for v in node.values)
        return all(parts) if isinstance(node.op, ast.And) else any(parts)
    if isinstance(node, ast.UnaryOp):
        inner = _value(node.operand, params)
        return (not inner) if isinstance(node.op, ast.Not) else -inner
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _BINARY[type(node.op)](_value(node.left, params), _value(node.right, params))
    if isinstance(node, ast.Compare):
        return _compare(node, params)
    raise ValueError(f"{type(node).__name__} is not allowed")


def _compare(node: ast.Compare, params: Mapping[str, Any]) -> bool:
    left = _value(node.left, params)
    for op, right_node in zip(node.ops, node.comparators, strict=True):
        if type(op) not in _COMPARE:
            raise ValueError(f"{type(op).__name__} is not allowed")
        right = _value(right_node, params)
        if not _COMPARE[type(op)](left, right):
            return False
        left = right
    return True
