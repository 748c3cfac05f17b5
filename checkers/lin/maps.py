"""Maps with appends: keys that are registers in other words as those, the others by the search of
csrc/aut/.

A value that a get returned was put as it is, or is one that an append made longer. Where only one
append can have made it, that one did, and the value before it is told as well, and so on back to a
put or to nothing. Such an append is a cas from the value before to the one after. An operation took
effect once: an append that made one value told of made no other.

An append that can have made none of these values left one that nobody saw, nor a beginning of one
that somebody saw. So do all appends to that, until a put or a delete: such an append is the write
of a value that nobody sees. A key where this leaves a choice, or with a cas beside its appends, is
left to the search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from checkers import _witness
from checkers.columns import I64, ILLEGAL, NEVER, Limits, encode
from checkers.lin import objects, registers
from checkers.lin.model import ANOMALIES_MAX, KvMap, freeze
from checkers.lin.search import Judgement, anomaly_of, merge, search
from checkers.lin.search import encode as encode_calls
from checkers.lin.tables import WORDS
from checkers.lin.witness import Witness, explain
from dstest.core.check import Anomaly, Budget
from dstest.core.clock import monotonic_ns
from dstest.core.history import History
from dstest.core.op import Op

_LENGTHS_MAX: Final = 64
"""Of appended strings; more are left to the search."""

_STEPS_MAX: Final = 2_000_000


class _Hidden:
    """The value that an append left and nobody saw; each is equal to itself alone."""

    def __init__(self, op: Op) -> None:
        self._of = f"a value that ends with {op.input!r} (op {op.op_id})"

    def __repr__(self) -> str:
        return self._of


def _is_complete(op: Op) -> bool:
    return not op.timeout_marker and op.complete_ts is not None


@dataclass(slots=True)
class Trace:
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
        end = op.complete_ts if op.complete_ts is not None and _is_complete(op) else NEVER
        value = {"get": op.output if _is_complete(op) else None, "delete": None}.get(
            op.op_type, op.input
        )
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

    def trace(self) -> Trace | None:
        """None where a choice is left, or where what is here does not fit."""
        if not self.plain or len({len(piece) for piece in self.appends}) > _LENGTHS_MAX:
            return None
        return _Tracer(self).run()


class _Tracer:
    def __init__(self, key: _Key) -> None:
        self.key = key
        self.size = {p: len(piece) for piece, places in key.appends.items() for p in places}
        self.lengths = sorted(set(self.size.values()))
        self.by = dict(key.seen)
        self.makers: dict[str, list[int]] = {}
        self.agenda = sorted(key.seen)
        self.traced = Trace({}, {})

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

    def run(self) -> Trace | None:
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
        succeeded = True if _is_complete(op) and op.error is None else None
        return replace(op, op_type="cas", input=[before, made], output=succeeded)
    value = {"put": op.input, "delete": None}.get(op.op_type, _Hidden(op))
    return replace(op, op_type="write", input=value, output=None)


def trace(ops: Sequence[Op]) -> list[Trace | None]:
    """What is known of the key of each operation; None where it is no register in other words."""
    keys: dict[Any, _Key] = {}
    of: list[_Key] = []
    for place, op in enumerate(ops):
        name = op.key if type(op.key) is str else freeze(op.key)
        key = keys.get(name)
        if key is None:
            key = keys[name] = _Key()
        of.append(key)
        if not _is_complete(op) or op.error is None:
            key.add(place, op)
    traced = {id(key): key.trace() for key in keys.values()}
    return [traced[id(key)] for key in of]


def as_registers(
    ops: Sequence[Op], traced: Sequence[Trace], places: Sequence[int] | None = None
) -> list[Op]:
    """The same operations of registers. `places`: where they are in what was traced."""
    return [
        _as_register(op, known.made.get(place))
        for op, known, place in zip(ops, traced, places or range(len(ops)), strict=True)
    ]


def _is_known(op: Op) -> bool:
    return op.complete_ts is not None and not op.timeout_marker and op.error is None


def _gets_of(ops: list[Op], key: Any, traced: Trace, values: Iterable[str]) -> set[int]:
    """The places of gets that tell of these values, the first ones; of what only a put or nobody
    tells of there is none."""
    first: dict[Any, int] = {}
    for place, op in enumerate(ops):
        if op.op_type == "get" and _is_known(op) and op.key == key:
            first.setdefault(op.output, place)
    found = set()
    for value in values:
        while value in traced.after:
            value = traced.after[value]
        if value in first:
            found.add(first[value])
    return found


def _one_by_one(
    rule: _witness.Rule, rows: I64, illegal: Callable[[I64], bool], deadline: int
) -> tuple[I64, bool]:
    """Leaves out single operations, and what must go with them, as long as that can be."""
    at, kept = 0, 0
    while kept < len(rows):
        if monotonic_ns() >= deadline:
            return rows, False
        at %= len(rows)
        candidate = rule.without(rows, np.arange(len(rows)) == at)
        if len(candidate) < len(rows) and illegal(candidate):
            rows, kept = candidate, 0
        else:
            at, kept = at + 1, kept + 1
    return rows, True


class _Retold:
    """Witnesses that stand up to what their own gets tell. An append is a cas because some get
    told where it belongs; a witness with the append needs such a get as well."""

    def __init__(self, history: History, traced: list[Trace]) -> None:
        self.history, self.traced = history, traced

    def _illegal(self, places: list[int], deadline: int, memory_bytes: int) -> bool:
        coded = encode_calls(KvMap(), [self.history.ops[p] for p in places])
        limits = Limits(max(1, deadline - monotonic_ns()), memory_bytes, _STEPS_MAX)
        return bool((search(coded, limits).verdict == ILLEGAL).any())

    def anomaly(
        self, places: list[int], minimal: bool, deadline: int, memory_bytes: int
    ) -> Anomaly | None:
        """The anomaly of a witness; None where it stands up as it is."""
        ops = self.history.ops
        if self._illegal(places, deadline, memory_bytes):
            return None
        key, traced = ops[places[0]].key, self.traced[places[0]]
        mine = [p for p, known in enumerate(self.traced) if known is traced]
        same = as_registers([ops[p] for p in mine], [self.traced[p] for p in mine], mine)
        columns = encode(replace(self.history, ops=same), "cas-register")
        position = np.array(mine, np.int64)[columns.position]
        rule = _witness.Rule(columns)

        def illegal(candidate: I64) -> bool:
            return self._illegal(sorted(position[candidate].tolist()), deadline, memory_bytes)

        after = [traced.made[p] for p in places if p in traced.made]
        before = [traced.made[p][: -len(ops[p].input)] for p in places if p in traced.made]
        every = np.arange(len(position))
        gets: set[int] = set()
        for told in (after, before):
            gets |= _gets_of(ops, key, traced, told)
            rows = rule.without(every, ~np.isin(position, [*places, *gets]))
            if illegal(rows):
                break
        else:
            rows, minimal = every, False
        rows, each = _one_by_one(rule, rows, illegal, deadline)
        places = sorted(position[rows].tolist())
        named = [ops[p] for p in places]
        coded = encode_calls(KvMap(), named)
        named_all = np.ones(len(coded.classes), np.bool_)
        made = Witness(coded, named_all, None, 0, minimal and each)
        why = explain(made, replace(self.history, ops=named), memory_bytes)
        return anomaly_of(key, named, self.history, made.minimal, *why)


def _tells(sizes: dict[str, int], value: str) -> set[str]:
    """What a get of this value tells of: it, and what it was before each append."""
    told = {value}
    while value in sizes:
        value = value[: -sizes[value]]
        told.add(value)
    return told


def _fewest(ops: list[Op], traced: Trace, gets: set[int], values: set[str]) -> set[int]:
    """Those gets without which one of the values would not be told of."""
    sizes = {value: len(ops[p].input) for p, value in traced.made.items()}
    told = {p: _tells(sizes, ops[p].output) for p in gets}
    for place in sorted(gets):
        rest = [told[p] for p in told if p != place]
        if rest and values <= set().union(*rest):
            del told[place]
    return set(told)


def _short(history: History, places: list[int], traced: Trace) -> Anomaly:
    """The anomaly of a key whose gets tell of more values than its appends can have made. Without
    any one of these values the appends would be enough: each is reached from the one that is left
    over, and could be left over in its place (Hall 1935)."""
    ops = history.ops
    assert traced.short is not None
    key = ops[places[0]].key
    appends = {p for makers in traced.short.values() for p in makers}
    gets = _gets_of(ops, key, traced, traced.short)
    gets = _fewest(ops, traced, gets, set(traced.short))
    named = [ops[p] for p in sorted(appends | gets)]
    n = len(appends)
    text = (
        f"On key {_witness.text(key)} the gets tell of {len(traced.short)} values that only "
        f"{n} append{'s' if n != 1 else ''} can have made: "
        f"{', '.join(_witness.phrase(ops[p]) for p in sorted(appends))}. No order explains that: "
        "each took effect once."
    )
    return anomaly_of(key, named, history, True, text)


def _judge_short(history: History, found: dict[int, tuple[list[int], Trace]]) -> Judgement:
    """Keys that are illegal because of what their gets tell, by the `id` of what was traced."""
    judged = Judgement(tested=True, illegal=len(found))
    for places, traced in found.values():
        judged.keys = [*judged.keys, history.ops[places[0]].key]
        judged.breaks.append((history.ops[places[0]].key, None))
        if len(judged.anomalies) < ANOMALIES_MAX:
            judged.anomalies.append(_short(history, places, traced))
        for op in (history.ops[p] for p in places):
            unknown = op.timeout_marker or op.complete_ts is None
            why = "unknown-read" if unknown and op.op_type == "get" else None
            why = "fail" if not unknown and op.error is not None else why
            if why is None:
                judged.consumed += 1
            else:
                judged.excluded[why] = judged.excluded.get(why, 0) + 1
    return judged


def _judge_registers(
    history: History, places: list[int], traced: Sequence[Trace | None], budget: Budget
) -> Judgement:
    shown = replace(history, ops=[history.ops[p] for p in places])
    known = [t for t in (traced[p] for p in places) if t is not None]
    at = {place: here for here, place in enumerate(places)}
    moved: dict[int, Trace] = {}
    for t in known:
        if id(t) not in moved:
            moved[id(t)] = Trace({at[p]: value for p, value in t.made.items()}, t.after)
    here = [moved[id(t)] for t in known]
    same = replace(shown, ops=as_registers(shown.ops, here))
    return registers.judge(
        same, "cas-register", budget, shown=shown, words=WORDS["kv-map"], of="kv-map",
        retold=_Retold(shown, here).anomaly,
    )  # fmt: skip


def judge(history: History, budget: Budget) -> Judgement:
    """Judges a history of a `kv-map` with appends."""
    until = monotonic_ns() + int(budget.time_s * 1e9)
    ops = history.ops
    traced: Sequence[Trace | None] = [None] * len(ops)
    if all(op.op_type in KvMap.op_types for op in ops):
        traced = trace(ops)
    short: dict[int, tuple[list[int], Trace]] = {}
    plain: list[int] = []
    others: list[int] = []
    for place, known in enumerate(traced):
        if known is None:
            others.append(place)
        elif known.short is not None:
            short.setdefault(id(known), ([], known))[0].append(place)
        else:
            plain.append(place)
    parts = [_judge_short(history, short)] if short else []
    if plain:
        parts.append(_judge_registers(history, plain, traced, budget))
    if others or not parts:
        left = max(0.0, (until - monotonic_ns()) / 1e9)
        rest = replace(history, ops=[ops[p] for p in others])
        parts.append(objects.judge(KvMap(), rest, replace(budget, time_s=left)))
    return merge(parts)


def judge_empty(history: History, budget: Budget) -> Judgement:
    """The same where every key starts with the empty string. Where no key is ever null, that is
    null in other words."""
    if any(_null(op) for op in history.ops):
        return objects.judge(KvMap().begun(""), history, budget)
    judged = judge(replace(history, ops=[_without_empty(op) for op in history.ops]), budget)
    recorded = {op.op_id: op for op in history.ops}
    judged.anomalies = [
        replace(anomaly, witness=[_as_recorded(row, recorded) for row in anomaly.witness])
        for anomaly in judged.anomalies
    ]
    return judged


def _null(op: Op) -> bool:
    """May a key be null before or after it?"""
    told = {"get": op.output if _is_known(op) else "", "put": op.input, "append": ""}
    return told.get(op.op_type) is None


def _without_empty(op: Op) -> Op:
    return replace(
        op,
        input=None if op.op_type == "put" and op.input == "" else op.input,
        output=None if op.op_type == "get" and op.output == "" else op.output,
    )


def _as_recorded(row: dict[str, Any], recorded: dict[Any, Op]) -> dict[str, Any]:
    op = recorded[row["op_id"]]
    return {**row, "input": op.input, "output": op.output}
