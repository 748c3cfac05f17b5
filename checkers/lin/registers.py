"""Registers, and what is one in other words, by the search of csrc/lin/.

Histories of unique values are first shown to the monitors of csrc/mon/mon_register.c and
csrc/mon/mon_chain.c, these with compare-and-set. What they accept is linearizable; of what they
reject the search says where it breaks; the rest is left to the search.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from checkers import _core, _witness
from checkers import columns as _native
from checkers.columns import (
    CAS_FALSE,
    CAS_TRUE,
    CAS_UNKNOWN,
    I64,
    ILLEGAL,
    READ,
    STOPPED,
    U8,
    WRITE,
    WRITE_UNKNOWN,
    Columns,
    Interner,
    encode,
    in_halves,
    interruptible,
)
from checkers.lin import monitor
from checkers.lin.catalogue import make
from checkers.lin.model import (
    ANOMALIES_MAX,
    FIRST_STEPS,
    WITNESS_LEAST_NS,
    WITNESS_TIME_NS,
    WITNESSES_TIME_NS,
    KvMap,
    Model,
    Register,
)
from checkers.lin.search import Judgement, anomaly_of, search
from checkers.lin.search import encode as encode_calls
from checkers.lin.stale import Stale, stale_reads
from checkers.lin.witness import SMALL, explain, halving, marks_of, of_failure, ops_of
from dstest.core.check import Anomaly, Budget
from dstest.core.clock import monotonic_ns
from dstest.core.history import History

Retold = Callable[[list[int], bool, int, int], Anomaly | None]
"""The anomaly of the operations at these places, minimal or not, within a deadline and so many
bytes, where more operations belong to it; else None."""


def chains(columns: Columns, memory_bytes: int) -> U8:
    """One verdict per key; what is neither OK nor ILLEGAL is left to the search."""
    verdict = np.full(len(columns.offsets) - 1, STOPPED, np.uint8)
    stop = np.zeros(1, np.int32)

    def part(keys: slice, rows: slice, own: I64, memory: int) -> None:
        _core.chains(
            columns.kind[rows], columns.a[rows], columns.b[rows], columns.invoke[rows],
            columns.complete[rows], own, verdict[keys], stop, len(columns.values), memory,
        )  # fmt: skip

    def call() -> None:
        in_halves(columns.offsets, memory_bytes, verdict, part)

    interruptible(call, stop, small=len(columns.kind) < 5_000)
    return verdict


def only(columns: Columns, rows: Any, offsets: I64, keys: Sequence[Any]) -> Columns:
    """These rows as columns of their own."""
    return replace(
        columns,
        kind=columns.kind[rows],
        a=columns.a[rows],
        b=columns.b[rows],
        invoke=columns.invoke[rows],
        complete=columns.complete[rows],
        position=columns.position[rows],
        offsets=offsets,
        keys=keys,
    )


def _whole(columns: Columns, rows: Any) -> Columns:
    return only(columns, rows, np.array([0, len(rows)], np.int64), columns.keys)


def _units(columns: Columns) -> I64:
    """The number of each operation's chain; a cas that found something else is one of its own."""
    root = np.arange(len(columns.values), dtype=np.int64)

    def find(value: int) -> int:
        while root[value] != value:
            root[value] = root[root[value]]
            value = int(root[value])
        return value

    links = (columns.kind == CAS_TRUE) | (columns.kind == CAS_UNKNOWN)
    for a, b in zip(columns.a[links].tolist(), columns.b[links].tolist(), strict=True):
        root[find(a)] = find(b)
    while not np.array_equal(root, root[root]):
        root = root[root]
    alone = np.flatnonzero(columns.kind == CAS_FALSE)
    unit: I64 = root[columns.a]
    unit[alone] = len(root) + alone
    return unit


