"""The judge on a run in which exactly one thing is broken, which it must notice.

The checkers are not all that stands between a broken run and a pass. Folding, reconciliation,
lints, audit, budgets and the decision table are given a recorded run with one thing broken, and
must say so. They are taken from `judgement`, as a run takes them: a test that switches one off
finds it off here.

| part | what is broken |
|---|---|
| fold | a flipped bit, a doubled answer in a worker's segment |
| reconcile | a line that cannot be read, an answer or the record of a fault that is missing |
| lints | an id stands twice, an end precedes its beginning, two at a time, one is missing |
| audit | a fault not landed, gone, not healed; a sick node, a leak, an alarm, no logs, two clocks |
| budget | nothing was done |
| decide | evidence of a violation, of an undecided checker, an unproven fault, a missed budget |
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from dstest.core import registry
from dstest.core.evidence import AuditRow, Budgets, Evidence, Lint
from dstest.core.history import History
from dstest.core.op import Op, Outcome
from dstest.history.layout import RunDir
from dstest.history.segment import text_of
from dstest.judge import audit
from dstest.judge.facts import Alarm, RunFacts
from dstest.runner import judgement as judgement_module

judgement: Any = judgement_module


class Tried(NamedTuple):
    """One breakage: the part that must notice it, what was done, and was it noticed?"""

    part: str
    kind: str
    noticed: bool


def tried(run: RunDir) -> list[Tried]:
    """All of them, on copies of this run."""
    meta = run.read_meta()
    assert meta is not None
    history, folded = judgement.seal(run, meta)
    facts = judgement._run_facts(run, meta, history, folded, None)
    workload = registry.load("workloads", history.header.workload or "")
    context = judgement.lint_context(facts, workload.op_types)
    found = judgement.lint(history, judgement.read_raw(run.history), context)
    return [
        *_segments(run.segments),
        *_record(run, meta, folded),
        *_lints(history, context),
        *_audit(facts),
        *_decide(judgement.build_evidence(facts, found)),
    ]


def _refold(lines: list[bytes], name: str) -> dict[str, int]:
    with tempfile.TemporaryDirectory(prefix="dstest-tried-") as directory:
        (Path(directory) / name).write_bytes(b"".join(lines))
        counters: dict[str, int] = judgement.fold(Path(directory)).counters
    return counters


def _segments(segments: Path) -> Iterator[Tried]:
    first = min(segments.glob("worker-*.seg"))
    with first.open("rb") as file:
        lines = [line for line in file.readlines(1 << 20) if text_of(line[:-1]) is not None]
    # Nothing may follow the line that ends a segment.
    lines = [line for line in lines[:200] if line[9:13] != b'["e"']
    answers = [line for line in lines if line[9:13] in (b'["o"', b'["f"')]
    flipped = bytearray(lines[1])
    flipped[len(flipped) // 2] ^= 4
    damaged = _refold([lines[0], bytes(flipped), *lines[2:]], first.name)["damaged_lines"]
    yield Tried("fold", "bit", damaged > 0)
    doubled = _refold([*lines, answers[0]], first.name)["duplicate_completions"]
    yield Tried("fold", "twice", doubled > 0)


def _record(run: RunDir, meta: Any, folded: Any) -> Iterator[Tried]:
    damaged = {**folded.counters, "damaged_lines": folded.counters["damaged_lines"] + 1}
    broken = {"damaged-line": folded._replace(counters=damaged)}
    board = meta.traffic or {}
    for node in [n for n in folded.by_node if board.get(n, {}).get("ok")][:1]:
        fewer = {**folded.by_node[node], "ok": board[node]["ok"] - 1}
        broken["one-answer-less"] = folded._replace(by_node={**folded.by_node, node: fewer})
    if folded.records:
        other = replace(folded.records[0], nemesis="another")
        broken["another-fault"] = folded._replace(records=[other, *folded.records[1:]])
    for kind, copy in broken.items():
        yield Tried("reconcile", kind, bool(judgement.reconcile(copy, meta).wrong))


def _broken_ops(ops: list[Op]) -> Iterator[tuple[str, list[Op]]]:
    """(the lint that must notice, the operations)."""
    first = next(op for op in ops if op.outcome is Outcome.OK)
    yield "H02", [replace(first, process_id="another"), *ops]
    wrong = replace(first, complete_ts=first.invoke_ts - 1)
    yield "H06", [wrong if op is first else op for op in ops]
    beside = replace(first, op_id="another", invoke_ts=first.invoke_ts + 1)
    yield "H09", sorted([*ops, beside], key=lambda op: op.invoke_ts)


def _lints(history: History, context: Any) -> Iterator[Tried]:
    def corrupt(ops: list[Op], counters: dict[str, int]) -> dict[str, str]:
        header = replace(history.header, counters=counters)
        found: Lint = judgement.lint(replace(history, ops=ops, header=header), None, context)
        return found.corrupt

    for name, ops in _broken_ops(history.ops):
        yield Tried("lints", name, name in corrupt(ops, {}))
    counted = {"issued": len(history.ops)}
    yield Tried("lints", "H14", "H14" in corrupt(history.ops[1:], counted))


def _broken_facts(facts: RunFacts) -> Iterator[tuple[str, str, RunFacts]]:
    """(the audit row that must notice, kind, the facts)."""
    if facts.records:
        first, *others = facts.records
        gone = {**first.facts, "rechecks": [{"at_ns": first.scheduled_at, "present": False}] * 2}
        changes: dict[str, tuple[str, dict[str, Any]]] = {
            "not-landed": ("RF3", {"landed": "no", "landed_at": None}),
            "gone": ("RF4", {"facts": gone}),
            "not-healed": ("RF8", {"heal_verified": False}),
        }
        for kind, (name, change) in changes.items():
            yield name, kind, replace(facts, records=[replace(first, **change), *others])
    node = facts.history.header.nodes[0]
    yield "RF8", "sick-node", replace(facts, healthy={**facts.healthy, node: False})
    yield "RF8", "leak", replace(facts, residue={node: ["a rule"]})
    if facts.log_lines is not None:
        alarm = Alarm(node=node, line="panic: out of luck")
        yield "RF7", "alarm", replace(facts, alarms=[*facts.alarms, alarm])
        yield "RF7", "no-logs", replace(facts, log_lines={})
    if facts.failures is not None:
        yield "RF7", "failure", replace(facts, failures=["a server ended itself"])
    if facts.clocks:
        yield "RF5", "no-clock", replace(facts, clocks=[])
    yield "RF2", "not-judged", replace(facts, results={})


def _audit(facts: RunFacts) -> Iterator[Tried]:
    idle = audit.measure(replace(facts, history=replace(facts.history, ops=[])))
    yield Tried("budget", "idle", idle.met == "none")
    budget = audit.measure(facts)
    for name, kind, broken in _broken_facts(facts):
        yield Tried("audit", kind, audit.red_flags(broken, budget)[name].status == "short")


def _broken_evidence(e: Evidence) -> Iterator[tuple[str, Evidence]]:
    yield "violation", replace(e, violation=True)
    yield "undecided", replace(e, checker=replace(e.checker, result="unknown"))
    corrupt = replace(e.history_lint, corrupt={"H02": "broken"})
    yield "corrupt", replace(e, history_lint=corrupt)
    if e.faults:
        first = replace(e.faults[0], landed="no")
        yield "not-landed", replace(e, faults=[first, *e.faults[1:]])
        below = Budgets(declared=e.budget.declared, met="none", measured={})
        yield "no-budget", replace(e, budget=below)
    for name in ("RF1", "RF2", "RF4", "RF5", "RF7", "RF8"):
        bad = {**e.redflags, name: AuditRow(status="short", evidence="broken")}
        yield f"{name}-short", replace(e, redflags=bad)


def _decide(evidence: Evidence) -> Iterator[Tried]:
    """A violation fails, nothing passes."""
    for kind, broken in _broken_evidence(evidence):
        try:
            state = judgement.decide(broken).verdict
        except ValueError:
            # The verdict itself refuses to be built without its evidence; the table let it through.
            yield Tried("decide", kind, noticed=False)
            continue
        yield Tried("decide", kind, state.failed if kind == "violation" else not state.passed)
