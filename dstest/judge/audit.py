"""The 24 audit rows of a finished run: red flags RF1-RF10, what makes a green run worthless, and
weak-oracle items WO1-WO14, how strong the oracle and how broad the run is.

Each row is a sentence with numbers and one of ok, short, n/a. What nobody measured is short.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections import Counter
from collections.abc import Collection
from typing import Final, NamedTuple

from dstest.core import limits
from dstest.core.check import CheckResult
from dstest.core.evidence import (
    TIERS,
    AuditRow,
    Budgets,
    FaultDetails,
    LandingRecord,
    LeadDetails,
    PathDetails,
    Tier,
)
from dstest.core.op import Op, Outcome
from dstest.core.rules import Rule
from dstest.judge.audit_rows import (
    ENDED_EARLY,
    NO_TRAFFIC,
    NOT_COUNTED,
    alarms,
    na,
    ok,
    oracle,
    recovered_row,
    short,
)
from dstest.judge.facts import SECOND_NS, TIER_NEEDS, RunFacts, agree, budgets, spans, windows_of
from dstest.judge.lints import end_of

__all__ = [
    "TITLES",
    "measure",
    "red_flags",
    "too_good",
    "weak_items",
]


SEEDS_MIN: Final = 3

RATE_SHARE_MIN: Final = 0.5
"""A second of load counts as offered when it had this share of the intended rate."""

SLOW_BUCKETS_MAX: Final = 0.05
GAP_S_MAX: Final = 5.0
TIMEOUT_GRACE_S: Final = 2.0
"""After a heal, clients sit in the timeouts of operations that the fault swallowed, and a bit."""

CLOCK_DRIFT_MS_MAX: Final = 50.0
RECHECKS_MIN: Final = 2
"""In mid-window and at its end."""

LEADER_CHANGES_MIN: Final = 2
TOPOLOGIES_MIN: Final = 2

SURFACES_MIN: Final = 3
"""Fewer make no boundary claim (L24)."""


def _windows(facts: RunFacts) -> list[tuple[int, int]]:
    """The fault windows, each with the timeouts that follow."""
    grace_ns = int((facts.op_timeout_s + TIMEOUT_GRACE_S) * SECOND_NS)
    return spans(windows_of(facts, end_of(facts.history)), grace_ns)


def _disturbed(facts: RunFacts) -> list[tuple[int, int]]:
    """`_windows`, each with the measured recovery.

    A system that elects for ten seconds after a heal answers nobody meanwhile; that is its
    recovery time, not missing load. One that never recovers has RF8 against it, and no recovery.
    """
    recovering = [
        (healed.healed_ns, healed.settled_ns)
        for healed in facts.recoveries
        if healed.settled_ns is not None and healed.settled_ns > healed.healed_ns
    ]
    return spans(sorted([*_windows(facts), *recovering]), 0)


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
    """Clients that waited for an answer, or were busy as the workload means them to be, on average,
    per second of `_seconds`.

    An operation of unknown outcome kept its client for the time it was given.
    """
    waited: Counter[int] = Counter()
    timeout_ns = int(facts.op_timeout_s * SECOND_NS)
    working = _working(facts) if facts.fields.busy_after else []
    waiting = [
        (op.invoke_ts, op.invoke_ts + timeout_ns if op.complete_ts is None else op.complete_ts)
        for op in facts.load
    ]
    for start, end in [*waiting, *working]:
        for second in range(start // SECOND_NS, end // SECOND_NS + 1):
            begin, until = second * SECOND_NS, (second + 1) * SECOND_NS
            waited[second] += min(end, until) - max(start, begin)
    return [waited[second] / SECOND_NS for second in _seconds(times, quiet)]


def _working(facts: RunFacts) -> list[tuple[int, int]]:
    """From each success of a type in `busy_after` to the process's next operation."""
    found, since = [], dict[int | str, int]()
    for op in sorted(facts.load, key=lambda op: op.invoke_ts):
        began = since.pop(op.process_id, None)
        if began is not None:
            found.append((began, op.invoke_ts))
        got = op.op_type in facts.fields.busy_after and op.outcome is Outcome.OK
        if got and op.output is not False and op.complete_ts is not None:
            since[op.process_id] = op.complete_ts
    return found


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


