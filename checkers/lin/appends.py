"""A map's strings that grow by appends, as registers.

A value that a get returned was put as it is, or is one that an append made longer. Where only one
append can have made it, that one did, and the value before it is told as well, and so on back to a
put or to nothing. Such an append is a cas from the value before to the one after. An operation took
effect once: an append that made one value told of made no other.

An append that can have made none of these values left one that nobody saw, nor a beginning of one
that somebody saw. So do all appends to that, until a put or a delete: such an append is the write
of a value that nobody sees.

A key where this leaves a choice, or with a cas beside its appends, is left to the search of
csrc/aut/.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from checkers._columns import NEVER
from checkers.lin.model import freeze
from dstest.core.op import Op

_LENGTHS_MAX: Final = 64
"""Of appended strings; more are left to the search."""


class _Unseen:
    """The value that an append left and nobody saw; each is equal to itself alone."""

    def __init__(self, op: Op) -> None:
        self._of = f"a value that ends with {op.input!r} (op {op.op_id})"

    def __repr__(self) -> str:
        return self._of


def _known(op: Op) -> bool:
    return not op.timeout_marker and op.complete_ts is not None


@dataclass(slots=True)
class Traced:
    """What is told of a key. `made`: by the place of an append, the value that it made. `after`: by
    a value that no get returned, the next one that it became. `short`: values, each with the places
    of all appends that can have made it; together fewer than there are values."""

    made: dict[int, str]
    after: dict[str, str]
    short: dict[str, list[int]] | None = None


class _Key:
    """The operations on one key that did not fail."""

    def __init__(self) -> None:
        self.puts: set[str | None] = set()
        self.appends: dict[str, list[int]] = {}
        self.invoked: dict[int, int] = {}
        self.seen: dict[str, int] = {}
        """By a value that gets returned: when the first of them completed."""
        self.filled = NEVER
        """When the first put or append completed: then the key is not empty any more."""
        self.plain = True

    def add(self, place: int, op: Op) -> None:
        """Takes an operation in; where it does not fit, the key is not `plain`."""
        end = op.complete_ts if op.complete_ts is not None and _known(op) else NEVER
        value = {"get": op.output if _known(op) else None, "delete": None}.get(op.op_type, op.input)
        fits = value is None or (isinstance(value, str) and value != "")
        if op.op_type == "get":
            if isinstance(value, str):
                self.seen[value] = min(end, self.seen.get(value, NEVER))
        elif op.op_type == "append":
            fits = fits and value is not None
            self.appends.setdefault(value if isinstance(value, str) else "", []).append(place)
            self.invoked[place] = op.invoke_ts
        elif op.op_type in ("put", "delete"):
            self.puts.add(value if fits else None)
        else:
            fits = False
        if op.op_type != "get":
            self.filled = min(self.filled, end)
        self.plain = self.plain and fits

    def trace(self) -> Traced | None:
        """None where a choice is left, or where what is here does not fit."""
        if not self.plain or len({len(piece) for piece in self.appends}) > _LENGTHS_MAX:
            return None
        return _Trace(self).run()


class _Trace:
    def __init__(self, key: _Key) -> None:
        self.key = key
        self.size = {p: len(piece) for piece, places in key.appends.items() for p in places}
        self.lengths = sorted(set(self.size.values()))
        self.by = dict(key.seen)
        self.makers: dict[str, list[int]] = {}
        self.agenda = sorted(key.seen)
        self.traced = Traced({}, {})

    def _makers(self, value: str) -> list[int]:
        """Appends that may have made a value, from what it looks like; of nothing only while
        nothing was there, unless that leaves none."""
        found: list[int] = []
        for length in self.lengths:
            if length > len(value):
                break
            found += self.key.appends.get(value[-length:], ())
        if None in self.key.puts:
            return found
        invoked, filled = self.key.invoked, self.key.filled
        return [p for p in found if self.size[p] < len(value) or invoked[p] <= filled] or found

    def _settle(self, value: str) -> bool:
        """Finds out who made a value; False where that is not certain, or nothing new."""
        made, key = self.traced.made, self.key
        free = [p for p in self.makers[value] if made.get(p, value) == value]
        if value in key.puts or not free:
            return False
        soon = [p for p in free if key.invoked[p] <= self.by[value]]
        if len(free) > 1 and len(soon) == 1:
            free = soon
        if len(free) > 1 or free[0] in made:
            return False
        made[free[0]] = value
        return True

    def run(self) -> Traced | None:
        """Follows all values told of back, as long as there is anything new."""
        made, new = self.traced.made, True
        while new:
            new = False
            for value in self.agenda:
                if value not in self.makers:
                    self.makers[value] = self._makers(value)
                if not self._settle(value):
                    continue
                new = True
                place = next(p for p in self.makers[value] if made.get(p) == value)
                before = value[: -self.size[place]]
                if before and before not in self.by:
                    self.traced.after[before] = value
                    self.agenda.append(before)
                if before:
                    self.by[before] = min(self.by[value], self.by.get(before, NEVER))
        told = set(made.values())
        for value in self.agenda:
            if any(p not in made for p in self.makers[value]):
                return None
            if self.makers[value] and value not in told and value not in self.key.puts:
                self.traced.short = self._short(value)
        return self.traced

    def _short(self, value: str) -> dict[str, list[int]]:
        """The values that are too many for the appends that can have made one of them."""
        short: dict[str, list[int]] = {}
        agenda = [value]
        for one in agenda:
            short[one] = self.makers[one]
            others = {self.traced.made[p] for p in short[one]}
            agenda += sorted(others - set(agenda))
        return short


def _as_register(op: Op, made: str | None) -> Op:
    if op.op_type == "get":
        return replace(op, op_type="read", input=None)
    if op.op_type == "append" and made is not None:
        before = made[: -len(op.input)] or None
        succeeded = True if _known(op) and op.error is None else None
        return replace(op, op_type="cas", input=[before, made], output=succeeded)
    value = {"put": op.input, "delete": None}.get(op.op_type, _Unseen(op))
    return replace(op, op_type="write", input=value, output=None)


def trace(ops: Sequence[Op]) -> list[Traced | None]:
    """What is known of the key of each operation; None where it is no register in other words."""
    keys: dict[Any, _Key] = {}
    of: list[_Key] = []
    for place, op in enumerate(ops):
        name = op.key if type(op.key) is str else freeze(op.key)
        key = keys.get(name)
        if key is None:
            key = keys[name] = _Key()
        of.append(key)
        if not _known(op) or op.error is None:
            key.add(place, op)
    traced = {id(key): key.trace() for key in keys.values()}
    return [traced[id(key)] for key in of]


def as_registers(
    ops: Sequence[Op], traced: Sequence[Traced], places: Sequence[int] | None = None
) -> list[Op]:
    """The same operations of registers. `places`: where they are in what was traced."""
    return [
        _as_register(op, known.made.get(place))
        for op, known, place in zip(ops, traced, places or range(len(ops)), strict=True)
    ]
