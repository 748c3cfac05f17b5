"""A sealed history as Jepsen op maps: EDN or JSON, one event per line, in order of time.

Each operation becomes an invocation and, where it has one, a completion: `:ok`, `:fail` (definite
error) or `:info` (unknown outcome, at its timeout, which the record does not keep: it comes right
after the last event of the history). With `keyed`, values are `[key value]` tuples as Jepsen's
independent workloads write them. A compare-and-set that differed is `:fail`, as Jepsen has it.
`dstest/history/jepsen_hint.py` says what is added so that the history can be read back as it was.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from dstest.core.errors import ConfigError
from dstest.core.history import History
from dstest.core.op import Op, Outcome
from dstest.history.jepsen_hint import ANSWERING, HINT, completion_hint, first_hint


def _answer(op: Op) -> Any:
    """What the value of the completion tells."""
    return op.output if op.op_type in ANSWERING else op.input


def _derived(op: Op) -> Any:
    """The output that a reader takes from the completion."""
    return {"cas": True, "write": None}.get(op.op_type, _answer(op))


def _processes(ops: list[Op]) -> dict[int | str, int]:
    """Integers for processes: Jepsen's clients have no names."""
    taken = max((p for op in ops if isinstance(p := op.process_id, int)), default=-1)
    found: dict[int | str, int] = {}
    for op in ops:
        if op.process_id not in found:
            if isinstance(op.process_id, str):
                taken += 1
            found[op.process_id] = op.process_id if isinstance(op.process_id, int) else taken
    return found


def jepsen_events(history: History, *, keyed: bool) -> Iterator[dict[str, Any]]:
    """Op maps with `index`, `time` (ns), `type`, `process`, `f`, `value`, and `error` if any.

    Raises ConfigError where keys are to be left out and there are several: their values would be
    those of one object.
    """
    keys = {op.key for op in history.ops}
    if not keyed and len(keys) > 1:
        raise ConfigError(
            f"--no-keyed would make one object of {len(keys):,} keys",
            remedy="leave it out: values are then [key value] tuples",
        )
    keyed = keyed and keys - {None} != set()
    end_ns = max((max(op.invoke_ts, op.complete_ts or 0) for op in history.ops), default=0)
    processes = _processes(history.ops)
    begins = {(op.process_id, op.invoke_ts) for op in history.ops}
    ends = {(op.process_id, op.complete_ts) for op in history.ops}
    rows: list[tuple[int, int, int, dict[str, Any]]] = []
    for number, op in enumerate(history.ops):

        def value(of: Any, key: Any = op.key) -> Any:
            return [key, of] if keyed else of

        base = {"process": processes[op.process_id], "f": op.op_type}
        again = (op.process_id, op.invoke_ts) in ends and op.complete_ts != op.invoke_ts
        asked = {**base, "type": "invoke", "value": value(op.input)}
        rows.append((op.invoke_ts, 2 if again else 0, number, asked))
        differed = op.op_type == "cas" and op.output is False
        kind = "fail" if differed or op.outcome is Outcome.FAIL else str(op.outcome)
        done: dict[str, Any] = {**base, "type": {"unknown": "info"}.get(kind, kind)}
        done["value"] = value(_answer(op) if kind == "ok" else op.input)
        if op.error is not None:
            done["error"] = op.error
        done[HINT] = completion_hint(op, _derived(op))
        at_ns = op.complete_ts if op.complete_ts is not None else end_ns + 1
        rank = 1 if (op.process_id, at_ns) in begins and at_ns != op.invoke_ts else 3
        rows.append((at_ns, rank, number, done))
    # Invocations before completions of the same instant: intervals are closed. A process that asks
    # again at the instant of its answer does so after it.
    for index, (time_ns, _, _, event) in enumerate(sorted(rows, key=lambda row: row[:3])):
        if index == 0:
            event[HINT] = first_hint(history.header, keyed)
        yield {"index": index, "time": time_ns, **event}


def edn(value: Any) -> str:
    """EDN text of plain data; strings stay strings."""
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and not math.isfinite(value):
        return "##NaN" if math.isnan(value) else "##Inf" if value > 0 else "##-Inf"
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
    """Transactions: Jepsen writes the kind of a micro-op as a keyword. Those of a group are the
    second of a [key value] tuple."""
    if value and not isinstance(value[0], list | tuple):
        key, mops = value
        return f"[{edn(key)} {edn(mops) if mops is None else _micro_ops(mops)}]"
    return "[" + " ".join(f"[:{m[0]} {' '.join(map(edn, m[1:]))}]" for m in value) + "]"


def _name(f: str) -> str:
    """A keyword where the name can be one."""
    return f":{f}" if re.fullmatch(r"[A-Za-z][\w*+!?<>=.-]*", f) else edn(f)


def _edn_event(event: dict[str, Any]) -> str:
    value = event["value"]
    txn = event["f"] == "txn" and isinstance(value, list)
    parts = [
        f":index {event['index']}",
        f":time {event['time']}",
        f":type :{event['type']}",
        f":process {edn(event['process'])}",
        f":f {_name(event['f'])}",
        f":value {_micro_ops(value) if txn else edn(value)}",
    ]
    if "error" in event:
        parts.append(f":error {edn(event['error'])}")
    if HINT in event:
        parts.append(f":{HINT} {edn(event[HINT])}")
    return "{" + ", ".join(parts) + "}"


def export_lines(history: History, fmt: str, *, keyed: bool) -> Iterator[str]:
    """Lines of `edn` or `json` (without newline)."""
    for event in jepsen_events(history, keyed=keyed):
        yield _edn_event(event) if fmt == "edn" else json.dumps(event, ensure_ascii=False)
