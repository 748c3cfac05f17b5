"""Traces as text: a summary, the critical path, a tree with a timeline, and Mermaid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from dstest.core.printable import one_line
from dstest.traces.look import Look, length_ns
from dstest.traces.path import Segment, critical_path
from dstest.traces.spans import NOBODY, Span
from dstest.traces.tree import Trace
from dstest.traces.work import SLOW_MS, parallel_of

FLOWS_MAX: Final = 10
"""Source: discipline 7.2 (b)."""

ODD_MAX: Final = 10
SPANS_MAX: Final = 200
PATH_MAX: Final = 100
"""Stretches of a critical path that are shown: the longest ones."""

DEPTH_MAX: Final = 24
"""Where spans stop being set further to the right; how deep they are stands beside them."""

BAR: Final = 32


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


def _odd(found: Look) -> Iterator[str]:
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


def _clocks(found: Look) -> Iterator[str]:
    wrong = [p for p in found.pairs if not p.consistent]
    if found.moved:
        by = ", ".join(f"{node} {-by / 1e6:+.3f} ms" for node, by in sorted(found.moved.items()))
        yield f"clocks corrected: {by}"
        yield "  by the least delays there and back, taken to be as long, on clocks without drift"
    elif found.pairs:
        yield f"clocks: of {len(found.pairs)} pairs of nodes none differs for certain"
    for pair in wrong[:ODD_MAX]:
        yield f"  {pair.a} and {pair.b}: no one difference explains all exchanges; left as they are"


def _flows(found: Look) -> Iterator[str]:
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


def _work(found: Look) -> Iterator[str]:
    yield "work by node (spans, own time):"
    for work in found.work:
        names = ", ".join(f"{n:,} {one_line(name)}" for name, n in [*work.names.items()][:4])
        yield f"  {work.node}  {work.spans:,}  {ms(work.own_ns)}  {names}".rstrip()
    if found.unbalanced:
        yield f"  unbalanced: {found.unbalanced}"


def _slow(found: Look) -> Iterator[str]:
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


def _trace(found: Look, trace: Trace) -> Iterator[str]:
    path, parallel = critical_path(trace), parallel_of(trace)
    whose = found.operations.get(trace.id)
    yield f"trace {trace.id}" + (f": {one_line(whose)}" if whose else "")
    mean = f"{parallel.mean:.2f} at work on the mean, {parallel.most} at most"
    yield f"  {len(trace.spans)} spans over {ms(length_ns(trace))}; {mean}"
    yield from _path(trace, path)
    yield "spans (* on the critical path):"
    yield from tree_lines(trace, path)


def as_text(found: Look, name: str, notes: Sequence[str]) -> Iterator[str]:
    """Lines for people; names are somebody else's, and a terminal obeys what it is given."""
    return map(one_line, _lines(found, name, notes))


def _lines(found: Look, name: str, notes: Sequence[str]) -> Iterator[str]:
    every = found.traces.traces
    count = sum(len(trace.spans) for trace in every.values())
    nodes = len({work.node for work in found.work if work.node != NOBODY})
    linked = sum(trace in found.operations for trace in every)
    yield f"{name}: spans {count:,}, traces {len(every):,}, nodes {nodes}"
    if found.operations:
        yield f"operations of the history: {linked:,} of these traces"
    yield from (f"{note}" for note in notes)
    yield from _clocks(found)
    yield from _odd(found)
    yield from _flows(found)
    yield from _work(found)
    yield from _slow(found)
    if found.shown is not None:
        yield ""
        yield from _trace(found, found.shown)


def as_mermaid(found: Look) -> str:
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
    boxes = [f'  {id_}["{_quoted(node)}"]' for node, id_ in ids.items()]
    return "\n".join(["flowchart LR", *boxes, *edges, ""])


def _label(count: int, types: dict[str, int]) -> str:
    first = next(iter(types), "")
    more = f" and {len(types) - 1} more" if len(types) > 1 else ""
    return f'"{count:,} {_quoted(first)}{more}"'


def _quoted(text: str) -> str:
    """Within double quotes of Mermaid, which knows entities with a hash."""
    return "".join(c if c.isalnum() or c in " ._-/:@" else f"#{ord(c)};" for c in one_line(text))
