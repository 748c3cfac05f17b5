"""History lints H01-H18: is this history fit to be judged at all (discipline 1.8)?

A *corrupt* history contradicts itself: no checker's answer about it counts. A *weak* one cannot
tell a pass from a violation. A *warning* is for the reader. Each id appears at most once, with the
number of offenders and the first of them:

    Lint(corrupt={"H02": "2 operations share an op_id, first: 17"}, weak={}, warning={})

H17 is a warning here because rule V09 reads the same numbers from the evidence.
"""

from __future__ import annotations

import bisect
import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from dstest.core import limits
from dstest.core.evidence import Lint
from dstest.core.history import Header, History, Window
from dstest.core.op import FIELDS, Op, Outcome

_LEASE_TICKS_MIN: Final = 10
"""A lease can be judged when the clock ticks at least this often within its time to live."""

_TIES_SHARE_MAX: Final = 0.01
"""Clocks of nanoseconds tie now and then; one that ties more often is too coarse for an order."""

_FIELD_SET: Final = frozenset(FIELDS)


class LintContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the history alone cannot tell. None and empty switch the lints that need it off.

    `landed_epochs` are the fault epochs that must have seen traffic; `node_of_process` adds the
    floor per node. `family` selects the field rules of discipline 1.6 (`queue`, `log`, `lease`,
    `counter`, `ledger`, `session`). `idem_field` names the input field that carries a business
    idempotency key. `sends` are (client, calls made, requests on the wire). `mismatches` are the
    places where the parts of the record contradict each other, `forgiven` those that a writer
    which died explains.
    """

    op_types: frozenset[str] | None = None
    needs_node_seen: bool = True
    landed_epochs: frozenset[str] = frozenset()
    ops_per_epoch_min: int = limits.MIN_OPS_PER_EPOCH
    ops_per_node_min: int = limits.MIN_OPS_PER_NODE
    node_of_process: dict[int | str, str] = msgspec.field(default_factory=dict)
    compares_processes: bool = True
    hidden_retries: bool = False
    family: str | None = None
    lease_ttl_ns: int | None = None
    idem_field: str | None = None
    sends: list[tuple[str, int, int]] = msgspec.field(default_factory=list)
    mismatches: list[str] = msgspec.field(default_factory=list)
    forgiven: list[str] = msgspec.field(default_factory=list)
    ops_eligible: int = 0
    ops_consumed: int = 0
    end_ns: int | None = None


class _Seen:
    """Offenders by lint id and severity: how many, and the first one's sentence."""

    def __init__(self) -> None:
        self.count: Counter[tuple[str, str]] = Counter()
        self.first: dict[tuple[str, str], str] = {}

    def add(self, severity: str, name: str, first: str) -> None:
        self.count[severity, name] += 1
        self.first.setdefault((severity, name), first)

    def lint(self) -> Lint:
        found: dict[str, dict[str, str]] = {"weak": {}, "corrupt": {}, "warning": {}}
        for (severity, name), first in sorted(self.first.items()):
            n = self.count[severity, name]
            found[severity][name] = first if n == 1 else f"{first} ({n:,} in all)"
        return Lint(**found)


def end_of(history: History) -> int:
    """The last time stamp of the run in nanoseconds, 0 for an empty history."""
    ops = max((max(op.invoke_ts, op.complete_ts or 0) for op in history.ops), default=0)
    windows = max(
        (max(w.inject_start, w.healed_at or 0) for w in history.header.windows), default=0
    )
    return max(ops, windows)


def lint(
    history: History,
    raw: Sequence[Mapping[str, Any]] | None = None,
    context: LintContext | None = None,
) -> Lint:
    """Failing lints of `history`. `raw` are the records as read, before keys were filled in."""
    ctx = context or LintContext()
    seen = _Seen()
    if raw is not None:
        _keys(raw, seen)
    _clock(history.header, ctx, seen)
    _records(history.ops, ctx, seen)
    _processes(history.ops, seen)
    end_ns = ctx.end_ns if ctx.end_ns is not None else end_of(history)
    _epochs(history, ctx, end_ns, seen)
    _fields(history, ctx, seen)
    _idempotency(history.ops, ctx, seen)
    _counts(history, ctx, seen)
    return seen.lint()


def _keys(raw: Sequence[Mapping[str, Any]], seen: _Seen) -> None:
    for index, record in enumerate(raw):
        if not record.keys() >= _FIELD_SET:
            absent = ", ".join(sorted(_FIELD_SET - record.keys()))
            seen.add("weak", "H01", f"record {index} lacks {absent}")


def _clock(header: Header, ctx: LintContext, seen: _Seen) -> None:
    clock = header.clock
    if clock is None:
        seen.add("weak", "H03", "the header does not say which clock gave the time stamps")
    elif "MONOTONIC" not in clock.name.upper() and not clock.host:
        severity = "corrupt" if ctx.compares_processes else "weak"
        seen.add(severity, "H03", f"time stamps are {clock.name}, and not of one declared host")