def _unanswered(facts: RunFacts, times: list[int], quiet: list[tuple[int, int]]) -> str | None:
    """Clients that wait keep a closed loop busy: did seconds without a fault pass unanswered?"""
    ended = Counter(
        op.complete_ts // SECOND_NS
        for op in facts.load
        if op.outcome is Outcome.OK and op.complete_ts is not None
    )
    seconds = _seconds(times, quiet)
    unanswered = sum(1 for second in seconds if not ended[second])
    allowed = max(1, math.ceil(SLOW_BUCKETS_MAX * len(seconds)))
    if unanswered <= allowed:
        return None
    return f"no operation succeeded in {unanswered} of {len(seconds)} seconds outside fault windows"


def _load(facts: RunFacts) -> AuditRow:
    ops, header = facts.load, facts.history.header
    if facts.ended_by:
        return short(f"{ENDED_EARLY}{facts.ended_by}")
    if len(ops) < limits.MIN_OPS_PER_EPOCH:
        return short(f"{len(ops)} operations in all, at least {limits.MIN_OPS_PER_EPOCH} needed")
    if left_out := facts.options.get("without"):
        return short(f"clients were told to leave out {left_out}")
    if not header.concurrency:
        return short("how many clients there should have been is not known")
    absent = _absent_clients(facts)
    if absent:
        return short(f"{len(absent)} of {header.concurrency} clients never asked for anything")
    never = sorted(facts.minimum.keys() - {op.op_type for op in facts.history.ops})
    if never:
        return short(f"no operation of type {', '.join(never)} was ever asked for")
    good = Counter(op.op_type for op in ops if op.outcome is Outcome.OK)
    for kind, least in facts.minimum.items():
        if good[kind] < least:
            return short(f"{good[kind]} good operations of type {kind}, {least} needed")
    times = sorted(op.invoke_ts for op in ops)
    windows, quiet = _windows(facts), _disturbed(facts)
    silent = _idle(times, facts, windows)
    if silent:
        return short(silent)
    if unanswered := _unanswered(facts, times, quiet):
        return short(unanswered)
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
    message = (
        f"{len(ops):,} operations; {slow} of {len(counts)} seconds outside fault windows fell "
        f"below {source}"
    )
    if slow > allowed:
        return short(f"{message}; at most {allowed} may")
    return ok(message)


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
    looks_total = 0
    for r in facts.records:
        looks = FaultDetails.of(r).rechecks
        looks_total += len(looks)
        if len(looks) < RECHECKS_MIN:
            return short(f"{r.fault_id}: looked at {len(looks)} times after landing, not twice")
        gone = [look for look in looks if not look.get("present")]
        if gone:
            at_s = gone[0].get("at_ns", 0) / 1e9
            return short(f"{r.fault_id}: the fault was gone at {at_s:.1f} s, inside its window")
        share = FaultDetails.of(r).stood.get("share", 1.0)
        if share < limits.STOOD_MIN:
            return short(f"{r.fault_id}: it stood without a break for {share:.0%} of its window")
        if message := _strangers(r, facts) or _idle_paths(r):
            return short(f"{r.fault_id}: {message}")
    if len(facts.records) < facts.faults_planned:
        return short(f"{len(facts.records)} of {facts.faults_planned} faults have a record")
    said = f"{looks_total} looks at {len(facts.records)} faults, each found it standing"
    rows = [FaultDetails.of(r).stood for r in facts.records]
    if watched := [row for row in rows if row.get("watched_s")]:
        least = min(row["share"] for row in watched)
        watched_s = sum(row["watched_s"] for row in watched)
        said += f"; {len(watched)} watched for {watched_s:.0f} s stood for {least:.0%} at least"
    if failed := sum(row.get("failed", 0) for row in rows):
        said += f"; {failed} looks in between got no answer"
    return ok(said)


def _strangers(record: LandingRecord, facts: RunFacts) -> str | None:
    """Was it aimed at members, as the cluster itself had it when the fault was injected?"""
    known = set(facts.history.header.nodes)
    if facts.members_at is not None:
        live = facts.members_at.get(record.fault_id)
        if not live:
            return "who was a member when it was injected is not known: no node answered"
        known &= set(live)
    strangers = [t for t in record.targets if t not in known]
    if strangers or not record.targets:
        return f"targets not in the cluster: {', '.join(strangers) or '-'}"
    return None


