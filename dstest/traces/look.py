"""All that traces show, gathered once: what is printed, drawn and given out is made of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from dstest.core.errors import ConfigError
from dstest.core.near import meant
from dstest.traces.flows import Flow, Loop, Storm, flows_of, loops_of, messages_of, storms_of
from dstest.traces.path import critical_path
from dstest.traces.skew import Pair, corrections, moved, pairs_of
from dstest.traces.spans import NOBODY, Message, Span
from dstest.traces.tree import Trace, Traces, forest
from dstest.traces.vectors import contradictions
from dstest.traces.work import NodeWork, parallel_of, slowest, unbalanced, work_of


class Look(msgspec.Struct, kw_only=True):
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
        return unbalanced(self.servers)

    @property
    def servers(self) -> list[NodeWork]:
        """Those that were asked: who only asks is no server, and its load says nothing."""
        asked = {flow.target for flow in self.flows}
        return [work for work in self.work if work.node in asked] if asked else self.work


def length_ns(trace: Trace) -> int:
    """From the first start to the last end."""
    return trace.end_ns - trace.start_ns


def look(
    given: Iterable[Span | Message],
    nodes: Sequence[str] = (),
    operations: Mapping[str, str] | None = None,
    *,
    wanted: str = "",
    correct: bool = True,
) -> Look:
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
        again = forest(moved(span, by_node) for span in spans)
        traces = msgspec.structs.replace(again, doubled=traces.doubled)
    every = list(traces.traces.values())
    sent = [*messages, *(one for trace in every for one in messages_of(trace))]
    return Look(
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


def as_object(found: Look, name: str, notes: Sequence[str]) -> dict[str, Any]:
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
        "shown": None if found.shown is None else _told(found.shown, found.operations),
    }


def _pair(pair: Pair) -> dict[str, Any]:
    return {
        **msgspec.to_builtins(pair),
        "offset_ns": pair.offset_ns,
        "doubt_ns": pair.doubt_ns,
        "consistent": pair.consistent,
        "differs": pair.differs,
    }


def _told(trace: Trace, operations: Mapping[str, str]) -> dict[str, Any]:
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
