"""A file of specifications taken apart: what stands at the top of it and in its classes, by name.

Every statement is in one place, so that what differs between two files differs in a place.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, get_args

import msgspec

from dstest.spec.declare import Kind
from dstest.spec.normal import bare, called, identifiers, normal, text_of

Sort = Literal["function", "constant", "class", "import", "statement"]

STATEMENTS = "other statements"


class Place(msgspec.Struct, frozen=True):
    """`name` is `word` or `Class.word`; `nodes` are all that bind it, in their order."""

    name: str
    sort: Sort
    nodes: tuple[ast.stmt, ...]

    @property
    def word(self) -> str:
        """As code says it."""
        return self.name.rpartition(".")[2]

    @property
    def owner(self) -> str:
        """The class, or nothing."""
        return self.name.rpartition(".")[0]

    @property
    def text(self) -> str:
        return "; ".join(text_of(one) for one in self.nodes)

    @property
    def form(self) -> str:
        """The same for two that do the same."""
        return "\n".join(ast.dump(normal(one)) for one in self.nodes)


class Stated(msgspec.Struct, frozen=True):
    """An invariant as it is written; `body` in its normal form."""

    id: str
    kind: str
    says: str
    place: Place
    body: tuple[ast.stmt, ...]
    text: str

    @property
    def form(self) -> str:
        return "\n".join(ast.dump(one) for one in self.body)


class File(msgspec.Struct, frozen=True):
    """`said` is how often each name is said; `order` the places of all statements."""

    places: Mapping[str, Place]
    stated: Mapping[tuple[str, str], Stated]
    said: Counter[str]
    order: tuple[str, ...]
    bases: Mapping[str, tuple[str, ...]]


def taken_apart(text: str) -> File:
    """Raises SyntaxError where it is no Python."""
    tree = ast.parse(text)
    named = list(_named(tree.body, ""))
    found: dict[str, Place] = {}
    for name, sort, node in named:
        before = found[name].nodes if name in found else ()
        found[name] = Place(name, sort, (*before, node))
    bases = {
        one.name: tuple(map(called, one.bases))
        for one in tree.body
        if isinstance(one, ast.ClassDef)
    }
    return File(
        found,
        _invariants(found.values()),
        Counter(identifiers([tree])),
        tuple(name for name, _, _ in named),
        bases,
    )


def _named(body: Iterable[ast.stmt], owner: str) -> Iterator[tuple[str, Sort, ast.stmt]]:
    inside = f"{owner}." if owner else ""
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield f"{inside}{name}", "function", node
            case ast.ClassDef(name=name) if not owner:
                yield name, "class", _header(node)
                yield from _named(node.body, name)
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield f"{inside}{name}", "constant", node
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.AugAssign(target=ast.Name(id=name)):
                yield f"{inside}{name}", "constant", node
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                for one in names:
                    alone = type(node)(**{**vars(node), "names": [one]})
                    name = one.asname or one.name.partition(".")[0]
                    yield f"{inside}{name}", "import", alone
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                continue
            case _:
                yield f"{inside}{STATEMENTS}", "statement", node


def _header(node: ast.ClassDef) -> ast.stmt:
    alone = copy.copy(node)
    alone.body = [ast.Pass()]
    return alone


def _invariants(places: Iterable[Place]) -> dict[tuple[str, str], Stated]:
    """Those that are ones for certain: methods bound once, with `invariant` alone above them, and
    words for what is said of them. An id that is there twice is none."""
    every = [one for place in places if (one := _stated(place)) is not None]
    keys = Counter((one.place.owner, one.id) for one in every)
    return {key: one for one in every if keys[key := (one.place.owner, one.id)] == 1}


def _stated(place: Place) -> Stated | None:
    if not place.owner or len(place.nodes) != 1 or not isinstance(place.nodes[0], ast.FunctionDef):
        return None
    node = place.nodes[0]
    if len(node.decorator_list) != 1 or node.args.defaults or node.args.kw_defaults:
        return None
    mark = node.decorator_list[0]
    if not isinstance(mark, ast.Call) or called(mark) != "invariant":
        return None
    given: dict[str | None, ast.expr] = dict(zip(("id", "text", "kind"), mark.args, strict=False))
    given.update({one.arg: one.value for one in mark.keywords})
    words = {name: one.value for name, one in given.items() if isinstance(one, ast.Constant)}
    kind = words.get("kind", "state") if "kind" in words or "kind" not in given else ""
    if set(given) - {"id", "text", "kind"} or not isinstance(words.get("id"), str):
        return None
    if not isinstance(words.get("text"), str) or kind not in get_args(Kind):
        return None
    plain = normal(node, parameters=True)
    assert isinstance(plain, ast.FunctionDef)
    around = [mark.func, plain.args, *filter(None, [plain.returns])]
    shape = ast.Expr(ast.Constant("".join(map(ast.dump, around))))
    text = "; ".join(map(text_of, bare(node)))
    return Stated(
        str(words["id"]), str(kind), str(words["text"]), place, (shape, *plain.body), text
    )