def _idle_paths(record: LandingRecord) -> str | None:
    """Did each path that a fault of paths touched carry traffic before it, if the system uses it?

    A record may name paths as idle where the system has listed those that it uses.
    """
    touched = PathDetails.of(record)
    paths, packets = touched.cuts, touched.baseline_packets
    if paths is None and packets is None:
        return None
    counts = dict(packets) if isinstance(packets, dict) else {}
    links, named = touched.links, list(touched.idle_paths)
    if busy := [p for p in named if counts.get(p) != 0 or links is None or p in links]:
        return f"{busy[0]} is not one of the paths that may be idle"
    used = [p for p in (counts if paths is None else paths) if p not in named]
    idle = [p for p in used if not counts.get(p)]
    if not used:
        return f"none of its paths {NO_TRAFFIC}"
    if len(idle) == len(used):
        return f"none of the {len(used)} paths to be cut {NO_TRAFFIC}"
    if idle:
        return (
            f"{len(idle)} of {len(used)} paths to be cut were idle before it, as {idle[0]}: do"
            " these members talk to each other? links() of the deployment says who does"
        )
    return None


def _clock_of_faults(facts: RunFacts) -> AuditRow:
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
    if facts.failures is not None:
        return na("all hosts of a simulation show its one clock, and no clock of a node was there")
    if not facts.clocks:
        return short("wall clock against monotonic clock was not measured")
    hosts = {c.host for c in facts.clocks}
    unseen = [n for n in facts.history.header.nodes if n not in hosts]
    if unseen:
        return short(f"the clock of {', '.join(unseen)} was not measured")
    worst = max(
        facts.clocks, key=lambda c: abs(c.wall_minus_mono_end_ns - c.wall_minus_mono_start_ns)
    )
    drift_ms = abs(worst.wall_minus_mono_end_ns - worst.wall_minus_mono_start_ns) / 1e6
    message = (
        f"wall clock of {worst.host} moved {drift_ms:.1f} ms against its monotonic clock, the most "
        f"of {len(hosts)} hosts"
    )
    return ok(message) if drift_ms < CLOCK_DRIFT_MS_MAX else short(f"{message}, 50 ms allowed")


def budget_row(budget: Budgets, wanted: Tier) -> AuditRow:
    """RF6: was the budget met that the user asked for?"""
    numbers = ", ".join(f"{key} {value:,.0f}" for key, value in budget.measured.items())
    said = f"tier met: {budget.met}, wanted: {wanted} ({numbers})"
    return ok(said) if TIERS.index(budget.met) >= TIERS.index(wanted) else short(said)


def alike_row(differences: list[str] | None, measured: str = "") -> AuditRow:
    """RF9: may the runs that are counted together be compared? None = there is only one. `measured`
    are their baselines, which are told and decide nothing."""
    if differences is None:
        return na("this run is compared with no other; RF8's baseline is its own first seconds")
    if differences:
        return short(f"the runs that are compared differ in {'; '.join(differences)}{measured}")
    same = "the runs that are compared share dstest, host, system, workload and options"
    return ok(f"{same}{measured}")


def seeds_row(seeds: int) -> AuditRow:
    """RF10: one pass is no rate."""
    said = f"{seeds} of {SEEDS_MIN} agreeing seeds"
    return ok(said) if seeds >= SEEDS_MIN else short(f"{said}: one pass is not a rate")


class RunAndBudget(NamedTuple):
    """A run, and its budget against what it did."""

    facts: RunFacts
    budget: Budgets


RED_FLAGS: Final[tuple[Rule[RunAndBudget, AuditRow], ...]] = (
    Rule("RF1", "The workload made the intended load", lambda v: _load(v.facts)),
    Rule(
        "RF2",
        "The checker judged everything, and was shown to bite",
        lambda v: oracle(v.facts),
    ),
    Rule(
        "RF3",
        "Faults landed on the injector's and the victim's side",
        lambda v: _landed(v.facts),
    ),
    Rule("RF4", "No fault silently did nothing", lambda v: _stood(v.facts)),
    Rule("RF5", "Clock skew did not mask timing", lambda v: _clock_of_faults(v.facts)),
    Rule(
        "RF6",
        "The wanted budget was met",
        lambda v: budget_row(v.budget, v.facts.tier_wanted),
    ),
    Rule("RF7", "No error was silently suppressed", lambda v: alarms(v.facts)),
    Rule("RF8", "The cluster recovered", lambda v: recovered_row(v.facts)),
    Rule("RF9", "The baseline is a fair comparison", lambda _: alike_row(None)),
    Rule(
        "RF10",
        "More than one seed agrees",
        lambda v: seeds_row(v.facts.seeds_agreeing),
    ),
)


