"""Is every key a linearizable register?

A history is linearizable when each operation can be given one instant between its invocation and
its completion so that a register with those instants returns exactly what was returned. Keys are
independent: a history is linearizable if and only if each key's part is (Herlihy and Wing, TOPLAS
1990), so each is decided alone, by the C core (`csrc/lin_search.c`).

What an outcome means here:

    ok                took effect once in [invoke, complete]; bounds belong to the interval
    fail              provably had no effect: left out (`fail`); reading its value is a violation
    unknown write/cas took effect at some instant after its invocation, or never
    unknown read      tells nothing: left out (`unknown-read`)
    cas, output false compared and differed: the register held something else at that instant
    cas, output true  found the first value of `[from, to]` and stored the second

A register starts with None. The answer is `"unknown"` when a key could not be decided within the
budget or holds an operation that is not a register's, and when nothing could have been refuted: no
completed read or cas means that no recorded result was tested.
"""

from __future__ import annotations

import resource
from typing import Final

import msgspec
import numpy as np

from checkers import _native, _witness
from checkers._columns import CAS_FALSE, Columns, encode
from dstest.core.check import Anomaly, Budget, CheckResult, KeyCount, OpCount, Seconds, Valid
from dstest.core.clock import monotonic_ns
from dstest.core.history import History, epochs_of
from dstest.core.limits import WITNESS_OPS_MAX

__all__ = ["CHECKER", "Linearizable"]

FIRST_STEPS = 4_000_000
"""Steps that each key gets before any key gets more, so that one hard key cannot starve the
rest: some tens of milliseconds."""

ANOMALIES_MAX = 16
"""Illegal keys that get a witness of their own; the others are counted in the reason."""

WITNESS_TIME_NS = 5_000_000_000
"""For reducing one witness; spent only where a reduction is hard."""

WITNESSES_TIME_NS = 20_000_000_000
"""For reducing all of them, and never more than the budget's time."""


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


def _decide(columns: Columns, budget: Budget) -> _native.Decision:
    """All keys with few steps each, then the hard ones one by one with what time is left."""
    deadline = monotonic_ns() + int(budget.time_s * 1e9)
    memory_bytes = budget.memory_mb * 2**20
    decision = _native.check_registers(
        columns.kind,
        columns.a,
        columns.b,
        columns.invoke,
        columns.complete,
        columns.offsets,
        n_values=len(columns.values),
        limits=_native.Limits(max(0, deadline - monotonic_ns()), memory_bytes, FIRST_STEPS),
    )
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


def _anomalies(
    columns: Columns, history: History, illegal: list[int], bad: list[int], budget: Budget
) -> list[Anomaly]:
    """One anomaly for each of the first illegal keys."""
    end_ns = max(max(o.invoke_ts, o.complete_ts or 0) for o in history.ops)
    deadline = monotonic_ns() + min(WITNESSES_TIME_NS, int(budget.time_s * 1e9))
    found = []
    for key in illegal[:ANOMALIES_MAX]:
        part = _witness.cut(columns, key, bad[key])
        time_ns = min(WITNESS_TIME_NS, max(0, deadline - monotonic_ns()))
        found.append(_anomaly(part, history, end_ns, time_ns, budget.memory_mb * 2**20))
    return found


def _anomaly(
    part: Columns, history: History, end_ns: int, time_ns: int, memory_bytes: int
) -> Anomaly:
    """The anomaly of one key, whose columns end at the failure."""
    witness = _witness.reduce(part, time_ns=time_ns, memory_bytes=memory_bytes)
    ops = [history.ops[int(p)] for p in part.position[witness.rows]]
    shown = ops[-WITNESS_OPS_MAX:]
    epochs: list[str] = []
    for op in ops:
        stamped = [] if op.fault_epoch is None else [op.fault_epoch]
        for epoch in epochs_of(op, history.header.windows, end_ns) or stamped:
            if epoch not in epochs:
                epochs.append(epoch)
    text = _witness.explain(part, witness, history, memory_bytes=memory_bytes)
    if len(shown) < len(ops):
        text += f" The last {len(shown)} of its operations are shown."
    return Anomaly(
        type="nonlinearizable",
        key=part.keys[0],
        ops=[op.op_id for op in ops],
        witness=[msgspec.to_builtins(op) for op in shown],
        minimal=witness.minimal,
        epochs=epochs,
        explanation=text,
    )


def _reason(
    columns: Columns, undecided: dict[int, str], illegal: int, tested: bool
) -> tuple[Valid, str | None]:
    """The verdict, and why it is not simply true."""
    why = [f"key {columns.keys[k]!r}: {text}" for k, text in list(undecided.items())[:3]]
    if len(undecided) > 3:
        why.append(f"{len(undecided) - 3} more keys undecided")
    if illegal:
        more = [f"{illegal} of {len(columns.keys)} keys are not linearizable"]
        return False, "; ".join(more + why)
    if undecided:
        return "unknown", "; ".join(why)
    if not tested:
        return "unknown", "nothing was tested: no completed read or cas in the history"
    return True, None


class Linearizable:
    """Checker of single registers, with and without compare-and-set."""

    name = "linearizable"
    kind = "history"
    models: tuple[str, ...] = ("register", "cas-register")

    def check(self, history: History, model: str, budget: Budget) -> CheckResult:
        """The verdict, with one minimal witness per illegal key. Raises ValueError for a model
        that is not one of `models`."""
        if model not in self.models:
            raise ValueError(f"model {model!r}: linearizable knows {', '.join(self.models)}")
        started = monotonic_ns()
        columns = encode(history, model)
        decision = _decide(columns, budget)
        undecided = dict(columns.blocked)
        illegal: list[int] = []
        for key, verdict in enumerate(decision.verdict.tolist()):
            if key in undecided or verdict == _native.OK:
                continue
            if verdict == _native.ILLEGAL:
                illegal.append(key)
            else:
                undecided[key] = _native.UNDECIDED[verdict]
        found = (
            _anomalies(columns, history, illegal, decision.bad.tolist(), budget) if illegal else []
        )
        sizes = np.diff(columns.offsets)
        consumed = int(sum(sizes[k] for k in range(len(sizes)) if k not in undecided))
        observers = (columns.kind <= CAS_FALSE) & (columns.kind != 1)
        valid, reason = _reason(columns, undecided, len(illegal), bool(observers.any()))
        return CheckResult(
            checker=self.name,
            valid=valid,
            workload=history.header.workload,
            model=model,
            anomaly_types=["nonlinearizable"] if illegal else [],
            not_=["linearizable"] if illegal else [],
            anomalies={"nonlinearizable": found} if found else {},
            ops=OpCount(total=len(history.ops), consumed=consumed, excluded=columns.excluded),
            keys=KeyCount(
                total=len(columns.keys),
                decided=len(columns.keys) - len(undecided),
                undecided=[columns.keys[k] for k in sorted(undecided)],
            ),
            seconds=Seconds(check=(monotonic_ns() - started) / 1e9),
            peak_rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            reason=reason,
        )


CHECKER: Final = Linearizable()
