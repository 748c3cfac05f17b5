"""Traces of a run or of files analysed once, and shown as text, Mermaid or an object.

The spans of a run are those of its servers, below the operations of its history. An operation is
the first span of its trace (`dstest.core.op`), from when its client sent it to its answer, by the
clock of the run; times of servers are aligned by what the run measured of their clocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from dstest.core import registry
from dstest.core.errors import ConfigError
from dstest.core.near import meant
from dstest.core.op import Op, Outcome, trace_of, who
from dstest.core.run_record import RunMeta
from dstest.core.words import one_line
from dstest.debug.logs.scene import Clocks, clocks_of_run
from dstest.debug.traces.flows import (
    SLOW_MS,
    Flow,
    Loop,
    NodeWork,
    Pair,
    Segment,
    Storm,
    corrections,
    critical_path,
    flows_of,
    imbalance,
    loops_of,
    messages_of,
    pairs_of,
    parallel_of,
    shift,
    slowest,
    storms_of,
    work_of,
)
from dstest.debug.traces.spans import (
    NOBODY,
    Message,
    Span,
    Trace,
    Traces,
    contradictions,
    forest,
    read_file,
)
from dstest.history.jsonl import each_op, read_header
from dstest.history.layout import EVENTS, RunDir

CLIENTS: Final = "clients"
"""The node of all operations of the history."""

FLOWS_MAX: Final = 10
ODD_MAX: Final = 10
SPANS_MAX: Final = 200
PATH_MAX: Final = 100
"""Stretches of a critical path that are shown: the longest ones."""

DEPTH_MAX: Final = 24
"""Where spans stop being set further to the right; how deep they are stands beside them."""

BAR: Final = 32


class TraceAnalysis(msgspec.Struct, kw_only=True):
    """`moved` is what was taken from the times of each node. `operations` are what traces belong to
    in a history, in words, by id of the trace. `shown` is the trace that is told at length."""

    traces: Traces
    messages: list[Message]
    pairs: list[Pair]
    moved: dict[str, int]
    flows: list[Flow]
    loops: list[Loop]
    storms: list[Storm]
    work: list[NodeWork]
    slowest: list[Span]
    against: list[tuple[Span, Span]]
    operations: Mapping[str, str]
    shown: Trace | None

    @property
    def unbalanced(self) -> str:
        """A sentence, or empty."""
        return imbalance(self.servers)

    @property
    def servers(self) -> list[NodeWork]:
        """Those that were asked: who only asks is no server, and its load says nothing."""
        asked = {flow.target for flow in self.flows}
        return [work for work in self.work if work.node in asked] if asked else self.work


def length_ns(trace: Trace) -> int:
    """From the first start to the last end."""
    return trace.end_ns - trace.start_ns


def analyse(
    given: Iterable[Span | Message],
    nodes: Sequence[str] = (),
    operations: Mapping[str, str] | None = None,
    *,
    wanted: str = "",
    correct: bool = True,
) -> TraceAnalysis:
    """`wanted` is the trace to tell at length, by default the longest. Raises ConfigError where
    there is none of that name."""
    messages: list[Message] = []
    spans: list[Span] = []
    for one in given:
        (messages if isinstance(one, Message) else spans).append(one)  # type: ignore[arg-type]
    traces = forest(spans)
    pairs = pairs_of(traces.traces.values())
    by_node = corrections(pairs) if correct else {}
    if by_node:
        again = forest(shift(span, by_node) for span in spans)
        traces = msgspec.structs.replace(again, doubled=traces.doubled)
    every = list(traces.traces.values())
    sent = [*messages, *(one for trace in every for one in messages_of(trace))]
    return TraceAnalysis(
        traces=traces,
        messages=sent,
        pairs=pairs,
        moved={node: by for node, by in by_node.items() if by},
        flows=flows_of(sent),
        loops=loops_of(every, messages),
        storms=storms_of(sent),
        work=work_of(every, nodes),
        slowest=slowest(traces.spans),
        against=[pair for trace in every for pair in contradictions(trace)],
        operations=operations or {},
        shown=_shown(traces, wanted),
    )


def _shown(traces: Traces, wanted: str) -> Trace | None:
    if not wanted:
        return max(traces.traces.values(), key=length_ns, default=None)
    found = traces.traces.get(wanted) or traces.traces.get(f"op-{wanted}")
    if found is None:
        names = [*traces.traces][:2000]
        hint = meant(wanted, names) if len(names) <= 20 else f"one of {len(traces.traces):,} traces"
        raise ConfigError(f"--trace {wanted}: there is no such trace", remedy=hint)
    return found


def as_object(found: TraceAnalysis, name: str, notes: Sequence[str]) -> dict[str, Any]:
    """For `--json`. Times in nanoseconds, on the clock of all after correction."""
    traces = found.traces
    odd = [trace for trace in traces.traces.values() if len(trace.tops) > 1]
    return {
        "path": name,
        "notes": list(notes),
        "traces": len(traces.traces),
        "spans": sum(len(trace.spans) for trace in traces.traces.values()),
        "messages": len(found.messages),
        "doubled": traces.doubled,
        "clashes": [msgspec.to_builtins(span) for span in traces.clashes],
        "several_roots": [
            {"trace": t.id, "roots": [s.id for s in t.roots]} for t in odd if len(t.roots) > 1
        ],
        "orphans": [msgspec.to_builtins(s) for t in odd for s in t.orphans],
        "loops_of_parents": [msgspec.to_builtins(s) for t in odd for s in t.looped],
        "clocks": {"pairs": [_pair(p) for p in found.pairs], "corrected_ns": found.moved},
        "against_vector_clocks": [[a.id, b.id] for a, b in found.against],
        "flows": msgspec.to_builtins(found.flows),
        "loops": msgspec.to_builtins(found.loops),
        "storms": msgspec.to_builtins(found.storms),
        "work": msgspec.to_builtins(found.work),
        "unbalanced": found.unbalanced or None,
        "slowest": [msgspec.to_builtins(span) for span in found.slowest],
        "shown": None if found.shown is None else _trace_object(found.shown, found.operations),
    }


def _pair(pair: Pair) -> dict[str, Any]:
    return {
        **msgspec.to_builtins(pair),
        "offset_ns": pair.offset_ns,
        "doubt_ns": pair.doubt_ns,
        "consistent": pair.consistent,
        "differs": pair.differs,
    }


def _trace_object(trace: Trace, operations: Mapping[str, str]) -> dict[str, Any]:
    parallel = parallel_of(trace)
    return {
        "trace": trace.id,
        "operation": operations.get(trace.id),
        "start_ns": trace.start_ns,
        "length_ns": length_ns(trace),
        "parallel": msgspec.to_builtins(parallel),
        "critical_path": [
            {
                "span": None if part.span is None else part.span.id,
                "node": NOBODY if part.span is None else part.span.node,
                "name": None if part.span is None else part.span.name,
                "start_ns": part.start_ns,
                "end_ns": part.end_ns,
            }
            for part in critical_path(trace)
        ],
        "spans": [{"depth": d, **msgspec.to_builtins(span)} for d, span in trace.walk()],
    }


class TracesOfRun(NamedTuple):
    """`spans` are those of servers and, for operations that have any, their own. `why` says why
    there are none. `operations` are what traces belong to, in words, by id of the trace. `exact`:
    all times are of one clock."""

    spans: list[Span | Message]
    nodes: list[str]
    operations: dict[str, str]
    why: str
    clocks: list[str]
    exact: bool = False


def traces_of_run(path: Path) -> TracesOfRun:
    """Of a sealed run directory. Raises ConfigError, EvidenceError and HistoryError."""
    run = RunDir.open(path)
    meta = run.read_meta()
    if meta is None or not run.history.is_file():
        raise ConfigError(
            f"{path} was not sealed", remedy="seal and judge it with `dstest recover RUN`"
        )
    system = read_header(run.history).system or ""
    name = registry.known("systems", system).journals.spans
    nodes = list(meta.members or meta.nodes)
    files = [(node, run.nodes / node / name) for node in nodes] if name else []
    files = [(node, file) for node, file in files if file.is_file()]
    if not files:
        why = (
            f"the servers of {system} wrote no spans: run it again with `-o spans=yes`"
            if name
            else f"{system or 'its system'} writes no spans: give files of spans"
        )
        return TracesOfRun([], nodes, {}, why, [])
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
            operations[trace] = _operation_text(op, number)
    simulated = (run.path / EVENTS).is_file()
    said = ["a simulation has one clock"] if simulated else clocks.describe(nodes)
    return TracesOfRun(spans, [CLIENTS, *nodes], operations, "", said, simulated)


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


def _operation_text(op: Op, number: int) -> str:
    on = "" if op.key is None else f" on {op.key}"
    fault = f", fault {op.fault_epoch}" if op.fault_epoch else ""
    return (
        f"operation {op.op_id} (history.jsonl:{number}): {op.op_type}{on} by {who(op.process_id)} "
        f"at {op.node_seen}, {op.outcome.value}{fault}"
    )


def ms(time_ns: int) -> str:
    """Milliseconds, for people."""
    return f"{time_ns / 1e6:,.3f} ms"


def _name(span: Span) -> str:
    return one_line(f"{span.name or 'span'} on {span.node}")


def _some(rows: Sequence[str], what: str) -> Iterator[str]:
    """A line of how many, then the first of them."""
    if rows:
        yield f"{what} ({len(rows):,}):"
        yield from (f"  {row}" for row in rows[:ODD_MAX])
        if len(rows) > ODD_MAX:
            yield f"  and {len(rows) - ODD_MAX:,} more, with --json"


def _oddities(found: TraceAnalysis) -> Iterator[str]:
    every = found.traces.traces.values()
    orphans = [
        f"{_name(s)} ({s.id}, {s.place}): its parent {s.parent} is not there"
        for t in every
        for s in t.orphans
    ]
    yield from _some(orphans, "orphans")
    roots = [
        f"{t.id}: {', '.join(_name(s) for s in t.roots[:4])}" for t in every if len(t.roots) > 1
    ]
    yield from _some(roots, "traces with several roots")
    looped = [f"{_name(s)} ({s.id}): it is below itself" for t in every for s in t.looped]
    yield from _some(looped, "loops of parents, cut at their first span")
    clashes = [f"{s.id} in trace {s.trace} ({s.place})" for s in found.traces.clashes]
    yield from _some(clashes, "spans left out, whose id another span of the trace has")
    if found.traces.doubled:
        yield f"{found.traces.doubled:,} spans were told of twice, and count once"
    against = [f"{_name(b)} ({b.id}) did not follow {_name(a)} ({a.id})" for a, b in found.against]
    yield from _some(against, "children that by their vector clocks no parent has begun")


def _clocks(found: TraceAnalysis) -> Iterator[str]:
    wrong = [p for p in found.pairs if not p.consistent]
    if found.moved:
        by = ", ".join(f"{node} {-by / 1e6:+.3f} ms" for node, by in sorted(found.moved.items()))
        yield f"clocks corrected: {by}"
        yield "  by the least delays there and back, taken to be as long, on clocks without drift"
    elif found.pairs:
        yield f"clocks: of {len(found.pairs)} pairs of nodes none differs for certain"
    for pair in wrong[:ODD_MAX]:
        yield f"  {pair.a} and {pair.b}: no one difference explains all exchanges; left as they are"


def _flows(found: TraceAnalysis) -> Iterator[str]:
    if found.flows:
        yield f"flows ({len(found.flows)}, the largest):"
    for flow in found.flows[:FLOWS_MAX]:
        types = ", ".join(f"{n:,} {one_line(name)}" for name, n in [*flow.types.items()][:4])
        yield f"  {flow.source} -> {flow.target}  {flow.count:,}  ({types})"
    for loop in found.loops[:ODD_MAX]:
        a, b, _ = loop.path
        there, back = loop.names
        what = "for the same, a loop" if loop.same else f"for {one_line(back)}"
        times = f"{loop.times:,} times, as in {', '.join(loop.examples)}"
        yield f"  {a} asks {b} for {one_line(there)}, and {b} for that {a} {what}: {times}"
    for storm in found.storms[:ODD_MAX]:
        to = f"{storm.messages:,} messages to {storm.targets} nodes"
        yield f"  broadcast storm from {storm.node}: {to}, {one_line(storm.within)}"


def _work(found: TraceAnalysis) -> Iterator[str]:
    yield "work by node (spans, own time):"
    for work in found.work:
        names = ", ".join(f"{n:,} {one_line(name)}" for name, n in [*work.names.items()][:4])
        yield f"  {work.node}  {work.spans:,}  {ms(work.own_ns)}  {names}".rstrip()
    if found.unbalanced:
        yield f"  unbalanced: {found.unbalanced}"


def _slow(found: TraceAnalysis) -> Iterator[str]:
    yield "slowest spans:"
    for span in found.slowest:
        mark = "  slow" if span.duration_ns > SLOW_MS * 1e6 else ""
        yield f"  {ms(span.duration_ns)}  {_name(span)}, trace {span.trace}{mark}"
    slow = sum(span.duration_ns > SLOW_MS * 1e6 for span in found.traces.spans)
    if slow:
        yield f"  {slow:,} spans took more than {SLOW_MS:.0f} ms"


def _path(trace: Trace, path: Sequence[Segment]) -> Iterator[str]:
    total = sum(part.duration_ns for part in path)
    yield f"critical path ({ms(total)}):"
    by_length = sorted(path, key=lambda part: -part.duration_ns)
    shown, left = by_length[:PATH_MAX], by_length[PATH_MAX:]
    for part in sorted(shown, key=lambda part: part.start_ns):
        share = part.duration_ns / total if total else 0.0
        what = "nothing on the path was at work" if part.span is None else _name(part.span)
        at = (part.start_ns - trace.start_ns) / 1e6
        yield f"  T+{at:,.3f} ms  {ms(part.duration_ns)}  {share:4.0%}  {what}"
    if left:
        shorter = ms(sum(part.duration_ns for part in left))
        yield f"  and {len(left):,} stretches that are no longer, {shorter} in all, with --json"


def tree_lines(trace: Trace, path: Sequence[Segment]) -> Iterator[str]:
    """Each span once, below its parent, with when it was under way; `*` is on the critical path."""
    on = {part.span.id for part in path if part.span is not None}
    start, length = trace.start_ns, max(1, length_ns(trace))
    for number, (depth, span) in enumerate(trace.walk()):
        if number >= SPANS_MAX:
            yield f"  and {len(trace.spans) - SPANS_MAX:,} more spans, with --json"
            return
        begin = (span.start_ns - start) * BAR // length
        width = max(1, -(-(span.end_ns - start) * BAR // length) - begin)
        bar = (" " * begin + "=" * width)[:BAR].ljust(BAR)
        mark = "*" if span.id in on else " "
        top = "" if depth or not span.parent else " (orphan)"
        at = f"T+{(span.start_ns - start) / 1e6:,.3f} ms"
        wrong = f"  error: {one_line(span.error)[:60]}" if span.error else ""
        deep = f"({depth}) " if depth > DEPTH_MAX else ""
        indent = "  " * min(depth, DEPTH_MAX)
        what = f"{indent}{deep}{_name(span)}  {at}  {ms(span.duration_ns)}"
        yield f"  |{bar}| {mark} {what}{top}{wrong}"


def _trace(found: TraceAnalysis, trace: Trace) -> Iterator[str]:
    path, parallel = critical_path(trace), parallel_of(trace)
    whose = found.operations.get(trace.id)
    yield f"trace {trace.id}" + (f": {one_line(whose)}" if whose else "")
    mean = f"{parallel.mean:.2f} at work on the mean, {parallel.most} at most"
    yield f"  {len(trace.spans)} spans over {ms(length_ns(trace))}; {mean}"
    yield from _path(trace, path)
    yield "spans (* on the critical path):"
    yield from tree_lines(trace, path)


def as_text(found: TraceAnalysis, name: str, notes: Sequence[str]) -> Iterator[str]:
    """Lines for people; names are somebody else's, and a terminal obeys what it is given."""
    return map(one_line, _lines(found, name, notes))


