"""What a change of a predicate, or of a constant, looks like: the most telling word for it."""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import Final, Literal

from dstest.spec.normal import called
from dstest.spec.stronger import number_of

How = Literal[
    "removed",
    "renamed",
    "text changed",
    "kind weakened",
    "always true",
    "all became any",
    "comparison loosened",
    "threshold moved",
    "new or",
    "narrowed",
    "exclusions grown",
    "guard added",
    "changed",
    "model changed",
]

_LOOSER: Final = {
    (ast.Lt, ast.LtE),
    (ast.Eq, ast.LtE),
    (ast.Eq, ast.In),
    (ast.NotEq, ast.LtE),
    (ast.Is, ast.IsNot),
}

Body = Sequence[ast.stmt]


def of_predicate(old: Body, new: Body) -> How:
    """Of bodies in normal form. Where these are the same, something around them is not."""
    if [ast.dump(one) for one in old] == [ast.dump(one) for one in new]:
        return "changed"
    if _always_true(new):
        return "always true"
    if _calls(new, "any") > _calls(old, "any") and _calls(new, "all") < _calls(old, "all"):
        return "all became any"
    if _loosened(old, new):
        return "comparison loosened"
    if _count(new, ast.Or) > _count(old, ast.Or):
        return "new or"
    if _ways_out(new) > _ways_out(old) or _filters(new) > _filters(old):
        return "narrowed"
    if _without_numbers(old) == _without_numbers(new):
        return "threshold moved"
    return "exclusions grown" if _listed(new) > _listed(old) else "changed"


def of_constant(old: ast.expr, new: ast.expr) -> How | None:
    """None where neither is a list of names or a number."""
    was, is_ = _elements(old), _elements(new)
    if was < is_:
        return "exclusions grown"
    both = number_of(old) is not None and number_of(new) is not None
    return "threshold moved" if both else None


def _always_true(body: Body) -> bool:
    returns = [n.value for n in _nodes(body) if isinstance(n, ast.Return)]
    return bool(returns) and all(value is not None and _is_true(value) for value in returns)


def _is_true(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=value):
            return bool(value)
        case ast.BoolOp(op=ast.Or(), values=values):
            return any(map(_is_true, values))
        case ast.BoolOp(op=ast.And(), values=values):
            return all(map(_is_true, values))
        case ast.UnaryOp(op=ast.Not(), operand=ast.Constant(value=value)):
            return not value
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            same = ast.dump(left) == ast.dump(right)
            return same and isinstance(op, ast.Eq | ast.Is | ast.LtE | ast.GtE)
    return False


def _nodes(body: Body) -> list[ast.AST]:
    return [node for part in body for node in ast.walk(part)]


def _count(body: Body, kind: type[ast.AST]) -> int:
    return sum(isinstance(node, kind) for node in _nodes(body))


def _calls(body: Body, name: str) -> int:
    return sum(isinstance(n, ast.Call) and called(n) == name for n in _nodes(body))


def _loosened(old: Body, new: Body) -> bool:
    """A comparison of the same two sides that takes in more."""
    was = _compared(old)
    return any(
        isinstance(a, x) and isinstance(b, y)
        for sides, ops in _compared(new).items()
        for a, b in zip(was.get(sides, []), ops, strict=False)
        for x, y in _LOOSER
    )


def _compared(body: Body) -> dict[frozenset[str], list[ast.cmpop]]:
    found: dict[frozenset[str], list[ast.cmpop]] = {}
    for node in _nodes(body):
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            sides = frozenset((ast.dump(node.left), ast.dump(node.comparators[0])))
            found.setdefault(sides, []).append(node.ops[0])
    return found


def _ways_out(body: Body) -> int:
    """Branches that return true early."""
    return sum(
        isinstance(n, ast.Return) and n.value is not None and _is_true(n.value)
        for n in _nodes(body)
    )


def _filters(body: Body) -> int:
    return sum(len(n.ifs) for n in _nodes(body) if isinstance(n, ast.comprehension))


def _without_numbers(body: Body) -> list[str]:
    plain = copy.deepcopy(list(body))
    for node in _nodes(plain):
        if number_of(node) is not None and isinstance(node, ast.Constant):
            node.value = 0
    return [ast.dump(one) for one in plain]


def _listed(body: Body) -> int:
    return sum(len(n.elts) for n in _nodes(body) if isinstance(n, ast.Set | ast.List | ast.Tuple))


def _elements(node: ast.expr) -> set[str]:
    if isinstance(node, ast.Call) and len(node.args) == 1:
        return _elements(node.args[0])
    if isinstance(node, ast.Set | ast.List | ast.Tuple):
        return {ast.unparse(one) for one in node.elts}
    if isinstance(node, ast.Dict):
        return {ast.unparse(one) for one in node.keys if one is not None}
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr | ast.Add):
        return _elements(node.left) | _elements(node.right)
    return set()
