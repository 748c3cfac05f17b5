"""`dead-letters`: what was refused is kept aside, and nothing gets lost on the way there.

    {"op_type": "enqueue", "key": "q", "input": 7, "output": null}
    {"op_type": "dequeue", "key": "q", "output": 7}     taken and acknowledged; null: it was empty
    {"op_type": "reject",  "key": "q", "output": 7}     taken and refused for good; null: as above
    {"op_type": "collect", "key": "q", "output": 7}     taken from the dead letters; null: none

An element that was acknowledged is owed: some dequeue or collect gets it. Whether it is missing is
known when the queue was seen empty after every completed enqueue had ended, and then the dead
letters after that look and after every completed reject. Who took something with unknown outcome,
and began before that, may have one element each (`unaccounted` in the statistics).

| anomaly | meaning |
|---|---|
| lost | acknowledged, and missing when the queue and its dead letters had been seen empty |
| unrejected | among the dead letters, though nobody can have rejected it |
| unexpected | taken out, though nobody ever put it in |
| failed-but-applied | taken out, though its only enqueues failed definitely |
| future-read | taken out before anybody had tried to put it in |

Runs in which nothing was rejected test nothing. Source: as `total-queue`, for two queues; RabbitMQ,
Dead Letter Exchanges.
"""

from __future__ import annotations

from typing import Final

from checkers._findings import Findings, Part, PerKey, end_of
from checkers.total_queue import Traffic, strangers, traffic
from dstest.core.op import Op
from dstest.core.words import quoted

__all__ = ["CHECKER"]

_TAKERS: Final = ("dequeue", "reject", "collect")


def _empty(part: Part, types: tuple[str, ...], after: int) -> Op | None:
    """What of these found nothing first, having begun after `after`; None without one."""
    looks = [op for op in part.of(*types) if op.output is None and op.invoke_ts > after]
    return min(looks, key=end_of, default=None)


def _all_seen(part: Part) -> Op | None:
    """The look at the dead letters by which all that is left has been taken."""
    put = [*part.of("enqueue"), *part.refused("enqueue")]
    first = _empty(part, ("dequeue", "reject"), max(map(end_of, put), default=-1))
    if first is None:
        return None
    return _empty(part, ("collect",), max(map(end_of, [first, *part.of("reject")])))


def _unrejected(t: Traffic, part: Part, findings: Findings) -> None:
    """Each element that was collected needs a reject that had begun; one of unknown outcome may
    have been any, but only one."""
    rejects: dict[int, int] = {}
    for op, at in t.out:
        if op.op_type == "reject":
            rejects.setdefault(at, op.invoke_ts)
    strange: dict[int, Op] = {}
    for op, at in t.out:
        if op.op_type == "collect" and rejects.get(at, end_of(op) + 1) > end_of(op):
            strange.setdefault(at, op)
    unknown = [op.invoke_ts for op in part.unknown if op.op_type == "reject"]
    ends = sorted(map(end_of, strange.values()))
    # As many as have been collected by then need as many unknown rejects that had begun.
    short = any(n > sum(at <= end for at in unknown) for n, end in enumerate(ends, 1))
    if not short:
        return
    for at, op in strange.items():
        message = f"{quoted(t.values.values[at])} was collected by op {op.op_id}, never rejected"
        if unknown:
            message += f" ({len(strange)} such elements, {len(unknown)} unknown rejects)"
        findings.anomaly("unrejected", part.key, [op], message, minimal=not unknown)


def _missing(t: Traffic, part: Part, findings: Findings) -> int:
    """Elements that nobody got; how many of them are surely lost."""
    got = {at for op, at in t.out if op.op_type != "reject"}
    missing = [at for at in t.acked if at not in got]
    look = _all_seen(part)
    if look is None:
        findings.undecide(part.key, "nobody saw the queue, then its dead letters empty")
        return 0
    takers = [op for op in part.unknown if op.op_type in _TAKERS and op.invoke_ts <= end_of(look)]
    findings.count(unaccounted=min(len(missing), len(takers)))
    if len(missing) <= len(takers):
        return 0
    rejected = {at: op for op, at in t.out if op.op_type == "reject"}
    for at in missing:
        put = t.acked[at][0]
        seen = [put, rejected[at], look] if at in rejected else [put, look]
        how = f", rejected by op {rejected[at].op_id}" if at in rejected else ""
        message = (
            f"enqueue {put.op_id} of {quoted(t.values.values[at])} was acknowledged{how}, nobody"
            f" got it, and op {look.op_id} found no dead letter"
        )
        if takers:
            message += f" ({len(missing)} are missing, {len(takers)} unknown takers may hold some)"
        findings.anomaly("lost", part.key, seen, message, minimal=not takers)
    return len(missing) - len(takers)


def decide(part: Part, findings: Findings) -> int:
    """Anomalies of one queue; how many elements were rejected."""
    t = traffic(part, _TAKERS)
    strangers(t, part, findings)
    findings.tick()
    _unrejected(t, part, findings)
    lost = _missing(t, part, findings)
    rejected = {at for op, at in t.out if op.op_type == "reject"}
    findings.count(
        acknowledged=len(t.acked),
        dequeued=sum(op.op_type == "dequeue" for op, _ in t.out),
        rejected=len(rejected),
        collected=sum(op.op_type == "collect" for op, _ in t.out),
        lost=lost,
    )
    return len(rejected)


CHECKER: Final = PerKey(
    "dead-letters",
    decide,
    models=("at-least-once",),
    types=frozenset({"enqueue", *_TAKERS}),
    vacuous="nothing was rejected",
    observers=frozenset(),
)
