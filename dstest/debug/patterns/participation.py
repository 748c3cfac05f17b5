"""Signs of who takes part: in decisions by the journal, in votes by logs, in answers by the
history; who reaches whom in a partition, by its record; two primaries of one group, by servers'
logs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final

from dstest.core.evidence import LandingRecord, PathDetails
from dstest.core.log_lines import kept_name
from dstest.core.op import Op, Outcome
from dstest.debug.logs.scene import Line
from dstest.debug.patterns.history import of_ops
from dstest.debug.patterns.journal import NotedLine, Reign
from dstest.debug.patterns.model import EvidenceRow, Match, evidence_row
from dstest.debug.patterns.scene import Scene, writes
from dstest.judge.facts import SECOND_NS

ASKS_NS: Final = 5 * SECOND_NS
"""So long after a server has become a replica its primary tells what that one has beyond it."""

OPS_SHOWN: Final = 2


def cuts_of(record: LandingRecord) -> set[tuple[str, str]]:
    """Directed links on which nothing arrived while the fault stood, as (from, to), by the probes
    that prove that it has landed. Faults that slow links down, or lose a part, leave some arrive;
    one that leaves standing connections alone cuts nothing off."""
    paths = PathDetails.of(record)
    if record.landed != "yes" or not isinstance(paths.cuts, list) or record.victim is None:
        return set()
    if paths.reset is False:
        return set()
    arrived = record.victim.during
    nothing = {str(one) for one in paths.cuts if one in arrived and not _any(arrived[one])}
    pairs = [one.split("->") for one in nothing]
    return {(pair[0], pair[1]) for pair in pairs if len(pair) == 2}


def _any(counted: Any) -> bool:
    """Did any arrive? Counts are one, or one for each family of addresses."""
    return any(counted) if isinstance(counted, list) else bool(counted)


def sides_of(record: LandingRecord, nodes: Sequence[str]) -> list[set[str]]:
    """Groups of members that reach one another both ways, over others as well; one group where
    nothing is cut off."""
    cuts = cuts_of(record)
    if not cuts:
        return [set(nodes)]
    left, sides = set(nodes), []
    while left:
        side, todo = set(), [min(left)]
        while todo:
            node = todo.pop()
            if node in side:
                continue
            side.add(node)
            todo += [
                other
                for other in nodes
                if other not in side and (node, other) not in cuts and (other, node) not in cuts
            ]
        left -= side
        sides.append(side)
    return sides


def absent(scene: Scene) -> Iterator[Match]:
    """A member that acknowledges nothing in seconds in which others do; seconds in which a fault
    stood count for nobody."""
    journal = scene.protocol
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
            yield Match(
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


def dumb(scene: Scene) -> Iterator[Match]:
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


def silent_logs(scene: Scene) -> Iterator[Match]:
    """What the check of logs says of silent nodes; of votes where there are enough to compare."""
    told = scene.checks["silent_failures"]
    votes = told.facts.get("votes") or {}
    enough = sum(votes.values()) >= scene.settings.votes_least * max(1, len(votes))
    for one in told.findings:
        node = one.nodes[0]
        if enough or not scene.notes.lines.get(node):
            yield Match(
                said=f"{node}: {one.said}",
                rows=[evidence_row("log", r.place, r.text, r.time_ns, node) for r in one.rows],
                count=max(1, one.count),
                nodes=one.nodes,
                window=one.window,
                expected=one.expected,
                why=one.why,
            )


def contrary(scene: Scene) -> Iterator[Match]:
    """A node votes against the majority, ballot after ballot, outside of faults."""
    ballots: dict[str, dict[str, str]] = {}
    rows: dict[tuple[str, str], NotedLine] = {}
    for told in scene.notes.votes:
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
            yield Match(
                said=f"{voter} voted against the majority {len(which)} times in a row",
                rows=[
                    evidence_row("log", x.place, x.record.message, x.time_ns, voter) for x in lines
                ],
                count=len(which),
                nodes=[voter],
                window="no fault",
                expected=False,
                why="votes while a fault stood do not count",
            )


def forked_votes(scene: Scene) -> Iterator[Match]:
    """Lines that tell of two granted votes of one node in one ballot, for different candidates."""
    granted: dict[tuple[str, str], NotedLine] = {}
    for told in scene.notes.votes:
        if told.what != "granted" or not told.ballot or told.peer not in scene.nodes:
            continue
        before = granted.setdefault((told.voter, told.ballot), told)
        if before.peer != told.peer:
            lines = (before.line, told.line)
            yield Match(
                said=f"{told.voter} granted two votes in {told.ballot}",
                rows=[
                    evidence_row("log", x.place, x.record.message, x.time_ns, x.node) for x in lines
                ],
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


def both_sides(scene: Scene) -> Iterator[Match]:
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


def two_primaries(scene: Scene) -> Iterator[Match]:
    """One server took over while the one that became its replica later was a primary still. That
    alone is what a group does that is cut in two; where the old one took writes meanwhile, or had
    taken some behind the cut of which its successor knows nothing, both were written to."""
    reigns = scene.notes.reigns.all
    for old in reigns:
        for new in reigns:
            if new.taken is None or new.node != old.successor or _ends(old) is None:
                continue
            if not _whole(scene, old.log):
                continue  # what was not kept of it may have ended the reign
            begin, end = new.taken.time_ns, _ends(old)
            if begin is None or end is None or old.first.time_ns is None:
                continue
            doubt = new.taken.doubt_ns + old.first.doubt_ns
            if old.first.time_ns + doubt < begin < end - doubt:
                yield _match(scene, old, new, begin, end)


def _whole(scene: Scene, log: str) -> bool:
    one = scene.meta.logs and scene.meta.logs.files.get(kept_name(log.removeprefix("nodes/")))
    return not one or one.kept >= one.bytes


def _ends(reign: Reign) -> int | None:
    return None if reign.until is None else reign.until.time_ns


def _match(scene: Scene, old: Reign, new: Reign, begin: int, end: int) -> Match:
    a, b = old.node, new.node
    odds = _at_odds(scene, new, end)
    took = _took(scene, old, begin, end)
    if not took and odds:
        took = _took(scene, old, _cut(scene, old, begin), begin)
    said = (
        f"{a} and {b} were both primary of one group for {(end - begin) / 1e9:.1f} s, from "
        f"{begin / 1e9:.1f} s to {end / 1e9:.1f} s"
    )
    if took:
        said += f"; {a} acknowledged {len(took):,} writes by itself"
    assert new.taken is not None and old.until is not None
    rows: list[EvidenceRow] = [
        _row(new.taken, b),
        _row(old.until, a),
        *(_row(one, b) for one in odds[:1]),
    ]
    rows += of_ops(scene, took[:OPS_SHOWN], "").rows if took else []
    return Match(
        said=said,
        rows=rows,
        count=max(1, len(took)),
        nodes=sorted({a, b}),
        at_ns=begin,
        strength="strong" if took else "indicated",
        severity="critical" if took else "medium",
    )


def _row(line: Line, node: str) -> EvidenceRow:
    return evidence_row("log", line.place, line.record.message, line.time_ns, node)


def _at_odds(scene: Scene, new: Reign, end: int) -> list[Line]:
    """Lines of the new one that tell of writes at odds, when the old one has come to it."""
    return [
        line
        for line in scene.notes.conflicts
        if line.time_ns is not None
        and line.place.rpartition(":")[0] == new.log
        and end <= line.time_ns + line.doubt_ns
        and line.time_ns <= end + ASKS_NS
    ]


def _cut(scene: Scene, old: Reign, begin: int) -> int:
    """A second after the fault was asked for that stood about the old one when another took over,
    and has landed; that moment itself where there is none."""
    stood = [
        window.start_ns
        for window in scene.windows.around(begin, 0)
        if window.landed == "yes" and old.node in window.nodes
    ]
    return min(begin, min(stood, default=begin) + SECOND_NS)


def _took(scene: Scene, old: Reign, begin: int, end: int) -> list[Op]:
    """Writes that the old one acknowledged in a stretch; nobody knows which of a node's servers
    did, where more than one was a primary then."""
    for other in scene.notes.reigns.all:
        if other.node == old.node and other.log != old.log and _overlap(other, begin, end):
            return []
    return [
        op
        for op in scene.between(begin, end)
        if op.node_seen == old.node
        and op.outcome is Outcome.OK
        and writes(op)
        and (op.complete_ts or end) < end
    ]


def _overlap(reign: Reign, begin: int, end: int) -> bool:
    first, last = reign.first.time_ns, _ends(reign)
    return (first is None or first < end) and (last is None or last > begin)
