"""Any model: the monitor where values are unique, else the search of csrc/aut/."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from checkers._native import ILLEGAL, OK, STEPS, UNDECIDED, Limits
from checkers.lin import monitor, witness
from checkers.lin.encode import Coded, encode, only
from checkers.lin.judged import Judged, anomaly_of
from checkers.lin.limits import (
    ANOMALIES_MAX,
    FIRST_STEPS,
    WITNESS_LEAST_NS,
    WITNESS_TIME_NS,
    WITNESSES_TIME_NS,
)
from checkers.lin.logs import LogFinding, decide_log
from checkers.lin.model import Model
from checkers.lin.search import Found, search
from checkers.lin.told import coded_of
from checkers.lin.values import MultiRegister, micro_ops
from checkers.ops.table import OpTable
from dstest.core.check import Anomaly, Budget
from dstest.core.clock import monotonic_ns
from dstest.core.history import History
from dstest.core.op import Op

STEPS_PER_OP: Final = 64
"""Beside the first steps of each key, for each operation of the longest."""

CHECK_STEPS_LEAST: Final = 50_000
"""What is left after leaving something out may cost so much, or a few times what the key cost."""


def _search(coded: Coded, undecided: Any, deadline: int, memory_bytes: int) -> Found:
    """Decides the keys that `undecided` marks: all with few steps each, then the hard ones one by
    one with what time is left. The others get the verdict OK."""
    sizes = np.diff(coded.offsets)
    rows = np.flatnonzero(np.repeat(undecided, sizes))
    counts = np.concatenate([[0], np.cumsum(np.where(undecided, sizes, 0))]).astype(np.int64)
    part = replace(only(coded, rows), offsets=counts, keys=coded.keys)
    left = max(0, deadline - monotonic_ns())
    steps = FIRST_STEPS + STEPS_PER_OP * int(sizes.max(initial=0))
    result = search(part, Limits(left, memory_bytes, steps))
    hard = np.flatnonzero(result.verdict == STEPS)
    for done, key in enumerate(hard):
        left = max(0, deadline - monotonic_ns()) // (len(hard) - done)
        own = np.arange(counts[key], counts[key + 1])
        again = search(only(part, own), Limits(left, memory_bytes))
        result.verdict[key] = again.verdict[0]
        result.steps[key] += again.steps[0]
        if again.bad[0] >= 0:
            result.bad[key] = counts[key] + again.bad[0]
    placed = result.bad >= 0
    result.bad[placed] = rows[result.bad[placed]]
    return result


def _components(ops: Sequence[Op]) -> list[Any] | None:
    """For transactions on several registers: the registers that one of them ties together, as one
    object. None where nothing is tied, or some operation cannot be read."""
    root: dict[Any, Any] = {}

    def find(key: Any) -> Any:
        while root.setdefault(key, key) != key:
            root[key] = root[root[key]]
            key = root[key]
        return key

    touched: list[list[Any]] = []
    for op in ops:
        rows = micro_ops(op.input) if op.op_type == "txn" else None
        if op.op_type == "txn" and not rows:
            return None
        keys = [op.key] if rows is None else [key for _, key, _ in rows]
        for key in keys:
            root[find(key)] = find(keys[0])
        touched.append(keys)
    members: dict[Any, list[Any]] = {}
    for key in root:
        members.setdefault(find(key), []).append(key)
    name = {k: v[0] if len(v) == 1 else sorted(v, key=repr) for k, v in members.items()}
    return [name[find(keys[0])] for keys in touched]


def _tells(coded: Coded) -> bool:
    """Does some completed operation have a result that could have been another one?"""
    if coded.tells is not None:
        return coded.tells
    return any(c.known and (c.output is not None or coded.model.pure(c)) for c in coded.calls) or (
        isinstance(coded.model, MultiRegister)
        and any(c.known and c.op_type == "txn" and any(m[0] == "r" for m in c.input)
                for c in coded.calls)
    )  # fmt: skip


class _Engine:
    """One history under one model."""

    def __init__(self, model: Model, history: History, budget: Budget) -> None:
        keys = _components(history.ops) if isinstance(model, MultiRegister) else None
        self.history, self.objects = history, keys
        self.memory_bytes = budget.memory_mb * 2**20
        self.deadline = monotonic_ns() + int(budget.time_s * 1e9)
        self.logs: dict[int, LogFinding] = {}
        self.steps = np.zeros(0, np.int64)
        self.model = model
        self._encode(tabled=True)

    def _encode(self, *, tabled: bool) -> None:
        """Columns of the operations; the search needs those that were read one by one."""
        ops = self.history.ops
        usual = self.model.fresh
        coded = coded_of(self.model, ops) if tabled and usual and isinstance(ops, OpTable) else None
        self.coded = encode(self.model, ops, self.objects) if coded is None else coded
        self.parts = monitor.parts_of(self.coded) if usual else None

    def decide(self) -> tuple[Any, Any]:
        """Verdict and stuck row per key; -1 = the monitor's verdict."""
        n_keys = len(self.coded.keys)
        verdict = np.full(n_keys, monitor.UNFIT, np.uint8)
        bad = np.full(n_keys, -1, np.int64)
        if self.parts is not None:
            verdict = monitor.verdicts(self.coded, self.parts, self.memory_bytes)
        elif self.coded.model.exact_shape == "log" and self.coded.model.fresh:
            words = {True: OK, False: ILLEGAL, None: monitor.UNFIT}
            self.logs = {key: decide_log(self.coded, key) for key in range(n_keys)}
            verdict[:] = [words[finding.legal] for finding in self.logs.values()]
        undecided = (verdict != OK) & (verdict != ILLEGAL)
        if undecided.any() and self.coded.told is not None:
            self._encode(tabled=False)
            return self.decide()
        if undecided.any():
            searched = _search(self.coded, undecided, self.deadline, self.memory_bytes)
            self.steps = searched.steps
            verdict = np.where(undecided, searched.verdict, verdict)
            bad = np.where(undecided, searched.bad, bad)
        return verdict, bad

    def anomaly(self, key: int, bad: int, deadline: int) -> Anomaly | None:
        """The anomaly of an illegal key; None where monitor and search disagree about it."""
        coded, name, history = self.coded, self.coded.keys[key], self.history
        if key in self.logs and bad < 0:
            rows = self.logs[key].rows
            ops = [history.ops[int(p)] for p in coded.position[rows]]
            return anomaly_of(name, ops, history, True, self.logs[key].explain(ops))
        made: witness.Witness | None = None
        if bad < 0:
            assert self.parts is not None
            made = witness.of_values(coded, self.parts, key, deadline, self.memory_bytes)
            if made is None:
                return None
        elif coded.model.exact_shape == "lock":
            made = witness.of_holds(coded, key, bad, history.ops, deadline, self.memory_bytes)
        if made is None:
            most = max(CHECK_STEPS_LEAST, 4 * int(self.steps[key]))
            made = witness.of_failure(coded, key, bad, deadline, self.memory_bytes, most)
        ops = [history.ops[int(p)] for p in witness.ops_of(made)]
        told = witness.explain(made, history, self.memory_bytes)
        return anomaly_of(name, ops, history, made.minimal, *told)

    def anomalies(self, illegal: list[int], bad: Any, undecided: dict[int, str]) -> list[Anomaly]:
        """One anomaly for each of the first illegal keys."""
        now = monotonic_ns()
        last = max(now + WITNESS_LEAST_NS, min(now + WITNESSES_TIME_NS, self.deadline))
        anomalies = []
        for key in illegal[:ANOMALIES_MAX]:
            deadline = min(last, monotonic_ns() + WITNESS_TIME_NS)
            one = self.anomaly(key, int(bad[key]), deadline)
            if one is None:
                undecided[key] = "monitor and search disagree: please report this"
            else:
                anomalies.append(one)
        return anomalies


def judge(model: Model, history: History, budget: Budget) -> Judged:
    """Judges a history of objects of one model."""
    engine = _Engine(model, history, budget)
    verdict, bad = engine.decide()
    coded = engine.coded
    undecided = dict(coded.blocked)
    for key in np.flatnonzero((verdict != OK) & (verdict != ILLEGAL)).tolist():
        if key not in undecided:
            undecided[key] = UNDECIDED[int(verdict[key])]
    illegal = [k for k in np.flatnonzero(verdict == ILLEGAL).tolist() if k not in undecided]
    anomalies = engine.anomalies(illegal, bad, undecided)
    sizes = np.diff(coded.offsets)
    return Judged(
        keys=coded.keys,
        undecided=undecided,
        illegal=sum(1 for k in illegal if k not in undecided),
        anomalies=anomalies,
        consumed=int(sizes.sum() - sum(sizes[k] for k in undecided)),
        excluded=coded.excluded,
        tested=_tells(coded),
    )
