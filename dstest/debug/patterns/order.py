"""Signs of order and progress: stale and dirty reads, messages that are lost or overtaken, effects
that are applied twice; deadlock, livelock and starvation.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from dstest.core.op import FINAL_IDS, Op, Outcome
from dstest.debug.logs.rates import percentile
from dstest.debug.patterns.history import by_second, of_ops, quiet_seconds, runs_of
from dstest.debug.patterns.journal import MemberMessage
from dstest.debug.patterns.model import EvidenceRow, Match, evidence_row
from dstest.debug.patterns.scene import Scene, writes
from dstest.debug.traces.spans import contradictions, forest
from dstest.judge.facts import SECOND_NS

DELAYS_LEAST = 50
"""Messages of a link, for a p99 that is more than its slowest."""

_TAKES: Final = frozenset({"acquire", "lock"})
_GIVES: Final = frozenset({"release", "unlock"})
_CHANGES: Final = "changes of key"


def reads_behind(scene: Scene) -> Iterator[Match]:
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
    done = sorted((op for op in writes if op.outcome is Outcome.OK), key=lambda op: op.last_ns)
    ends = [op.last_ns for op in done]
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


def taken_back(scene: Scene) -> Iterator[Match]:
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
    done = sorted((o for o in changes if o.outcome is Outcome.OK), key=lambda op: -op.last_ns)
    newest_ns = -1  # when the last of the writes began that were over before the read
    for read in sorted(reads, key=lambda op: op.invoke_ts):
        while done and done[-1].last_ns < read.invoke_ts:
            newest_ns = max(newest_ns, done.pop().invoke_ts)
        write = wrote.get(repr(read.output))
        if write is not None and write.last_ns < newest_ns:
            continue  # it was overwritten: of an old value nothing follows for another one
        for of, first in [one for one in shown.values() if one[1].last_ns < read.invoke_ts]:
            before = write is not None and write.outcome is Outcome.OK
            if before and write is not None and write.last_ns < of.invoke_ts:
                bad += [of, first, read]
                del shown[repr(of.input)]
        if write is not None and write.outcome is not Outcome.OK:
            shown.setdefault(repr(read.output), (write, read))
    return bad


def clock_contradictions(scene: Scene) -> Iterator[Match]:
    """Spans whose vector clocks contradict who began whom."""
    pairs = [p for t in forest(scene.spans).traces.values() for p in contradictions(t)]
    if pairs:
        rows: list[EvidenceRow] = [
            evidence_row(
                "span",
                child.place,
                f"{child.name} of {child.node} is not after {parent.id}",
                child.start_ns,
                child.node,
            )
            for parent, child in pairs[:6]
        ]
        nodes = sorted({child.node for _, child in pairs})
        said = f"{len(pairs)} spans were not begun by their parents, by vector clocks"
        yield Match(said=said, rows=rows, count=len(pairs), nodes=nodes)


def _links(
    scene: Scene,
) -> dict[tuple[str, str], tuple[list[MemberMessage], dict[str, MemberMessage]]]:
    """By link (from, to): what was sent, in the order of the sender's log, and the first arrivals
    by id, in the order of the receiver's."""
    sent: dict[tuple[str, str], list[MemberMessage]] = defaultdict(list)
    got: dict[tuple[str, str], dict[str, MemberMessage]] = defaultdict(dict)
    for said in scene.notes.messages:
        if said.side == "sent" and said.peer:
            sent[said.node, said.peer].append(said)
        elif said.side == "received" and said.peer:
            got[said.peer, said.node].setdefault(said.id, said)
    return {link: (rows, got.get(link, {})) for link, rows in sent.items()}


def _line(said: MemberMessage, text: str) -> EvidenceRow:
    return evidence_row("log", said.line.place, text, said.time_ns, said.node)


