"""Numbers of a history for people: outcomes, latencies, pace by second, and how to print them."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from dstest.core.history import History
from dstest.core.op import Op, Outcome
from dstest.core.summary import TypeRow


class NodeRow(msgspec.Struct, frozen=True, kw_only=True):
    """Answers per node; `-` collects operations that nobody answered."""

    node: str
    ok: int
    fail: int
    unknown: int


def seconds(time_ns: int | None) -> str:
    """Run time in seconds with two digits, `-` for none."""
    return "-" if time_ns is None else f"{time_ns / 1e9:.2f}"


def tenths(time_ns: int) -> str:
    """`2.5 s`, as sentences have it."""
    return f"{time_ns / 1e9:.1f} s"


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


def quantile_ms(times_ns: Sequence[int], share: float) -> float | None:
    """The duration that this share of them do not exceed, in milliseconds; `times_ns` ascend. None
    where there is none."""
    return times_ns[max(0, math.ceil(share * len(times_ns)) - 1)] / 1e6 if times_ns else None


def by_type(history: History) -> list[TypeRow]:
    """One row per operation type, by name."""
    groups: dict[str, list[Op]] = {}
    for op in history.ops:
        groups.setdefault(op.op_type, []).append(op)
    rows = []
    for name, ops in sorted(groups.items()):
        outcomes = Counter(op.outcome for op in ops)
        good = [op for op in ops if op.outcome is Outcome.OK and op.complete_ts is not None]
        times = sorted((op.complete_ts or 0) - op.invoke_ts for op in good)
        planned = [op for op in good if op.due_ts is not msgspec.UNSET]
        since_due = sorted((op.complete_ts or 0) - op.due_ns for op in planned)
        rows.append(
            TypeRow(
                op_type=name,
                total=len(ops),
                ok=outcomes[Outcome.OK],
                fail=outcomes[Outcome.FAIL],
                unknown=outcomes[Outcome.UNKNOWN],
                p50_ms=quantile_ms(times, 0.5),
                p99_ms=quantile_ms(times, 0.99),
                max_ms=quantile_ms(times, 1.0),
                due_p50_ms=quantile_ms(since_due, 0.5),
                due_p99_ms=quantile_ms(since_due, 0.99),
                due_max_ms=quantile_ms(since_due, 1.0),
            )
        )
    return rows


def lateness_text(history: History) -> str | None:
    """Of an open load: how late operations were sent, and how many never; None of a closed one."""
    late = sorted(o.invoke_ts - o.due_ns for o in history.ops if o.due_ts is not msgspec.UNSET)
    if not late:
        return None
    unsent = history.header.counters.get("unsent", 0)
    middle, most, last = (number(quantile_ms(late, share)) for share in (0.5, 0.99, 1.0))
    never = f"; {unsent:,} more were due and never sent, since the load ended" if unsent else ""
    return (
        f"The load was open: an operation was sent {middle} ms after it was due (median), {most} "
        f"ms (99th percentile), {last} ms at most{never}. Service levels (slo) count from when an "
        "operation was due."
    )


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


RATE_SECONDS_MAX: Final = 100_000
"""A history that lasts longer is counted in so many parts of several seconds."""


class Seconds(NamedTuple):
    """So many parts of `width_s` seconds from `first_s` on, whole seconds of run time. Times of a
    clock on the wall begin at their first operation, others at 0, the begin of the load."""

    first_s: int
    width_s: int
    parts: int

    def part(self, op: Op) -> int:
        """The part in which an operation was invoked."""
        return (op.invoke_ts // 1_000_000_000 - self.first_s) // self.width_s

    @property
    def end_s(self) -> int:
        return self.first_s + self.width_s * self.parts


class Load(NamedTuple):
    """How long clients asked, in seconds, and for how many operations."""

    lasted_s: float
    asked: int

    @property
    def per_s(self) -> float:
        return self.asked / self.lasted_s if self.lasted_s else 0.0


def load_of(ops: Sequence[Op], end_ns: int | None) -> Load:
    """The load of a run, from its first invocation. `end_ns` is when it was told to end: what was
    asked for later are final reads. Where that is None, it ends with the last invocation. `ops` are
    in order of invocation."""
    if not ops:
        return Load(0.0, 0)
    end = ops[-1].invoke_ts if end_ns is None else max(end_ns, ops[0].invoke_ts)
    asked = bisect_right(ops, end, key=lambda op: op.invoke_ts)
    return Load((end - ops[0].invoke_ts) / 1e9, asked)


def seconds_of(ops: list[Op]) -> Seconds:
    """The seconds in which operations were invoked, at most `RATE_SECONDS_MAX` parts."""
    times = [op.invoke_ts // 1_000_000_000 for op in ops] or [0]
    first, last = min(times), max(times)
    first = first if first < 0 or first > RATE_SECONDS_MAX else 0
    width = -(-(last - first + 1) // RATE_SECONDS_MAX)
    return Seconds(first, width, (last - first) // width + 1)


def per_second(ops: list[Op]) -> dict[Outcome, list[int]]:
    """Operations invoked in each part of `seconds_of`, by outcome."""
    seconds = seconds_of(ops)
    rows = {outcome: [0] * seconds.parts for outcome in Outcome}
    for op in ops:
        rows[op.outcome][seconds.part(op)] += 1
    return rows
