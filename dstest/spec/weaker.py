"""Were invariants or requirements made weaker between two versions of a file?

Two texts of Python are compared as syntax trees, so that a rename of local names, a new order or
another layout is no change. What is compared are the invariants (by id), the guards of actions, and
constants that excuse something: sets and tuples of names, thresholds. What is flagged is not wrong
for sure: it wants somebody's word, in a waiver that quotes the requirement and names who approved.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from typing import Final, Literal

import msgspec

__all__ = ["Weakening", "weakenings"]

How = Literal[
    "removed",
    "renamed",
    "always true",
    "all became any",
    "comparison loosened",
    "threshold moved",
    "new or",
    "narrowed",
    "exclusions grown",
    "guard added",
    "kind weakened",
    "cannot be compared",
]

_LOOSER: Final = {
    (ast.Lt, ast.LtE),
    (ast.Gt, ast.GtE),
    (ast.Eq, ast.LtE),
    (ast.Eq, ast.GtE),
    (ast.Eq, ast.In),
    (ast.NotEq, ast.LtE),
    (ast.Is, ast.IsNot),
}

_STRENGTH: Final = {"state": 3, "action": 3, "liveness": 2, "sometimes": 1}


class Weakening(msgspec.Struct, frozen=True, kw_only=True):
    """`id` is that of an invariant, the name of a constant, or `action.guard`."""

    id: str
    how: How
    before: str
    after: str


class _Stated(msgspec.Struct, frozen=True):
    id: str
    kind: str
    text: str
    body: list[ast.stmt]


def weakenings(before: str, after: str) -> list[Weakening]:
    """Of two texts of one file. Raises SyntaxError where one is no Python."""
    old, new = ast.parse(before), ast.parse(after)
    return [*_invariants(old, new), *_guards(old, new), *_constants(old, new)]


def _stated(tree: ast.Module) -> dict[str, _Stated]:
    found = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef):
            continue
        for one in node.decorator_list:
            if _called(one) == "invariant" and isinstance(one, ast.Call):
                values = [*one.args, *(keyword.value for keyword in one.keywords)]
                words = [str(w.value) for w in values if isinstance(w, ast.Constant)]
                if words:
                    kind = next((w for w in words[1:] if w in _STRENGTH), "state")
                    found[words[0]] = _Stated(words[0], kind, _text(_bare(node)), _body(node))
    return found


def _called(node: ast.expr) -> str:
    function = node.func if isinstance(node, ast.Call) else node
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _body(node: ast.FunctionDef) -> list[ast.stmt]:
    """Without its docstring, its local names by their order."""
    body = copy.deepcopy(_bare(node))
    names = [arg.arg for arg in node.args.args]
    for part in body:
        names += [n.id for n in ast.walk(part) if isinstance(n, ast.Name) and _stored(n)]
    return _renamed(body, list(dict.fromkeys(names)))


def _bare(node: ast.FunctionDef) -> list[ast.stmt]:
    first = node.body[0]
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return node.body[1:] if is_text else node.body


def _stored(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _renamed(body: list[ast.stmt], names: list[str]) -> list[ast.stmt]:
    new = {name: f"_{number}" for number, name in enumerate(names)}
    for part in body:
        for node in ast.walk(part):
            if isinstance(node, ast.Name) and node.id in new:
                node.id = new[node.id]
            elif isinstance(node, ast.arg) and node.arg in new:
                node.arg = new[node.arg]
    return body


def _text(body: list[ast.stmt]) -> str:
    return "; ".join(" ".join(ast.unparse(one).split()) for one in body)


def _invariants(old: ast.Module, new: ast.Module) -> Iterator[Weakening]:
    was, is_ = _stated(old), _stated(new)
    fresh = {_text(one.body): one.id for one in is_.values() if one.id not in was}
    for id_, one in was.items():
        if id_ not in is_:
            new_id = fresh.get(_text(one.body), "")
            how: How = "renamed" if new_id else "removed"
            yield Weakening(id=id_, how=how, before=one.text, after=new_id)
            continue
        now = is_[id_]
        if _STRENGTH[now.kind] < _STRENGTH[one.kind]:
            yield Weakening(id=id_, how="kind weakened", before=one.kind, after=now.kind)
        for how in _weaker(one.body, now.body):
            yield Weakening(id=id_, how=how, before=one.text, after=now.text)


def _weaker(old: list[ast.stmt], new: list[ast.stmt]) -> list[How]:
    if _text(old) == _text(new):
        return []
    if _always_true(new):
        return ["always true"]
    found: list[How] = []
    if _count_calls(new, "any") > _count_calls(old, "any") and _count_calls(
        new, "all"
    ) < _count_calls(old, "all"):
        found.append("all became any")
    if _loosened(old, new):
        found.append("comparison loosened")
    if _count(new, ast.Or) > _count(old, ast.Or):
        found.append("new or")
    if _ways_out(new) > _ways_out(old) or _filters(new) > _filters(old):
        found.append("narrowed")
    if _numbers(old) != _numbers(new) and _without_numbers(old) == _without_numbers(new):
        found.append("threshold moved")
    if _named_in(new) > _named_in(old):
        found.append("exclusions grown")
    return found or ["cannot be compared"]


def _always_true(body: list[ast.stmt]) -> bool:
    returns = [n.value for part in body for n in ast.walk(part) if isinstance(n, ast.Return)]
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


def _nodes(body: list[ast.stmt]) -> list[ast.AST]:
    return [node for part in body for node in ast.walk(part)]


def _count(body: list[ast.stmt], kind: type[ast.AST]) -> int:
    return sum(isinstance(node, kind) for node in _nodes(body))


def _count_calls(body: list[ast.stmt], name: str) -> int:
    return sum(isinstance(n, ast.Call) and _called(n) == name for n in _nodes(body))


def _loosened(old: list[ast.stmt], new: list[ast.stmt]) -> bool:
    """A comparison of the same two sides that takes in more."""
    was = _compared(old)
    for sides, ops in _compared(new).items():
        for a, b in zip(was.get(sides, []), ops, strict=False):
            if any(isinstance(a, x) and isinstance(b, y) for x, y in _LOOSER):
                return True
    return False


def _compared(body: list[ast.stmt]) -> dict[tuple[str, str], list[ast.cmpop]]:
    found: dict[tuple[str, str], list[ast.cmpop]] = {}
    for node in _nodes(body):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            for op, left, right in zip(node.ops, sides, sides[1:], strict=False):
                found.setdefault((ast.unparse(left), ast.unparse(right)), []).append(op)
    return found


def _ways_out(body: list[ast.stmt]) -> int:
    """Branches that return true early."""
    return sum(
        isinstance(n, ast.Return) and n.value is not None and _is_true(n.value)
        for n in _nodes(body)
    )


def _filters(body: list[ast.stmt]) -> int:
    return sum(len(n.ifs) for n in _nodes(body) if isinstance(n, ast.comprehension))


def _numbers(body: list[ast.stmt]) -> list[float]:
    return [n.value for n in _nodes(body) if _is_number(n)]  # type: ignore[attr-defined]


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _without_numbers(body: list[ast.stmt]) -> str:
    plain = copy.deepcopy(body)
    for node in _nodes(plain):
        if _is_number(node):
            node.value = 0  # type: ignore[attr-defined]
    return _text(plain)


def _named_in(body: list[ast.stmt]) -> int:
    return sum(len(n.elts) for n in _nodes(body) if isinstance(n, ast.Set | ast.List | ast.Tuple))


def _guards(old: ast.Module, new: ast.Module) -> Iterator[Weakening]:
    """A guard that is new or says more lets the model do less: its invariants are asked of fewer
    states. One that has gone is no weakening of what is stated."""
    was, is_ = _guards_of(old), _guards_of(new)
    for name, text in is_.items():
        if name.partition(".")[0] in {n.partition(".")[0] for n in was} and name not in was:
            yield Weakening(id=name, how="guard added", before="", after=text)


def _guards_of(tree: ast.Module) -> dict[str, str]:
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            for one in node.decorator_list:
                if _called(one) == "when" and isinstance(one, ast.Call) and len(one.args) == 2:
                    name, holds = one.args
                    label = str(name.value) if isinstance(name, ast.Constant) else ""
                    found[f"{node.name}.{label}"] = ast.unparse(holds)
    if found:
        return found
    return {}


def _constants(old: ast.Module, new: ast.Module) -> Iterator[Weakening]:
    was, is_ = _assigned(old), _assigned(new)
    for name, value in was.items():
        now = is_.get(name)
        if now is None:
            continue
        grown = _elements(now) - _elements(value)
        if grown and not _elements(value) - _elements(now):
            added = ", ".join(sorted(grown))
            yield Weakening(id=name, how="exclusions grown", before=ast.unparse(value), after=added)
        if _is_number(value) and _is_number(now) and ast.dump(value) != ast.dump(now):
            yield Weakening(
                id=name, how="threshold moved", before=ast.unparse(value), after=ast.unparse(now)
            )


def _assigned(tree: ast.Module) -> dict[str, ast.expr]:
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            found[node.target.id] = node.value
    return found


def _elements(node: ast.expr) -> set[str]:
    if isinstance(node, ast.Call) and len(node.args) == 1:
        return _elements(node.args[0])
    if isinstance(node, ast.Set | ast.List | ast.Tuple):
        return {ast.unparse(one) for one in node.elts}
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr | ast.Add):
        return _elements(node.left) | _elements(node.right)
    return set()
