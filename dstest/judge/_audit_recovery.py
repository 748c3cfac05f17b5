"""RF8: did the cluster come back, after each heal and at the end (discipline 5.3)?"""

from __future__ import annotations

import math
from typing import Final

from dstest.core.evidence import AuditRow
from dstest.judge.facts import SECOND_NS, Measured, Pace, RunFacts, agree, pace, windows_of
from dstest.judge.lints import end_of
from dstest.judge.rows import NOT_SERVING, ok, short

SETTLE_S: Final = 5.0
"""Recovery is judged from here on after the last heal, or from half the time that is left."""

TAIL_S: Final = 30.0
TAIL_OPS_MIN: Final = 20
OK_SHARE_MIN: Final = 0.95
THROUGHPUT_SHARE_MIN: Final = 0.5
"""Throughput swings on a shared machine; the share of good operations is the sharp measure."""

P99_SLACK_MS: Final = 200.0


def _differing(facts: RunFacts) -> str | None:
    """How the replicas differ once nobody writes any more; None where they agree."""
    replicas = facts.replicas
    nodes = facts.history.header.nodes
    if replicas is None or (agree(replicas) and {*nodes} <= replicas.keys()):
        return None
    silent = [name for name in {*nodes, *replicas} if not replicas.get(name)]
    if silent or not replicas:
        who = ", ".join(sorted(silent)) or "no member"
        return f"replicas not compared: {who} did not tell its state"
    return "replicas differ once nobody writes: " + ", ".join(
        f"{name} {state}" for name, state in sorted(replicas.items())
    )


def _never_again(facts: RunFacts) -> str | None:
    """The first heal after which the load did not go well again before the next fault."""
    if (
        facts.settled_ns is None
        and not facts.recoveries
        and any(r.healed_at for r in facts.records)
    ):
        return "whether the load went well again after a heal was not recorded"
    for healed in facts.recoveries:
        if healed.settled_ns is None:
            return (
                f"the load did not go well again after the heal at {healed.healed_ns / 1e9:.1f} s"
            )
    return None


def _recoveries(facts: RunFacts) -> str:
    found = [
        max(0.0, (h.settled_ns - h.healed_ns) / 1e9)
        for h in facts.recoveries
        if h.settled_ns is not None
    ]
    if not found:
        return ""
    return f"; steady {max(found):.1f} s after a heal at the latest ({len(found)} heals)"


def _left(facts: RunFacts) -> list[str]:
    """What was still wrong with the nodes at the end."""
    nodes = facts.history.header.nodes
    sick = [n for n in nodes if facts.healthy.get(n) is False]
    unasked = [n for n in nodes if n not in facts.healthy]
    unseen = [n for n in nodes if n not in facts.residue and "cluster" not in facts.residue]
    leaks = [f"{node}: {', '.join(found)}" for node, found in facts.residue.items() if found]
    leaks += [f"{r.fault_id}: {', '.join(r.residue)}" for r in facts.records if r.residue]
    standing = [r.fault_id for r in facts.records if not r.heal_verified]
    rows = {
        NOT_SERVING: sick if nodes else ["no node known"],
        "the run ended before anybody asked who serves": unasked,
        "nobody looked for leftovers on": unseen,
        "left behind": leaks,
        "heal not verified": standing,
        "clean-up failed": facts.problems,
    }
    return [f"{what}: {'; '.join(found)}" for what, found in rows.items() if found]


def recovered_row(facts: RunFacts) -> AuditRow:
    """The row."""
    nodes = facts.history.header.nodes
    wrong = [*_left(facts), _differing(facts), _never_again(facts)]
    if told := [message for message in wrong if message]:
        return short("; ".join(told))
    alike = f"; {len(facts.replicas)} replicas agree" if facts.replicas else ""
    if not facts.records:
        return ok(f"no fault to recover from; all {len(nodes)} nodes serve{alike}")
    row = _tail(facts, len(nodes))
    message = f"{row.evidence}{_recoveries(facts)}{alike}"
    return ok(message) if row.status == "ok" else short(message)


def _tail(facts: RunFacts, nodes: int) -> AuditRow:
    """The last seconds of load against the seconds before the first fault."""
    ops = facts.load
    windows = windows_of(facts, end_of(facts.history))
    times = [op.invoke_ts for op in ops]
    if not windows or not times:
        return ok(f"no fault was injected; all {nodes} nodes serve")
    first, last = min(times), max(times)
    healed = max(end for _, end in windows)
    settle_ns = min(int(SETTLE_S * SECOND_NS), max(0, last - healed) // 2)
    start = max(healed + settle_ns, last - int(TAIL_S * SECOND_NS), facts.settled_ns or 0)
    base = pace(ops, first, windows[0][0], facts.conflict_errors)
    tail = pace(ops, start, last + 1, facts.conflict_errors)
    for name, part in (("before the first fault", base), ("after the last heal", tail)):
        if part.ops < TAIL_OPS_MIN:
            return short(f"{part.ops} operations {name}, {TAIL_OPS_MIN} needed to compare")
    return _beside(_compared(base, tail, nodes), facts.measured, tail)


def _beside(row: AuditRow, measured: Measured | None, tail: Pace) -> AuditRow:
    """The same against the baseline that was measured, where there is one that held still: what was
    short stays short."""
    if measured is None or tail.p99_ms is None:
        return row
    message = (
        f"{row.evidence}; measured baseline: {measured.ok_per_s:,.0f}/s, p99 "
        f"{measured.p99_ms:,.0f} ms, {measured.said}"
    )
    slow = tail.p99_ms > max(2 * measured.p99_ms, measured.p99_ms + P99_SLACK_MS)
    thin = tail.ok_per_s < THROUGHPUT_SHARE_MIN * measured.ok_per_s
    fine = row.status == "ok" and not (measured.accepted and (slow or thin))
    return ok(message) if fine else short(message)


def _compared(base: Pace, tail: Pace, nodes: int) -> AuditRow:
    served, served_before = (part.ok_share + part.raced_share for part in (tail, base))
    noise = 3 * math.sqrt(max(0.0, served_before * (1 - served_before)) / tail.ops)
    message = (
        f"{tail.ok_share:.1%} of the last {tail.ops:,} operations succeeded ({base.ok_share:.1%} "
        f"before the first fault), {tail.ok_per_s:,.0f}/s ({base.ok_per_s:,.0f}/s)"
    )
    if base.raced or tail.raced:
        message += f", {tail.raced_share:.1%} lost a race with another one ({base.raced_share:.1%})"
    if base.p99_ms is None or tail.p99_ms is None:
        return short(f"{message}; no operation succeeded to compare with")
    message += (
        f", p99 {tail.p99_ms:,.0f} ms ({base.p99_ms:,.0f} ms); {nodes} of {nodes} nodes serve"
    )
    slow = tail.p99_ms > max(2 * base.p99_ms, base.p99_ms + P99_SLACK_MS)
    fewer = served < OK_SHARE_MIN * served_before - noise
    thin = tail.ok_per_s < THROUGHPUT_SHARE_MIN * base.ok_per_s
    return short(message) if slow or fewer or thin else ok(message)
