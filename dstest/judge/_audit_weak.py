"""Weak-oracle items WO1-WO14: how strong the oracle and how broad the run is (discipline 5.4)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from dstest.core.check import CheckResult
from dstest.core.details import LeadDetails, PathDetails
from dstest.core.evidence import AuditRow
from dstest.core.op import Op, Outcome
from dstest.judge._audit_red import SEEDS_MIN
from dstest.judge.beyond_runs import NOT_COUNTED
from dstest.judge.budgets import TIERS
from dstest.judge.facts import SECOND_NS, RunFacts, agree
from dstest.judge.rows import na, ok, rows_of, short

LEADER_CHANGES_MIN: Final = 2
TOPOLOGIES_MIN: Final = 2
SURFACES_MIN: Final = 3
"""Fewer make no boundary claim (discipline 6.1, L24)."""


def weak_items(facts: RunFacts) -> dict[str, AuditRow]:
    """All fourteen rows."""
    return rows_of(
        {
            "WO1": _final_state_only,
            "WO2": lambda f: _only_kind(f, {"logs"}, "logs"),
            "WO3": lambda f: _only_kind(f, {"health"}, "health checks"),
            "WO4": _failover,
            "WO5": _no_error,
            "WO6": _duration,
            "WO7": _one_way,
            "WO8": _retries,
            "WO9": _clock,
            "WO10": lambda f: sizes_row(f.node_counts_run),
            "WO11": lambda f: agreeing_row(f.seeds_agreeing),
            "WO12": _surfaces,
            "WO13": _negative_control,
            "WO14": _groups,
        },
        facts,
    )


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


def _leader_changes(facts: RunFacts) -> int:
    """Terms seen around the faults, less one."""
    leads = [LeadDetails.of(r) for r in facts.records]
    terms = {term for lead in leads for term in (lead.term_before, lead.new_term)}
    return max(0, len(terms - {None, 0}) - 1)


def _failover(facts: RunFacts) -> AuditRow:
    aimed = [r for r in facts.records if PathDetails.of(r).shape == "leader"]
    if not aimed:
        return na("no fault aimed at a leader")
    changes = _leader_changes(facts)
    judges = _history_checkers(facts)
    message = f"{len(aimed)} faults aimed at a leader, {changes} new terms seen"
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
    got, wanted = duration_s(facts), TIERS["hardening"]["duration_s"]
    said = f"{got:,.0f} s of load, hardening asks for {wanted:,.0f} s"
    return ok(said) if got >= wanted else short(said)


def _one_way(facts: RunFacts) -> AuditRow:
    cuts = [r for r in facts.records if "partition" in r.nemesis]
    if not cuts:
        return na("no partition was planned")
    one_way = [
        r for r in cuts if r.landed == "yes" and PathDetails.of(r).direction in ("in", "out")
    ]
    said = f"{len(one_way)} of {len(cuts)} partitions cut one direction only"
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
    good = {op.op_type for op in facts.history.ops if op.outcome is Outcome.OK}
    run = [name for name, types in planned.items() if types & good]
    said = f"{len(run)} of {len(planned)} planned surfaces were run"
    return ok(said) if len(run) == len(planned) >= SURFACES_MIN else short(said)


def _negative_control(facts: RunFacts) -> AuditRow:
    if "boundary" not in facts.claims:
        return na("no boundary claim is made, so there is no negative control to run")
    types = facts.fields.negative_controls
    controls = [op for op in facts.history.ops if op.op_type in types]
    refused = sum(op.outcome is Outcome.FAIL for op in controls)
    accepted = sum(op.outcome is Outcome.OK for op in controls)
    if accepted:
        return short(f"{accepted} of {len(controls)} negative controls were not refused")
    message = f"{refused} negative controls were refused"
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
