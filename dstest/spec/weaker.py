"""Were invariants made weaker between two versions of a file?

The versions are compared as syntax, and none is executed: the old one may not run. All that differs
in code is flagged, but for what follows from a few rules: another layout or local name, an
invariant that is new or stronger, a name that nothing old could mean. So what is flagged is not
wrong for sure: it wants somebody's word, in a waiver. What a file imports is not looked at.
"""

from __future__ import annotations

import builtins
import hashlib
from collections.abc import Iterator
from typing import Final

import msgspec

from dstest.spec.acted import action_changes
from dstest.spec.additions import is_harmless
from dstest.spec.normal import identifiers, normal
from dstest.spec.places import File, Place, Stated, taken_apart
from dstest.spec.stronger import pure, stronger
from dstest.spec.telling import How, of_constant, of_predicate
from dstest.spec.tightened import assigned, grown, limits, with_values

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


class Compared(msgspec.Struct, frozen=True):
    """`invariants` is how many there are, in one of the two versions or both."""

    invariants: int
    found: tuple[Weakening, ...]


def compare(before: str, after: str) -> Compared:
    """Two texts of one file. Raises SyntaxError where one is no Python."""
    old, new = taken_apart(before), taken_apart(after)
    found = [*_invariants(old, new), *_surroundings(old, new), *_order(old, new)]
    return Compared(len({*old.stated, *new.stated}), tuple(found))


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


def _gone(was: Stated, old: File, new: File) -> Weakening:
    for (owner, id_), now in new.stated.items():
        if owner == was.place.owner and (owner, id_) not in old.stated and now.form == was.form:
            return _flag(was.id, "renamed", was.text, id_, (now.kind, now.says))
    return _flag(was.id, "removed", was.text, "", (was.form,))


def _is_stronger(
    was: Stated, now: Stated, old: File, new: File, values: tuple[dict[str, float], ...]
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


def _changed(before: Place, after: Place, old: File, new: File) -> Iterator[Weakening]:
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


def _reaching(place: Place, file: File) -> tuple[str, ...]:
    """The invariants that say its name, or say something that does."""
    by_word: dict[str, list[Place]] = {}
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
