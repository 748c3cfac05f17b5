"""Were invariants made weaker between two versions of a file?

The versions are compared as syntax, and none is executed: the old one may not run. All that differs
in code is flagged, but for what follows from a few rules: another layout or local name, an
invariant that is new or stronger, a limit that invariants alone compare with, a domain that gets
more values, guards and updates that allow no less, a name that nothing old could mean. So what is
flagged is not wrong for sure: it wants somebody's word, in a waiver. What a file imports is not
looked at.
"""

from __future__ import annotations

import ast
import builtins
import copy
import hashlib
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from dstest.spec.compose import System
from dstest.spec.sources import (
    Binding,
    File,
    InvariantSource,
    callee_name,
    identifiers,
    normal,
    taken_apart,
    text_of,
)
from dstest.spec.stronger import (
    How,
    keeps_all,
    number_of,
    of_constant,
    of_predicate,
    pure,
    stronger,
)


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


def _is_read(place: Binding, body: Sequence[ast.stmt], owner: str) -> bool:
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


def assigned(place: Binding) -> ast.expr | None:
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
                if isinstance(one, ast.Call) and callee_name(one) == "action":
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


Change = tuple[str, How, str, str]
"""Id, how, before, after."""


class _Action(msgspec.Struct, frozen=True):
    """`guards` in their order."""

    domains: dict[str, ast.expr]
    guards: dict[str, ast.expr]
    update: str


def action_changes(before: Binding, after: Binding, old: File) -> list[Change] | None:
    """None where one of them is no action that can be taken apart."""
    was, is_ = _action(before), _action(after)
    if was is None or is_ is None:
        return None
    found = [*_guards(before.name, was, is_), *_changed_domains(before.name, was, is_, old)]
    if was.update != is_.update:
        found.append((before.name, "model changed", before.text, after.text))
    if not found and list(was.guards) != list(is_.guards):
        orders = ", ".join(was.guards), ", ".join(is_.guards)
        found.append((f"{before.name}: order of guards", "model changed", *orders))
    return found


def _action(place: Binding) -> _Action | None:
    node = place.nodes[0]
    if len(place.nodes) != 1 or not isinstance(node, ast.FunctionDef) or not node.decorator_list:
        return None
    plain = normal(node)
    assert isinstance(plain, ast.FunctionDef)
    first, *rest = plain.decorator_list
    if not isinstance(first, ast.Call) or callee_name(first) != "action" or first.args:
        return None
    guards: dict[str, ast.expr] = {}
    for one in rest:
        match one:
            case ast.Call(func=ast.Name(id="when"), args=[ast.Constant(value=str(name)), holds]):
                if name in guards or one.keywords:
                    return None
                guards[name] = holds
            case _:
                return None
    domains = {one.arg or "**": one.value for one in first.keywords}
    plain.decorator_list = [first.func]
    return _Action(domains, guards, ast.dump(plain))


def _guards(name: str, was: _Action, is_: _Action) -> Iterator[Change]:
    for guard in dict.fromkeys((*was.guards, *is_.guards)):
        before, after = was.guards.get(guard), is_.guards.get(guard)
        texts = _text(before), _text(after)
        if before is None:
            yield f"{name}.{guard}", "guard added", *texts
        elif after is None or ast.dump(before) != ast.dump(after):
            yield f"{name}.{guard}", "model changed", *texts


def _changed_domains(name: str, was: _Action, is_: _Action, old: File) -> Iterator[Change]:
    for one in dict.fromkeys((*was.domains, *is_.domains)):
        before, after = was.domains.get(one), is_.domains.get(one)
        if before is not None and after is not None:
            if ast.dump(before) == ast.dump(after):
                continue
            if one != "weight" and more_values(before, after) and may_grow(old):
                continue
        yield f"{name}({one})", "model changed", _text(before), _text(after)


def _text(node: ast.expr | None) -> str:
    return "" if node is None else text_of(node)


_LOOKS: Final = frozenset(
    {
        "__dict__", "__getattr__", "__getattribute__", "__init_subclass__", "delattr",
        "dir", "eval", "exec", "getattr", "globals", "hasattr", "inspect", "locals",
        "setattr", "sys", "vars",
    }
)  # fmt: skip
"""With one of these code may mean a name that it does not say."""

_ROOTS: Final = {"Spec", "System"}


