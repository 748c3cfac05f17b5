"""The effects of all members, by their place in the order; what is missing, what disagrees."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from dstest.core.protocols import Effect, EffectLog

PROBLEMS_MAX: Final = 20


class Effects(msgspec.Struct, frozen=True, kw_only=True):
    """`order` are the effects by index, None for an entry that no client asked for. `by_node` are
    how many lines each member has. `torn` says why not everything is known: then an effect that is
    not there proves nothing. `damaged` are lines that nobody can read: another member may have
    their places. `apart` are (index, members) where two members applied different things at one
    place."""

    order: dict[int, Effect | None]
    by_node: dict[str, int]
    torn: list[str]
    damaged: list[str]
    apart: list[tuple[int, str, str]]

    @property
    def whole(self) -> bool:
        """Is every effect known, up to the last one?"""
        return not self.torn

    @property
    def applied(self) -> Iterator[Effect]:
        """Those that changed something or were answered, in their order."""
        return (e for _, e in sorted(self.order.items()) if e is not None and not e.again)


def effects_of(folder: Path, members: Iterable[str], log: EffectLog) -> Effects | None:
    """Read `folder/MEMBER/FILE` of each member; None where no member has one."""
    order: dict[int, Effect | None] = {}
    first: dict[int, str] = {}
    by_node: dict[str, int] = {}
    damaged: list[str] = []
    apart: list[tuple[int, str, str]] = []
    there = [name for name in members if (folder / name / log.file).is_file()]
    if not there:
        return None
    for name in there:
        count = 0
        for number, line in enumerate(_lines(folder / name / log.file), 1):
            try:
                index, effect = log.effect_of(json.loads(line))
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                damaged.append(f"{name}, line {number}: {type(error).__name__}: {error}")
                continue
            count += 1
            if index not in order:
                order[index], first[index] = effect, name
            elif _other(order[index], effect):
                apart.append((index, first[index], name))
        by_node[name] = count
    return Effects(
        order=order,
        by_node=by_node,
        torn=_gaps(order, log.first),
        damaged=damaged[:PROBLEMS_MAX],
        apart=apart,
    )


def _lines(path: Path) -> list[str]:
    """Whole lines: the last one of a member that was killed may be torn, and another member has
    it."""
    text = path.read_text(errors="replace")
    lines = text.split("\n")
    return [line for line in lines[:-1] if line.strip()]


def _other(a: Effect | None, b: Effect | None) -> bool:
    """Did two members do different things at one place? Who had read it from disk, or knew the
    request, may say that it was so."""
    if a is None or b is None:
        return (a is None) != (b is None)
    plain = {"replayed": False, "term": None}
    return msgspec.structs.replace(a, **plain) != msgspec.structs.replace(b, **plain)


def _gaps(order: dict[int, Effect | None], first: int) -> list[str]:
    """Places that no member speaks of, from the first one of all."""
    if not order:
        return ["no member has written an effect down"]
    last = max(order)
    missing = last - first + 1 - len(order)
    if not missing:
        return []
    at = next(index for index in range(first, last) if index not in order)
    return [f"{missing:,} places between {first} and {last} are in no file, the first is {at}"]
