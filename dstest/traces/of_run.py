"""The spans of a run: what its servers wrote, below the operations of its history.

An operation is the first span of the trace that it is (`dstest.core.operation`), from the moment
when its client sent it to its answer, by the clock of the run. Servers' times are aligned by what
the run measured of their clocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from dstest.core import registry
from dstest.core.errors import ConfigError
from dstest.core.op import Op, Outcome, who
from dstest.core.operation import trace_of
from dstest.core.protocols import SystemTraits
from dstest.core.run_meta import RunMeta
from dstest.logs.clocks import Clocks, clocks_of_run
from dstest.store.jsonl import each_op, read_header
from dstest.store.layout import EVENTS, RunDir
from dstest.traces.reading import read_file
from dstest.traces.spans import Message, Span

CLIENTS: Final = "clients"
"""The node of all operations of the history."""


class OfRun(NamedTuple):
    """`spans` are those of servers and, for operations that have any, their own. `why` says why
    there are none. `operations` are what traces belong to, in words, by id of the trace. `exact`:
    all times are of one clock."""

    spans: list[Span | Message]
    nodes: list[str]
    operations: dict[str, str]
    why: str
    clocks: list[str]
    exact: bool = False


def of_run(path: Path) -> OfRun:
    """Of a sealed run directory. Raises ConfigError, EvidenceError and HistoryError."""
    run = RunDir.open(path)
    meta = run.read_meta()
    if meta is None or not run.history.is_file():
        raise ConfigError(
            f"{path} was not sealed", remedy="seal and judge it with `dstest recover RUN`"
        )
    system = read_header(run.history).system or ""
    name = _span_file(system)
    nodes = list(meta.members or meta.nodes)
    files = [(node, run.nodes / node / name) for node in nodes] if name else []
    files = [(node, file) for node, file in files if file.is_file()]
    if not files:
        why = (
            f"the servers of {system} wrote no spans: run it again with `-o spans=yes`"
            if name
            else f"{system or 'its system'} writes no spans: give files of spans"
        )
        return OfRun([], nodes, {}, why, [])
    clocks = clocks_of_run(meta)
    spans = [span for _, file in files for span in _of_servers(file, run, meta, clocks)]
    ends: dict[str, int] = {}
    for span in spans:
        if isinstance(span, Span):
            ends[span.trace] = max(span.end_ns, ends.get(span.trace, span.end_ns))
    operations: dict[str, str] = {}
    for number, op in enumerate(each_op(run.history), 2):
        if (trace := trace_of(op.op_id)) in ends:
            spans.append(_of_operation(op, number, trace, ends[trace]))
            operations[trace] = _said(op, number)
    simulated = (run.path / EVENTS).is_file()
    said = ["a simulation has one clock"] if simulated else clocks.said(nodes)
    return OfRun(spans, [CLIENTS, *nodes], operations, "", said, simulated)


def _span_file(system: str) -> str:
    try:
        return SystemTraits.of(registry.load("systems", system)).span_file if system else ""
    except ConfigError:
        return ""


def _of_servers(file: Path, run: RunDir, meta: RunMeta, clocks: Clocks) -> Iterator[Span | Message]:
    """In run time: of a simulation all clocks are one, which began before the run did."""
    simulated = (run.path / EVENTS).is_file()
    origin_ns = meta.origin_ns or 0
    for one in read_file(file, file.relative_to(run.path).as_posix()):
        if isinstance(one, Message):
            yield one
        elif simulated:
            start, end = one.start_ns - origin_ns, one.end_ns - origin_ns
            yield msgspec.structs.replace(one, start_ns=start, end_ns=end)
        else:
            start, _ = clocks.aligned(one.node, one.start_ns)
            yield msgspec.structs.replace(one, start_ns=start, end_ns=start + one.duration_ns)


def _of_operation(op: Op, number: int, trace: str, last_ns: int) -> Span:
    """Of one that was never answered nobody knows when it was over: it lasts as long as servers
    were at work for it."""
    end = max(op.invoke_ts, last_ns) if op.complete_ts is None else op.complete_ts
    failed = op.outcome is not Outcome.OK
    return Span(
        trace=trace,
        id=trace,
        node=CLIENTS,
        name=op.op_type,
        kind="client",
        start_ns=op.invoke_ts,
        end_ns=end,
        error=(op.error or op.outcome.value) if failed else "",
        operation=str(op.op_id),
        place=f"history.jsonl:{number}",
    )


def _said(op: Op, number: int) -> str:
    on = "" if op.key is None else f" on {op.key}"
    fault = f", fault {op.fault_epoch}" if op.fault_epoch else ""
    return (
        f"operation {op.op_id} (history.jsonl:{number}): {op.op_type}{on} by {who(op.process_id)} "
        f"at {op.node_seen}, {op.outcome.value}{fault}"
    )
