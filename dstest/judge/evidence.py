"""From the facts of a run to the evidence that its verdict is computed from.

Two things are demoted on the way and never promoted: a fault whose window was idle is no longer
proven, and operations that a checker left out without a reason found in the history stay eligible.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Container, Sequence
from typing import Literal

import msgspec

from dstest.core import limits
from dstest.core.check import CheckResult
from dstest.core.evidence import (
    CheckerEvidence,
    CheckerOps,
    Evidence,
    FaultDetails,
    FaultEvidence,
    LandingRecord,
    Lint,
    PageCache,
    contradiction,
    heal_contradiction,
)
from dstest.core.op import Op, Outcome
from dstest.judge.audit import measure, red_flags, weak_items
from dstest.judge.audit_rows import no_crash
from dstest.judge.facts import RunFacts
from dstest.judge.lints import LintContext, end_of, lint
from dstest.judge.symptom import violation_fingerprint

_READS = frozenset({"read", "watch", "poll", "dump", "audit"})
_FINAL = ("dump", "audit")


def _left_to_others(result: CheckResult, others: list[CheckResult]) -> int:
    """Looks at the final state that `result` does not know, and that another checker judged."""

    def left_out(of: CheckResult, kind: str) -> int:
        words = {reason: reason.replace(":", " ").split()[0] for reason in of.ops.excluded}
        return sum(n for reason, n in of.ops.excluded.items() if words[reason] == kind)

    return sum(
        left_out(result, kind)
        for kind in _FINAL
        if any(not left_out(other, kind) for other in others)
    )


def eligible(result: CheckResult, ops: Sequence[Op]) -> int:
    """Operations that `result` should rest on.

    An exclusion is granted only for definite failures and for reads of unknown outcome, and only
    as many as the history holds; anything else that was left out remains eligible.
    """
    failed = sum(1 for op in ops if op.outcome is Outcome.FAIL)
    vain = sum(1 for op in ops if op.outcome is Outcome.UNKNOWN and op.op_type in _READS)
    granted_fail = granted_vain = 0
    for reason, count in result.ops.excluded.items():
        words = reason.lower().replace("_", "-").replace(" ", "-")
        if "fail" in words:
            granted_fail += count
        elif "read" in words and any(w in words for w in ("unknown", "timeout", "crashed")):
            granted_vain += count
    total = max(result.ops.total, len(ops))
    return total - min(granted_fail, failed) - min(granted_vain, vain)


def checker_evidence(facts: RunFacts) -> CheckerEvidence:
    """All declared checkers taken together; the worst answer counts."""
    declared = facts.checkers_declared
    results = facts.results
    ran = [name for name in declared if name in results]
    outcome: Literal["clean", "violation", "unknown", "not-run"]
    if any(r.valid is False for r in results.values()):
        outcome = "violation"
    elif not declared or len(ran) < len(declared):
        outcome = "not-run"
    elif any(r.valid is not True for r in results.values()):
        outcome = "unknown"
    else:
        outcome = "clean"
    wanted = {
        name: eligible(r, facts.history.ops)
        - _left_to_others(r, [o for o in results.values() if o is not r])
        for name, r in results.items()
    }
    # A checker that also read definite failures did more than it had to, not something else.
    consumed = {name: min(r.ops.consumed, wanted[name]) for name, r in results.items()}
    vacuous = any(n == 0 for n in consumed.values())
    absent = [f"{name} gave no result" for name in declared if name not in results]
    problems = [f"{name}: {r.reason}" for name, r in results.items() if r.reason]
    return CheckerEvidence(
        declared=list(declared),
        ran=ran,
        result=outcome,
        ops_eligible=sum(wanted.values()),
        ops_consumed=0 if vacuous else sum(consumed.values()),
        by_checker={
            name: CheckerOps(eligible=wanted[name], consumed=consumed[name])
            for name in (results if len(results) > 1 else ())
        },
        keys_total=sum(r.keys.total for r in results.values()),
        keys_decided=sum(r.keys.decided for r in results.values()),
        canary_killed=facts.canary.killed,
        canary_total=facts.canary.total,
        why="; ".join(absent + problems),
    )


class _Traffic:
    """Sorted times of the invocations, and of invocations and ends per node."""

    def __init__(self, facts: RunFacts, end_ns: int) -> None:
        self.end_ns = end_ns
        self.known = bool(facts.node_of_process)
        self.all = sorted(op.invoke_ts for op in facts.history.ops)
        self.starts: dict[str | None, list[int]] = {}
        self.ends: dict[str | None, list[int]] = {}
        for op in facts.history.ops:
            node = facts.node_of_process.get(op.process_id)
            last = end_ns if op.complete_ts is None else op.complete_ts
            self.starts.setdefault(node, []).append(op.invoke_ts)
            self.ends.setdefault(node, []).append(last)
        for times in (*self.starts.values(), *self.ends.values()):
            times.sort()

    def before(self, node: str, start: int) -> int:
        """Operations at `node` invoked before `start`."""
        return bisect_left(self.starts.get(node, []), start)

    def during(self, node: str, start: int, end: int) -> int:
        """Operations at `node` that overlap `[start, end]`."""
        begun = bisect_right(self.starts.get(node, []), end)
        return begun - bisect_left(self.ends.get(node, []), start)


def _idle(record: LandingRecord, traffic: _Traffic, elsewhere: Container[str]) -> str | None:
    """Why the window of `record` tested nothing, or None."""
    if record.injected_at is None:
        return "it was never injected"
    start = record.injected_at
    end = traffic.end_ns if record.healed_at is None else record.healed_at
    inside = bisect_right(traffic.all, end) - bisect_left(traffic.all, start)
    if inside < limits.MIN_OPS_PER_EPOCH:
        few = f"only {inside} operation{'s' * (inside != 1)} began in its window"
        return f"idle: {few}, {limits.MIN_OPS_PER_EPOCH} are needed"
    if not traffic.known:
        return "idle: which node each client talks to was not recorded"
    for node in record.targets:
        if node in elsewhere:
            continue
        counts = (traffic.before(node, start), "before"), (traffic.during(node, start, end), "in")
        for count, when in counts:
            if count < limits.MIN_OPS_PER_NODE:
                return f"idle: {count} of {limits.MIN_OPS_PER_NODE} operations at {node} {when} it"
    return None


def _unshown(record: LandingRecord) -> str | None:
    """Which side has no figure that the fault has changed, whatever its nemesis says of it."""
    for name, signal in (("injector", record.injector), ("victim", record.victim)):
        if signal is None or not signal.shown:
            told = signal.signal if signal else "no signal"
            return f"{name}: no figure of {told!r} differs from before the fault"
    return None


def demoted(facts: RunFacts) -> list[LandingRecord]:
    """The landing records: ambiguous and no longer yes where figures do not show the fault, or its
    window was idle."""
    traffic = _Traffic(facts, end_of(facts.history))
    records = []
    for record in facts.records:
        why = None
        if record.landed == "yes":
            why = (
                _unshown(record)
                or contradiction(record)
                or _idle(record, traffic, facts.served_elsewhere)
            )
        if why is not None:
            why = f"by its signals it had landed, but {why}"
            record = msgspec.structs.replace(record, landed="ambiguous", notes=[*record.notes, why])
        if (still := heal_contradiction(record)) is not None:
            notes = [*record.notes, still]
            record = msgspec.structs.replace(record, heal_verified=False, notes=notes)
        records.append(record)
    return records


def _why(record: LandingRecord) -> str:
    """What speaks for or against a landing: notes first, then the signals that did not move."""
    problems = list(record.notes)
    if record.landed != "yes":
        for name in ("injector", "victim", "control"):
            signal = getattr(record, name)
            if signal is None and name != "control":
                problems.append(f"no {name} signal was taken")
            elif signal is not None and signal.moved is (name == "control"):
                problems.append(f"{name}: {signal.detail or signal.signal}")
    return "; ".join(problems)


def _fault(record: LandingRecord, page_cache: PageCache) -> FaultEvidence:
    return FaultEvidence(
        id=record.fault_id,
        nemesis=record.nemesis,
        landed=record.landed,
        heal_verified=record.heal_verified,
        page_cache=FaultDetails.of(record).page_cache or page_cache,
        injector=msgspec.to_builtins(record.injector) if record.injector else {},
        victim=msgspec.to_builtins(record.victim) if record.victim else {},
        why=_why(record),
    )


def lint_context(facts: RunFacts, op_types: frozenset[str] | None = None) -> LintContext:
    """The context that the lints of a run of ours need."""
    checker = checker_evidence(facts)
    return LintContext(
        op_types=op_types,
        landed_epochs=frozenset(r.epoch for r in facts.records if r.landed == "yes"),
        node_of_process=facts.node_of_process,
        hidden_retries=not facts.wire or any(w.requests > w.calls for w in facts.wire),
        sends=[(f"worker {w.worker}", w.calls, w.requests) for w in facts.wire],
        family=facts.fields.family or None,
        idem_field=facts.fields.idempotency_field or None,
        lease_ttl_ns=_ttl_ns(facts),
        mismatches=list(facts.mismatches),
        forgiven=list(facts.forgiven),
        ops_eligible=checker.ops_eligible,
        ops_consumed=checker.ops_consumed,
    )


def _ttl_ns(facts: RunFacts) -> int | None:
    option = facts.fields.ttl_option
    return int(float(facts.options[option]) * 1e9) if option in facts.options else None


def build_evidence(
    facts: RunFacts,
    history_lint: Lint | None = None,
    *,
    op_types: frozenset[str] | None = None,
) -> Evidence:
    """The evidence of one run. Without `history_lint` the lints run here, on the parsed records.

    Whoever has the raw records should lint them himself: H01 needs what was really in the file.
    """
    if history_lint is None:
        history_lint = lint(facts.history, None, lint_context(facts, op_types))
    facts = msgspec.structs.replace(facts, records=demoted(facts))
    budget = measure(facts)
    every = (*facts.results.values(), no_crash(facts), *facts.built_in)
    violations = [r for r in every if r and r.valid is False]
    kinds = sorted({facts.checker_kinds.get(name, "no-error") for name in facts.results})
    return Evidence(
        attempted=facts.attempted,
        missing_capability=list(facts.missing_capability),
        serious=facts.serious,
        fault_planned=facts.faults_planned > 0 or bool(facts.records),
        faults=[_fault(r, facts.page_cache.get(r.nemesis, "")) for r in facts.records],
        faults_planned=max(facts.faults_planned, len(facts.records)),
        checker=checker_evidence(facts),
        oracle_kinds=kinds or ["no-error"],
        history_lint=history_lint,
        violation=bool(violations),
        violation_fingerprint=violation_fingerprint(violations[0]) if violations else None,
        rerun=facts.rerun,
        redflags=red_flags(facts, budget),
        weak_audit=weak_items(facts),
        budget=budget,
        transport=facts.transport,
    )
