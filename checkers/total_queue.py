"""`total-queue`: what goes in comes out, whatever the order.

    {"op_type": "enqueue", "key": "q", "input": 7, "output": null}
    {"op_type": "dequeue", "key": "q", "input": null, "output": 7}      null: the queue was empty
    {"op_type": "drain",   "key": "q", "input": null, "output": [8, 9]}

Nothing is lost until the queue was seen empty: by a drain, or a dequeue that found nothing, which
began after every completed enqueue had ended. Such a look tells nothing of what somebody has in
hand: a dequeue whose outcome is unknown, or that failed, may have taken one element, and what is
not acknowledged comes back, perhaps after the look, for another one to take. So many may be missing
without anything being lost (`unaccounted` in the statistics), whichever is less:

    those of unknown outcome or failed that had begun when the first look ended
    all those of unknown outcome, and those failed ones that ran during the last look

The second one assumes that what failed takers gave back is in the queue again by the last look. A
drain may have taken any number, so where one counts the answer is unknown if something is missing.
So it is where only takers that began after the last enqueue can have what is missing: the longer
somebody looks for it, the more of those there are. And so it is where most of what was acknowledged
is missing: what nobody has seen was not tested.

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
from collections.abc import Callable, Collection
from dataclasses import dataclass
from math import inf
from typing import Final

from checkers._findings import Findings, Part, PerKey, end_of, list_of
from checkers.columns import Interner
from dstest.core.op import Op
from dstest.core.words import often, quoted

_TAKERS: Final = ("dequeue", "drain")

HELD: Final = (
    "acknowledged elements that nobody got may be with takers that failed or have no known outcome"
)
"""What is said beside a verdict of elements that are missing and not surely lost."""

AROUND_MAX: Final = 7
"""Operations on one element in a witness, beside the look."""


@dataclass(slots=True)
class Holders:
    """Takers that may have something in hand, and how many elements: one each, or `inf` where one
    is a drain. `by_first` says that it is so because of the first look."""

    takers: list[Op]
    room: float
    by_first: bool

    def unsure(self, missing: int, owed: int, last_put_ns: int) -> str | None:
        """Why nobody can tell whether so many of those that are owed are lost, where they may have
        them all."""
        if not missing:
            return None
        if self.room == inf:
            return f"{missing} are missing; a drain of unknown outcome remains"
        if 2 * missing > owed:
            return f"{missing} of {owed} are missing: most of what was acknowledged was never seen"
        if missing > _room([op for op in self.takers if op.invoke_ts <= last_put_ns]):
            return (
                f"{missing} are missing, and it takes takers that began after the last enqueue, and"
                " failed or have no known outcome, to have them"
            )
        return None

    def note(self, missing: int) -> str:
        """What is added to the message of a loss."""
        if not self.takers:
            return ""
        return (
            f" ({missing} are missing, {len(self.takers)} takers that failed or whose outcome is"
            " unknown may have some)"
        )


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
            out += [(op, values.id_of(value)) for value in list_of(op)]
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
            findings.anomaly("future-read", part.key, [attempts[0], op], message, element=value)
        elif at in t.refused:
            message = f"{quoted(value)} was refused definitely, yet it came out by op {op.op_id}"
            ops = [t.refused[at][0], op]
            findings.anomaly("failed-but-applied", part.key, ops, message, element=value)
        else:
            message = f"{quoted(value)} came out by op {op.op_id}, and nobody ever put it in"
            findings.anomaly("unexpected", part.key, [op], message, element=value)


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
            f"{quoted(t.values.values[at])} was put in {often(len(puts))} and came out "
            f"{often(len(ops))}"
        )
        seen, value = [*puts, *ops][:8], t.values.values[at]
        minimal = len(puts) == 1
        findings.anomaly("duplicated", part.key, seen, message, minimal=minimal, element=value)
    return len(again)


def last_put_ns(part: Part) -> int:
    """When the last enqueue of known outcome ended; -1 without one."""
    puts = [*part.of("enqueue"), *part.refused("enqueue")]
    return max(map(end_of, puts), default=-1)


def _empty_looks(part: Part) -> list[Op]:
    """What found the queue empty, after all enqueues, in order of completion."""
    last = last_put_ns(part)
    looks = [
        op
        for op in part.ok
        if op.invoke_ts > last
        and (op.op_type == "drain" or (op.op_type == "dequeue" and op.output is None))
    ]
    return sorted(looks, key=end_of)


def _room(takers: list[Op]) -> float:
    """How many elements they may have."""
    return inf if any(op.op_type == "drain" for op in takers) else len(takers)


def holders(part: Part, types: Collection[str], first: Op, during: Callable[[Op], bool]) -> Holders:
    """Who of `types` may have what is missing; `first` is the first look, `during` says of a failed
    one whether it ran while the last looks did."""
    unknown = [op for op in part.unknown if op.op_type in types]
    failed = part.refused(*types)
    begun = [op for op in (*unknown, *failed) if op.invoke_ts <= end_of(first)]
    late = [*unknown, *filter(during, failed)]
    if _room(begun) <= _room(late):
        return Holders(begun, _room(begun), by_first=True)
    return Holders(late, _room(late), by_first=False)


def at_once(one: Op, other: Op) -> bool:
    """Did they run at the same time?"""
    return one.invoke_ts <= end_of(other) and other.invoke_ts <= end_of(one)


def acks_count(t: Traffic) -> int:
    """How many acknowledgements there are."""
    return sum(map(len, t.acked.values()))


def copies_missing(t: Traffic, takers: Collection[str]) -> list[int]:
    """An id for each acknowledgement that is owed one, and of which none of `takers` got any."""
    got = Counter(at for op, at in t.out if op.op_type in takers)
    # An element may be put in more than once: each acknowledgement is owed one.
    return [at for at, ops in t.acked.items() for _ in range(len(ops) - got[at])]


def takes_of(t: Traffic, ids: Collection[int]) -> dict[int, list[Op]]:
    """What took these elements out."""
    takes: dict[int, list[Op]] = {at: [] for at in ids}
    for op, at in t.out:
        if at in takes:
            takes[at].append(op)
    return takes


def _lost(t: Traffic, part: Part, findings: Findings) -> int:
    """Copies that are surely lost."""
    looks = _empty_looks(part)
    missing = copies_missing(t, _TAKERS)
    if not looks:
        findings.undecide(part.key, "nobody saw the queue empty after the last enqueue")
        return 0
    who = holders(part, _TAKERS, looks[0], lambda op: at_once(op, looks[-1]))
    if len(missing) <= who.room:
        if why := who.unsure(len(missing), acks_count(t), last_put_ns(part)):
            findings.undecide(part.key, why)
        else:
            findings.doubt(HELD, len(missing))
        return 0
    look = looks[0] if who.by_first else looks[-1]
    takes = takes_of(t, missing)
    for at in missing:
        puts, value = t.acked[at], quoted(t.values.values[at])
        message = (
            f"enqueue (op {puts[0].op_id}, element {value}) was acknowledged, it never came out"
        )
        if len(puts) > 1:
            message = (
                f"{value} was acknowledged {often(len(puts))} and came out {often(len(takes[at]))}"
            )
        message += f", and op {look.op_id} found the queue empty{who.note(len(missing))}"
        seen = [*[*puts, *takes[at]][:AROUND_MAX], look]
        element = t.values.values[at]
        findings.anomaly("lost", part.key, seen, message, minimal=not who.takers, element=element)
    return len(missing) - len(who.takers)


def decide(part: Part, findings: Findings) -> int:
    """Anomalies of one queue; the number of acknowledged elements that were accounted for."""
    t = traffic(part)
    strangers(t, part, findings)
    findings.tick()
    duplicated = _duplicates(t, part, findings)
    lost = _lost(t, part, findings)
    findings.count(
        attempted=len(t.acked.keys() | t.maybe.keys()),
        acknowledged=len(t.acked),
        dequeued=len(t.out),
        lost=lost,
        unaccounted=len(copies_missing(t, _TAKERS)) - lost,
        duplicated=duplicated,
        recovered=len((t.maybe.keys() - t.acked.keys()) & {at for _, at in t.out}),
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
