"""Maps with appends: keys that are registers in other words as those (`appends.py`), the others by
the search of csrc/aut/."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from checkers import _witness
from checkers._columns import I64, encode
from checkers._native import ILLEGAL, Limits
from checkers.lin import objects, registers
from checkers.lin.appends import Traced, as_registers, trace
from checkers.lin.encode import encode as encode_calls
from checkers.lin.judged import Judged, anomaly_of, merge
from checkers.lin.limits import ANOMALIES_MAX
from checkers.lin.reduction import WORDS
from checkers.lin.search import search
from checkers.lin.values import KvMap
from checkers.lin.witness import Witness, explain
from dstest.core.check import Anomaly, Budget
from dstest.core.clock import monotonic_ns
from dstest.core.history import History
from dstest.core.op import Op

_STEPS_MAX: Final = 2_000_000


def _told(op: Op) -> bool:
    return op.complete_ts is not None and not op.timeout_marker and op.error is None


def _gets_of(ops: list[Op], key: Any, traced: Traced, values: Iterable[str]) -> set[int]:
    """The places of gets that tell of these values, the first ones; of what only a put or nobody
    tells of there is none."""
    first: dict[Any, int] = {}
    for place, op in enumerate(ops):
        if op.op_type == "get" and _told(op) and op.key == key:
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

    def __init__(self, history: History, traced: list[Traced]) -> None:
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


def _fewest(ops: list[Op], traced: Traced, gets: set[int], values: set[str]) -> set[int]:
    """Those gets without which one of the values would not be told of."""
    sizes = {value: len(ops[p].input) for p, value in traced.made.items()}
    told = {p: _tells(sizes, ops[p].output) for p in gets}
    for place in sorted(gets):
        rest = [told[p] for p in told if p != place]
        if rest and values <= set().union(*rest):
            del told[place]
    return set(told)


def _short(history: History, places: list[int], traced: Traced) -> Anomaly:
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


def _judge_short(history: History, found: dict[int, tuple[list[int], Traced]]) -> Judged:
    """Keys that are illegal because of what their gets tell, by the `id` of what was traced."""
    judged = Judged(tested=True, illegal=len(found))
    for places, traced in found.values():
        judged.keys = [*judged.keys, history.ops[places[0]].key]
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
    history: History, places: list[int], traced: Sequence[Traced | None], budget: Budget
) -> Judged:
    shown = replace(history, ops=[history.ops[p] for p in places])
    known = [t for t in (traced[p] for p in places) if t is not None]
    at = {place: here for here, place in enumerate(places)}
    moved: dict[int, Traced] = {}
    for t in known:
        if id(t) not in moved:
            moved[id(t)] = Traced({at[p]: value for p, value in t.made.items()}, t.after)
    here = [moved[id(t)] for t in known]
    same = replace(shown, ops=as_registers(shown.ops, here))
    return registers.judge(
        same, "cas-register", budget, shown=shown, words=WORDS["kv-map"], of="kv-map",
        retold=_Retold(shown, here).anomaly,
    )  # fmt: skip


def judge(history: History, budget: Budget) -> Judged:
    """Judges a history of a `kv-map` with appends."""
    until = monotonic_ns() + int(budget.time_s * 1e9)
    ops = history.ops
    traced: Sequence[Traced | None] = [None] * len(ops)
    if all(op.op_type in KvMap.op_types for op in ops):
        traced = trace(ops)
    short: dict[int, tuple[list[int], Traced]] = {}
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


def judge_empty(history: History, budget: Budget) -> Judged:
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
    told = {"get": op.output if _told(op) else "", "put": op.input, "append": ""}
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
