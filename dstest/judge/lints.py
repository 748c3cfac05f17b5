"""History lints H01-H18: is this history fit to be judged at all?

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple

import msgspec

from dstest.core import limits
from dstest.core.evidence import Lint
from dstest.core.history import FaultWindow, Header, History
from dstest.core.op import FIELDS, Op, Outcome
from dstest.core.rules import Rule

_LEASE_TICKS_MIN: Final = 10
"""A lease can be judged when the clock ticks at least this often within its time to live."""

_TIES_SHARE_MAX: Final = 0.01
"""Clocks of nanoseconds tie now and then; one that ties more often is too coarse for an order."""

_FIELD_SET: Final = frozenset(FIELDS)

Severity = Literal["weak", "corrupt", "warning"]


class LintContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the history alone cannot tell. None and empty switch the lints that need it off.

    `landed_epochs` are the fault epochs that must have seen traffic; `node_of_process` adds the
    floor per node. `family` selects the rules for fields (`queue`, `log`, `lease`,
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


def end_of(history: History) -> int:
    """The last time stamp of the run in nanoseconds, 0 for an empty history."""
    begun = max((op.invoke_ts for op in history.ops), default=0)
    done = max((op.complete_ts or 0 for op in history.ops), default=0)
    windows = max((max(w.start_ns, w.healed_ns or 0) for w in history.header.windows), default=0)
    return max(begun, done, windows)


class _View:
    """What a lint looks at. `raw` are the records as read, before keys were filled in."""

    def __init__(
        self, history: History, raw: Sequence[Mapping[str, Any]], context: LintContext
    ) -> None:
        self.header: Header = history.header
        self.ops: Sequence[Op] = history.ops
        self.raw = raw
        self.ctx = context
        self.end_ns = end_of(history) if context.end_ns is None else context.end_ns

    @cached_property
    def epochs(self) -> _Epochs:
        """The operations against the fault windows."""
        names = [w.epoch for w in self.header.windows]
        overlap = _Overlap(self.header.windows, self.end_ns)
        found = _Epochs(Counter(), Counter(), [])
        node_of = self.ctx.node_of_process
        for op in self.ops:
            last = self.end_ns if op.complete_ts is None else op.complete_ts
            overlapped = overlap.of(op.invoke_ts, last)
            for i in overlapped:
                found.inside[names[i]] += 1
                if node_of:
                    found.per_node[names[i], node_of.get(op.process_id)] += 1
            expected = names[overlapped[0]] if overlapped else None
            if op.fault_epoch != expected:
                message = f"op {op.op_id} is stamped {op.fault_epoch}, its times say {expected}"
                found.misstamped.append(message)
        return found


class _Epochs(NamedTuple):
    """Operations by window, by window and node, and a sentence for each whose stamp is wrong."""

    inside: Counter[str]
    per_node: Counter[tuple[str, str | None]]
    misstamped: list[str]


Found = Iterator[tuple[Severity, str]]


def lint(
    history: History,
    raw: Sequence[Mapping[str, Any]] | None = None,
    context: LintContext | None = None,
) -> Lint:
    """Failing lints of `history`. `raw` are the records as read, before keys were filled in."""
    view = _View(history, raw or (), context or LintContext())
    found: dict[Severity, dict[str, str]] = {"weak": {}, "corrupt": {}, "warning": {}}
    for rule in LINTS:
        first: dict[Severity, str] = {}
        count: Counter[Severity] = Counter()
        for severity, what in rule.find(view):
            first.setdefault(severity, what)
            count[severity] += 1
        for severity, what in first.items():
            n = count[severity]
            found[severity][rule.id] = what if n == 1 else f"{what} ({n:,} in all)"
    return Lint(**found)


def _keys(v: _View) -> Found:
    for index, record in enumerate(v.raw):
        if not record.keys() >= _FIELD_SET:
            absent = ", ".join(sorted(_FIELD_SET - record.keys()))
            yield "weak", f"record {index} lacks {absent}"


def _ids(v: _View) -> Found:
    ids: set[int | str] = set()
    for op in v.ops:
        if op.op_id in ids:
            yield "corrupt", f"op_id {op.op_id} stands twice"
        ids.add(op.op_id)


def _clock(v: _View) -> Found:
    clock = v.header.clock
    if clock is None:
        yield "weak", "the header does not say which clock gave the time stamps"
    elif "MONOTONIC" not in clock.name.upper() and not clock.host:
        severity: Severity = "corrupt" if v.ctx.compares_processes else "weak"
        yield severity, f"time stamps are {clock.name}, and not of one declared host"


def _unmarked(v: _View) -> Found:
    for op in v.ops:
        if op.complete_ts is None and not op.timeout_marker:
            severity: Severity = "weak" if op.output is None else "corrupt"
            yield severity, f"op {op.op_id} never completed yet is not marked unknown"


def _answered(v: _View) -> Found:
    for op in v.ops:
        if op.timeout_marker and (op.complete_ts is not None or op.output is not None):
            yield "corrupt", f"op {op.op_id} is unknown yet has an answer"


def _times(v: _View) -> Found:
    for op in v.ops:
        if op.complete_ts is not None and op.complete_ts < op.invoke_ts:
            yield "corrupt", f"op {op.op_id} completed before it was invoked"
        if op.due_ts is not msgspec.UNSET and not 0 <= op.due_ts <= op.invoke_ts < 1 << 63:
            yield "corrupt", f"op {op.op_id} was due after it was invoked, or before all"


def _output_and_error(v: _View) -> Found:
    for op in v.ops:
        completed = op.complete_ts is not None and not op.timeout_marker
        if completed and op.output is not None and op.error is not None:
            yield "corrupt", f"op {op.op_id} has an output and an error"


def _stamps(v: _View) -> Found:
    return (("weak", message) for message in v.epochs.misstamped)


def _processes(v: _View) -> Found:
    last: dict[int | str, Op] = {}
    for op in v.ops if _sorted(v.ops) else sorted(v.ops, key=lambda o: o.invoke_ts):
        before = last.get(op.process_id)
        last[op.process_id] = op
        if before is None:
            continue
        if before.timeout_marker or before.complete_ts is None:
            message = f"process {op.process_id} went on with op {op.op_id} after an unknown outcome"
            yield "corrupt", message
        elif op.invoke_ts < before.complete_ts and before.complete_ts >= before.invoke_ts:
            message = f"process {op.process_id} had ops {before.op_id} and {op.op_id} at a time"
            yield "corrupt", message


def _sorted(ops: Sequence[Op]) -> bool:
    previous = None
    for op in ops:
        if previous is not None and op.invoke_ts < previous:
            return False
        previous = op.invoke_ts
    return True


class _Overlap:
    """Which windows an interval overlaps, without looking at all of them."""

    def __init__(self, windows: Sequence[FaultWindow], end_ns: int) -> None:
        spans = sorted(
            (w.start_ns, end_ns if w.healed_ns is None else w.healed_ns, i)
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


def _nodes(v: _View) -> Found:
    for op in v.ops if v.ctx.needs_node_seen else ():
        answered = op.complete_ts is not None and not op.timeout_marker and op.error is None
        if answered and op.node_seen is None:
            yield "weak", f"op {op.op_id} does not say which node answered"


def _types(v: _View) -> Found:
    types = v.ctx.op_types
    for op in v.ops if types is not None else ():
        if types is not None and op.op_type not in types:
            yield "weak", f"op {op.op_id} is a {op.op_type!r}, not in the model's set"


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
"""Per family: what is wrong, and which operation shows it."""


def _fields(v: _View) -> Found:
    ctx = v.ctx
    if ctx.family == "queue":
        # Of two that share an instant neither is first, which costs a checker nothing but strength.
        tied = len(v.ops) - len({op.invoke_ts for op in v.ops})
        if tied > _TIES_SHARE_MAX * len(v.ops):
            yield "weak", f"{tied:,} operations share their invoke_ts with another"
    if ctx.family == "lease":
        clock = v.header.clock
        ttl_ns = ctx.lease_ttl_ns
        if clock is None or ttl_ns is None or clock.resolution_ns * _LEASE_TICKS_MIN > ttl_ns:
            yield "weak", "the clock is too coarse for the lease's time to live"
    if ctx.family in _FIELD_RULES:
        said, wrong = _FIELD_RULES[ctx.family]
        for op in v.ops:
            if wrong(op):
                yield "weak", f"op {op.op_id}: {said}"


def _business_keys(v: _View) -> Found:
    field = v.ctx.idem_field
    if field is None:
        return
    groups: Counter[Any] = Counter()
    for op in v.ops:
        key = op.input.get(field) if isinstance(op.input, Mapping) else None
        if key is None:
            continue
        groups[key] += 1
        if key == op.op_id:
            yield "weak", f"op {op.op_id}: its idempotency key is its op_id"
    if not any(n > 1 for n in groups.values()):
        yield "weak", "no idempotency key was used twice: nothing could go wrong"


def _counts(v: _View) -> Found:
    counters, total = v.header.counters, len(v.ops)
    yield from (("corrupt", message) for message in v.ctx.mismatches)
    yield from (("warning", message) for message in v.ctx.forgiven)
    if "issued" not in counters and v.header.source is None:
        yield "weak", "the header does not say how many operations were issued"
    actual = {"issued": total, "invokes": total}
    if counters.keys() & {"ok", "fail", "unknown"}:
        outcomes = Counter(op.outcome for op in v.ops)
        actual |= {outcome.value: outcomes[outcome] for outcome in Outcome}
    for name, n in actual.items():
        if name in counters and counters[name] != n:
            yield "corrupt", f"{name}: the recorder counted {counters[name]}, the file {n}"


def _all_well(v: _View) -> Found:
    faults = v.ctx.hidden_retries and v.ctx.landed_epochs and v.ops
    if faults and all(op.outcome is Outcome.OK for op in v.ops):
        message = "every operation succeeded although faults landed: the library may retry unseen"
        yield "warning", message


def _sent_again(v: _View) -> Found:
    for client, calls, requests in v.ctx.sends:
        if requests > calls:
            yield "weak", f"{client}: {requests:,} requests were sent for {calls:,} calls"


def _all_judged(v: _View) -> Found:
    if v.ctx.ops_consumed < v.ctx.ops_eligible:
        message = f"the checkers judged {v.ctx.ops_consumed} of {v.ctx.ops_eligible} operations"
        yield "warning", message


_FEW_MAX: Final = 6
"""Windows, and nodes in them, that are named."""


def _traffic(v: _View) -> Found:
    """All windows in one message, the emptiest first: by it a remedy is made."""
    ctx, inside = v.ctx, v.epochs.inside
    nodes = sorted(set(ctx.node_of_process.values()))
    windows, quiet = [], []
    for epoch in sorted(ctx.landed_epochs):
        if inside[epoch] < ctx.ops_per_epoch_min:
            windows.append((inside[epoch], f"in {epoch}"))
            continue
        got = [(v.epochs.per_node[epoch, node], f"at {node} in {epoch}") for node in nodes]
        quiet += [row for row in got if row[0] < ctx.ops_per_node_min]
    said = []
    for where, few, least in (
        ("in windows", windows, ctx.ops_per_epoch_min),
        ("at nodes", quiet, ctx.ops_per_node_min),
    ):
        if few:
            few.sort(key=lambda row: row[0])
            more = f" and {len(few) - _FEW_MAX} more" if len(few) > _FEW_MAX else ""
            told = ", ".join(f"{got} {place}" for got, place in few[:_FEW_MAX])
            said.append(f"too few operations {where}, {least} are needed: {told}{more}")
    if said:
        yield "weak", "; ".join(said)


LINTS: Final[tuple[Rule[_View, Found], ...]] = (
    Rule("H01", "every record has all twelve fields", _keys),
    Rule("H02", "no op_id stands twice", _ids),
    Rule("H03", "the clock of the time stamps is named, and one", _clock),
    Rule("H04", "what never completed is marked unknown", _unmarked),
    Rule("H05", "an unknown operation has no answer", _answered),
    Rule("H06", "nothing completes before it was invoked, or was due after that", _times),
    Rule("H07", "no operation has an output and an error", _output_and_error),
    Rule("H08", "the fault epoch of each operation is that of its time", _stamps),
    Rule(
        "H09",
        "one operation at a time per process, and a new process after an unknown one",
        _processes,
    ),
    Rule("H10", "each answer says which node gave it", _nodes),
    Rule("H11", "every type of operation is one that the model knows", _types),
    Rule(
        "H12",
        "the fields are there without which the checkers of a family would be unsound",
        _fields,
    ),
    Rule("H13", "business keys are not op_ids, and some are used twice", _business_keys),
    Rule("H14", "what was counted while recording is what the file holds", _counts),
    Rule(
        "H15",
        "where the client may retry unseen, not everything succeeded while faults stood",
        _all_well,
    ),
    Rule(
        "H16",
        "not more requests went over the wire than calls were made: nothing was sent again",
        _sent_again,
    ),
    Rule("H17", "the checkers judged every operation", _all_judged),
    Rule("H18", "every window of a landed fault, and every node, saw enough operations", _traffic),
)
"""`title` says what holds."""
