"""Order of operations, messages and effects."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from dstest.core.op import Op, Outcome
from dstest.logs.rates import percentile
from dstest.patterns.history import of_ops
from dstest.patterns.model import Found, Row, row
from dstest.patterns.noted import Said
from dstest.patterns.scene import Scene
from dstest.traces.tree import forest
from dstest.traces.vectors import contradictions

DELAYS_LEAST = 50
"""Messages of a link, for a p99 that is more than its slowest."""


def reads_behind(scene: Scene) -> Iterator[Found]:
    """Registers whose values are written once each: a read begins after a write of something else
    was confirmed, which had begun after the write of what it shows was confirmed."""
    by_key: dict[Any, list[Op]] = defaultdict(list)
    for op in scene.ops:
        if op.op_type in ("read", "write", "cas", "get", "put") and op.key is not None:
            by_key[op.key].append(op)
    bad: list[Op] = []
    for ops in by_key.values():
        bad += _behind(ops)
    if bad:
        said = f"{len(bad) // 3} reads show what had been overwritten before they began"
        nodes = sorted({op.node_seen for op in bad[2::3] if op.node_seen})
        yield of_ops(scene, bad, said, nodes=nodes)


def _behind(ops: list[Op]) -> list[Op]:
    """(write of the old value, later write, read) of each such read, one after the other."""
    writes = [op for op in ops if op.op_type in ("write", "put")]
    if len(writes) < 2 or any(
        op.op_type not in ("read", "get", "write", "put") and op.outcome is not Outcome.FAIL
        for op in ops
    ):
        return []
    first: dict[str, Op] = {}
    for op in writes:
        if repr(op.input) in first:
            return []  # a value that was written twice says nothing of when
        first[repr(op.input)] = op
    # Confirmed writes by their end, with the latest begin up to there
    done = sorted((op for op in writes if op.outcome is Outcome.OK), key=lambda op: _end(op))
    ends = [_end(op) for op in done]
    latest: list[Op] = []
    for op in done:
        latest.append(op if not latest or op.invoke_ts > latest[-1].invoke_ts else latest[-1])
    bad: list[Op] = []
    for read in ops:
        if read.op_type not in ("read", "get") or read.outcome is not Outcome.OK:
            continue
        at = bisect_left(ends, read.invoke_ts)
        old = first.get(repr(read.output))
        if at and old is not None and old.complete_ts is not None and old.outcome is Outcome.OK:
            newer = latest[at - 1]
            if newer.invoke_ts > old.complete_ts:
                bad += [old, newer, read]
    return bad


def _end(op: Op) -> int:
    return op.invoke_ts if op.complete_ts is None else op.complete_ts


def taken_back(scene: Scene) -> Iterator[Found]:
    """Registers whose values are written once each: a read shows a write that was never
    acknowledged, and a later read shows what had been confirmed before that write began."""
    by_key: dict[Any, list[Op]] = defaultdict(list)
    for op in scene.ops:
        if op.op_type in ("read", "write", "cas", "get", "put") and op.key is not None:
            by_key[op.key].append(op)
    bad: list[Op] = []
    for ops in by_key.values():
        bad += _taken_back(ops)
    if bad:
        said = f"{len(bad) // 3} values were shown, never acknowledged, and gone again"
        yield of_ops(scene, bad, said)


def _taken_back(ops: list[Op]) -> list[Op]:
    """(write that was never acknowledged, read that shows it, later read of what was before)."""
    changes = [op for op in ops if op.op_type not in ("read", "get")]
    if any(op.op_type not in ("write", "put") for op in changes):
        return []
    wrote = {repr(op.input): op for op in changes}
    if len(wrote) < len(changes):
        return []  # a value that was written twice says nothing of when
    bad: list[Op] = []
    shown: dict[str, tuple[Op, Op]] = {}
    reads = [op for op in ops if op.op_type in ("read", "get") and op.outcome is Outcome.OK]
    for read in sorted(reads, key=lambda op: op.invoke_ts):
        write = wrote.get(repr(read.output))
        for of, first in [one for one in shown.values() if _end(one[1]) < read.invoke_ts]:
            before = write is not None and write.outcome is Outcome.OK
            if before and write is not None and _end(write) < of.invoke_ts:
                bad += [of, first, read]
                del shown[repr(of.input)]
        if write is not None and write.outcome is not Outcome.OK:
            shown.setdefault(repr(read.output), (write, read))
    return bad


def contradicted(scene: Scene) -> Iterator[Found]:
    """Spans whose vector clocks contradict who began whom."""
    pairs = [p for t in forest(scene.spans).traces.values() for p in contradictions(t)]
    if pairs:
        rows: list[Row] = [
            row("span", child.place, f"{child.name} of {child.node} is not after {parent.id}",
                child.start_ns, child.node)
            for parent, child in pairs[:6]
        ]  # fmt: skip
        nodes = sorted({child.node for _, child in pairs})
        said = f"{len(pairs)} spans were not begun by their parents, by vector clocks"
        yield Found(said=said, rows=rows, count=len(pairs), nodes=nodes)


def _links(scene: Scene) -> dict[tuple[str, str], tuple[list[Said], dict[str, Said]]]:
    """By link (from, to): what was sent, in the order of the sender's log, and the first arrivals
    by id, in the order of the receiver's."""
    sent: dict[tuple[str, str], list[Said]] = defaultdict(list)
    got: dict[tuple[str, str], dict[str, Said]] = defaultdict(dict)
    for said in scene.noted.messages:
        if said.side == "sent" and said.peer:
            sent[said.node, said.peer].append(said)
        elif said.side == "received" and said.peer:
            got[said.peer, said.node].setdefault(said.id, said)
    return {link: (rows, got.get(link, {})) for link, rows in sent.items()}


