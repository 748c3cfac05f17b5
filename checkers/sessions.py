"""`sessions`: the four session guarantees, by versions that the system itself gives.

    {"op_type": "write", "process_id": 3, "key": "x", "input": 7, "output": {"version": 12}}
    {"op_type": "read",  "process_id": 3, "key": "x", "output": {"version": 12, "value": 7}}

A process is a session. Versions are per key and rise with every write; a key that does not exist
yet has version 0 and value null.

| anomaly | the guarantee that it breaks (model) |
|---|---|
| nonmonotonic-read | monotonic-reads: a session never reads an older version than before |
| own-write-missed | read-your-writes: nor an older one than it wrote itself |
| nonmonotonic-write | monotonic-writes: its own writes get rising versions |
| write-before-read | writes-follow-reads: its writes get versions above all that it had read |
| version-conflict | all: one version holds one value |
| phantom | all: the value was never written |

`session` is the four together. Operations of unknown outcome constrain nothing; a process ends with
one. Source: Terry et al., "Session guarantees for weakly consistent replicated data" (1994).
"""

from __future__ import annotations

from typing import Any, Final

from checkers._findings import Findings, Part, PerKey, Unreadable
from checkers.columns import Interner
from dstest.core.op import Op
from dstest.core.words import quoted

GUARANTEES: Final = {
    "monotonic-reads": "nonmonotonic-read",
    "read-your-writes": "own-write-missed",
    "monotonic-writes": "nonmonotonic-write",
    "writes-follow-reads": "write-before-read",
}


def _version(op: Op) -> int:
    found = op.output.get("version") if isinstance(op.output, dict) else None
    if isinstance(found, bool) or not isinstance(found, int):
        raise Unreadable(op, "its output carries no version")
    return found


def _values(part: Part, findings: Findings) -> None:
    """Each version holds one value, and each value that was read was written."""
    values = Interner()
    attempted = {values.id_of(op.input) for op in part.maybe("write")}
    holder: dict[int, tuple[int, Op]] = {}
    for op in part.of("write"):
        holder.setdefault(_version(op), (values.id_of(op.input), op))
    told: set[int] = set()
    for op in (*part.of("write"), *part.of("read")):
        read = op.op_type == "read"
        value = op.output.get("value") if read else op.input
        if read and "value" not in op.output:
            continue
        version, at = _version(op), values.id_of(value)
        first, by = holder.setdefault(version, (at, op))
        if first != at:
            message = (
                f"version {version} holds {quoted(values.values[first])} by op {by.op_id} and "
                f"{quoted(value)} by op {op.op_id}"
            )
            findings.anomaly("version-conflict", part.key, [by, op], message)
        elif read and at not in attempted and at not in told and value is not None:
            told.add(at)
            message = f"read (op {op.op_id}) returned {quoted(value)}, which nobody wrote"
            findings.anomaly("phantom", part.key, [op], message, element=value)


def decide(part: Part, findings: Findings) -> int:
    """Broken guarantees of one key; how many steps of sessions were compared."""
    asked = set(GUARANTEES) if findings.model == "session" else {findings.model}
    newest: dict[tuple[Any, str], Op] = {}
    compared = 0
    for op in part.ok:
        version, who = _version(op), op.process_id
        for kind in ("read", "write"):
            before = newest.get((who, kind))
            if before is None:
                continue
            compared += 1
            guarantee = _guarantee(kind, op.op_type)
            old = _version(before)
            wrong = version < old if op.op_type == "read" else version <= old
            if wrong and guarantee in asked:
                message = (
                    f"process {who}: {op.op_type} (op {op.op_id}) has version {version} after its "
                    f"{kind} {before.op_id} had version {old}, which breaks {guarantee}"
                )
                findings.anomaly(GUARANTEES[guarantee], part.key, [before, op], message)
        last = newest.get((who, op.op_type))
        if last is None or version > _version(last):
            newest[who, op.op_type] = op
    _values(part, findings)
    findings.count(compared=compared)
    return compared


def _guarantee(before: str, now: str) -> str:
    return {
        ("read", "read"): "monotonic-reads",
        ("write", "read"): "read-your-writes",
        ("write", "write"): "monotonic-writes",
        ("read", "write"): "writes-follow-reads",
    }[before, now]


CHECKER: Final = PerKey(
    "sessions",
    decide,
    models=("session", *GUARANTEES),
    types=frozenset({"read", "write"}),
    prefix_closed=True,
    vacuous="no session came back to a key",
)
