"""Constants whose change makes no invariant weaker: limits that invariants alone compare with, and
domains that get more values."""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator, Sequence

from dstest.spec.normal import called, identifiers
from dstest.spec.places import File, Place
from dstest.spec.stronger import number_of


def limits(file: File) -> dict[str, float]:
    """Place -> value of numbers that are bound once, and named by invariants alone, as `LIMIT` or
    `self.limit`."""
    asked = Counter(
        word for one in file.stated.values() for word in identifiers([one.place.nodes[0]])
    )
    found = {}
    for place in file.places.values():
        value = assigned(place)
        number = None if value is None else number_of(value)
        times = asked[place.word]
        if number is None or not times or file.said[place.word] != times + 1:
            continue
        if all(_is_read(place, one.body, one.place.owner) for one in file.stated.values()):
            found[place.name] = number
    return found


def _is_read(place: Place, body: Sequence[ast.stmt], owner: str) -> bool:
    """Or not named at all: no other name is the same word, and it is never bound."""
    known = {place.name: 0.0}
    return place.word not in identifiers(with_values(body, owner, known))


def with_values(
    body: Sequence[ast.stmt], owner: str, known: dict[str, float]
) -> tuple[ast.stmt, ...]:
    """A body in normal form, of a method of `owner`, with the numbers for the names."""
    inner = [node for part in body for node in ast.walk(part)]
    if any(isinstance(n, ast.Name) and n.id == "%0" and _is_bound(n) for n in inner):
        return tuple(body)
    return tuple(_Valued(owner, known).visit(copy.deepcopy(one)) for one in body)


def _is_bound(node: ast.Name) -> bool:
    return not isinstance(node.ctx, ast.Load)


class _Valued(ast.NodeTransformer):
    def __init__(self, owner: str, known: dict[str, float]) -> None:
        self.owner = owner
        self.known = known

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self._value(node, node.id)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        is_self = isinstance(node.value, ast.Name) and node.value.id == "%0"
        return self._value(node, f"{self.owner}.{node.attr}") if is_self else node

    def _value(self, node: ast.Name | ast.Attribute, name: str) -> ast.AST:
        if name not in self.known or not isinstance(node.ctx, ast.Load):
            return node
        value = self.known[name]
        plain = ast.Constant(abs(value))
        return ast.UnaryOp(ast.USub(), plain) if value < 0 else plain


def assigned(place: Place) -> ast.expr | None:
    """The value of a name that is bound once, by `=`."""
    node = place.nodes[0]
    if len(place.nodes) == 1 and isinstance(node, ast.Assign | ast.AnnAssign):
        return node.value
    return None


def grown(old: File, new: File) -> set[str]:
    """Constants that are domains of actions and nothing else, and got more values."""
    found = set()
    for name, place in old.places.items():
        before = assigned(place)
        after = assigned(new.places[name]) if name in new.places else None
        if before is None or after is None or not more_values(before, after):
            continue
        if may_grow(old) and all(_is_domain_only(place.word, file) for file in (old, new)):
            found.add(name)
    return found


def _is_domain_only(word: str, file: File) -> bool:
    times = sum(one == word for one in _domains(file))
    return times > 0 and file.said[word] == times + 1


def _domains(file: File) -> Iterator[str]:
    """The names that are domains as they stand: `x=NAME`, `x=lambda self: self.name`."""
    for place in file.places.values():
        for node in place.nodes:
            for one in getattr(node, "decorator_list", ()):
                if isinstance(one, ast.Call) and called(one) == "action":
                    for keyword in one.keywords:
                        yield _named(keyword.value)


def _named(value: ast.expr) -> str:
    match value:
        case ast.Name(id=name):
            return name
        case ast.Lambda(
            args=ast.arguments(args=[ast.arg(arg="self")]),
            body=ast.Attribute(value=ast.Name(id="self"), attr=name),
        ):
            return name
    return ""


def may_grow(file: File) -> bool:
    """More steps can make true what asks for one that there is, and accept more records."""
    kinds = {one.kind for one in file.stated.values()}
    return bool(kinds) and kinds <= {"state", "action"} and not file.said["maps"]


def more_values(before: ast.expr, after: ast.expr) -> bool:
    """Written out, all that were there and others."""
    values = (ast.Tuple, ast.List, ast.Set)
    if not isinstance(before, values) or type(before) is not type(after):
        return False
    sides = [
        {ast.dump(one) for one in side.elts if _is_plain(one)}
        for side in (before, after)
        if isinstance(side, values) and all(map(_is_plain, side.elts))
    ]
    return len(sides) == 2 and sides[0] < sides[1]


def _is_plain(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) or number_of(node) is not None
