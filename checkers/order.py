"""`order`: a queue is first in, first out; a log is the same prefix for everybody.

Model `fifo`, over enqueue and dequeue (as `total-queue`): where the enqueue of a had ended before
that of b began, b must not be out before the dequeue of a begins.

Model `prefix`, over whole reads of one log per key:

    {"op_type": "append", "key": "x", "input": 3}
    {"op_type": "read", "key": "x", "output": [1, 2, 3]}

| anomaly | model | meaning |
|---|---|---|
| reordered | both | b is in front of a, though a was in before b was begun |
| skipped | fifo | a was in before b was begun, b came out, and a never did |
| incompatible-order | prefix | two reads of which neither is a prefix of the other |
| lost, stale, causal-reverse | prefix | as in `set-full` |
| duplicated, phantom, failed-but-applied, future-read | prefix | as in `set-full` |

A dequeue of unknown outcome may have taken a skipped element, so skips count only above their
number. One that failed as `not-offered` may have kept an element from the others for a while: each
excuses one that was in by half a minute after it, and that was overtaken only after it had begun;
how many were excused is counted. Values are unique per key: undecided is a queue where one that
came out was put in twice or came out twice, and a log to which one may have been appended twice.
Source: Gibbons and Korach for the pairs that show a queue's disorder.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import numpy as np

from checkers._findings import Findings, Part, PerKey, end_of, list_of
from checkers._visibility import Visibility, report_missing, report_strangers
from checkers.columns import NEVER, Interner
from checkers.total_queue import Traffic, traffic
from dstest.core.op import Op
from dstest.core.protocols import NOT_OFFERED, code_of
from dstest.core.words import quoted

ARRIVES_NS: Final = 30_000_000_000
"""A request that its client has given up may come to the queue so much later: what a partition
holds up is sent again when it is over."""


def _fifo(part: Part, findings: Findings) -> int:
    """Disorder between pairs of elements, by a sweep over the ends of enqueues."""
    t = traffic(part)
    out: dict[int, Op] = {}
    for op, at in t.out:
        if at in out or len(t.attempts(at)) > 1:
            findings.undecide(
                part.key, f"{quoted(t.values.values[at])} was put in or taken out twice"
            )
            return 0
        out[at] = op
    known = [(end_of(ops[0]), at) for at, ops in t.acked.items()]
    # An element that came out was in by then, even if nobody acknowledged it.
    known += [(end_of(out[at]), at) for at in t.maybe if at in out and at not in t.acked]
    known.sort()
    later = sorted((t.attempts(at)[0].invoke_ts, at) for at in out if t.attempts(at))
    for a, b in _overtaken(part, known, later, out, findings):
        first, second = quoted(t.values.values[a]), quoted(t.values.values[b])
        message = (
            f"{first} was in before {second} was put in, yet {second} was out before anybody took "
            f"{first}"
        )
        ops = [t.attempts(a)[0], t.attempts(b)[0], out[a], out[b]]
        findings.anomaly("reordered", part.key, ops, message)
    _skips(t, part, out, findings)
    return len(out)


def _overtaken(
    part: Part,
    known: list[tuple[int, int]],
    later: list[tuple[int, int]],
    out: dict[int, Op],
    findings: Findings,
) -> list[tuple[int, int]]:
    """Pairs (a, b) of elements: a was in before b was begun, and b out before a was taken.

    Each dequeue that may have held an element for a while excuses one a: one that was in by the
    time that its request can still have come, and that nothing had overtaken before it began.
    """
    failed = [op for op in part.refused("dequeue") if code_of(op.error) == NOT_OFFERED]
    held = sorted((op.invoke_ts, end_of(op) + ARRIVES_NS) for op in failed)
    in_ns = {at: when for when, at in known}
    excused: set[int] = set()
    while found := _disorder(known, later, out, excused, findings):
        a = found[0][0]
        first = min(
            end_of(out[b])
            for begun, b in later
            if in_ns[a] < begun and end_of(out[b]) < out[a].invoke_ts
        )
        fits = [row for row in held if row[0] < first and in_ns[a] <= row[1]]
        if not fits:
            return found
        held.remove(fits[-1])
        excused.add(a)
    if excused:
        findings.count(excused=len(excused))
    return []


def _disorder(
    known: list[tuple[int, int]],
    later: list[tuple[int, int]],
    out: dict[int, Op],
    excused: set[int],
    findings: Findings,
) -> list[tuple[int, int]]:
    """Of each b that has overtaken any, with the one of these that was taken last."""
    found: list[tuple[int, int]] = []
    slowest: tuple[int, int] | None = None
    position = 0
    for begun, b in later:
        findings.tick()
        while position < len(known) and known[position][0] < begun:
            a = known[position][1]
            if a in out and a not in excused:
                slowest = max(slowest or (-1, -1), (out[a].invoke_ts, a))
            position += 1
        if slowest is not None and slowest[0] > end_of(out[b]):
            found.append((slowest[1], b))
    return found


def _skips(t: Traffic, part: Part, out: dict[int, Op], findings: Findings) -> None:
    """Acknowledged elements that stayed while younger ones came out."""
    newest = max(
        ((t.attempts(at)[0].invoke_ts, at) for at in out if t.attempts(at)), default=(-1, -1)
    )
    stayed = [at for at, ops in t.acked.items() if at not in out and end_of(ops[0]) < newest[0]]
    takers = sum(1 for op in part.unknown if op.op_type in ("dequeue", "drain"))
    if len(stayed) <= takers or any(op.op_type == "drain" for op in part.unknown):
        return
    b = newest[1]
    for a in stayed:
        message = (
            f"{quoted(t.values.values[a])} was in before {quoted(t.values.values[b])} was "
            f"put in, and "
            f"{quoted(t.values.values[b])} came out while {quoted(t.values.values[a])} never did"
        )
        ops, element = [t.acked[a][0], t.attempts(b)[0], out[b]], t.values.values[a]
        findings.anomaly("skipped", part.key, ops, message, minimal=takers == 0, element=element)


def _prefix(part: Part, findings: Findings) -> int:
    """Reads against the longest one, then against real time."""
    reads = [(op, list_of(op)) for op in part.of("read")]
    values = Interner()
    tries = Counter(values.id_of(op.input) for op in part.maybe("append"))
    if (twice := next((at for at, n in tries.items() if n > 1), None)) is not None:
        findings.undecide(part.key, f"{quoted(values.values[twice])} was appended twice")
        return 0
    v = Visibility.of(
        [(op, op.input) for op in part.maybe("append")],
        [(op, op.input) for op in part.refused("append")],
        reads,
        findings,
    )
    real = report_strangers(v, part.key, findings)
    longest = max(reads, key=lambda r: len(r[1]), default=None)
    if longest is None:
        return 0
    for op, items in reads:
        findings.tick()
        if items != longest[1][: len(items)]:
            at = next(i for i, (x, y) in enumerate(zip(items, longest[1], strict=False)) if x != y)
            message = (
                f"read (op {op.op_id}) has {quoted(items[at])} at index {at}, where read "
                f"(op {longest[0].op_id}) "
                f"has {quoted(longest[1][at])}"
            )
            findings.anomaly("incompatible-order", part.key, [longest[0], op], message)
    report_missing(v, part.key, findings, real)
    _prefix_times(v, part, findings, longest)
    known = np.sort(v.known_ns[real])
    return sum(int(np.searchsorted(known, op.invoke_ts)) for op, _ in reads)


def _prefix_times(
    v: Visibility, part: Part, findings: Findings, longest: tuple[Op, list[Any]]
) -> None:
    """Elements whose order in the log contradicts real time."""
    front, begun = -1, -1
    for value in longest[1]:
        at = v.values.id_of(value)
        if v.invoke_ns[at] == NEVER:
            continue
        if v.acked_ns[at] < begun:
            message = (
                f"append of {quoted(value)} had ended before that of "
                f"{quoted(v.value(front))} began, yet it "
                f"stands behind it in read (op {longest[0].op_id})"
            )
            ops = [v.acked[at], v.attempt[front], longest[0]]
            findings.anomaly("reordered", part.key, ops, message)
        if v.invoke_ns[at] > begun:
            front, begun = at, int(v.invoke_ns[at])


def decide(part: Part, findings: Findings) -> int:
    """Disorder in one queue or log; how many elements or pairs were tested."""
    return _fifo(part, findings) if findings.model == "fifo" else _prefix(part, findings)


CHECKER: Final = PerKey(
    "order",
    decide,
    models=("fifo", "prefix"),
    types=frozenset({"enqueue", "dequeue", "drain", "append", "read"}),
    prefix_closed=True,
    owed=frozenset({"enqueue", "append"}),
    vacuous="nothing came out, or no read began after an append had ended",
)
