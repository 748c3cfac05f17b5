"""Canaries of the judge itself: what it must notice in this very run if it were so.

The checkers are not all that stands between a broken run and a pass. Lints, reconciliation, audit
rows and the decision table are given the run with exactly one thing broken, and must say so: a part
of the judge that is gone, or that was told to look away, shows here, in the same report. The row
has the form of a checker's canary; `valid` is False where the breakage was noticed.

| part | what is broken |
|---|---|
| lints | an id stands twice, an end precedes its beginning, two at a time, one is missing |
| audit | a fault not landed, gone, not healed; a sick node, a leak, an alarm, no logs, two clocks |
| decide | evidence of a violation, of an undecided checker, an unproven fault, a missed budget |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from dstest.core.evidence import AuditRow, Budgets, Evidence, Lint
from dstest.core.history import History
from dstest.core.op import Op, Outcome
from dstest.core.verdict import Verdict
from dstest.judge.facts import Alarm, RunFacts

OPS_MAX: Final = 20_000
"""Operations of the thinned runs, taken evenly from the whole run."""

_Rows = Mapping[str, AuditRow]


def row(
    part: str, kind: str, description: str, noticed: bool, by: Sequence[str] = ()
) -> dict[str, Any]:
    """A row of `Canary.details`."""
    return {
        "checker": part,
        "model": None,
        "kind": kind,
        "mutant": description,
        "valid": not noticed,
        "caught": list(by) if noticed else [],
        "sure": True,
    }


def _thin(history: History) -> History:
    return replace(history, ops=history.ops[:: len(history.ops) // OPS_MAX + 1])


def _broken_ops(ops: list[Op]) -> Iterator[tuple[str, str, str, list[Op]]]:
    """(the lint that must notice, kind, what was done, the operations)."""
    done = [op for op in ops if op.outcome is Outcome.OK]
    if not done:
        return
    first = done[0]
    end = first.complete_ts or 0
    again = replace(first, process_id="canary")
    yield "H02", "id-twice", f"op {first.op_id} stands twice", [again, *ops]
    wrong = replace(first, complete_ts=first.invoke_ts - 1)
    swapped = [wrong if op is first else op for op in ops]
    yield "H06", "ends-first", f"op {first.op_id} ends before it begins", swapped
    if end - first.invoke_ts > 1:
        beside = replace(first, op_id="canary", invoke_ts=first.invoke_ts + 1)
        both = sorted([*ops, beside], key=lambda op: op.invoke_ts)
        message = f"process {first.process_id} does two things at a time"
        yield "H09", "two-at-a-time", message, both


def lint_canaries(
    history: History, lint: Callable[[History], Lint], *, counted: bool = True
) -> list[dict[str, Any]]:
    """The lints on broken copies of the history; `counted` = its header counts the operations."""
    thin = _thin(history)
    rows = []
    before = lint(replace(thin, header=replace(thin.header, counters={}))).corrupt
    for name, kind, message, ops in _broken_ops(thin.ops):
        if name in before:
            # It voids the run already.
            continue
        lints = lint(replace(thin, ops=ops, header=replace(thin.header, counters={}))).corrupt
        rows.append(row("lints", kind, message, name in lints, [name]))
    if counted and thin.ops:
        short = {"issued": len(thin.ops)}
        broken = replace(thin, ops=thin.ops[1:], header=replace(thin.header, counters=short))
        message = f"op {thin.ops[0].op_id} is missing"
        rows.append(row("lints", "missing", message, "H14" in lint(broken).corrupt, ["H14"]))
    return rows


def _broken_facts(facts: RunFacts) -> Iterator[tuple[str, str, str, RunFacts]]:
    """(the audit row that must notice, kind, what was done, the facts)."""
    if facts.records:
        first, *others = facts.records
        gone = {**first.facts, "rechecks": [{"at_ns": first.scheduled_at, "present": False}] * 2}
        changes: dict[str, tuple[str, dict[str, Any]]] = {
            "not-landed": ("RF3", {"landed": "no", "landed_at": None}),
            "gone": ("RF4", {"facts": gone}),
            "not-healed": ("RF8", {"heal_verified": False}),
        }
        for kind, (name, change) in changes.items():
            message = f"{first.fault_id}: {kind.replace('-', ' ')}"
            yield name, kind, message, replace(facts, records=[replace(first, **change), *others])
    for node in facts.history.header.nodes[:1]:
        sick = replace(facts, healthy={**facts.healthy, node: False})
        yield "RF8", "sick-node", f"{node} does not serve", sick
        yield "RF8", "leak", f"{node} keeps a rule", replace(facts, residue={node: ["a rule"]})
        if facts.log_lines is not None:
            alarm = Alarm(node=node, line="panic: canary")
            loud = replace(facts, alarms=[*facts.alarms, alarm])
            yield "RF7", "alarm", f"{node} panics and nothing explains it", loud
            yield "RF7", "no-logs", "no log was read", replace(facts, log_lines={})
    if facts.failures is not None:
        ended = replace(facts, failures=["a server ended itself"])
        yield "RF7", "failure", "a server ended that no fault had ended", ended
    if facts.clocks:
        yield "RF5", "no-clock", "the clocks were not compared", replace(facts, clocks=[])
    if facts.checkers_declared:
        yield "RF2", "not-judged", "no checker gave a result", replace(facts, results={})


def audit_canaries(
    facts: RunFacts,
    audit: Callable[[RunFacts, Budgets, Sequence[str]], _Rows],
    measure: Callable[[RunFacts], Budgets],
) -> list[dict[str, Any]]:
    """The audit on broken copies of the facts: the row that is asked for must be short. And a run
    that did nothing meets no budget."""
    thin = replace(facts, history=_thin(facts.history))
    budget = measure(thin)
    idle = measure(replace(thin, history=replace(thin.history, ops=[])))
    rows = [row("budget", "idle", "nothing was done", idle.met == "none", ["none"])]
    for name, kind, said, broken in _broken_facts(thin):
        audited = audit(broken, budget, [name])[name]
        rows.append(row("audit", kind, said, audited.status == "short", [name]))
    return rows


def _broken_evidence(e: Evidence) -> Iterator[tuple[str, str, Evidence]]:
    # A corrupt history or a lacking capability stands before a violation, and rightly.
    sound = replace(e, attempted=True, missing_capability=[], history_lint=Lint())
    yield "violation", "a checker found a violation", replace(sound, violation=True)
    undecided = replace(e.checker, result="unknown")
    yield "undecided", "a checker could not decide", replace(e, checker=undecided)
    corrupt = replace(e.history_lint, corrupt={"H02": "canary"})
    yield "corrupt", "the history is corrupt", replace(e, history_lint=corrupt)
    if e.faults:
        first = replace(e.faults[0], landed="no")
        yield "not-landed", "a fault has not landed", replace(e, faults=[first, *e.faults[1:]])
    if e.fault_planned:
        below = Budgets(declared=e.budget.declared, met="none", measured={})
        yield "no-budget", "no budget was met", replace(e, budget=below)
    for name in ("RF1", "RF2", "RF4", "RF5", "RF7", "RF8"):
        bad = {**e.redflags, name: AuditRow(status="short", evidence="canary")}
        yield f"{name}-short", f"{name} is short", replace(e, redflags=bad)


def decide_canaries(
    evidence: Evidence, decide: Callable[[Evidence], Verdict]
) -> list[dict[str, Any]]:
    """The decision table on broken copies of the evidence: a violation fails, nothing passes."""
    rows = []
    for kind, said, broken in _broken_evidence(evidence):
        try:
            state = decide(broken).verdict
        except ValueError:
            # The verdict itself refuses to be built without its evidence; the table let it through.
            rows.append(row("decide", kind, said, noticed=False))
            continue
        noticed = state.failed if kind == "violation" else not state.passed
        rows.append(row("decide", kind, said, noticed, [state.value]))
    return rows