def red_flags(facts: RunFacts, budget: Budgets) -> dict[str, AuditRow]:
    """All ten rows."""
    return {rule.id: rule.find(RunAndBudget(facts, budget)) for rule in RED_FLAGS}


def duration_s(facts: RunFacts) -> float:
    """Whole seconds between the first and the last invocation; 0 for an empty history."""
    times = [op.invoke_ts for op in facts.load]
    return float(round((max(times) - min(times)) / SECOND_NS)) if times else 0.0


def _history_checkers(facts: RunFacts) -> list[str]:
    """Checkers that judge single operations and did judge some."""
    return [
        name
        for name, result in facts.results.items()
        if facts.checker_kinds.get(name) == "history" and result.ops.consumed > 0
    ]


def _final_state_only(facts: RunFacts) -> AuditRow:
    if not facts.serious:
        return na("no safety claim is made")
    found = _history_checkers(facts)
    if not found:
        return short("no checker judged single operations")
    counts = {name: facts.results[name].ops.consumed for name in found}
    if len({*counts.values()}) == 1:
        return ok(f"{', '.join(found)} judged {counts[found[0]]:,} single operations")
    each = ", ".join(f"{count:,} by {name}" for name, count in counts.items())
    return ok(f"single operations judged: {each}")


def _only_kind(facts: RunFacts, weak: Collection[str], name: str) -> AuditRow:
    kinds = [kind for checker, kind in facts.checker_kinds.items() if checker in facts.results]
    strong = [kind for kind in kinds if kind not in weak]
    said = f"{len(strong)} of {len(kinds)} checkers rest on more than {name}"
    return ok(said) if strong else short(said)


def _leader_changes(facts: RunFacts) -> tuple[int, int]:
    """(terms seen around the faults, less one; how often a fault saw the lead move). Term 0 is one
    where a fault saw the lead move away from it: systems count from there."""
    leads = [LeadDetails.of(r) for r in facts.records]
    terms = {term for lead in leads for term in (lead.term_before, lead.new_term)} - {None, 0}
    if any(lead.moved and lead.term_before == 0 and lead.new_term for lead in leads):
        terms.add(0)
    moves = sum(lead.moved for lead in leads)
    moves += sum(bool(step.get("moved")) for lead in leads for step in lead.steps)
    return max(0, len(terms) - 1), moves


