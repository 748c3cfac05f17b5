"""Red flags RF1-RF10: what makes a green run worthless (discipline 5.3)."""

from __future__ import annotations

import bisect
import itertools
import math
from collections import Counter
from typing import Final

import msgspec

from dstest.core import limits
from dstest.core.evidence import AuditRow, Budgets
from dstest.core.op import Outcome
from dstest.judge._audit_again import KEYS_MIN, not_read_again
from dstest.judge._audit_logs import alarms
from dstest.judge.canary_oracles import ORACLES
from dstest.judge.facts import SECOND_NS, Pace, RunFacts, pace, spans, windows_of
from dstest.judge.lints import end_of
from dstest.judge.rows import na, ok, rows_of, short

__all__ = ["red_flags"]

RATE_SHARE_MIN: Final = 0.5
"""A second of load counts as offered when it had this share of the intended rate."""

SLOW_BUCKETS_MAX: Final = 0.05
GAP_S_MAX: Final = 5.0
TIMEOUT_GRACE_S: Final = 2.0
"""After a heal, clients sit in the timeouts of operations that the fault swallowed, and a bit."""

SETTLE_S: Final = 5.0
"""Recovery is judged from here on after the last heal, or from half the time that is left."""

CLOCK_DRIFT_MS_MAX: Final = 50.0
TAIL_S: Final = 30.0
TAIL_OPS_MIN: Final = 20
OK_SHARE_MIN: Final = 0.95
THROUGHPUT_SHARE_MIN: Final = 0.5
"""Throughput swings on a shared machine; the share of good operations is the sharp measure."""

P99_SLACK_MS: Final = 200.0
RECHECKS_MIN: Final = 2
"""In mid-window and at its end."""

SURE: Final = frozenset({"linearizable", *(name.split("/")[0] for name in ORACLES)})
"""The checkers that every mutant is a violation for; others may accept some."""

NETWORK_NEMESES: Final = ("partition", "packet", "loss", "latency", "bandwidth", "slow-network")


def red_flags(facts: RunFacts, budget: Budgets) -> dict[str, AuditRow]:
    """All ten rows."""
    return rows_of(
        {
            "RF1": _load,
            "RF2": _oracle,
            "RF3": _landed,
            "RF4": _stood,
            "RF5": _clock,
            "RF6": lambda f: _budget(f, budget),
            "RF7": alarms,
            "RF8": _recovered,
            "RF9": _baseline_fair,
            "RF10": _seeds,
        },
        facts,
    )


def _seconds(times: list[int], quiet: list[tuple[int, int]]) -> list[int]:
    """Whole seconds of load, by number, that touch none of the `quiet` stretches."""
    first, last = times[0] // SECOND_NS + 1, times[-1] // SECOND_NS
    return [
        second
        for second in range(first, last)
        if not any(
            second * SECOND_NS <= end and (second + 1) * SECOND_NS >= begin for begin, end in quiet
        )
    ]


def _outside(times: list[int], quiet: list[tuple[int, int]]) -> list[float]:
    """Operations per second of `_seconds`."""
    return [
        bisect.bisect_left(times, (second + 1) * SECOND_NS)
        - bisect.bisect_left(times, second * SECOND_NS)
        for second in _seconds(times, quiet)
    ]