def never_received(scene: Scene) -> Iterator[Match]:
    """By link and window, of links whose receiver tells of what it gets."""
    limit_ns = int(scene.settings.message_s * 1e9)
    speaks = {said.node for said in scene.notes.messages if said.side == "received"}
    ends: dict[str, int] = {}
    for said in scene.notes.messages:
        if said.time_ns is not None:
            ends[said.node] = max(ends.get(said.node, 0), said.time_ns)
    for (source, target), (sent, got) in _links(scene).items():
        if target not in speaks:
            continue
        groups: dict[tuple[str, bool, str], list[MemberMessage]] = defaultdict(list)
        for said in sent:
            if said.id in got:
                continue
            if said.time_ns is not None and said.time_ns + limit_ns > ends.get(target, 0):
                continue  # it may still come
            why = scene.why(said.time_ns, (source, target))
            groups[why.window, why.expected, why.why].append(said)
        for (window, expected, reason), lost in groups.items():
            yield Match(
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


def overtaken(scene: Scene) -> Iterator[Match]:
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
            yield Match(
                said=f"{len(late)} of {len(places)} messages from {source} to {target} were "
                "overtaken by later ones",
                rows=[_line(one, f"received {one.id} of {source}, late") for one in late[:6]],
                count=len(late),
                nodes=[source, target],
                at_ns=late[0].time_ns,
            )


def late_links(scene: Scene) -> Iterator[Match]:
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
            yield Match(
                said=f"from {source} to {target} p99 is {tail:.1f} ms, the median {median:.1f} ms",
                rows=[
                    evidence_row("span", place, f"{took:.1f} ms on the way", at, target)
                    for took, place, at in rows[-3:]
                ],
                count=len(values),
                nodes=[source, target],
                at_ns=rows[-1][2],
            )


def applied_twice(scene: Scene) -> Iterator[Match]:
    """Requests that one member applied at two places, and not as ones that it knew already."""
    for node, applied in scene.effects.items():
        done: dict[str, tuple[int, str]] = {}
        twice: list[EvidenceRow] = []
        for one in applied:
            effect = one.effect
            if effect is None or not effect.request or effect.again or effect.refused:
                continue
            before = done.setdefault(effect.request, (one.index, one.place))
            if before[0] != one.index:
                said = f"request {effect.request}: applied at {before[0]} and at {one.index}"
                twice.append(evidence_row("state", one.place, said, None, node))
        if twice:
            said = f"{node} applied {len(twice)} requests more than once"
            yield Match(said=said, rows=twice[:6], count=len(twice), nodes=[node])


def effects_differ(scene: Scene) -> Iterator[Match]:
    """By pair of members: the first index at which they applied different things."""
    known: dict[int, tuple[str, Any, str]] = {}
    found: dict[tuple[str, str], list[EvidenceRow]] = {}
    for node, applied in scene.effects.items():
        for one in applied:
            content = _content(one.raw)
            before = known.setdefault(one.index, (node, content, one.place))
            if before[1] != content and before[0] != node:
                key = (before[0], node)
                if key not in found:
                    found[key] = [
                        evidence_row(
                            "state", before[2], f"index {one.index}: {before[1]}", None, before[0]
                        ),
                        evidence_row(
                            "state", one.place, f"index {one.index}: {content}", None, node
                        ),
                    ]
    for (one_, other), rows in found.items():
        said = f"{one_} and {other} applied different things at one index"
        yield Match(said=said, rows=rows, nodes=[one_, other])


def _content(raw: dict[str, Any]) -> str:
    """What has to be alike on every member: not when, nor whether it was read from disk."""
    asked = {k: raw[k] for k in sorted(raw) if k in ("op", "key", "value", "id", "term")}
    return repr(asked)


class _Wait:
    """What one process wants: from when it asked first until it got it, gave up or did something
    else. `last` is when that was, None where the last time was never answered; `got` whether it
    has it then. Servers that refuse at once are asked again and again."""

    def __init__(self, first: Op) -> None:
        self.first = first
        self.key, self.process = first.key, first.process_id
        self.last = first.complete_ts
        self.got = False

    def again(self, op: Op) -> None:
        """How one more attempt ended."""
        self.last = op.complete_ts
        self.got = op.outcome is Outcome.OK and op.output not in (None, False)


def _waits(ops: list[Op]) -> list[_Wait]:
    """In the order in which they begin; one for all attempts of a process at a lock in a row."""
    found: list[_Wait] = []
    open_: dict[Any, _Wait] = {}
    for op in ops:
        wait = open_.get(op.process_id)
        if op.op_type not in _TAKES:
            open_.pop(op.process_id, None)
            continue
        if wait is None or wait.key != op.key or wait.got:
            wait = open_[op.process_id] = _Wait(op)
            found.append(wait)
        wait.again(op)
    return found


class _Hold:
    """Who holds each lock, and who waits for it since when."""

    def __init__(self) -> None:
        self.holder: dict[Any, Any] = {}
        self.waiting: dict[Any, _Wait] = {}

    def circle(self, start: Any) -> list[_Wait]:
        """The waits from a process back to itself; empty where there is no way back."""
        path: list[_Wait] = []
        process, seen = start, set()
        while process in self.waiting and process not in seen:
            seen.add(process)
            wait = self.waiting[process]
            path.append(wait)
            if wait.key not in self.holder:
                return []
            process = self.holder[wait.key]
        return path if path and process == start else []


def waits_in_circles(scene: Scene) -> Iterator[Match]:
    """Clients that hold a lock each and wait for the other's, for longer than a while."""
    ops = [op for op in scene.ops if op.op_type in _TAKES | _GIVES]
    events: list[tuple[int, int, _Wait | Op]] = []
    for wait in _waits(ops):
        events.append((wait.first.invoke_ts, 1, wait))
        if wait.last is not None:
            events.append((wait.last, 0, wait))
    events += [
        (op.complete_ts, 0, op)
        for op in ops
        if op.op_type in _GIVES and op.outcome is Outcome.OK and op.complete_ts is not None
    ]
    state, least_ns = _Hold(), int(scene.settings.stuck_s * 1e9)
    found: set[frozenset[Any]] = set()
    for _, begins, one in sorted(events, key=lambda event: event[:2]):
        if isinstance(one, Op):
            state.holder.pop(one.key, None)
        elif begins:
            state.waiting[one.process] = one
            circle = state.circle(one.process)
            who = frozenset(wait.process for wait in circle)
            if len(circle) > 1 and who not in found and _lasts(scene, circle, one, least_ns):
                found.add(who)
                waits = ", ".join(f"process {wait.process} for {wait.key}" for wait in circle)
                firsts = [wait.first for wait in circle]
                yield of_ops(scene, firsts, f"each waits for what the other holds: {waits}")
        else:
            state.waiting.pop(one.process, None)
            if one.got:
                state.holder[one.key] = one.process


def _lasts(scene: Scene, circle: list[_Wait], last: _Wait, least_ns: int) -> bool:
    """Do all of them wait for so long from the last wait on?"""
    end = scene.load_end_ns
    return all(
        (one.last if one.last is not None else end) - last.first.invoke_ts >= least_ns
        for one in circle
    )


def deadlock_lines(scene: Scene) -> Iterator[Match]:
    """What servers tell of deadlocks."""
    lines = [told.line for told in scene.notes.deadlocks]
    if lines:
        yield Match(
            said=f"{len(lines)} lines tell of a deadlock",
            rows=[
                evidence_row("log", x.place, x.record.message, x.time_ns, x.node) for x in lines[:6]
            ],
            count=len(lines),
            nodes=sorted({x.node for x in lines}),
            at_ns=lines[0].time_ns,
        )


def no_completions(scene: Scene) -> Iterator[Match]:
    """Seconds in a row, outside of faults, in which much is begun and nothing succeeds."""
    asked = by_second(scene, lambda op: True)
    served = by_second(scene, scene.served, ended=True)
    quiet = quiet_seconds(scene)
    nothing = [a > 0 and not s and q for a, s, q in zip(asked, served, quiet, strict=True)]
    for begin, end in runs_of(nothing):
        tried = sum(asked[begin:end])
        if end - begin < scene.settings.stuck_s or tried < scene.settings.attempts_least:
            continue
        ops = scene.between(begin * SECOND_NS, end * SECOND_NS)
        yield of_ops(
            scene,
            ops,
            f"{tried} operations were begun in {end - begin} s, and none succeeded",
            window="no fault",
            expected=False,
            why="no fault stood in these seconds",
        )


def _progress(scene: Scene, by: str) -> dict[Any, tuple[list[Op], int]]:
    """By client, key or key that was changed: what was asked for outside of faults, and how much of
    it was served."""
    slots = scene.header.concurrency or 0
    groups: dict[Any, list[Op]] = defaultdict(list)
    for op in scene.load:
        if not scene.quiet(op.invoke_ts):
            continue
        process = op.process_id
        if by == "key" or (by == _CHANGES and writes(op)):
            groups[str(op.key)].append(op)
        elif by == "client" and slots and isinstance(process, int) and process < FINAL_IDS:
            groups[process % slots].append(op)
    return {who: (ops, sum(scene.served(op) for op in ops)) for who, ops in groups.items()}


def _others(scene: Scene, groups: dict[Any, tuple[list[Op], int]], but: Any) -> float:
    """Which share of the others' operations was served meanwhile."""
    begin, end = groups[but][0][0].invoke_ts, groups[but][0][-1].invoke_ts
    meanwhile = [
        op
        for who, (ops, _) in groups.items()
        if who != but
        for op in ops
        if begin <= op.invoke_ts <= end
    ]
    return sum(scene.served(op) for op in meanwhile) / max(1, len(meanwhile))


def starvation(scene: Scene) -> Iterator[Match]:
    """Clients, keys, or changes of keys alone, that are never served while the others are: from
    their first attempt to their last one."""
    told: set[Any] = set()
    for by in ("client", "key", _CHANGES):
        groups = _progress(scene, by)
        for who, (ops, served) in groups.items():
            if len(ops) < scene.settings.attempts_least or served:
                continue
            took_s = (ops[-1].invoke_ts - ops[0].invoke_ts) / 1e9
            if took_s < scene.settings.stuck_s or (by == _CHANGES and who in told):
                continue
            if (others := _others(scene, groups, who)) <= 0.5:
                continue
            told.add(who)
            said = f"{by} {who} asked {len(ops)} times in {took_s:.0f} s and was never served"
            if by == _CHANGES:
                said = f"{by} {who} were asked for {len(ops)} times in {took_s:.0f} s, never served"
            yield of_ops(
                scene,
                ops,
                f"{said}, {others:.0%} of the others' were",
                window="no fault",
                expected=False,
                why="what a fault may explain does not count",
            )
