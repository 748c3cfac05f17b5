"""Numbers of a history for people: outcomes, latencies, pace by second, and how to print them."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import msgspec

from dstest.core.history import History
from dstest.core.op import Op, Outcome

__all__ = [
    "NodeRow",
    "TypeRow",
    "by_node",
    "by_type",
    "number",
    "per_second",
    "seconds",
]


class TypeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One operation type: how many ended how, and latencies of the good ones in milliseconds."""

    op_type: str
    total: int
    ok: int
    fail: int
    unknown: int
    p50_ms: float | None
    p99_ms: float | None
    max_ms: float | None


class NodeRow(msgspec.Struct, frozen=True, kw_only=True):
    """Answers per node; `-` collects operations that nobody answered."""

    node: str
    ok: int
    fail: int
    unknown: int


def seconds(time_ns: int | None) -> str:
    """Run time in seconds with two digits, `-` for none."""
    return "-" if time_ns is None else f"{time_ns / 1e9:.2f}"


def number(value: Any) -> str:
    """A counter for people: thousands apart, pairs as `3 / 4`, nothing as `-`."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, list | tuple):
        return " / ".join(number(part) for part in value)
    return str(value)


def _rank(times: list[int], share: float) -> float | None:
    return times[math.ceil(share * len(times)) - 1] / 1e6 if times else None


def by_type(history: History) -> list[TypeRow]:
    """One row per operation type, by name."""
    groups: dict[str, list[Op]] = {}
    for op in history.ops:
        groups.setdefault(op.op_type, []).append(op)
    rows = []
    for name, ops in sorted(groups.items()):
        outcomes = Counter(op.outcome for op in ops)
        times = sorted(
            op.complete_ts - op.invoke_ts
            for op in ops
            if op.complete_ts is not None and op.outcome is Outcome.OK
        )
        rows.append(
            TypeRow(
                op_type=name,
                total=len(ops),
                ok=outcomes[Outcome.OK],
                fail=outcomes[Outcome.FAIL],
                unknown=outcomes[Outcome.UNKNOWN],
                p50_ms=_rank(times, 0.5),
                p99_ms=_rank(times, 0.99),
                max_ms=_rank(times, 1.0),
            )
        )
    return rows


def by_node(history: History) -> list[NodeRow]:
    """One row per node that answered."""
    counts: Counter[tuple[str, Outcome]] = Counter(
        (op.node_seen or "-", op.outcome) for op in history.ops
    )
    return [
        NodeRow(
            node=node,
            ok=counts[node, Outcome.OK],
            fail=counts[node, Outcome.FAIL],
            unknown=counts[node, Outcome.UNKNOWN],
        )
        for node in sorted({node for node, _ in counts})
    ]


def per_second(ops: list[Op]) -> dict[Outcome, list[int]]:
    """Operations invoked in each second of the run, by outcome."""
    last = max((op.invoke_ts for op in ops), default=0) // 1_000_000_000
    rows = {outcome: [0] * (last + 1) for outcome in Outcome}
    for op in ops:
        rows[op.outcome][op.invoke_ts // 1_000_000_000] += 1
    return rows