def _lines(found: TraceAnalysis, name: str, notes: Sequence[str]) -> Iterator[str]:
    every = found.traces.traces
    count = sum(len(trace.spans) for trace in every.values())
    nodes = len({work.node for work in found.work if work.node != NOBODY})
    linked = sum(trace in found.operations for trace in every)
    yield f"{name}: spans {count:,}, traces {len(every):,}, nodes {nodes}"
    if found.operations:
        yield f"operations of the history: {linked:,} of these traces"
    yield from (f"{note}" for note in notes)
    yield from _clocks(found)
    yield from _oddities(found)
    yield from _flows(found)
    yield from _work(found)
    yield from _slow(found)
    if found.shown is not None:
        yield ""
        yield from _trace(found, found.shown)


def as_mermaid(found: TraceAnalysis) -> str:
    """The flows as a diagram of Mermaid. Nodes get ids of ours: their names may be anything."""
    ids: dict[str, str] = {}

    def id_of(node: str) -> str:
        return ids.setdefault(node, f"n{len(ids)}")

    edges = [
        f"  {id_of(flow.source)} -->|{_label(flow.count, flow.types)}| {id_of(flow.target)}"
        for flow in found.flows
    ]
    for work in found.work:
        if work.node != NOBODY:
            id_of(work.node)
    boxes = [f'  {id_}["{_quote(node)}"]' for node, id_ in ids.items()]
    return "\n".join(["flowchart LR", *boxes, *edges, ""])


def _label(count: int, types: dict[str, int]) -> str:
    first = next(iter(types), "")
    more = f" and {len(types) - 1} more" if len(types) > 1 else ""
    return f'"{count:,} {_quote(first)}{more}"'


def _quote(text: str) -> str:
    """Within double quotes of Mermaid, which knows entities with a hash."""
    return "".join(c if c.isalnum() or c in " ._-/:@" else f"#{ord(c)};" for c in one_line(text))