def is_harmless(place: Binding, old: File, new: File) -> bool:
    """Nothing old says the name, and to bind it does nothing else."""
    word = place.word
    looks = any(file.said[one] for file in (old, new) for one in _LOOKS)
    taken = word.startswith("__") or word in dir(builtins) or hasattr(System, word)
    if (
        place.sort == "statement"
        or looks
        or taken
        or word in ("*", "state")
        or old.said[word]
        or len(place.nodes) != 1
    ):
        return False
    if place.owner and not _is_known(place.owner, old):
        return False
    node = place.nodes[0]
    own = frozenset(one.word for one in new.places.values())
    match node:
        case ast.FunctionDef():
            keys = [k for k, one in new.stated.items() if one.place.name == place.name]
            defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
            plain = (keys or not node.decorator_list) and not defaults and not _annotated(node)
            compared = any(key in old.stated for key in keys)
            return bool(plain) and (compared or keeps_all(node, _defined(old, new)))
        case ast.Assign(value=value):
            return _takes_constants(place, old) and pure(value, own)
        case ast.AnnAssign(value=ast.expr() as value, annotation=annotation):
            both = pure(value, own) and pure(annotation, own)
            return _takes_constants(place, old) and both
        case ast.Import(names=[one]):
            return one.name.partition(".")[0] in sys.stdlib_module_names
        case ast.ImportFrom(module=str(module), level=0):
            return module.partition(".")[0] in sys.stdlib_module_names
    return False


def _defined(old: File, new: File) -> frozenset[str]:
    """Functions and classes of the file, and what it imported before."""
    return frozenset(
        one.word
        for file in (old, new)
        for one in file.places.values()
        if one.sort in ("function", "class") or (one.sort == "import" and file is old)
    )


def _annotated(node: ast.FunctionDef) -> bool:
    """With code that is executed."""
    given = [one.annotation for one in ast.walk(node.args) if isinstance(one, ast.arg)]
    return any(
        isinstance(part, ast.Call | ast.NamedExpr)
        for one in (*given, node.returns)
        if one is not None
        for part in ast.walk(one)
    )


def _is_known(owner: str, file: File) -> bool:
    """A class all of whose bases are in the file, or ours: nothing that is inherited is hidden."""
    seen, todo = set[str](), [owner]
    while todo:
        name = todo.pop()
        if name in file.bases:
            if name not in seen:
                todo += file.bases[name]
            seen.add(name)
        elif not _is_ours(name, file):
            return False
    return owner in file.bases


def _is_ours(name: str, file: File) -> bool:
    if name == "object":
        return True
    if name not in _ROOTS or "*" in file.places:
        return False
    node = file.places[name].nodes[-1] if name in file.places else None
    return node is None or (
        isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dstest.spec")
    )


def _takes_constants(place: Binding, file: File) -> bool:
    """At the top of the file, or in a specification: in another class it is a field."""
    return not place.owner or any(one.place.owner == place.owner for one in file.stated.values())


_RANK: Final = {"sometimes": 1, "liveness": 2, "state": 3}


class Weakening(msgspec.Struct, frozen=True, kw_only=True):
    """`id` is that of an invariant, or names a place of the code (`Class.method`, a constant);
    `reaches` are the invariants that depend on it. `change` is a digest of before and after."""

    id: str
    how: How
    before: str
    after: str
    reaches: tuple[str, ...] = ()
    change: str


class Comparison(msgspec.Struct, frozen=True):
    """`invariants` is how many there are, in one of the two versions or both."""

    invariants: int
    found: tuple[Weakening, ...]


def compare(before: str, after: str) -> Comparison:
    """Two texts of one file. Raises SyntaxError where one is no Python."""
    old, new = taken_apart(before), taken_apart(after)
    found = [*_invariants(old, new), *_surroundings(old, new), *_order(old, new)]
    return Comparison(len({*old.stated, *new.stated}), tuple(found))


def weakenings(before: str, after: str) -> list[Weakening]:
    """As `compare` finds them."""
    return list(compare(before, after).found)


def _flag(
    id: str,
    how: How,
    before: str,
    after: str,
    forms: tuple[str, ...] = (),
    of: tuple[str, ...] = (),
) -> Weakening:
    whole = "\0".join((id, how, before, after, *forms)).encode()
    change = hashlib.sha256(whole).hexdigest()[:12]
    return Weakening(id=id, how=how, before=before, after=after, reaches=of, change=change)


def _invariants(old: File, new: File) -> Iterator[Weakening]:
    values = (limits(old), limits(new))
    for key, was in old.stated.items():
        now = new.stated.get(key)
        if now is None:
            yield _gone(was, old, new)
            continue
        forms = (was.form, now.form)
        if was.kind != now.kind and _RANK.get(was.kind, 4) >= _RANK.get(now.kind, 0):
            yield _flag(was.id, "kind weakened", was.kind, now.kind, forms)
        if was.says != now.says:
            yield _flag(was.id, "text changed", was.says, now.says)
        if was.form != now.form and not _is_stronger(was, now, old, new, values):
            how = of_predicate(was.body[1:], now.body[1:])
            yield _flag(was.id, how, was.text, now.text, forms)


