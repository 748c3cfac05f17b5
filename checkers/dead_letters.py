"""`dead-letters`: what was refused is kept aside, and nothing gets lost on the way there.

    {"op_type": "enqueue", "key": "q", "input": 7, "output": null}
    {"op_type": "dequeue", "key": "q", "output": 7}     taken and acknowledged; null: it was empty
    {"op_type": "reject",  "key": "q", "output": 7}     taken and refused for good; null: as above
    {"op_type": "collect", "key": "q", "output": 7}     taken from the dead letters; null: none

Each acknowledgement of an element is owed one: some dequeue or collect gets it. Whether one is
missing is known when the queue was seen empty after every completed enqueue had ended, and then the
dead letters after that look and after every completed reject. The last such look counts, since a
letter may be on its way for a while. All count as arrived when the run's option `arrival_s` has
passed since the last reject; without a look after that, nothing is known. Takers whose outcome is
unknown, or that failed, may have one element each, as in `total-queue` (`unaccounted` in the
statistics).

| anomaly | meaning |
|---|---|
| lost | acknowledged, and missing when the queue and its dead letters had been seen empty |
| unrejected | among the dead letters, though nobody can have rejected it |
| unexpected | taken out, though nobody ever put it in |
| failed-but-applied | taken out, though its only enqueues failed definitely |
| future-read | taken out before anybody had tried to put it in |

Letters may come twice, so that one reject is enough for all that was collected of an element. Runs
in which nothing was rejected test nothing. Source: as `total-queue`, for two queues; RabbitMQ,
Dead Letter Exchanges.
"""

from __future__ import annotations

from math import inf
from typing import Final, NamedTuple

from checkers._findings import Findings, Part, PerKey, end_of
from checkers.total_queue import (
    AROUND_MAX,
    HELD,
    Traffic,
    acks_count,
    copies_missing,
    holders,
    last_put_ns,
    strangers,
    takes_of,
    traffic,
)
from dstest.core.op import Op
from dstest.core.protocols import Option
from dstest.core.words import quoted

_GETTERS: Final = ("dequeue", "collect")
_TAKERS: Final = ("dequeue", "reject", "collect")


class _Looks(NamedTuple):
    """What found the queue empty last, and then the dead letters, by which all has been taken."""

    queue: Op
    letters: Op

    def during(self, op: Op) -> bool:
        """Did a taker run while one of these did, or between them?"""
        begin = self.letters if op.op_type == "collect" else self.queue
        return op.invoke_ts <= end_of(self.letters) and begin.invoke_ts <= end_of(op)


def _empty(part: Part, types: tuple[str, ...], after: int) -> list[Op]:
    """What of these found nothing, having begun after `after`, in order of completion."""
    looks = [op for op in part.of(*types) if op.output is None and op.invoke_ts > after]
    return sorted(looks, key=end_of)


def _arrival_s(findings: Findings) -> float:
    """The run's option; what is no number of seconds is a time that never passes."""
    given = findings.options.get("arrival_s", 0)
    return float(given) if isinstance(given, int | float) and given >= 0 else inf


def _all_seen(part: Part, arrival_s: float) -> _Looks | None:
    """The last looks at the queue and its dead letters, after the time in which letters arrive."""
    queue = _empty(part, ("dequeue", "reject"), last_put_ns(part))
    if not queue:
        return None
    rejects = [op for op in part.of("reject") if op.output is not None]
    letters = _empty(part, ("collect",), max(map(end_of, [queue[0], *rejects])))
    last_reject = max(map(end_of, rejects), default=0)
    if not letters or letters[-1].invoke_ts < last_reject + arrival_s * 1e9:
        return None
    before = [op for op in queue if end_of(op) < letters[-1].invoke_ts]
    return _Looks(before[-1], letters[-1])


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
        element = t.values.values[at]
        findings.anomaly(
            "unrejected", part.key, [op], message, minimal=not unknown, element=element
        )


def _missing(t: Traffic, part: Part, findings: Findings) -> int:
    """Elements that nobody got; how many of them are surely lost."""
    arrival_s = _arrival_s(findings)
    looks = _all_seen(part, arrival_s)
    if looks is None:
        late = f", {arrival_s:g} s after the last reject" if arrival_s else ""
        findings.undecide(part.key, f"nobody saw the queue, then its dead letters empty{late}")
        return 0
    missing, look = copies_missing(t, _GETTERS), looks.letters
    who = holders(part, _TAKERS, look, looks.during)
    findings.count(unaccounted=min(len(missing), len(who.takers)))
    if len(missing) <= len(who.takers):
        if why := who.unsure(len(missing), acks_count(t), last_put_ns(part)):
            findings.undecide(part.key, why)
        else:
            findings.doubt(HELD, len(missing))
        return 0
    takes = takes_of(t, missing)
    for at in missing:
        puts = t.acked[at]
        rejects = [op for op in takes[at] if op.op_type == "reject"]
        got = len(takes[at]) - len(rejects)
        value = quoted(t.values.values[at])
        message = f"enqueue (op {puts[0].op_id}, element {value}) was acknowledged"
        if len(puts) > 1:
            message = f"{value} was acknowledged {len(puts)} times"
        if len(rejects) > got:
            message += f", rejected by op {rejects[-1].op_id}"
        message += ", nobody got it" if len(puts) == 1 else f", it was got {got} times"
        message += f", and op {look.op_id} found no dead letter{who.note(len(missing))}"
        seen = [*[*puts, *takes[at]][:AROUND_MAX], look]
        element = t.values.values[at]
        findings.anomaly("lost", part.key, seen, message, minimal=not who.takers, element=element)
    return len(missing) - len(who.takers)


def decide(part: Part, findings: Findings) -> int:
    """Anomalies of one queue; how many elements were rejected."""
    t = traffic(part, _TAKERS)
    strangers(t, part, findings)
    findings.tick()
    _unrejected(t, part, findings)
    lost = _missing(t, part, findings)
    rejected = sum(op.op_type == "reject" for op, _ in t.out)
    findings.count(
        acknowledged=len(t.acked),
        dequeued=sum(op.op_type == "dequeue" for op, _ in t.out),
        rejected=rejected,
        collected=sum(op.op_type == "collect" for op, _ in t.out),
        lost=lost,
    )
    return rejected


CHECKER: Final = PerKey(
    "dead-letters",
    decide,
    models=("at-least-once",),
    types=frozenset({"enqueue", *_TAKERS}),
    vacuous="nothing was rejected",
    observers=frozenset(),
    options={
        "arrival_s": Option(
            type=float,
            default=None,
            least=0,
            help="dead-letters: after so long all that was rejected has arrived; 0 by default",
        )
    },
)