def _records(ops: Sequence[Op], ctx: LintContext, seen: _Seen) -> None:
    """H02, H04-H07, H10 and H11: rules about one record."""
    ids: set[int | str] = set()
    types, needs_node = ctx.op_types, ctx.needs_node_seen
    for op in ops:
        done = op.complete_ts
        if op.op_id in ids:
            seen.add("corrupt", "H02", f"op_id {op.op_id} stands twice")
        ids.add(op.op_id)
        if op.timeout_marker:
            if done is not None or op.output is not None:
                seen.add("corrupt", "H05", f"op {op.op_id} is unknown yet has an answer")
        elif done is None:
            severity = "weak" if op.output is None else "corrupt"
            seen.add(severity, "H04", f"op {op.op_id} never completed yet is not marked unknown")
        else:
            if op.output is not None and op.error is not None:
                seen.add("corrupt", "H07", f"op {op.op_id} has an output and an error")
            if needs_node and op.node_seen is None and op.error is None:
                seen.add("weak", "H10", f"op {op.op_id} does not say which node answered")
        if done is not None and done < op.invoke_ts:
            seen.add("corrupt", "H06", f"op {op.op_id} completed before it was invoked")
        if op.due_ts is not msgspec.UNSET and not 0 <= op.due_ts <= op.invoke_ts < 1 << 63:
            seen.add("corrupt", "H06", f"op {op.op_id} was due after it was invoked, or before all")
        if types is not None and op.op_type not in types:
            seen.add("weak", "H11", f"op {op.op_id} is a {op.op_type!r}, not in the model's set")


def _processes(ops: Sequence[Op], seen: _Seen) -> None:
    """H09: one operation at a time per process, and a fresh process after an unknown one."""
    last: dict[int | str, Op] = {}
    for op in ops if _sorted(ops) else sorted(ops, key=lambda o: o.invoke_ts):
        before = last.get(op.process_id)
        last[op.process_id] = op
        if before is None:
            continue
        if before.timeout_marker or before.complete_ts is None:
            message = f"process {op.process_id} went on with op {op.op_id} after an unknown outcome"
            seen.add("corrupt", "H09", message)
        elif op.invoke_ts < before.complete_ts and before.complete_ts >= before.invoke_ts:
            message = f"process {op.process_id} had ops {before.op_id} and {op.op_id} at a time"
            seen.add("corrupt", "H09", message)


def _sorted(ops: Sequence[Op]) -> bool:
    previous = None
    for op in ops:
        if previous is not None and op.invoke_ts < previous:
            return False
        previous = op.invoke_ts
    return True


class _Overlap:
    """Which windows an interval overlaps, without looking at all of them."""

    def __init__(self, windows: Sequence[Window], end_ns: int) -> None:
        spans = sorted(
            (w.inject_start, end_ns if w.healed_at is None else w.healed_at, i)
            for i, w in enumerate(windows)
        )
        self._spans = spans
        self._starts = [start for start, _, _ in spans]
        self._ends = list(itertools.accumulate((end for _, end, _ in spans), max))

    def of(self, start: int, last: int) -> list[int]:
        """Indices of the windows that `[start, last]` overlaps, in header order."""
        begin = bisect.bisect_left(self._ends, start)
        until = bisect.bisect_right(self._starts, last)
        if begin >= until:
            return []
        return sorted(i for _, end, i in self._spans[begin:until] if end >= start)


def _epochs(history: History, ctx: LintContext, end_ns: int, seen: _Seen) -> None:
    """H08, H15 and H18: operations against the fault windows."""
    names = [w.epoch for w in history.header.windows]
    overlap = _Overlap(history.header.windows, end_ns)
    inside: Counter[str] = Counter()
    per_node: Counter[tuple[str, str | None]] = Counter()
    node_of = ctx.node_of_process
    all_ok = True
    for op in history.ops:
        last = end_ns if op.complete_ts is None else op.complete_ts
        overlapped = overlap.of(op.invoke_ts, last)
        for i in overlapped:
            inside[names[i]] += 1
            if node_of:
                per_node[names[i], node_of.get(op.process_id)] += 1
        expected = names[overlapped[0]] if overlapped else None
        if op.fault_epoch != expected:
            message = f"op {op.op_id} is stamped {op.fault_epoch}, its times say {expected}"
            seen.add("weak", "H08", message)
        if all_ok and op.outcome is not Outcome.OK:
            all_ok = False
    if ctx.hidden_retries and ctx.landed_epochs and all_ok and history.ops:
        message = "every operation succeeded although faults landed: the library may retry unseen"
        seen.add("warning", "H15", message)
    _traffic(inside, per_node, ctx, seen)


