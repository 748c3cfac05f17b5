"""Failed runs with one witness, made of its operations and the faults beside it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from made_report import S, report

from dstest.core.check import Anomaly
from dstest.core.evidence import Landed
from dstest.core.history import RUN_END_NS, FaultWindow, epochs_of
from dstest.core.op import Op
from dstest.report.model import FaultView, RunReport

__all__ = ["failing", "fault", "never", "op", "stamped", "views"]


def op(number: int, at_s: float, op_type: str = "read", **changes: Any) -> Op:
    at = int(at_s * S)
    given: dict[str, Any] = {
        "complete_ts": at + S // 100, "node_seen": "n1", "key": "k", "process_id": 0,
    }  # fmt: skip
    return Op(op_id=number, invoke_ts=at, op_type=op_type, **given | changes)


def fault(
    name: str,
    start_s: float,
    end_s: float | None,
    landed: Landed = "yes",
    until_s: float | None = None,
) -> FaultWindow:
    """Of a partition of n1 from the others; the load had recovered at `until_s`, with the heal
    where it is not given."""
    return FaultWindow(
        epoch=name,
        nemesis="partition",
        kind="one, in",
        nodes=("n1",),
        landed=landed,
        heal_verified=True,
        start_ns=int(start_s * S),
        healed_ns=None if end_s is None else int(end_s * S),
        until_ns=None if end_s is None else int((until_s or end_s) * S),
    )


def views(windows: Iterable[FaultWindow]) -> list[FaultView]:
    """As a report has them."""
    made = report().faults[0]
    return [
        msgspec.structs.replace(
            made,
            id=one.id,
            nemesis=one.nemesis,
            kind=one.kind,
            targets=one.targets,
            landed=one.landed,
            heal_verified=one.heal_verified,
            window=one,
        )
        for one in windows
    ]


def never(name: str) -> FaultView:
    """One that was never injected."""
    return msgspec.structs.replace(report().faults[0], id=name, window=None)


def stamped(ops: list[Op], windows: list[FaultWindow]) -> list[Op]:
    """Each with the first fault window that it overlaps, as a sealed history has it."""
    return [
        msgspec.structs.replace(
            op, fault_epoch=next(iter(epochs_of(op, windows, RUN_END_NS)), None)
        )
        for op in ops
    ]


def failing(*ops: Op, faults: list[FaultWindow], text: str = "", **changes: Any) -> RunReport:
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
        made, results={"linearizable": result}, history=history, faults=views(faults)
    )
