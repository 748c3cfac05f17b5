"""`unique-ids`: no two generated ids are equal.

    {"op_type": "generate", "key": null, "input": null, "output": 17}

| anomaly | meaning |
|---|---|
| duplicated | two operations were given the same id |
| nonmonotonic | an id is not above one whose operation had ended before (model `increasing`) |

Operations of unknown outcome were told no id. Source: Jepsen's `checker/unique-ids`.
"""

from __future__ import annotations

from typing import Final

from checkers._findings import Findings, Part, PerKey, Unreadable, end_of
from checkers.columns import Interner
from dstest.core.op import Op
from dstest.core.words import quoted


def _increasing(part: Part, ops: list[Op], findings: Findings) -> None:
    """Each id is above all ids whose operations ended before its own began."""
    ended = sorted(ops, key=end_of)
    at, top = 0, None
    for op in sorted(ops, key=lambda op: op.invoke_ts):
        if isinstance(op.output, bool) or not isinstance(op.output, int | float):
            raise Unreadable(op, "its id is not a number, so it has no order")
        while at < len(ended) and end_of(ended[at]) < op.invoke_ts:
            if top is None or ended[at].output > top.output:
                top = ended[at]
            at += 1
        if top is not None and op.output < top.output:
            message = (
                f"op {op.op_id} got {quoted(op.output)} after op {top.op_id} had got "
                f"{quoted(top.output)}"
            )
            findings.anomaly("nonmonotonic", part.key, [top, op], message)


def decide(part: Part, findings: Findings) -> int:
    """Ids that were given twice; the number of ids compared with an earlier one."""
    first: dict[int, Op] = {}
    values = Interner()
    ops = part.of("generate")
    for op in ops:
        if op.output is None:
            raise Unreadable(op, "it is ok and has no id")
        before = first.setdefault(values.id_of(op.output), op)
        if before is not op:
            message = f"ops {before.op_id} and {op.op_id} were both given {quoted(op.output)}"
            findings.anomaly("duplicated", part.key, [before, op], message, element=op.output)
    if findings.model == "increasing":
        _increasing(part, ops, findings)
    findings.count(attempted=len(ops) + len(part.unknown), acknowledged=len(ops))
    return max(0, len(ops) - 1)


MEANS: Final = {
    "duplicated": "Each of these ids was to be given once, so that it stands for one thing. Two "
    "callers were given the same one: what one of them stores under it overwrites, or is taken "
    "for, what the other has stored. The usual cause is a counter that went back: a new leader or "
    "a restarted server that begins again where another had already been.",
    "nonmonotonic": "An id is below one that had been given before it was asked for, though ids "
    "were to grow: whoever orders by them, by pages of a list or by what is newest, leaves "
    "something out.",
}
DID: Final = {
    "duplicated": "gave one id to two callers",
    "nonmonotonic": "gave an id below one that it had already given",
}

CHECKER: Final = PerKey(
    "unique-ids",
    decide,
    models=("unique", "increasing"),
    types=frozenset({"generate"}),
    prefix_closed=True,
    vacuous="fewer than two ids were given",
    means=MEANS,
    did=DID,
    observers=frozenset(),
)