def _busy(facts: RunFacts, times: list[int], quiet: list[tuple[int, int]]) -> list[float]:
    """Clients that waited for an answer, on average, per second of `_seconds`.

    An operation of unknown outcome kept its client for the time it was given.
    """
    waited: Counter[int] = Counter()
    timeout_ns = int(facts.op_timeout_s * SECOND_NS)
    for op in facts.load:
        start = op.invoke_ts
        end = op.complete_ts if op.complete_ts is not None else start + timeout_ns
        for second in range(start // SECOND_NS, end // SECOND_NS + 1):
            begin, until = second * SECOND_NS, (second + 1) * SECOND_NS
            waited[second] += min(end, until) - max(start, begin)
    return [waited[second] / SECOND_NS for second in _seconds(times, quiet)]


def _idle(times: list[int], facts: RunFacts, quiet: list[tuple[int, int]]) -> str | None:
    """The first stretch of load outside fault windows in which nobody asked for anything."""
    stretches = [("the generator", a, b) for a, b in itertools.pairwise(times)]
    stretches += [(f"worker {g.worker}", g.start_ns, g.end_ns) for g in facts.generator_gaps]
    for who, start, end in stretches:
        if end - start > GAP_S_MAX * SECOND_NS and not any(
            start <= until and end >= begin for begin, until in quiet
        ):
            return f"{who} was silent for {(end - start) / 1e9:.1f} s from {start / 1e9:.1f} s on"
    return None


def _absent_clients(facts: RunFacts) -> list[int]:
    """Clients that never invoked: a process is client `process_id % concurrency`."""
    wanted = facts.history.header.concurrency or 0
    ids = {op.process_id for op in facts.load}
    if not all(isinstance(i, int) for i in ids):
        return list(range(len(ids), wanted))
    seen = {int(i) % wanted for i in ids} if wanted else set()
    return sorted(set(range(wanted)) - seen)


def _load(facts: RunFacts) -> AuditRow:
    ops, header = facts.load, facts.history.header
    if len(ops) < limits.MIN_OPS_PER_EPOCH:
        return short(f"{len(ops)} operations in all, at least {limits.MIN_OPS_PER_EPOCH} needed")
    absent = _absent_clients(facts)
    if absent:
        return short(f"{len(absent)} of {header.concurrency} clients never asked for anything")
    good = Counter(op.op_type for op in ops if op.outcome is Outcome.OK)
    for kind, least in facts.minimum.items():
        if good[kind] < least:
            return short(f"{good[kind]} good operations of type {kind}, {least} needed")
    times = sorted(op.invoke_ts for op in ops)
    grace_s = facts.op_timeout_s + TIMEOUT_GRACE_S
    quiet = spans(windows_of(facts, end_of(facts.history)), int(grace_s * SECOND_NS))
    silent = _idle(times, facts, quiet)
    if silent:
        return short(silent)
    counts = _outside(times, quiet) if header.rate else _busy(facts, times, quiet)
    if not counts:
        return short("no whole second of load lies outside the fault windows to compare with")
    if header.rate:
        # At few operations per second, chance alone moves a second's count by its root.
        wanted = header.rate
        floor = min(RATE_SHARE_MIN * wanted, wanted - 3 * math.sqrt(wanted))
        source = f"{RATE_SHARE_MIN:.0%} of the target of {wanted:,.0f}/s"
    else:
        # A closed loop means to keep every client waiting for an answer, however slow those are.
        floor = RATE_SHARE_MIN * (header.concurrency or 1)
        source = f"{RATE_SHARE_MIN:.0%} of {header.concurrency} clients busy (closed loop)"
    slow = sum(1 for n in counts if n < floor)
    allowed = max(1, math.ceil(SLOW_BUCKETS_MAX * len(counts)))
    said = (
        f"{len(ops):,} operations; {slow} of {len(counts)} seconds outside fault windows fell "
        f"below {source}"
    )
    if slow > allowed:
        return short(f"{said}; at most {allowed} may")
    return ok(said)


def _oracle(facts: RunFacts) -> AuditRow:
    absent = [name for name in facts.checkers_declared if name not in facts.results]
    if absent or not facts.checkers_declared:
        return short(f"checkers without a result: {', '.join(absent) or 'none was declared'}")
    for name, result in facts.results.items():
        if result.ops.consumed == 0:
            return short(f"{name} judged none of {result.ops.total} operations")
        if result.keys.decided < result.keys.total:
            return short(f"{name} decided {result.keys.decided} of {result.keys.total} keys")
    killed, total = facts.canary.killed, facts.canary.total
    if total == 0:
        return short(
            "no mutant of this history could be made, so the checker was not shown to bite"
        )
    if killed == 0:
        return short(f"the checker accepted all {total} broken copies of this history")
    missed = [
        row
        for row in facts.canary.details
        if row.get("checker") in SURE and row.get("valid") is True
    ]
    if missed:
        first = f"{missed[0].get('kind')}: {missed[0].get('mutant')}"
        return short(f"{len(missed)} of {total} broken copies were accepted, first {first}")
    if unread := not_read_again(facts):
        return short(
            f"{', '.join(unread)}: fewer than {KEYS_MIN} keys written before it were read after"
            " it, so that what it destroyed would not show"
        )
    consumed = sum(r.ops.consumed for r in facts.results.values())
    return ok(f"{consumed:,} operations judged; {killed} of {total} broken copies were rejected")


def _landed(facts: RunFacts) -> AuditRow:
    if facts.faults_planned == 0 and not facts.records:
        return na("no fault was planned")
    landed = [r.fault_id for r in facts.records if r.landed == "yes"]
    wanted = max(facts.faults_planned, len(facts.records))
    if len(landed) < wanted:
        return short(f"{len(landed)} of {wanted} planned faults landed on both sides")
    return ok(f"{len(landed)} of {wanted} planned faults landed on both sides")


def _stood(facts: RunFacts) -> AuditRow:
    if facts.faults_planned == 0 and not facts.records:
        return na("no fault was planned")
    members = set(facts.history.header.nodes)
    looks_total = 0
    for r in facts.records:
        looks = r.facts.get("rechecks", [])
        looks_total += len(looks)
        if len(looks) < RECHECKS_MIN:
            return short(f"{r.fault_id}: looked at {len(looks)} times after landing, not twice")
        gone = [look for look in looks if not look.get("present")]
        if gone:
            at_s = gone[0].get("at_ns", 0) / 1e9
            return short(f"{r.fault_id}: the fault was gone at {at_s:.1f} s, inside its window")
        strangers = [t for t in r.targets if t not in members]
        if strangers or not r.targets:
            return short(f"{r.fault_id}: targets not in the cluster: {', '.join(strangers) or '-'}")
        if r.nemesis.startswith(NETWORK_NEMESES):
            found = r.facts.get("baseline_packets")
            counts = list(found.values()) if isinstance(found, dict) else [found or 0]
            idle = sum(1 for n in counts if not n)
            if idle or not counts:
                return short(f"{r.fault_id}: {idle} of {len(counts)} paths carried no traffic")
    if len(facts.records) < facts.faults_planned:
        return short(f"{len(facts.records)} of {facts.faults_planned} faults have a record")
    return ok(f"{looks_total} looks at {len(facts.records)} faults, each found it standing")


def _clock(facts: RunFacts) -> AuditRow:
    clock = facts.history.header.clock
    if clock is None or "MONOTONIC" not in clock.name.upper():
        return short(f"time stamps are of {clock.name if clock else 'an unnamed clock'}")
    negative = sum(
        1
        for op in facts.history.ops
        if op.complete_ts is not None and op.complete_ts < op.invoke_ts
    )
    if negative:
        return short(f"{negative} operations ended before they began")
    if not facts.clocks:
        return short("wall clock against monotonic clock was not measured")
    if any("clock" in r.nemesis for r in facts.records):
        return ok("intervals come from one monotonic clock; wall clocks were moved on purpose")
    worst = max(
        facts.clocks, key=lambda c: abs(c.wall_minus_mono_end_ns - c.wall_minus_mono_start_ns)
    )
    drift_ms = abs(worst.wall_minus_mono_end_ns - worst.wall_minus_mono_start_ns) / 1e6
    said = f"wall clock of {worst.host} moved {drift_ms:.1f} ms against its monotonic clock"
    return ok(said) if drift_ms < CLOCK_DRIFT_MS_MAX else short(f"{said}, 50 ms allowed")


def _budget(facts: RunFacts, budget: Budgets) -> AuditRow:
    order = ("none", "smoke", "hardening", "release")
    numbers = ", ".join(f"{key} {value:,.0f}" for key, value in budget.measured.items())
    said = f"tier met: {budget.met}, wanted: {facts.tier_wanted} ({numbers})"
    return ok(said) if order.index(budget.met) >= order.index(facts.tier_wanted) else short(said)


def _recovered(facts: RunFacts) -> AuditRow:
    nodes = facts.history.header.nodes
    sick = [n for n in nodes if not facts.healthy.get(n)]
    if sick or not nodes:
        return short(f"not serving after the settle phase: {', '.join(sick) or 'no node known'}")
    leaks = [f"{node}: {', '.join(found)}" for node, found in facts.residue.items() if found]
    leaks += [f"{r.fault_id}: {', '.join(r.residue)}" for r in facts.records if r.residue]
    if leaks:
        return short(f"left behind: {'; '.join(leaks)}")
    standing = [r.fault_id for r in facts.records if not r.heal_verified]
    if standing:
        return short(f"heal not verified: {', '.join(standing)}")
    if facts.replicas_equal is False:
        return short("the replicas differ after the settle phase")
    if not facts.records:
        return ok(f"no fault to recover from; all {len(nodes)} nodes serve")
    return _tail(facts, len(nodes))


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
    base, tail = pace(ops, first, windows[0][0]), pace(ops, start, last + 1)
    for name, part in (("before the first fault", base), ("after the last heal", tail)):
        if part.ops < TAIL_OPS_MIN:
            return short(f"{part.ops} operations {name}, {TAIL_OPS_MIN} needed to compare")
    row = _compared(base, tail, nodes)
    if facts.settled_ns is None:
        return row
    recovery_s = max(0.0, (facts.settled_ns - healed) / 1e9)
    return msgspec.structs.replace(
        row, evidence=f"{row.evidence}; steady {recovery_s:.1f} s after the last heal"
    )


def _compared(base: Pace, tail: Pace, nodes: int) -> AuditRow:
    noise = 3 * math.sqrt(base.ok_share * (1 - base.ok_share) / tail.ops)
    said = (
        f"{tail.ok_share:.1%} of the last {tail.ops:,} operations succeeded ({base.ok_share:.1%} "
        f"before the first fault), {tail.ok_per_s:,.0f}/s ({base.ok_per_s:,.0f}/s)"
    )
    if base.p99_ms is None or tail.p99_ms is None:
        return short(f"{said}; no operation succeeded to compare with")
    said += f", p99 {tail.p99_ms:,.0f} ms ({base.p99_ms:,.0f} ms); {nodes} of {nodes} nodes serve"
    slow = tail.p99_ms > max(2 * base.p99_ms, base.p99_ms + P99_SLACK_MS)
    fewer = tail.ok_share < OK_SHARE_MIN * base.ok_share - noise
    thin = tail.ok_per_s < THROUGHPUT_SHARE_MIN * base.ok_per_s
    return short(said) if slow or fewer or thin else ok(said)


def _baseline_fair(facts: RunFacts) -> AuditRow:
    if "baseline" not in facts.checker_kinds.values():
        return na("no oracle compares this run with a baseline run")
    if facts.baseline_fair:
        return ok("baseline and run share harness, topology, workload and host")
    return short("baseline and run were not shown to share harness, topology, workload and host")


def _seeds(facts: RunFacts) -> AuditRow:
    said = f"{facts.seeds_agreeing} of 3 agreeing seeds"
    return ok(said) if facts.seeds_agreeing >= 3 else short(f"{said}: one pass is not a rate")
