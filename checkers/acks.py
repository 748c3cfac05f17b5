"""`no-lost-ack` and `set`: what was acknowledged is in the final state.

    {"op_type": "add", "input": 7, ...}        or append, enqueue, send, insert
    {"op_type": "read", "output": [7, 9]}      final: begun after the last write had ended

Final are the reads that began after every completed write of their key had ended, and each of them
must hold every acknowledged value: for `no-lost-ack` as often as its append, enqueue or send was
acknowledged, while what is added or inserted again is there once. Writes of unknown outcome are
ignored in both directions; that one of them was found is counted as `recovered`. Without a final
read nothing was tested.

| anomaly | meaning |
|---|---|
| lost | acknowledged, missing from a final read |
| phantom | in a final read, though nobody ever wrote it |
| failed-but-applied | in a final read, though its only writes failed definitely |
| duplicated | more than once in one final read (`set` only) |

Source: Jepsen's `checker/set`.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any, Final

from checkers._findings import Findings, Part, PerKey, end_of, ids_of, list_of
from checkers.columns import Interner
from dstest.core.op import Op
from dstest.core.words import quoted

WRITES: Final = ("add", "append", "enqueue", "send", "insert")
_EACH_TIME: Final = ("append", "enqueue", "send")
"""After two of them with one value it is there twice."""


def final_reads(part: Part, reads: tuple[str, ...], writes: tuple[str, ...]) -> list[Op]:
    """Ok reads that began after the last completed write had ended."""
    ended = [end_of(op) for op in part.ok if op.op_type in writes]
    ended += [end_of(op) for op in part.failed if op.op_type in writes]
    last = max(ended, default=-1)
    return [op for op in part.of(*reads) if op.invoke_ts > last]


def _by_value(values: Interner, ops: list[Op]) -> dict[int, Op]:
    """The first operation that wrote each value."""
    found: dict[int, Op] = {}
    for op in ops:
        found.setdefault(values.id_of(op.input), op)
    return found


def _strangers(
    part: Part, read: Op, seen: Counter[int], names: dict[str, Any], findings: Findings
) -> None:
    """Values of the read that nobody wrote, or only in vain."""
    for at in seen.keys() - names["acked"].keys() - names["maybe"].keys():
        value = names["values"].values[at]
        if at in names["refused"]:
            message = (
                f"{quoted(value)} was refused definitely, yet final read (op {read.op_id}) holds it"
            )
            ops = [names["refused"][at], read]
            findings.anomaly("failed-but-applied", part.key, ops, message, element=value)
        else:
            message = f"final read (op {read.op_id}) holds {quoted(value)}, which nobody ever wrote"
            findings.anomaly("phantom", part.key, [read], message, element=value)


def decide(part: Part, findings: Findings, *, unique: bool) -> int:
    """Anomalies of one key's final reads; the number of (value, final read) pairs tested."""
    values = Interner()
    names: dict[str, Any] = {
        "values": values,
        "acked": _by_value(values, part.of(*WRITES)),
        "maybe": _by_value(values, [op for op in part.unknown if op.op_type in WRITES]),
        "refused": _by_value(values, part.refused(*WRITES)),
    }
    acked, maybe = names["acked"], names["maybe"]
    times = Counter(values.id_of(op.input) for op in part.of(*_EACH_TIME)) if not unique else {}
    again = {at: n for at, n in times.items() if n > 1}
    finals = final_reads(part, ("read",), WRITES)
    recovered: set[int] = set()
    lost: set[int] = set()
    for read in finals:
        findings.tick()
        seen = Counter(ids_of(values, list_of(read)))
        for at in sorted(acked.keys() - seen.keys() - lost):
            lost.add(at)
            message = (
                f"{acked[at].op_type} {acked[at].op_id} (of element {quoted(values.values[at])}) "
                f"was acknowledged, "
                f"and final read (op {read.op_id}) does not hold it"
            )
            findings.anomaly(
                "lost", part.key, [acked[at], read], message, element=values.values[at]
            )
        for at in sorted({at for at, n in again.items() if seen[at] < n} - lost):
            lost.add(at)
            writes = [op for op in part.of(*_EACH_TIME) if values.id_of(op.input) == at]
            message = (
                f"{quoted(values.values[at])} was acknowledged {again[at]} times, and final read"
                f" {read.op_id} holds it {seen[at]} times"
            )
            findings.anomaly(
                "lost", part.key, [*writes[:7], read], message, element=values.values[at]
            )
        _strangers(part, read, seen, names, findings)
        recovered |= (maybe.keys() - acked.keys()) & seen.keys()
        if unique:
            for at in [at for at, n in seen.items() if n > 1]:
                message = (
                    f"final read (op {read.op_id}) holds {quoted(values.values[at])} "
                    f"{seen[at]} times"
                )
                findings.anomaly("duplicated", part.key, [read], message, element=values.values[at])
    findings.count(
        attempted=len(acked.keys() | maybe.keys()),
        acknowledged=len(acked),
        lost=len(lost),
        recovered=len(recovered),
        final_reads=len(finals),
    )
    return len(acked) * len(finals)


def _make(name: str, unique: bool, model: str) -> PerKey:
    return PerKey(
        name,
        partial(decide, unique=unique),
        models=(model,),
        types=frozenset({*WRITES, "read"}),
        owed=frozenset(WRITES),
        vacuous="no read began after the last write, or nothing was acknowledged",
    )


CHECKER: Final = _make("no-lost-ack", False, "durable")
SET: Final = _make("set", True, "eventual")
