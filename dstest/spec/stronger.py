"""Does one predicate follow from another, as far as a few rules of logic tell? And the most telling
word for what a change of a predicate, or of a constant, looks like.

`e < x` gives `e <= x`, `e <= 2` gives `e <= 3`, `a and b` gives `a`, `a` gives `a or b`, and each
of these inside of `not` the other way round. What calls something unknown gives nothing: a call may
do more than answer.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import Final, Literal

from dstest.spec.sources import callee_name

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
    return sum(isinstance(n, ast.Call) and callee_name(n) == name for n in _nodes(body))


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