def contradiction(columns: Columns, key: int, deadline: int, memory_bytes: int) -> Columns:
    """The chains of an illegal key that contradict themselves or each other.

    What the chains contradict is a violation whatever else happened: a linearization stays one when
    whole chains go, and without operations that change nothing. So chains are left out until none
    can go any more, and what is left is small enough for the search to say where it breaks.
    """
    where = columns.of_key(key)
    rows = np.arange(where.start, where.stop)
    part = only(columns, rows, np.array([0, len(rows)], np.int64), [columns.keys[key]])
    unit = _units(part)

    def illegal(units: I64) -> bool:
        nonlocal part, unit
        rows = np.flatnonzero(marks_of(unit, units))
        candidate = _whole(part, rows)
        if chains(candidate, memory_bytes)[0] != ILLEGAL:
            return False
        part, unit = candidate, unit[rows]
        return True

    units, _ = halving(np.unique(unit), illegal, deadline)
    return _whole(part, np.flatnonzero(marks_of(unit, units)))


def _part(columns: Columns, key: int, limits: _native.Limits) -> _native.Decision:
    where = columns.of_key(key)
    return _native.check_registers(
        columns.kind[where],
        columns.a[where],
        columns.b[where],
        columns.invoke[where],
        columns.complete[where],
        np.array([0, where.stop - where.start], np.int64),
        n_values=len(columns.values),
        limits=limits,
    )


def zones(columns: Columns, memory_bytes: int) -> U8:
    """The zone monitor's verdict per key; UNFIT where a key has anything but reads and unique
    writes."""
    parts = np.full(CAS_FALSE + 8, monitor.NOTHING, np.uint8)
    parts[[WRITE, WRITE_UNKNOWN, READ]] = [monitor.PUT, monitor.PUT, monitor.TAKE]
    return monitor.monitor(
        parts[columns.kind],
        columns.a,
        columns.invoke,
        columns.complete,
        columns.offsets,
        len(columns.values),
        monitor.REGISTER,
        memory_bytes,
    )


def _settled(columns: Columns, memory_bytes: int) -> U8:
    """The monitors' verdict per key; what is neither OK nor ILLEGAL is left to the search."""
    swaps = (columns.kind != READ) & (columns.kind != WRITE) & (columns.kind != WRITE_UNKNOWN)
    if not swaps.any():
        found = zones(columns, memory_bytes)
        if (found == _native.OK).all():
            return found
    return chains(columns, memory_bytes)


def _search(columns: Columns, undecided: Any, limits: _native.Limits) -> _native.Decision:
    """The keys that `undecided` marks, with few steps each; the others are OK."""
    sizes = np.diff(columns.offsets)
    rows = np.flatnonzero(np.repeat(undecided, sizes))
    counts = np.concatenate([[0], np.cumsum(np.where(undecided, sizes, 0))]).astype(np.int64)
    part = columns if undecided.all() else only(columns, rows, counts, columns.keys)
    decision = _native.check_registers(
        part.kind,
        part.a,
        part.b,
        part.invoke,
        part.complete,
        part.offsets,
        n_values=len(columns.values),
        limits=limits,
    )
    placed = decision.bad >= 0
    decision.bad[placed] = rows[decision.bad[placed]]
    return decision


def decide(columns: Columns, budget: Budget) -> _native.Decision:
    """The monitors, then all other keys with few steps each, then the hard ones one by one with
    what time is left. Where a monitor says illegal `bad` is -1."""
    deadline = monotonic_ns() + int(budget.time_s * 1e9)
    memory_bytes = budget.memory_mb * 2**20
    settled = _settled(columns, memory_bytes)
    undecided = (settled != _native.OK) & (settled != _native.ILLEGAL)
    limits = _native.Limits(max(0, deadline - monotonic_ns()), memory_bytes, FIRST_STEPS)
    decision = _search(columns, undecided, limits)
    decision.verdict[~undecided] = settled[~undecided]
    hard = np.flatnonzero(decision.verdict == _native.STEPS)
    for done, key in enumerate(hard):
        left = max(0, deadline - monotonic_ns()) // (len(hard) - done)
        again = _part(columns, int(key), _native.Limits(left, memory_bytes))
        decision.verdict[key] = again.verdict[0]
        decision.steps[key] += again.steps[0]
        decision.prefix[key] = again.prefix[0]
        if again.bad[0] >= 0:
            decision.bad[key] = columns.offsets[key] + again.bad[0]
    return decision