def _gone(was: InvariantSource, old: File, new: File) -> Weakening:
    for (owner, id_), now in new.stated.items():
        if owner == was.place.owner and (owner, id_) not in old.stated and now.form == was.form:
            return _flag(was.id, "renamed", was.text, id_, (now.kind, now.says))
    return _flag(was.id, "removed", was.text, "", (was.form,))


def _is_stronger(
    was: InvariantSource,
    now: InvariantSource,
    old: File,
    new: File,
    values: tuple[dict[str, float], ...],
) -> bool:
    """Where nothing but the search asks it: for others, more that is false may be less that is
    asked."""
    alone = old.said[was.place.word] == 1 and new.said[now.place.word] == 1
    own = frozenset(place.word for file in (old, new) for place in file.places.values())
    before, after = (
        with_values(one.body, one.place.owner, known)
        for one, known in zip((was, now), values, strict=True)
    )
    return alone and stronger(after, before, own)


def _surroundings(old: File, new: File) -> Iterator[Weakening]:
    was = {one.place.name: key for key, one in old.stated.items()}
    is_ = {one.place.name for one in new.stated.values()}
    harmless = _tightened(old, new) | grown(old, new)
    for name in dict.fromkeys((*old.places, *new.places)):
        before, after = old.places.get(name), new.places.get(name)
        if before is None and after is not None:
            if not is_harmless(after, old, new):
                yield _flag(name, "model changed", "", after.text, (), _reaching(after, new))
        elif before is not None and after is None:
            if name not in was or (was[name] in new.stated and old.said[before.word] > 1):
                yield _flag(name, "model changed", before.text, "", (), _reaching(before, old))
        elif before is not None and after is not None:
            handled = name in was and (name in is_ or was[name] not in new.stated)
            if not handled and before.form != after.form and name not in harmless:
                yield from _changed(before, after, old, new)


def _changed(before: Binding, after: Binding, old: File, new: File) -> Iterator[Weakening]:
    parts = action_changes(before, after, old)
    if parts is not None:
        yield from (_flag(*one) for one in parts)
        return
    of = tuple(dict.fromkeys((*_reaching(before, old), *_reaching(after, new))))
    how: How | None = None
    values = [assigned(before), assigned(after)]
    if values[0] is not None and values[1] is not None:
        how = of_constant(values[0], values[1])
    elif of and before.sort == after.sort == "function":
        how = of_predicate([*map(normal, before.nodes)], [*map(normal, after.nodes)])
    rest: How = "changed" if of else "model changed"
    yield _flag(before.name, how or rest, before.text, after.text, (before.form, after.form), of)


def _reaching(place: Binding, file: File) -> tuple[str, ...]:
    """The invariants that say its name, or say something that does."""
    by_word: dict[str, list[Binding]] = {}
    for one in file.places.values():
        by_word.setdefault(one.word, []).append(one)
    found = []
    for stated in file.stated.values():
        seen, todo = set[str](), set(identifiers(stated.body))
        while todo:
            word = todo.pop()
            seen.add(word)
            for each in by_word.get(word, ()):
                todo |= set(identifiers(each.nodes)) - seen
        if place.word in seen:
            found.append(stated.id)
    return tuple(dict.fromkeys(found))


def _tightened(old: File, new: File) -> set[str]:
    """Limits that invariants alone name, each of which became stronger."""
    values = was, is_ = limits(old), limits(new)
    found = set()
    for name in was:
        if name in is_:
            word = old.places[name].word
            asked = [k for k, one in old.stated.items() if word in identifiers(one.body)]
            if all(
                key in new.stated
                and _is_stronger(old.stated[key], new.stated[key], old, new, values)
                for key in asked
            ):
                found.add(name)
    return found


def _order(old: File, new: File) -> Iterator[Weakening]:
    """Matters where a name is bound twice, or where something is done rather than defined."""
    apart = {one.place.name for file in (old, new) for one in file.stated.values()}
    common = (set(old.places) & set(new.places)) - apart
    orders = [[name for name in file.order if name in common] for file in (old, new)]
    if orders[0] != orders[1] and (_is_tangled(old) or _is_tangled(new)):
        before, after = (", ".join(one) for one in orders)
        yield _flag("order of statements", "model changed", before, after)


def _is_tangled(file: File) -> bool:
    outer = {one.word for one in file.places.values() if not one.owner}
    inner = {one.word for one in file.places.values() if one.owner}
    words = frozenset(outer | inner)
    values = [assigned(one) for one in file.places.values() if one.sort == "constant"]
    acts = any(one is not None and not pure(one, words) for one in values)
    several = any(len(one.nodes) > 1 or one.sort == "statement" for one in file.places.values())
    return several or acts or bool(outer & inner) or bool((outer | inner) & set(dir(builtins)))