def _number(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def _failover(facts: RunFacts) -> AuditRow:
    aimed = [r for r in facts.records if PathDetails.of(r).shape == "leader"]
    if not aimed:
        return na("no fault aimed at a leader")
    changes, moves = _leader_changes(facts)
    judges = _history_checkers(facts)
    message = (
        f"{_number(len(aimed), 'fault')} aimed at a leader; the faults saw "
        f"{_number(moves, 'change')} of the lead and {_number(changes, 'new term')}"
    )
    if judges:
        return ok(f"{message}; {', '.join(judges)} judged the operations across them")
    if changes >= LEADER_CHANGES_MIN and facts.replicas and agree(facts.replicas):
        return ok(f"{message}; the replicas agreed afterwards")
    return short(f"{message}; one failover that went well is the only proof")


def _no_error(facts: RunFacts) -> AuditRow:
    ops = facts.history.ops
    judges = _history_checkers(facts)
    if not judges or not ops:
        return short("absence of errors is the only oracle")
    unknown = sum(1 for op in ops if op.outcome is Outcome.UNKNOWN)
    said = f"{unknown:,} of {len(ops):,} outcomes are kept as unknown"
    left = max(_left_out(facts.results[name]) for name in judges)
    return ok(f"{said}; {left:,} of them tell a checker nothing and are left out" if left else said)


def _left_out(result: CheckResult) -> int:
    return sum(n for why, n in result.ops.excluded.items() if why.startswith("unknown"))


def _duration(facts: RunFacts) -> AuditRow:
    got, wanted = duration_s(facts), TIER_NEEDS["hardening"]["duration_s"]
    said = f"{got:,.0f} s of load, hardening asks for {wanted:,.0f} s"
    return ok(said) if got >= wanted else short(said)


def _cuts_one_way(record: LandingRecord) -> bool:
    return PathDetails.of(record).direction in ("in", "out")


def _one_way(facts: RunFacts) -> AuditRow:
    cuts = [r for r in facts.records if "partition" in r.nemesis]
    if not cuts:
        return na("no partition was planned")
    landed = [r for r in cuts if r.landed == "yes"]
    one_way = [r for r in landed if _cuts_one_way(r)]
    said = f"{len(one_way)} of {_number(len(landed), 'landed partition')} cut one direction only"
    if more := sum(_cuts_one_way(r) for r in cuts) - len(one_way):
        said += f"; {more} that did {'is' if more == 1 else 'are'} not proven to have landed"
    return ok(said) if one_way else short(f"{said}: asymmetric failures were not tried")


def _retries(facts: RunFacts) -> AuditRow:
    if not facts.wire:
        return short(
            "the client library may retry unseen: requests on the wire were not counted;"
            " client_port and request_counter of the system's class let them be (the count of a run"
            " that was killed is lost with it)"
        )
    calls, requests = sum(w.calls for w in facts.wire), sum(w.requests for w in facts.wire)
    message = f"{requests:,} requests on the wire for {calls:,} calls of {len(facts.wire)} clients"
    if len({w.worker for w in facts.wire}) < facts.workers:
        return short(f"{message}: {facts.workers} workers have one each")
    if not all(w.known and w.requests for w in facts.wire):
        return short(f"{message}: not each of them could be counted")
    if not all(w.calls for w in facts.wire):
        return short(f"{message}: {NOT_COUNTED}")
    if any(w.requests > w.calls for w in facts.wire):
        return short(
            f"{message}: the library retries by itself, the client does not count all of its calls,"
            " or the request counter misreads the protocol"
        )
    return ok(message)


def _clock(facts: RunFacts) -> AuditRow:
    clock = facts.history.header.clock
    if clock is None:
        return short("the header names no clock")
    said = f"time stamps are {clock.name} of {clock.host or 'an unnamed host'}"
    return ok(said) if "MONOTONIC" in clock.name.upper() else short(said)


def sizes_row(sizes: Collection[int]) -> AuditRow:
    """WO10: what holds of one cluster size may not hold of another."""
    known = sorted({*sizes} - {0})
    said = f"cluster sizes run: {', '.join(map(str, known)) or 'none'}"
    return ok(said) if len(known) >= TOPOLOGIES_MIN else short(f"{said}; another size is needed")


def agreeing_row(seeds: int) -> AuditRow:
    """WO11: one seed is one schedule."""
    if seeds == 1:
        return short(f"one seed only: {SEEDS_MIN} agreeing seeds are needed for PASS-hardening")
    said = f"{seeds} of {SEEDS_MIN} agreeing seeds"
    return ok(said) if seeds >= SEEDS_MIN else short(said)


def _surfaces(facts: RunFacts) -> AuditRow:
    if "boundary" not in facts.claims:
        return na("no boundary claim is made")
    planned = facts.fields.surfaces
    controls = facts.fields.negative_controls | facts.fields.asking_controls
    good = {op.op_type for op in facts.history.ops if op.outcome is Outcome.OK} - controls
    run = [name for name, types in planned.items() if types & good]
    said = f"{len(run)} of {len(planned)} planned surfaces were run"
    return ok(said) if len(run) == len(planned) >= SURFACES_MIN else short(said)


def _is_nothing(answer: object, kind: str) -> bool:
    """`kind` is one of NOTHINGS; empty = any but `flag`."""
    if kind == "flag":
        return answer is False
    return (
        (answer is None and kind != "count")
        or (isinstance(answer, list | tuple) and not answer and kind in ("", "list"))
        or (type(answer) in (int, float) and answer == 0 and kind in ("", "count"))
    )


def _negative_control(facts: RunFacts) -> AuditRow:
    """Each type of them has to be refused; one that asks has to be answered, with nothing."""
    if "boundary" not in facts.claims:
        return na("no boundary claim is made, so there is no negative control to run")
    fields = facts.fields
    controls = [op for op in facts.history.ops if op.op_type in fields.negative_controls]
    refused: Counter[str] = Counter()
    accepted = 0
    for op in controls:
        asks, answered = op.op_type in fields.asking_controls, op.outcome is Outcome.OK
        if answered and not (asks and _is_nothing(op.output, fields.nothing.get(op.op_type, ""))):
            accepted += 1
        elif answered or (op.outcome is Outcome.FAIL and not asks):
            refused[op.op_type] += 1
    if accepted:
        return short(f"{accepted} of {len(controls)} negative controls were not refused")
    message = f"{refused.total()} negative controls were refused, or shown nothing"
    if absent := sorted(fields.negative_controls - refused.keys()):
        return short(f"{message}; of type {', '.join(absent)} none was")
    return ok(message) if refused else short(message)


def _groups(facts: RunFacts) -> AuditRow:
    if "fairness" not in facts.claims:
        return na("no fairness claim is made, so nothing is split by group")
    judges = [name for name in facts.results if name == "fairness"]
    by = str(facts.options.get("fairness_by", "node"))
    groups = {_group(op, by, facts) for op in facts.load}
    said = (
        f"{', '.join(judges) or 'no checker'} split the results into {len(groups)} groups by {by}"
    )
    return ok(said) if judges and len(groups) > 1 else short(said)


def _group(op: Op, by: str, facts: RunFacts) -> object:
    if by == "node":
        return facts.node_of_process.get(op.process_id)
    return op.process_id if by == "process" else op.op_type if by == "op_type" else op.key


WEAK_ITEMS: Final[tuple[Rule[RunFacts, AuditRow], ...]] = (
    Rule("WO1", "Not only the final state was judged", _final_state_only),
    Rule("WO2", "Not only logs were judged", lambda f: _only_kind(f, {"logs"}, "logs")),
    Rule(
        "WO3",
        "Not only health checks were judged",
        lambda f: _only_kind(f, {"health"}, "health checks"),
    ),
    Rule("WO4", "Not only one failover that went well", _failover),
    Rule("WO5", "Not only the absence of errors", _no_error),
    Rule("WO6", "The run was long enough", _duration),
    Rule("WO7", "Not only symmetric partitions", _one_way),
    Rule("WO8", "The client library hides no retries", _retries),
    Rule("WO9", "Time stamps are monotonic", _clock),
    Rule("WO10", "More than one cluster size", lambda f: sizes_row(f.node_counts_run)),
    Rule("WO11", "More than one seed", lambda f: agreeing_row(f.seeds_agreeing)),
    Rule("WO12", "More than one surface", _surfaces),
    Rule("WO13", "A negative control was run", _negative_control),
    Rule("WO14", "Results are split by group", _groups),
)


def weak_items(facts: RunFacts) -> dict[str, AuditRow]:
    """All fourteen rows."""
    return {rule.id: rule.find(facts) for rule in WEAK_ITEMS}


TITLES: Final = {
    **{rule.id: rule.title for rule in RED_FLAGS},
    **{rule.id: rule.title for rule in WEAK_ITEMS},
}
"""What holds, by the ids of the rows."""


def measure(facts: RunFacts) -> Budgets:
    """What the run did, against the budget tiers. Only faults that landed count."""
    measured = {
        "duration_s": duration_s(facts),
        "nodes": float(len(facts.history.header.nodes)),
        "faults": float(sum(1 for r in facts.records if r.landed == "yes")),
        "seeds": float(facts.seeds_agreeing),
        "ops": float(len(facts.history.ops)),
    }
    nemesis = facts.faults_planned > 0 or bool(facts.records)
    return budgets(measured, nemesis=nemesis, members_most=facts.members_most)


def too_good(rows: dict[str, AuditRow]) -> str | None:
    """A notice where nothing at all is short: on a first attempt that is suspicious in itself."""
    if any(row.status == "short" for row in rows.values()):
        return None
    return "No audit row is short. On a first attempt that is unusual: check that the audit bites."