def _breaks(
    columns: Columns, decision: _native.Decision, illegal: list[int], deadline: int, memory: int
) -> dict[int, int]:
    """The row of each illegal key that cannot be placed, -1 where the search does not get there:
    of what a monitor rejected it has not been asked yet."""
    found = {key: int(decision.bad[key]) for key in illegal}
    marked = np.zeros(len(columns.offsets) - 1, np.bool_)
    marked[[key for key, at in found.items() if at < 0]] = True
    if marked.any():
        left_ns = min(WITNESSES_TIME_NS, max(0, deadline - monotonic_ns()))
        searched = _search(columns, marked, _native.Limits(left_ns, memory, FIRST_STEPS))
        found |= {key: int(searched.bad[key]) for key in np.flatnonzero(marked).tolist()}
    return found


def _broken(
    columns: Columns, key: int, bad: int, stale: Stale | None, deadline: int, memory_bytes: int
) -> Columns | None:
    """The operations of a stale read; else an illegal key until it breaks, of what a monitor
    rejected after leaving out what does not contribute; None where the search finds nothing wrong
    with that."""
    if stale is not None:
        rows = np.array(sorted(row for row in stale.rows if row >= 0), np.int64)
        offsets = np.array([0, len(rows)], np.int64)
        return only(columns, rows, offsets, [columns.keys[key]])
    if bad >= 0:
        return _witness.cut(columns, key, bad)
    part = contradiction(columns, key, deadline, memory_bytes)
    decision = _part(part, 0, _native.Limits(WITNESS_TIME_NS, memory_bytes, FIRST_STEPS))
    if decision.verdict[0] == _native.STEPS:
        decision = _part(part, 0, _native.Limits(WITNESS_TIME_NS, memory_bytes))
    if decision.verdict[0] == _native.OK:
        return None
    return _witness.cut(part, 0, int(decision.bad[0])) if decision.bad[0] >= 0 else part


def _anomalies(
    columns: Columns,
    history: History,
    illegal: list[int],
    bad: list[int],
    oldest: Mapping[int, Stale],
    deadline: int,
    memory_bytes: int,
    words: _witness.Words,
    model: Model | None,
    undecided: dict[int, str],
    retold: Retold | None,
) -> list[Anomaly]:
    """One anomaly for each of the first of these keys."""
    now = monotonic_ns()
    deadline = max(now + WITNESS_LEAST_NS, min(now + WITNESSES_TIME_NS, deadline))
    anomalies = []
    for key in illegal[:ANOMALIES_MAX]:
        time_ns = min(WITNESS_TIME_NS, max(0, deadline - monotonic_ns()))
        stale, until_ns = oldest.get(key), monotonic_ns() + time_ns
        part = _broken(columns, key, bad[key], stale, until_ns, memory_bytes)
        if part is None:
            undecided[key] = "monitor and search disagree: please report this"
            continue
        witness = _witness.reduce(part, time_ns=time_ns, memory_bytes=memory_bytes)
        if retold is not None:
            places = part.position[witness.rows].tolist()
            other = retold(places, witness.minimal, monotonic_ns() + time_ns, memory_bytes)
            if other is not None:
                anomalies.append(other)
                continue
        elif model is not None and len(witness.rows) > SMALL:
            smaller = _smaller(part, history, model, len(witness.rows), time_ns, memory_bytes)
            if smaller is not None:
                anomalies.append(smaller)
                continue
        ops = [history.ops[int(p)] for p in part.position[witness.rows]]
        told = _witness.explain(part, witness, history, memory_bytes=memory_bytes, words=words)
        anomalies.append(anomaly_of(part.keys[0], ops, history, witness.minimal, *told))
    return anomalies


