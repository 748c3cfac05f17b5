"""`atomic-view`: does a transaction see others whole, and the same each time it looks?

A `bump` adds one to every member of a group and reads them; a `look` reads members one by one, and
may touch some: that changes no value.

    {"op_type": "bump", "key": "g1", "input": [0, 1], "output": [7, 7]}
    {"op_type": "look", "key": "g1", "output": [["r", 0, 7], ["touch", 1, null], ["r", 1, 8]]}

The n-th bump of a group makes all its members n, so a number says which bumps a read has seen.

| anomaly | meaning | forbidden by |
|---|---|---|
| nonmonotonic-view | after a bump was seen, a later read of the transaction does not see it | all |
| phantom | a read saw more bumps than had begun | all |
| non-repeatable-read | a member had grown when it was read again (P2) | all but the weakest |
| read-skew | another member showed a later bump (A5A) | all but the weakest |
| lost-update | two bumps made one number, or one made several | all but the weakest |
| stale | a read did not see a bump that had ended before it began | strict-serializable |

The weakest model is `monotonic-atomic-view`. Where bumps got lost, numbers do not say what was
seen: under that one, which allows it, such a group is not decided. Source: Bailis and others,
"Highly Available Transactions" (2013), section 5.1; Berenson and others, "A Critique of ANSI SQL
Isolation Levels" (1995).
"""

from __future__ import annotations

import bisect
from typing import Final

from checkers._findings import Findings, Part, PerKey, Unreadable, end_of
from dstest.core.op import Op

__all__ = ["CHECKER"]

_STRICT: Final = "strict-serializable"
_VIEW: Final = "monotonic-atomic-view"


def _numbers(op: Op) -> list[tuple[object, int]]:
    """(member, number) of each read, in order."""
    rows = op.output
    if not isinstance(rows, list | tuple):
        raise Unreadable(op, "its output is not a list")
    if op.op_type == "bump":
        found: list[tuple[object, int]] = list(enumerate(rows))
    else:
        found = [(row[1], row[2]) for row in rows if row[0] == "r"]
    for _, n in found:
        if isinstance(n, bool) or not isinstance(n, int) or n < 0:
            raise Unreadable(op, f"{n!r} is not a number of bumps")
    return found


def _lost(part: Part, findings: Findings) -> bool:
    """Bumps that made one number, or several; were there any?"""
    first: dict[int, Op] = {}
    judged, lost = findings.model != _VIEW, False
    for op in part.of("bump"):
        made = sorted({n for _, n in _numbers(op)})
        if not made:
            raise Unreadable(op, "it made no number")
        before = first.setdefault(made[0], op)
        if len(made) == 1 and before is op:
            continue
        lost = True
        if judged:
            who = (
                f"bump {op.op_id} made {made}"
                if len(made) > 1
                else (f"bumps {before.op_id} and {op.op_id} both made {made[0]}")
            )
            findings.anomaly("lost-update", part.key, [before, op], who)
    return lost


def _within(op: Op, part: Part, findings: Findings) -> None:
    """What one look saw, against itself."""
    top: tuple[object, int] | None = None
    seen: dict[object, int] = {}
    for member, n in _numbers(op):
        if top is not None and n < top[1]:
            message = f"look {op.op_id} read {top[1]} of {top[0]!r}, then {n} of {member!r}"
            findings.anomaly("nonmonotonic-view", part.key, [op], message)
            return
        if top is not None and n > top[1] and findings.model != _VIEW:
            again = member in seen
            message = (
                f"look {op.op_id} read {seen[member]} of {member!r}, then {n}"
                if again
                else f"look {op.op_id} read {top[1]} of {top[0]!r}, then {n} of {member!r}"
            )
            findings.anomaly(
                "non-repeatable-read" if again else "read-skew", part.key, [op], message
            )
            return
        top = (member, n)
        seen[member] = n


def decide(part: Part, findings: Findings) -> int:
    """One group; how many looks read twice or more."""
    lost = _lost(part, findings)
    if lost and findings.model == _VIEW:
        findings.undecide(part.key, "bumps got lost, so numbers do not say what was seen")
        return 0
    began = sorted(op.invoke_ts for op in part.maybe("bump"))
    ended = sorted(end_of(op) for op in part.of("bump"))
    tested = 0
    for op in part.of("look"):
        findings.tick()
        numbers = [n for _, n in _numbers(op)]
        if not numbers:
            continue
        most = bisect.bisect_right(began, end_of(op))
        if max(numbers) > most:
            message = f"look {op.op_id} read {max(numbers)}, and {most} bumps had begun"
            findings.anomaly("phantom", part.key, [op], message)
        least = bisect.bisect_left(ended, op.invoke_ts)
        if findings.model == _STRICT and not lost and min(numbers) < least:
            message = f"look {op.op_id} read {min(numbers)}, and {least} bumps had ended before it"
            findings.anomaly("stale", part.key, [op], message)
        _within(op, part, findings)
        tested += len(numbers) > 1
    findings.count(looks=tested, bumps=len(ended))
    return tested if ended else 0


CHECKER: Final = PerKey(
    "atomic-view",
    decide,
    models=(_STRICT, "snapshot-isolation", "repeatable-read", _VIEW),
    types=frozenset({"bump", "look"}),
    prefix_closed=True,
    vacuous="no group was bumped and then read twice in a transaction",
    observers=frozenset(),
)