def _line(said: Said, text: str) -> Row:
    return row("log", said.line.place, text, said.time_ns, said.node)


def never_received(scene: Scene) -> Iterator[Found]:
    """By link and window, of links whose receiver tells of what it gets."""
    limit_ns = int(scene.settings.message_s * 1e9)
    speaks = {said.node for said in scene.noted.messages if said.side == "received"}
    ends: dict[str, int] = {}
    for said in scene.noted.messages:
        if said.time_ns is not None:
            ends[said.node] = max(ends.get(said.node, 0), said.time_ns)
    for (source, target), (sent, got) in _links(scene).items():
        if target not in speaks:
            continue
        groups: dict[tuple[str, bool, str], list[Said]] = defaultdict(list)
        for said in sent:
            if said.id in got:
                continue
            if said.time_ns is not None and said.time_ns + limit_ns > ends.get(target, 0):
                continue  # it may still come
            why = scene.why(said.time_ns, (source, target))
            groups[why.window, why.expected, why.why].append(said)
        for (window, expected, reason), lost in groups.items():
            yield Found(
                said=f"{len(lost)} of {len(sent)} messages from {source} to {target} were not "
                "received",
                rows=[_line(one, f"sent {one.id} to {target}") for one in lost[:6]],
                count=len(lost),
                nodes=[source, target],
                at_ns=lost[0].time_ns,
                window=window,
                expected=expected,
                why=reason,
            )


def overtaken(scene: Scene) -> Iterator[Found]:
    """By link: messages that arrived after one which was sent later."""
    for (source, target), (sent, got) in _links(scene).items():
        order = {said.id: at for at, said in enumerate(sent)}
        places = [(order[id_], said) for id_, said in got.items() if id_ in order]
        highest, late = -1, []
        for at, said in places:
            if at < highest:
                late.append(said)
            highest = max(highest, at)
        if late:
            yield Found(
                said=f"{len(late)} of {len(places)} messages from {source} to {target} were "
                "overtaken by later ones",
                rows=[_line(one, f"received {one.id} of {source}, late") for one in late[:6]],
                count=len(late),
                nodes=[source, target],
                at_ns=late[0].time_ns,
            )


def late_links(scene: Scene) -> Iterator[Found]:
    """Links whose slowest hundredth takes many times their median, outside of faults."""
    delays: dict[tuple[str, str], list[tuple[float, str, int]]] = defaultdict(list)
    parents = {span.id: span for span in scene.spans}
    for span in scene.spans:
        parent = parents.get(span.parent)
        if parent is None or parent.node == span.node or not scene.quiet(span.start_ns):
            continue
        if parent.node in scene.nodes and span.node in scene.nodes:
            took = (span.start_ns - parent.start_ns) / 1e6
            insort(delays[parent.node, span.node], (took, span.place, span.start_ns))
    for (source, target), rows in delays.items():
        values = [took for took, _, _ in rows]
        if len(values) < DELAYS_LEAST:
            continue
        median, tail = percentile(values, 0.5), percentile(values, 0.99)
        if median > 0 and tail > scene.settings.delay_times_median * median:
            yield Found(
                said=f"from {source} to {target} p99 is {tail:.1f} ms, the median {median:.1f} ms",
                rows=[
                    row("span", place, f"{took:.1f} ms on the way", at, target)
                    for took, place, at in rows[-3:]
                ],
                count=len(values),
                nodes=[source, target],
                at_ns=rows[-1][2],
            )


def applied_twice(scene: Scene) -> Iterator[Found]:
    """Requests that one member applied at two places, and not as ones that it knew already."""
    for node, applied in scene.effects.items():
        done: dict[str, tuple[int, str]] = {}
        twice: list[Row] = []
        for one in applied:
            effect = one.effect
            if effect is None or not effect.request or effect.again or effect.refused:
                continue
            before = done.setdefault(effect.request, (one.index, one.place))
            if before[0] != one.index:
                said = f"request {effect.request}: applied at {before[0]} and at {one.index}"
                twice.append(row("state", one.place, said, None, node))
        if twice:
            said = f"{node} applied {len(twice)} requests more than once"
            yield Found(said=said, rows=twice[:6], count=len(twice), nodes=[node])


def effects_differ(scene: Scene) -> Iterator[Found]:
    """By pair of members: the first index at which they applied different things."""
    known: dict[int, tuple[str, Any, str]] = {}
    found: dict[tuple[str, str], list[Row]] = {}
    for node, applied in scene.effects.items():
        for one in applied:
            content = _content(one.raw)
            before = known.setdefault(one.index, (node, content, one.place))
            if before[1] != content and before[0] != node:
                key = (before[0], node)
                if key not in found:
                    found[key] = [
                        row("state", before[2], f"index {one.index}: {before[1]}", None, before[0]),
                        row("state", one.place, f"index {one.index}: {content}", None, node),
                    ]
    for (one_, other), rows in found.items():
        said = f"{one_} and {other} applied different things at one index"
        yield Found(said=said, rows=rows, nodes=[one_, other])


def _content(raw: dict[str, Any]) -> str:
    """What has to be alike on every member: not when, nor whether it was read from disk."""
    asked = {k: raw[k] for k in sorted(raw) if k in ("op", "key", "value", "id", "term")}
    return repr(asked)
