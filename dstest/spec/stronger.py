"""Does one predicate follow from another, as far as a few rules of logic tell?

`e < x` gives `e <= x`, `e <= 2` gives `e <= 3`, `a and b` gives `a`, `a` gives `a or b`, and each
of these inside of `not` the other way round. What calls something unknown gives nothing: a call
may do more than answer.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

_ASKS: Final = frozenset(
    one.__name__
    for one in (
        abs, all, any, bool, dict, enumerate, float, frozenset, int, isinstance, len, list, max,
        min, range, reversed, round, set, sorted, str, sum, tuple, zip,
    )
)  # fmt: skip
_ASKS_OF: Final = frozenset(
    {
        "count", "endswith", "get", "index", "items", "keys", "startswith", "values",
    }
)  # fmt: skip
_GIVES: Final = {
    (ast.Lt, ast.LtE),
    (ast.Eq, ast.LtE),
    (ast.Lt, ast.NotEq),
    (ast.Is, ast.Eq),
}


def stronger(new: Sequence[ast.stmt], old: Sequence[ast.stmt], own: frozenset[str]) -> bool:
    """Is `old` true wherever `new` is? Bodies in normal form; `own` are names the file defines.

    All statements but the last, a `return`, have to be the same.
    """
    if [ast.dump(one) for one in new[:-1]] != [ast.dump(one) for one in old[:-1]]:
        return False
    last, before = new[-1], old[-1]
    if not isinstance(last, ast.Return) or not isinstance(before, ast.Return):
        return False
    if last.value is None or before.value is None or any(map(_may_be_used_up, new[:-1])):
        return False
    return pure(last.value, own) and pure(before.value, own) and _gives(last.value, before.value)


def _may_be_used_up(node: ast.stmt) -> bool:
    """Something that can be read once is read to its end by whatever comes before."""
    return any(
        isinstance(one, ast.GeneratorExp | ast.Yield)
        or (isinstance(one, ast.Call) and not _again(one.func))
        for one in ast.walk(node)
    )


def _again(function: ast.expr) -> bool:
    return isinstance(function, ast.Name) and function.id in _ASKS - {
        "enumerate",
        "reversed",
        "zip",
    }


def pure(node: ast.expr, own: frozenset[str]) -> bool:
    """Does it nothing but answer? Of calls, those of well-known names that are not `own`."""
    for one in ast.walk(node):
        if isinstance(one, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom | ast.Lambda):
            return False
        if isinstance(one, ast.Attribute | ast.Subscript) and not isinstance(one.ctx, ast.Load):
            return False
        if isinstance(one, ast.Call) and not _only_answers(one.func, own):
            return False
    return True


def _only_answers(function: ast.expr, own: frozenset[str]) -> bool:
    match function:
        case ast.Name(id=name):
            return name in _ASKS and name not in own
        case ast.Attribute(attr=name):
            return name in _ASKS_OF and name not in own
    return False


def keeps_all(node: ast.FunctionDef, defined: frozenset[str]) -> bool:
    """Does its body change nothing that others see? It calls what only answers, or what is
    `defined` in the file, and binds local names alone."""
    for one in ast.walk(node):
        match one:
            case ast.Attribute() | ast.Subscript() if not isinstance(one.ctx, ast.Load):
                return False
            case ast.Global() | ast.Nonlocal() | ast.Import() | ast.ImportFrom() | ast.ClassDef():
                return False
            case ast.AugAssign(value=value) if number_of(value) is None:
                return False
            case ast.Call() if one in node.decorator_list:
                continue
            case ast.Call(
                func=ast.Name(id=name) | ast.Attribute(value=ast.Name(id="self"), attr=name)
            ) if name in defined:
                continue
            case ast.Call(func=function) if not _only_answers(function, frozenset()):
                return False
    return True


def number_of(node: ast.AST) -> float | None:
    """Of a number, written with or without a sign."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = number_of(node.operand)
        return None if value is None else -value
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value  # type: ignore[return-value]
    return None


def _gives(new: ast.expr, old: ast.expr) -> bool:
    if ast.dump(new) == ast.dump(old):
        return True
    if _is(old, ast.And):
        return all(_gives(new, one) for one in old.values)  # type: ignore[attr-defined]
    if _is(new, ast.Or):
        return all(_gives(one, old) for one in new.values)  # type: ignore[attr-defined]
    if _is(new, ast.And):
        return any(_gives(one, old) for one in new.values)  # type: ignore[attr-defined]
    if _is(old, ast.Or):
        return any(_gives(new, one) for one in old.values)  # type: ignore[attr-defined]
    match new, old:
        case ast.UnaryOp(op=ast.Not(), operand=a), ast.UnaryOp(op=ast.Not(), operand=b):
            return _gives(b, a)
        case ast.Compare(ops=[a], left=x, comparators=[y]), ast.Compare(
            ops=[b], left=v, comparators=[w]
        ):
            return _tighter((x, a, y), (v, b, w))
        case ast.Call(func=ast.Name(id=a), args=[ast.GeneratorExp() as x], keywords=[]), ast.Call(
            func=ast.Name(id=b), args=[ast.GeneratorExp() as y], keywords=[]
        ):
            each = [[ast.dump(g) for g in one.generators] for one in (x, y)]
            return a == b and a in ("all", "any") and each[0] == each[1] and _gives(x.elt, y.elt)
    return False


def _is(node: ast.expr, op: type[ast.boolop]) -> bool:
    return isinstance(node, ast.BoolOp) and isinstance(node.op, op)


_Compared = tuple[ast.expr, ast.cmpop, ast.expr]


def _tighter(new: _Compared, old: _Compared) -> bool:
    """`<` and `<=` alone are compared by their limits: `>` is turned round in the normal form."""
    same = {ast.dump(new[0]), ast.dump(new[2])} == {ast.dump(old[0]), ast.dump(old[2])}
    in_order = ast.dump(new[0]) == ast.dump(old[0])
    ops = (type(new[1]), type(old[1]))
    if same and ops in _GIVES:
        return in_order or not issubclass(ops[0], ast.Lt) or issubclass(ops[1], ast.NotEq)
    if not all(issubclass(op, ast.Lt | ast.LtE) for op in ops):
        return False
    strict = ops[0] is ast.Lt or ops[1] is ast.LtE
    for side, other, sign in ((2, 0, 1), (0, 2, -1)):
        is_, was = number_of(new[side]), number_of(old[side])
        if is_ is not None and was is not None and ast.dump(new[other]) == ast.dump(old[other]):
            return sign * is_ < sign * was or (is_ == was and strict)
    return False
