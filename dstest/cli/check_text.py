"""The answer of `dstest check` for people: what it says, what it took for granted about a foreign
history, and what a violation means in a sentence, which JSON has as well."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dstest.core.errors import DstestError

if TYPE_CHECKING:
    from dstest.core.check import Anomaly, CheckResult
    from dstest.core.op import Op


ANOMALIES_SHOWN_MAX = 3
"""More are in --json and --report; a terminal is for the first look."""


def _cell(value: Any) -> str:

    return "" if value is None else json.dumps(value, default=repr)


def _row(op: dict[str, Any]) -> list[str]:
    """One operation of a witness; `...` where nobody knows when or whether it took effect."""
    end = op.get("complete_event", op["complete_ts"])
    untold = op.get("invoke_event", op["invoke_ts"]) is None
    unknown = op["timeout_marker"] or (end is None and not untold)
    output = _output(op) if not unknown else "?"
    return [
        str(op["op_id"]),
        "" if op["process_id"] is None else str(op["process_id"]),
        _cell(op.get("invoke_event", op["invoke_ts"])),
        "..." if unknown else _cell(end),
        op["op_type"],
        _cell(op["input"]),
        output,
        op["node_seen"] or "",
        op["fault_epoch"] or "",
    ]


def _output(op: dict[str, Any]) -> str:
    """A read's null is a result and shown; the absent output of a write is not."""
    from dstest.core.op import NULL_IS_RESULT

    return (
        "null" if op["op_type"] in NULL_IS_RESULT and op["output"] is None else _cell(op["output"])
    )


def _table(ops: list[dict[str, Any]]) -> list[str]:
    events = any("invoke_event" in op for op in ops)
    times = ["invoke_event", "complete_event"] if events else ["invoke_ns", "complete_ns"]
    head = ["op", "process", *times, "type", "input", "output", "node", "epoch"]
    rows = [head, *map(_row, ops)]
    used = [c for c in range(len(head)) if any(row[c] for row in rows[1:])]
    widths = {c: max(len(row[c]) for row in rows) for c in used}
    return ["  ".join(row[c].ljust(widths[c]) for c in used).rstrip() for row in rows]


def _is_cycle(anomaly: Anomaly) -> bool:
    return any("edge" in op for op in anomaly.witness)


def _anomaly(anomaly: Anomaly) -> list[str]:
    size = f"{len(anomaly.ops)} operation{'s' if len(anomaly.ops) != 1 else ''}"
    minimal = "none can be left out" if anomaly.minimal else "perhaps not the smallest"
    where = "" if _is_cycle(anomaly) or anomaly.key is None else f" on key {_cell(anomaly.key)}"
    lines = ["", f"{anomaly.type}{where}: {size}, {minimal}"]
    lines += [f"  {line}" for line in _table(anomaly.witness)]
    if anomaly.epochs:
        lines.append(f"  during {', '.join(anomaly.epochs)}")
    lines.append(f"  {anomaly.explanation}")
    return lines


def _more(witnesses: int, counted: int) -> str:
    """How many there are besides those shown; empty where all are."""
    left = max(0, witnesses - ANOMALIES_SHOWN_MAX)
    there = f"{left:,} more in --json" if left else ""
    if counted <= witnesses:
        return there
    all_ = f"counted were {counted:,} in all, {witnesses:,} of them with a witness"
    return f"{there}; {all_}" if there else f"{all_[:1].upper()}{all_[1:]}"


def text_of(name: str, result: CheckResult) -> str:
    """The answer for people."""
    from dstest.cli.check import not_read

    if not_read(result):
        return f"{name}: unknown, it could not be read\n  {result.reason}"
    word = {True: "valid", False: "VIOLATION", "unknown": "unknown"}[result.valid]
    lines = [f"{name}: {word} under {result.model}"]
    if result.reason:
        lines.append(f"  {result.reason}")
    anomalies = [a for group in result.anomalies.values() for a in group]
    for anomaly in anomalies[:ANOMALIES_SHOWN_MAX]:
        lines += _anomaly(anomaly)
    if more := _more(len(anomalies), sum(result.counted.values())):
        lines += ["", more]
    excluded = "".join(f", {n} {why}" for why, n in sorted(result.ops.excluded.items()))
    counts = (
        f"{result.ops.consumed} of {result.ops.total} operations judged{excluded}; "
        f"{result.keys.decided} of {result.keys.total} keys decided; "
        f"{result.seconds.load:.3f} s load, {result.seconds.check:.3f} s check"
    )
    return "\n".join([*lines, "", counts])


def headline_in(
    result: CheckResult, file: Path, format_: str, independent: bool | None
) -> str | None:
    """None where nothing was found wrong. Where the answer is bad only because the run is, it is
    the sentence of the run."""
    if result.valid is not False:
        return None
    from dstest.report.summarize import headline_of, headline_of_result

    if file.is_dir() and not any(result.anomalies.values()):
        from dstest.report.model import load_report

        return headline_of(load_report(file))
    history = file / "history.jsonl" if file.is_dir() else file

    def ops() -> Sequence[Op]:
        from dstest.history.importers import load_history

        try:
            return load_history(history, format_, independent=independent).ops
        except (DstestError, OSError):
            return ()  # what is no file of operations was judged otherwise

    return headline_of_result(result, _system(history), ops) or None


def with_headline(result: CheckResult, said: str | None) -> dict[str, Any]:
    """The answer as an object, with its sentence; null where there is none."""
    import msgspec

    return {**msgspec.to_builtins(result), "headline": said or None}


def _system(history: Path) -> str:
    """As the history says; empty where it does not."""
    from dstest.history.jsonl import read_header

    try:
        header = read_header(history)
    except (DstestError, OSError, ValueError):
        return ""
    return " ".join(part for part in (header.system, header.system_version) if part)
