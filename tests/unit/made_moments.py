"""Failed runs with one witness, made of its operations and the faults beside it."""

from __future__ import annotations

from typing import Any

import msgspec
from made_report import S, report

from dstest.core.check import Anomaly
from dstest.core.history import RUN_END_NS, Window, epochs_of
from dstest.core.op import Op
from dstest.report.model import FaultView, RunReport

__all__ = ["failing", "fault", "op", "stamped"]


def op(number: int, at_s: float, op_type: str = "read", **changes: Any) -> Op:
    at = int(at_s * S)
    given: dict[str, Any] = {
        "complete_ts": at + S // 100, "node_seen": "n1", "key": "k", "process_id": 0,
    }  # fmt: skip
    return Op(op_id=number, invoke_ts=at, op_type=op_type, **given | changes)


def fault(name: str, start_s: float | None, end_s: float | None, landed: str = "yes") -> FaultView:
    made = report().faults[0]
    return msgspec.structs.replace(
        made,
        id=name,
        epoch=name,
        landed=landed,
        start_ns=None if start_s is None else int(start_s * S),
        end_ns=None if end_s is None else int(end_s * S),
    )


def stamped(ops: list[Op], faults: list[FaultView]) -> list[Op]:
    """Each with the first fault window that it overlaps, as a sealed history has it."""
    windows = [
        Window(epoch=f.epoch, nemesis=f.nemesis, inject_start=f.start_ns, healed_at=f.end_ns)
        for f in faults
        if f.start_ns is not None
    ]
    return [
        msgspec.structs.replace(
            op, fault_epoch=next(iter(epochs_of(op, windows, RUN_END_NS)), None)
        )
        for op in ops
    ]


def failing(*ops: Op, faults: list[FaultView], text: str = "", **changes: Any) -> RunReport:
    """A run that failed with these operations as its one witness."""
    made = report(fail=True)
    result = made.results["linearizable"]
    fields: dict[str, Any] = {
        "type": "stale", "key": "k", "ops": [o.op_id for o in ops], "explanation": text,
    } | changes  # fmt: skip
    found = {fields["type"]: [Anomaly(**fields)]}
    result = msgspec.structs.replace(result, anomalies=found, anomaly_types=list(found))
    history = msgspec.structs.replace(made.history, ops=list(ops))
    return msgspec.structs.replace(
        made, results={"linearizable": result}, history=history, faults=faults
    )