def _traffic(
    inside: Counter[str], per_node: Counter[tuple[str, str | None]], ctx: LintContext, seen: _Seen
) -> None:
    """H18: enough operations in every landed window, and at every node."""
    for epoch in sorted(ctx.landed_epochs):
        if inside[epoch] < ctx.ops_per_epoch_min:
            message = f"window {epoch} saw {inside[epoch]} operations of {ctx.ops_per_epoch_min}"
            seen.add("weak", "H18", message)
            continue
        for node in sorted(set(ctx.node_of_process.values())):
            if per_node[epoch, node] < ctx.ops_per_node_min:
                got = per_node[epoch, node]
                message = f"window {epoch}: {got} operations of {ctx.ops_per_node_min} at {node}"
                seen.add("weak", "H18", message)


def _has(value: Any, *names: str) -> bool:
    return isinstance(value, Mapping) and any(name in value for name in names)


def _ok(op: Op) -> bool:
    return op.outcome is Outcome.OK


_FIELD_RULES: Final[dict[str, tuple[str, Callable[[Op], bool]]]] = {
    "log": (
        "an answer lacks its offset",
        lambda op: _ok(op) and not _has(op.output, "offset", "to"),
    ),
    "counter": (
        "an inc lacks its delta, or a read its value",
        lambda op: (
            (op.op_type == "inc" and not isinstance(op.input, int))
            or (op.op_type == "read" and _ok(op) and not isinstance(op.output, int))
        ),
    ),
    "ledger": (
        "no account, or no idempotency id in the input",
        lambda op: (
            (op.op_type in ("credit", "debit", "balance") and op.key is None)
            or (op.op_type in ("credit", "debit") and not _has(op.input, "id", "idempotency_id"))
        ),
    ),
    "session": (
        "a write's answer carries no version",
        lambda op: op.op_type == "write" and _ok(op) and op.output is None,
    ),
}
"""Per family: what is wrong, and which operation shows it (discipline 1.6)."""


def _fields(history: History, ctx: LintContext, seen: _Seen) -> None:
    """H12: the fields without which a family's checker would be unsound."""
    if ctx.family == "queue":
        # Of two that share an instant neither is first, which costs a checker nothing but strength.
        distinct = len({op.invoke_ts for op in history.ops})
        tied = len(history.ops) - distinct
        if tied > _TIES_SHARE_MAX * len(history.ops):
            seen.add("weak", "H12", f"{tied:,} operations share their invoke_ts with another")
    if ctx.family == "lease":
        clock = history.header.clock
        ttl_ns = ctx.lease_ttl_ns
        if clock is None or ttl_ns is None or clock.resolution_ns * _LEASE_TICKS_MIN > ttl_ns:
            seen.add("weak", "H12", "the clock is too coarse for the lease's time to live")
    if ctx.family in _FIELD_RULES:
        said, wrong = _FIELD_RULES[ctx.family]
        for op in history.ops:
            if wrong(op):
                seen.add("weak", "H12", f"op {op.op_id}: {said}")


def _idempotency(ops: Sequence[Op], ctx: LintContext, seen: _Seen) -> None:
    """H13 and H16: business keys that are not the op_id, and nothing sent behind our back."""
    if ctx.idem_field is not None:
        groups: Counter[Any] = Counter()
        for op in ops:
            key = op.input.get(ctx.idem_field) if isinstance(op.input, Mapping) else None
            if key is None:
                continue
            groups[key] += 1
            if key == op.op_id:
                seen.add("weak", "H13", f"op {op.op_id}: its idempotency key is its op_id")
        if not any(n > 1 for n in groups.values()):
            seen.add("weak", "H13", "no idempotency key was used twice: nothing could go wrong")
    for client, calls, requests in ctx.sends:
        if requests > calls:
            seen.add(
                "weak", "H16", f"{client}: {requests:,} requests were sent for {calls:,} calls"
            )


def _counts(history: History, ctx: LintContext, seen: _Seen) -> None:
    """H14 and H17: nothing got lost between the workers, the file and the checkers."""
    counters, total = history.header.counters, len(history.ops)
    for message in ctx.mismatches:
        seen.add("corrupt", "H14", message)
    for message in ctx.forgiven:
        seen.add("warning", "H14", message)
    if "issued" not in counters and history.header.source is None:
        seen.add("weak", "H14", "the header does not say how many operations were issued")
    actual = {"issued": total, "invokes": total}
    if counters.keys() & {"ok", "fail", "unknown"}:
        outcomes = Counter(op.outcome for op in history.ops)
        actual |= {outcome.value: outcomes[outcome] for outcome in Outcome}
    for name, n in actual.items():
        if name in counters and counters[name] != n:
            message = f"{name}: the recorder counted {counters[name]}, the file {n}"
            seen.add("corrupt", "H14", message)
    if ctx.ops_consumed < ctx.ops_eligible:
        message = f"the checkers judged {ctx.ops_consumed} of {ctx.ops_eligible} operations"
        seen.add("warning", "H17", message)
