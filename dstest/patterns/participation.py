"""Who takes part: in decisions by the journal, in votes by logs, in answers by the history."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from dstest.core.evidence import LandingRecord
from dstest.core.op import Op, Outcome
from dstest.patterns.cuts import sides_of
from dstest.patterns.history import SECOND_NS, of_ops
from dstest.patterns.model import Found, row
from dstest.patterns.noted import Told
from dstest.patterns.scene import Scene, writes


def absent(scene: Scene) -> Iterator[Found]:
    """A member that acknowledges nothing in seconds in which others do; seconds in which a fault
    stood count for nobody."""
    journal = scene.told
    took: dict[str, set[int]] = defaultdict(set)
    decided: set[int] = set()
    until_ns = journal.silent_to(scene.load_end_ns)
    for step in journal.of("ack", "commit"):
        if step.time_ns is None or not scene.quiet(step.time_ns) or step.time_ns > until_ns:
            continue
        second = step.time_ns // SECOND_NS
        if step.kind == "commit":
            decided.add(second)
        took[step.node].add(second)
    if len(decided) < scene.settings.attempts_least:
        return
    shares = {node: len(took[node] & decided) / len(decided) for node in scene.nodes}
    mean = sum(shares.values()) / max(1, len(shares))
    for node, share in shares.items():
        silent = share < scene.settings.participation_least * mean
        if silent or share < scene.settings.participation_good * mean:
            acked = [s for s in journal.of("ack") if s.node == node]
            mine = acked[-1:] or [s for s in journal.steps if s.node == node][-1:]
            others = [s for s in journal.of("commit") if s.node != node][-2:]
            yield Found(
                said=f"{node} took part in {share:.0%} of the seconds with decisions, the mean is "
                f"{mean:.0%}",
                rows=[step.row() for step in (*mine, *others)],
                count=len(decided) - len(took[node] & decided),
                nodes=[node],
                strength="strong" if silent else "weak",
                severity="high" if silent else "medium",
                window="no fault",
                expected=False,
                why="seconds in which a fault stood do not count",
            )


def dumb(scene: Scene) -> Iterator[Found]:
    """A node that answers none of the operations that come to it, outside of faults, while others
    do."""
    asked, served = Counter[str](), Counter[str]()
    bad = defaultdict(list)
    for op in scene.load:
        if op.node_seen and scene.quiet(op.invoke_ts):
            asked[op.node_seen] += 1
            if scene.served(op):
                served[op.node_seen] += 1
            else:
                bad[op.node_seen].append(op)
    for node in asked:
        rest = sum(asked.values()) - asked[node]
        others = (sum(served.values()) - served[node]) / rest if rest else 0.0
        if asked[node] < scene.settings.attempts_least or others == 0:
            continue
        share = served[node] / asked[node]
        if share < scene.settings.participation_least * others:
            yield of_ops(
                scene,
                bad[node],
                f"{node} served {share:.0%} of its operations outside of faults, the others "
                f"{others:.0%}",
                nodes=[node],
                window="no fault",
                expected=False,
                why="what a fault may explain does not count",
            )


def silent_logs(scene: Scene) -> Iterator[Found]:
    """What the check of logs says of silent nodes; of votes where there are enough to compare."""
    told = scene.checks["silent_failures"]
    votes = told.facts.get("votes") or {}
    enough = sum(votes.values()) >= scene.settings.votes_least * max(1, len(votes))
    for one in told.findings:
        node = one.nodes[0]
        if enough or not scene.noted.lines.get(node):
            yield Found(
                said=f"{node}: {one.said}",
                rows=[row("log", r.place, r.text, r.time_ns, node) for r in one.rows],
                count=max(1, one.count),
                nodes=one.nodes,
                window=one.window,
                expected=one.expected,
                why=one.why,
            )


def contrary(scene: Scene) -> Iterator[Found]:
    """A node votes against the majority, ballot after ballot, outside of faults."""
    ballots: dict[str, dict[str, str]] = {}
    rows: dict[tuple[str, str], Told] = {}
    for told in scene.noted.votes:
        said = scene.why(told.line.time_ns)
        if told.ballot and not said.by_fault:
            ballots.setdefault(told.ballot, {}).setdefault(told.voter, told.what)
            rows.setdefault((told.ballot, told.voter), told)
    against: dict[str, list[str]] = defaultdict(list)
    worst: dict[str, list[str]] = defaultdict(list)
    for ballot, votes in ballots.items():
        counts = Counter(votes.values())
        (most, count), *_ = counts.most_common(1)
        if 2 * count <= len(votes) or len(votes) < 3:
            continue
        for voter, vote in votes.items():
            against[voter] = [*against[voter], ballot] if vote != most else []
            if len(against[voter]) > len(worst[voter]):
                worst[voter] = against[voter]
    for voter, which in worst.items():
        if len(which) > scene.settings.opposite_votes_most:
            lines = [rows[ballot, voter].line for ballot in which[:6]]
            yield Found(
                said=f"{voter} voted against the majority {len(which)} times in a row",
                rows=[row("log", x.place, x.record.message, x.time_ns, voter) for x in lines],
                count=len(which),
                nodes=[voter],
                window="no fault",
                expected=False,
                why="votes while a fault stood do not count",
            )


def forked_votes(scene: Scene) -> Iterator[Found]:
    """Lines that tell of two granted votes of one node in one ballot, for different candidates."""
    granted: dict[tuple[str, str], Told] = {}
    for told in scene.noted.votes:
        if told.what != "granted" or not told.ballot or told.peer not in scene.nodes:
            continue
        before = granted.setdefault((told.voter, told.ballot), told)
        if before.peer != told.peer:
            lines = (before.line, told.line)
            yield Found(
                said=f"{told.voter} granted two votes in {told.ballot}",
                rows=[row("log", x.place, x.record.message, x.time_ns, x.node) for x in lines],
                nodes=[told.voter],
                at_ns=told.line.time_ns,
            )


def cut_off_writes(scene: Scene, record: LandingRecord) -> list[Op]:
    """Writes that the smaller sides of a partition took and acknowledged while it was proven to
    stand; none where it cuts nobody off."""
    begin, end = record.landed_at, record.heal_start
    if begin is None or end is None:
        return []
    sides = sides_of(record, scene.nodes)
    small = set().union(*(side for side in sides if 2 * len(side) <= len(scene.nodes)))
    return [
        op
        for op in scene.between(begin, end)
        if op.node_seen in small
        and op.outcome is Outcome.OK
        and writes(op)
        and op.complete_ts is not None
        and op.complete_ts < end
    ]


def both_sides(scene: Scene) -> Iterator[Found]:
    """Writes are acknowledged on the smaller side of a partition that had landed, long after that,
    while the larger side acknowledges others."""
    for record in scene.records:
        sides = sides_of(record, scene.nodes)
        if len(sides) < 2 or record.landed_at is None or record.heal_start is None:
            continue
        begin = record.landed_at + 2 * SECOND_NS  # leases and answers on their way have ended
        took = defaultdict(list)
        for op in scene.between(begin, record.heal_start):
            if op.outcome is not Outcome.OK or not writes(op):
                continue
            if op.complete_ts is not None and op.complete_ts < record.heal_start:
                side = next((i for i, s in enumerate(sides) if op.node_seen in s), None)
                if side is not None:
                    took[side].append(op)
        small = [i for i, s in enumerate(sides) if 2 * len(s) <= len(scene.nodes)]
        busy = [i for i in took if took[i]]
        if len(busy) > 1 and (which := next((i for i in small if took.get(i)), None)) is not None:
            names = ", ".join(sorted(sides[which]))
            yield of_ops(
                scene,
                took[which],
                f"{len(took[which])} writes were acknowledged by {names}, cut off by "
                f"{record.fault_id}, while others were on the other side",
                nodes=sorted(sides[which]),
            )
