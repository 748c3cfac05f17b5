"""A sealed history as Jepsen op maps: EDN or JSON, one event per line, in order of time.

Each operation becomes an invocation and, where it has one, a completion: `:ok`, `:fail` (definite
error) or `:info` (unknown outcome, at its timeout, which the record does not keep: it comes right
after the last event of the history). With `keyed`, values are `[key value]` tuples as Jepsen's
independent workloads write them. A compare-and-set that differed is `:fail`, as Jepsen has it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from dstest.core.history import History
from dstest.core.op import Op, Outcome

__all__ = ["edn", "export_lines", "jepsen_events"]


def _values(op: Op, keyed: bool) -> tuple[Any, Any]:
    """(value of the invocation, value of the completion)."""
    asked = op.input
    answered = op.output if op.op_type in ("read", "txn") and op.output is not None else op.input
    if op.op_type == "read":
        answered = op.output
    if not keyed or op.key is None:
        return asked, answered
    return [op.key, asked], [op.key, answered]


def jepsen_events(history: History, *, keyed: bool) -> Iterator[dict[str, Any]]:
    """Op maps with `index`, `time` (ns), `type`, `process`, `f`, `value`, and `error` if any."""
    end_ns = max((max(op.invoke_ts, op.complete_ts or 0) for op in history.ops), default=0)
    rows: list[tuple[int, int, int, dict[str, Any]]] = []
    for number, op in enumerate(history.ops):
        asked, answered = _values(op, keyed)
        base = {"process": op.process_id, "f": op.op_type}
        rows.append((op.invoke_ts, 0, number, {**base, "type": "invoke", "value": asked}))
        differed = op.op_type == "cas" and op.output is False
        kind = "fail" if differed or op.outcome is Outcome.FAIL else str(op.outcome)
        done: dict[str, Any] = {**base, "type": {"unknown": "info"}.get(kind, kind)}
        done["value"] = answered if kind == "ok" else asked
        if op.error is not None:
            done["error"] = op.error
        at_ns = op.complete_ts if op.complete_ts is not None else end_ns + 1
        rows.append((at_ns, 1, number, done))
    # Invocations before completions of the same instant: intervals are closed.
    for index, (time_ns, _, _, event) in enumerate(sorted(rows, key=lambda row: row[:3])):
        yield {"index": index, "time": time_ns, **event}


def edn(value: Any) -> str:
    """EDN text of plain data; strings stay strings."""
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list | tuple):
        return "[" + " ".join(map(edn, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{edn(k)} {edn(v)}" for k, v in value.items()) + "}"
    raise TypeError(f"no EDN for {type(value).__name__}")


def _micro_ops(value: Any) -> str:
    """Transactions: Jepsen writes the kind of a micro-op as a keyword."""
    return "[" + " ".join(f"[:{m[0]} {edn(m[1])} {edn(m[2])}]" for m in value) + "]"


def _edn_event(event: dict[str, Any]) -> str:
    value = event["value"]
    txn = event["f"] == "txn" and isinstance(value, list)
    parts = [
        f":index {event['index']}",
        f":time {event['time']}",
        f":type :{event['type']}",
        f":process {edn(event['process'])}",
        f":f :{event['f']}",
        f":value {_micro_ops(value) if txn else edn(value)}",
    ]
    if "error" in event:
        parts.append(f":error {edn(event['error'])}")
    return "{" + ", ".join(parts) + "}"


def export_lines(history: History, fmt: str, *, keyed: bool) -> Iterator[str]:
    """Lines of `edn` or `json` (without newline)."""
    for event in jepsen_events(history, keyed=keyed):
        yield _edn_event(event) if fmt == "edn" else json.dumps(event, ensure_ascii=False)
