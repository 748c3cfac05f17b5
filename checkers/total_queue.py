"""`total-queue`: what goes in comes out, whatever the order.

    {"op_type": "enqueue", "key": "q", "input": 7, "output": null}
    {"op_type": "dequeue", "key": "q", "input": null, "output": 7}      null: the queue was empty
    {"op_type": "drain",   "key": "q", "input": null, "output": [8, 9]}

Nothing is lost until the queue was seen empty: by a drain, or a dequeue that found nothing, which
began after every completed enqueue had ended. A dequeue of unknown outcome that began before that
look had ended may have taken one element: so many may be missing without anything being lost
(`unaccounted` in the statistics). A drain of unknown outcome may have taken any number, so with one
of those the answer is unknown where something is missing.

| anomaly | meaning |
|---|---|
| lost | acknowledged, and still missing when the queue was seen empty |
| duplicated | taken out more often than it can have been put in (`exactly-once` only) |
| unexpected | taken out, though nobody ever put it in |
| failed-but-applied | taken out, though its only enqueues failed definitely |
| future-read | taken out before anybody had tried to put it in |

Elements of unknown enqueues that came out are `recovered` in the statistics. Source: Jepsen's
`checker/total-queue`, which does not count unknown dequeues.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from math import inf
from typing import Final

from checkers._columns import Interner
from checkers._findings import Findings, Part, PerKey, end_of, listed
from dstest.core.op import Op
from dstest.core.words import quoted

__all__ = ["CHECKER", "Traffic", "strangers", "traffic"]


@dataclass(slots=True)
class Traffic:
    """Operations by element id. `out` are (operation, id) in order of invocation."""

    values: Interner
    acked: dict[int, list[Op]]
    maybe: dict[int, list[Op]]
    refused: dict[int, list[Op]]
    out: list[tuple[Op, int]]

    def attempts(self, at: int) -> list[Op]:
        """Enqueues that may have put the element in."""
        return [*self.acked.get(at, ()), *self.maybe.get(at, ())]


def _by_value(values: Interner, ops: list[Op]) -> dict[int, list[Op]]:
    found: dict[int, list[Op]] = {}
    for op in ops:
        found.setdefault(values.id_of(op.input), []).append(op)
    return found


def traffic(part: Part, takers: Collection[str] = ("dequeue",)) -> Traffic:
    """What went in and what came out, by `takers` one at a time, or by a drain."""
    values = Interner()
    out: list[tuple[Op, int]] = []
    for op in part.ok:
        if op.op_type in takers and op.output is not None:
            out.append((op, values.id_of(op.output)))
        elif op.op_type == "drain":
            out += [(op, values.id_of(value)) for value in listed(op)]
    return Traffic(
        values,
        _by_value(values, part.of("enqueue")),
        _by_value(values, [op for op in part.unknown if op.op_type == "enqueue"]),
        _by_value(values, part.refused("enqueue")),
        out,
    )


def strangers(t: Traffic, part: Part, findings: Findings) -> None:
    """Elements that came out and cannot have been in; each is told once."""
    told: set[int] = set()
    for op, at in t.out:
        value, attempts = t.values.values[at], t.attempts(at)
        if at in told or any(a.invoke_ts <= end_of(op) for a in attempts):
            continue
        told.add(at)
        if attempts:
            message = (
                f"{quoted(value)} came out by op {op.op_id} before anybody had tried to put it in"
            )
            findings.anomaly("future-read", part.key, [attempts[0], op], message)
        elif at in t.refused:
            message = f"{quoted(value)} was refused definitely, yet it came out by op {op.op_id}"
            findings.anomaly("failed-but-applied", part.key, [t.refused[at][0], op], message)
        else:
            message = f"{quoted(value)} came out by op {op.op_id}, and nobody ever put it in"
            findings.anomaly("unexpected", part.key, [op], message)


def _duplicates(t: Traffic, part: Part, findings: Findings) -> int:
    """Elements that came out more often than they were put in; how many there are."""
    times = Counter(at for _, at in t.out)
    again = {at for at, n in times.items() if n > max(1, len(t.attempts(at)))}
    if findings.model == "at-least-once" or not again:
        return len(again)
    takers: dict[int, list[Op]] = {}
    for op, at in t.out:
        if at in again:
            takers.setdefault(at, []).append(op)
    for at, ops in takers.items():
        puts = t.attempts(at)
        message = (
            f"{quoted(t.values.values[at])} was put in {len(puts)} times and came out "
            f"{len(ops)} times"
        )
        findings.anomaly("duplicated", part.key, [*puts, *ops][:8], message, minimal=len(puts) == 1)
    return len(again)


def _empty_look(part: Part) -> Op | None:
    """What found the queue empty first, after all enqueues; None without one."""
    writes = [*part.of("enqueue"), *part.refused("enqueue")]
    last = max((end_of(op) for op in writes), default=-1)
    looks = [
        op
        for op in part.ok
        if op.invoke_ts > last
        and (op.op_type == "drain" or (op.op_type == "dequeue" and op.output is None))
    ]
    return min(looks, key=end_of, default=None)


def decide(part: Part, findings: Findings) -> int:
    """Anomalies of one queue; the number of acknowledged elements that were accounted for."""
    t = traffic(part)
    strangers(t, part, findings)
    findings.tick()
    duplicated = _duplicates(t, part, findings)
    out = Counter(at for _, at in t.out)
    look = _empty_look(part)
    # An element may be put in more than once: each acknowledgement is owed one.
    missing = [at for at, ops in t.acked.items() for _ in range(len(ops) - out[at])]
    takers = [op for op in part.unknown if op.op_type in ("dequeue", "drain")]
    if look is not None:
        # An empty queue has nothing for those that come later.
        takers = [op for op in takers if op.invoke_ts <= end_of(look)]
    spare = inf if any(op.op_type == "drain" for op in takers) else len(takers)
    lost = 0
    if look is None:
        findings.undecide(part.key, "nobody saw the queue empty after the last enqueue")
    elif len(missing) > spare:
        lost = len(missing) - int(spare)
        for at in missing:
            message = (
                f"enqueue {t.acked[at][0].op_id} of {quoted(t.values.values[at])} was "
                f"acknowledged, it "
                f"never came out, and op {look.op_id} found the queue empty"
            )
            if spare:
                message += f" ({len(missing)} are missing, {spare} unknown takers may hold some)"
            findings.anomaly("lost", part.key, [t.acked[at][0], look], message, minimal=not spare)
    elif missing and spare > len(takers):
        findings.undecide(
            part.key, f"{len(missing)} are missing; a drain of unknown outcome remains"
        )
    findings.count(
        attempted=len(t.acked.keys() | t.maybe.keys()),
        acknowledged=len(t.acked),
        dequeued=len(t.out),
        lost=lost,
        unaccounted=len(missing) - lost,
        duplicated=duplicated,
        recovered=len((t.maybe.keys() - t.acked.keys()) & out.keys()),
    )
    return len(t.acked)


CHECKER: Final = PerKey(
    "total-queue",
    decide,
    models=("exactly-once", "at-least-once"),
    types=frozenset({"enqueue", "dequeue", "drain"}),
    vacuous="nothing was acknowledged",
    observers=frozenset(),
)