def _smaller(
    part: Columns, history: History, model: Model, most: int, time_ns: int, memory_bytes: int
) -> Anomaly | None:
    """An anomaly of fewer operations, from what is known at a quiet instant; None where there is
    none."""
    deadline = monotonic_ns() + time_ns
    ops = [history.ops[int(p)] for p in part.position]
    coded = encode_calls(model, ops, [None] * len(ops))
    coded = replace(coded, position=part.position[coded.position])
    decided = search(coded, _native.Limits(time_ns, memory_bytes, FIRST_STEPS))
    if len(coded.keys) != 1 or coded.blocked or decided.verdict[0] != _native.ILLEGAL:
        return None
    made = of_failure(coded, 0, int(decided.bad[0]), deadline, memory_bytes)
    kept_ops = [history.ops[int(p)] for p in ops_of(made)]
    if len(kept_ops) >= most or not made.minimal:
        return None
    told = explain(made, history, memory_bytes)
    return anomaly_of(part.keys[0], kept_ops, history, made.minimal, *told)


def start_at(columns: Columns, start: Any) -> Columns:
    """The same with `start` as value 0, which every register has at first, and null as another."""
    if start is None:
        return columns
    values = [*columns.values, start]
    numbers = Interner()
    first = [numbers.id_of(value) for value in values][-1]
    values[first], values[0] = values[0], start
    swap = np.arange(len(values), dtype=np.int32)
    swap[[0, first]] = [first, 0]
    cas = (columns.kind > WRITE) & (columns.kind != WRITE_UNKNOWN)
    b = np.where(cas, swap[columns.b], columns.b)
    return replace(columns, a=swap[columns.a], b=b, values=values)


def _object(model: str, start: Any) -> Model | None:
    """The model that a witness is made smaller by; None where its state is no register's."""
    made = make(model, {})
    if start is None:
        return made
    return made.begun(start) if isinstance(made, Register | KvMap) else None


def judge(
    history: History,
    model: str,
    budget: Budget,
    *,
    shown: History | None = None,
    words: _witness.Words = _witness.REGISTER,
    of: str | None = None,
    start: Any = None,
    retold: Retold | None = None,
) -> Judgement:
    """Judges a register history. `shown` has the operations that witnesses name, one for each of
    `history`, where those stand for others of the model `of`. All registers `start` with this."""
    columns = start_at(encode(history, model), start)
    made = _object(of or model, start)
    return judge_columns(columns, shown or history, budget, words, made, retold)


def judge_columns(
    columns: Columns,
    shown: History,
    budget: Budget,
    words: _witness.Words,
    of: Model | None,
    retold: Retold | None = None,
) -> Judgement:
    """Judges columns, of whose operations `shown` has the records; `of` is the model that makes
    witnesses smaller."""
    deadline = monotonic_ns() + int(budget.time_s * 1e9)
    memory_bytes = budget.memory_mb * 2**20
    decision = decide(columns, budget)
    undecided = dict(columns.blocked)
    illegal: list[int] = []
    for key in np.flatnonzero(decision.verdict != _native.OK).tolist():
        if key in undecided:
            continue
        if decision.verdict[key] == _native.ILLEGAL:
            illegal.append(key)
        else:
            undecided[key] = _native.UNDECIDED[int(decision.verdict[key])]
    sizes = np.diff(columns.offsets)
    observers = (columns.kind <= CAS_FALSE) & (columns.kind != WRITE)
    breaks = _breaks(columns, decision, illegal, deadline, memory_bytes)
    stale = stale_reads(columns, illegal) if words is _witness.REGISTER else []
    oldest = {one.key: one for one in sorted(stale, key=lambda one: one.age_ns)}
    worst = sorted(illegal, key=lambda key: -oldest[key].age_ns if key in oldest else 0)
    anomalies = _anomalies(
        columns, shown, worst, decision.bad.tolist(), oldest, deadline, memory_bytes, words, of,
        undecided, retold,
    )  # fmt: skip
    illegal = [key for key in illegal if key not in undecided]
    rows = [(columns.keys[key], breaks[key]) for key in illegal]
    return Judgement(
        keys=columns.keys,
        undecided=undecided,
        illegal=len(illegal),
        stale=[
            (columns.keys[one.key], shown.ops[int(columns.position[one.read])], one.age_ns)
            for one in stale
        ],
        breaks=[(k, None if at < 0 else shown.ops[int(columns.position[at])]) for k, at in rows],
        anomalies=anomalies,
        consumed=int(sizes.sum() - sum(sizes[k] for k in undecided)),
        excluded=columns.excluded,
        tested=bool(observers.any()),
    )
