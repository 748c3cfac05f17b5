"""Ways in which a run ends short of a pass: the facts of a simulated run, as if its nodes had been
real, with one thing changed each; and the sentences of the judge, read from its own text.

`PLANTED` is by cause (`dstest/judge/causes.py`). Those that a command of a user's can bring about
are really made, in `test_remedies_executed.py`.
"""

from __future__ import annotations

import ast
import errno
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace
from test_lints import BAD

import dstest.judge
from dstest.core.check import Fields, KeyCount, OpCount
from dstest.core.evidence import AuditRow, Budgets, Canary, Evidence, Lint, Rerun, Signal
from dstest.core.history import ClockSource, Recovery
from dstest.core.op import Op
from dstest.judge.audit import alike_row
from dstest.judge.audit_rows import ok
from dstest.judge.evidence import build_evidence
from dstest.judge.facts import (
    Alarm,
    ClockFact,
    Gap,
    MeasuredBaseline,
    ProcessEvent,
    ProcessFacts,
    RunFacts,
)
from dstest.judge.lints import lint

S = 1_000_000_000
FULL = OSError(errno.ENOSPC, "No space left on device")
Change = Callable[[RunFacts], RunFacts | Evidence]


def on_nodes(facts: RunFacts) -> RunFacts:
    """A simulated run as if it had been one of nodes, on which all was well."""
    nodes = facts.history.header.nodes
    return replace(
        facts,
        failures=None,
        transport="network",
        clocks=[
            ClockFact(host=host, wall_minus_mono_start_ns=0, wall_minus_mono_end_ns=0)
            for host in ("control", *nodes)
        ],
        log_lines=dict.fromkeys(nodes, 900),
        processes=ProcessFacts(looks=dict.fromkeys(nodes, 200), lives=dict.fromkeys(nodes, 1)),
        replicas=dict.fromkeys(nodes, "abc@1"),
    )


def facts(**changes: Any) -> Change:
    return lambda f: replace(f, **changes)


def with_ops(change: Callable[[RunFacts, Op], Op | None]) -> Change:
    """Other operations; none where it gives none."""

    def changed(f: RunFacts) -> RunFacts:
        ops = [one for op in f.history.ops if (one := change(f, op)) is not None]
        header = replace(f.history.header, counters={"issued": len(ops)})
        return replace(f, history=replace(f.history, ops=ops, header=header))

    return changed


def with_header(**changes: Any) -> Change:
    def changed(f: RunFacts) -> RunFacts:
        header = replace(f.history.header, **changes)
        return replace(f, history=replace(f.history, header=header))

    return changed


def with_record(**changes: Any) -> Change:
    """The first fault's."""

    def changed(f: RunFacts) -> RunFacts:
        first, *others = f.records
        return replace(f, records=[replace(first, **changes), *others])

    return changed


def with_details(**changes: Any) -> Change:
    def changed(f: RunFacts) -> RunFacts:
        return with_record(facts=f.records[0].facts | changes)(f)  # type: ignore[return-value]

    return changed


def with_result(**changes: Any) -> Change:
    def changed(f: RunFacts) -> RunFacts:
        name, result = next(iter(f.results.items()))
        return replace(f, results={name: replace(result, **changes)})

    return changed


def both(first: Change, second: Callable[[Any], RunFacts | Evidence]) -> Change:
    return lambda f: second(first(f))


def violated(whole: Evidence) -> Evidence:
    return replace(whole, violation=True)


def budget(**measured: float) -> Change:
    """Not even smoke, by these figures or by none."""

    def changed(f: RunFacts) -> Evidence:
        whole = build_evidence(f)
        figures = whole.budget.measured | measured
        return replace(whole, budget=replace(whole.budget, met="none", measured=figures))

    return changed


def all_well(f: RunFacts, **short: str) -> Evidence:
    """Every row holds, but for these."""
    whole = build_evidence(f)

    def rows(found: dict[str, AuditRow]) -> dict[str, AuditRow]:
        return {
            name: AuditRow(status="short", evidence=short[name]) if name in short else ok("well")
            for name in found
        }

    return replace(whole, redflags=rows(whole.redflags), weak_audit=rows(whole.weak_audit))


def evidence(**changes: Any) -> Change:
    return lambda f: replace(build_evidence(f), **changes)


def linted(**found: dict[str, str]) -> Change:
    return lambda f: build_evidence(f, Lint(**found))


def bad(name: str) -> Change:
    _, history, context = BAD[name]
    return lambda f: build_evidence(f, lint(history, context=context))


def without_row(f: RunFacts) -> Evidence:
    whole = build_evidence(f)
    rows = {name: row for name, row in whole.redflags.items() if name != "RF9"}
    return replace(whole, redflags=rows)


def unlike(f: RunFacts) -> Evidence:
    whole = build_evidence(f)
    row = alike_row(["dstest: 0.1, 0.2"])
    return replace(whole, redflags=whole.redflags | {"RF9": row})


def unhealed(f: RunFacts) -> Evidence:
    """Proven by no row, which says that all was well."""
    whole = build_evidence(f)
    first, *others = whole.faults
    return replace(whole, faults=[replace(first, heal_verified=False), *others])


def between(f: RunFacts) -> tuple[int, int]:
    """From the heal of the first fault to the second."""
    return f.records[0].healed_at or 0, f.records[1].injected_at or 0


def first_window(f: RunFacts, op: Op) -> bool:
    one = f.records[0]
    return (one.injected_at or 0) <= op.invoke_ts <= (one.healed_at or 0)


def late(f: RunFacts) -> int:
    return max(r.healed_at or 0 for r in f.records)


def failing(op: Op) -> Op:
    done = op.invoke_ts + 1_000_000
    changes = {"complete_ts": done, "timeout_marker": False}
    return replace(op, output=None, error="refused", node_seen="n1", **changes)


def quiet_before(f: RunFacts, op: Op) -> Op | None:
    return None if op.invoke_ts < (f.records[0].injected_at or 0) - 100_000_000 else op


def quiet_after(f: RunFacts, op: Op) -> Op | None:
    """One operation is left, which says when the load ended."""
    last = f.load[-1]
    return None if late(f) + S < op.invoke_ts < last.invoke_ts else op


def victim_alone(f: RunFacts) -> RunFacts:
    """The first victim is asked twice while its fault stands, and not as often as it has to be."""
    victim = f.records[0].targets[0]
    begun, healed = f.records[0].injected_at or 0, f.records[0].healed_at or 0
    there = [op for op in f.history.ops if f.node_of_process[op.process_id] == victim]
    inside = [
        op.op_id
        for op in there
        if op.invoke_ts <= healed and (op.complete_ts is None or op.complete_ts >= begun)
    ]
    still = {*inside[2:]}
    return with_ops(lambda _, op: None if op.op_id in still else op)(f)  # type: ignore[return-value]


def after_all(f: RunFacts, op: Op) -> Op | None:
    """Nothing before the first fault, of which clients sit out the effects for a minute."""
    return op if op.invoke_ts > (f.records[0].injected_at or 0) else None


def due_late(f: RunFacts) -> Evidence:
    first, *others = f.history.ops
    ops = [replace(first, due_ts=first.invoke_ts + S), *others]
    header = replace(f.history.header, windows=[], counters={})
    return build_evidence(f, lint(replace(f.history, ops=ops, header=header)))


def stood(*looks: bool, **facts: Any) -> Change:
    rows = [{"at_ns": 6 * S, "present": there} for there in looks]
    return with_details(rechecks=rows, **facts)


def exits(kind: str, **row: Any) -> Change:
    def changed(f: RunFacts) -> RunFacts:
        assert f.processes is not None
        return replace(f, processes=replace(f.processes, **{kind: row.get("of")}))

    return changed


def drifted(f: RunFacts) -> RunFacts:
    first, *others = f.clocks
    return replace(f, clocks=[replace(first, wall_minus_mono_end_ns=S), *others])


def ends_first(f: RunFacts, op: Op) -> Op:
    return replace(op, complete_ts=op.invoke_ts - 1) if op.op_id == 9 else op


def both_ways(f: RunFacts) -> RunFacts:
    records = [replace(r, facts=r.facts | {"direction": "both"}) for r in f.records]
    return replace(f, records=records)


FASTER = MeasuredBaseline(accepted=True, ok_per_s=1e6, p99_ms=1, said="steady")
UNCLEAR = {"checker": "linearizable", "model": "register", "weaker": "any", "kinds": ["stale"]}
ANOTHERS = {"checker": "another", "valid": False}
EVENT = ProcessEvent(node="n1", what="toykv (1)", after_ns=1 * S, before_ns=2 * S)
UNDECIDED = {"valid": "unknown", "anomalies": {}}
FINAL = {"checker_kinds": {"linearizable": "final-state"}}
READ, WRITE = frozenset({"read"}), frozenset({"write"})
BOUNDARY = frozenset({"safety", "boundary"})
NOT_LANDED = {"landed": "ambiguous"}
UNMET = Signal(signal="hits of function:a", detail="n1: function:a: never reached in 10 s")
NONE_REACHED = "any:a*: none of the 9 functions was reached in 3 s"
UNMET_AGAIN = "function:a was never reached on n1 in f1, and is not waited for again"


def boundary(**fields: Any) -> Change:
    whole = {"surfaces": {"r": READ, "w": WRITE, "b": READ | WRITE}, "negative_controls": READ}
    return facts(claims=BOUNDARY, fields=Fields(**(whole | fields)))


def survivor(valid: bool | str, total: int = 8, **more: Any) -> Change:
    row = {"checker": "linearizable", "kind": "stale-read", "mutant": "a read", "valid": valid}
    return facts(canary=Canary(killed=total - 1, total=total, details=[row | more]))


PLANTED: Sequence[tuple[str, Change]] = [
    ("never-began", evidence(attempted=False)),
    ("environment", facts(missing_capability=["partition: no nftables on n1"])),
    ("disk-full", facts(ended_by="no space left on the disk of store")),
    ("stopped", facts(ended_by="stopped by SIGINT")),
    ("ended-early", facts(ended_by="n2 is lost")),
    ("violation", evidence(violation=True, violation_fingerprint="a/b")),
    ("not-rerun", evidence(violation=True)),
    ("not-again", evidence(violation=True, rerun=Rerun(same_seed_runs=2))),
    ("violation-fault", both(with_record(**NOT_LANDED), evidence(violation=True))),
    ("idle-window", both(bad("H18 window"), violated)),
    ("idle-unknown", facts(node_of_process={})),
    ("idle-node", victim_alone),
    ("not-landed", with_record(injected_at=None)),
    ("no-record", facts(faults_planned=9)),
    ("not-planned", evidence(fault_planned=False)),
    ("not-landed", with_record(**NOT_LANDED)),
    ("not-landed", with_record(injector=None, **NOT_LANDED)),
    ("not-landed", lambda f: with_record(injector=replace(f.records[0].injector, during={}))(f)),  # type: ignore[type-var]
    ("not-reached", with_record(landed="no", injector=UNMET)),
    ("not-reached-again", with_record(landed="no", notes=[UNMET_AGAIN])),
    ("none-reached", with_record(landed="no", notes=[NONE_REACHED])),
    ("landed-count", with_record(**NOT_LANDED)),
    ("two-looks", stood(True)),
    ("fault-gone", stood(True, False)),
    ("fault-gone", stood(True, True, stood={"share": 0.5})),
    ("stranger", with_record(targets=[])),
    ("members-unknown", facts(members_at={})),
    ("idle-path-named", with_details(idle_paths=["n1->n2"], links=["n1->n2"])),
    ("no-traffic", with_details(cuts=[], idle_paths=[], baseline_packets={})),
    ("no-traffic", with_details(baseline_packets={"n1->n2": 0})),
    ("idle-paths", with_details(cuts=["n1->n2", "n2->n1"], baseline_packets={"n1->n2": 9})),
    ("left-out", facts(options={"without": "read"})),
    ("few-operations", with_ops(lambda f, op: op if op.invoke_ts < S // 3 else None)),
    ("type-missing", facts(minimum={"cas": 0})),
    ("none-good", with_ops(lambda f, op: failing(op) if op.op_type == "read" else op)),
    ("few-of-type", facts(minimum={"read": 1200})),
    ("clients-unknown", with_header(concurrency=None)),
    ("idle-clients", with_header(concurrency=99)),
    ("silent", facts(generator_gaps=[Gap(worker="0", start_ns=0, end_ns=99 * S)], records=[])),
    ("unanswered", with_ops(lambda f, op: failing(op) if op.invoke_ts // S % 3 else op)),
    ("no-second", both(with_ops(after_all), facts(op_timeout_s=60.0))),
    ("rate-missed", with_header(rate=1000.0)),
    ("clients-not-busy", with_header(rate=None)),
    ("clock-moved", drifted),
    ("clock-unmeasured", facts(clocks=[])),
    ("clock-unmeasured", lambda f: replace(f, clocks=f.clocks[:-1])),
    ("clock-kind", with_header(clock=ClockSource(name="REALTIME", host="control"))),
    ("clock-kind", with_header(clock=ClockSource(name="REALTIME", host=""))),
    ("clock-kind", with_header(clock=None)),
    ("time-order", both(with_ops(ends_first), lambda f: build_evidence(f, Lint()))),
    *(("contradiction", bad(name)) for name in BAD if BAD[name][0] == "corrupt"),
    ("contradiction", due_late),
    ("fields", linted(weak={"H01": "record 3 lacks node_seen"})),
    *(("fields", bad(name)) for name in BAD if name.startswith(("H10", "H11", "H12"))),
    *(("record-weak", bad(name)) for name in ("H03 none", "H03 alone", "H04 weak")),
    *(("record-weak", bad(name)) for name in ("H08 wrong", "H14 none")),
    ("idle-window", bad("H18 window")),
    ("idle-node", bad("H18 node")),
    ("keys-unused", bad("H13 vacuous")),
    ("keys-are-ids", bad("H13 op_id")),
    ("wire", bad("H16")),
    ("no-checker", facts(checkers_declared=[], results={})),
    ("checker-died", facts(results={})),
    ("nothing-judged", with_result(ops=OpCount(total=9, consumed=0))),
    ("budget-spent", with_result(reason="time budget of 60 s used up", **UNDECIDED)),
    ("undecided", with_result(reason="nothing was tested", **UNDECIDED)),
    ("undecided", with_result(**UNDECIDED)),
    ("partly-judged", with_result(keys=KeyCount(total=9, decided=8))),
    ("partly-judged", with_result(ops=OpCount(total=2000, consumed=1500))),
    ("no-copies", facts(canary=Canary())),
    ("copies-accepted", facts(canary=Canary(killed=0, total=8))),
    ("copies-missed", survivor(True)),
    ("budget-spent", survivor("unknown")),
    ("model-unclear", facts(canary=Canary(killed=8, total=8, undistinguished=[UNCLEAR]))),
    ("no-copy-killed", facts(canary=Canary(killed=1, total=1, details=[ANOTHERS]))),
    ("not-read-again", with_ops(lambda f, op: replace(op, key=f"k{op.invoke_ts // S}"))),
    ("log-cut", facts(log_gaps=["n1: db.log was cut: 1,000 of 90,000,000 bytes"])),
    ("alarms", facts(alarms=[Alarm(node="n2", line="panic: boom", ts=S)])),
    ("ends", exits("ends", of=[EVENT])),
    ("ends", exits("oom_kills", of=[EVENT])),
    ("ends", exits("cores", of={"n1": ["core.1"]})),
    ("sim-failures", facts(failures=["n1: KeyError"])),
    ("unwatched", facts(log_lines={"n1": 9})),
    ("unwatched", facts(processes=None)),
    ("unwatched", exits("looks", of={"n1": 1})),
    ("unwatched", exits("unseen", of=[EVENT])),
    ("not-asked", facts(healthy={})),
    ("not-serving", lambda f: replace(f, healthy=f.healthy | {"n2": False})),
    ("left-behind", facts(residue={"n1": ["a rule"]})),
    ("left-behind", with_record(heal_verified=False)),
    ("left-behind", facts(problems=["logs: KeyError"])),
    ("not-serving", with_header(nodes=[])),
    ("left-behind", unhealed),
    ("replicas", lambda f: replace(f, replicas={**(f.replicas or {}), "n1": "abd@1"})),
    ("replicas", facts(replicas={})),
    ("tail-thin", with_ops(quiet_before)),
    ("tail-thin", with_ops(quiet_after)),
    ("not-well-again", facts(recoveries=[], settled_ns=None)),
    ("not-well-again", facts(recoveries=[Recovery(healed_ns=9 * S, settled_ns=None)])),
    ("slow-tail", with_ops(lambda f, op: failing(op) if op.invoke_ts > late(f) else op)),
    ("slow-tail", facts(measured=FASTER)),
    ("surface-only", facts(**FINAL)),
    ("surface-only", facts(checker_kinds={"linearizable": "logs"})),
    ("surface-only", both(facts(**FINAL), with_details(shape="leader", term_before=1, new_term=2))),
    ("wire", facts(wire=[])),
    ("wire", facts(workers=2)),
    ("wire", lambda f: replace(f, wire=[replace(f.wire[0], known=False)])),
    ("wire", lambda f: replace(f, wire=[replace(f.wire[0], calls=0)])),
    ("wire", lambda f: replace(f, wire=[replace(f.wire[0], calls=1)])),
    ("surfaces", boundary(surfaces={"r": READ})),
    ("control-refused", boundary(negative_controls=frozenset({"intrude"}))),
    ("control-accepted", boundary()),
    ("groups", facts(claims=frozenset({"safety", "fairness"}))),
    ("unlike", unlike),
    ("other-version", without_row),
    ("budget", lambda f: replace(build_evidence(f), budget=Budgets())),
    ("budget", budget()),
    ("budget", budget(duration_s=9)),
    ("nodes", budget(nodes=2)),
    ("faults", budget(faults=0)),
    ("operations", budget(ops=400)),
    ("breadth", facts()),
    ("more-faults", facts()),
    ("breadth", facts(tier_wanted="hardening", seeds_agreeing=2)),
    ("breadth", lambda f: all_well(f, RF10="1 of 3 agreeing seeds: one pass is not a rate")),
    ("budget", lambda f: all_well(f, RF6="tier met: smoke, wanted: hardening (faults 3)")),
    ("one-way", both_ways),
    ("no-fault", lambda f: all_well(replace(f, records=[], faults_planned=0))),
    ("durability", facts(page_cache={"partition": "kept"})),
    ("simulated", facts(transport="simulation", failures=[])),
]  # fmt: skip
"""Cause, and what is changed. Several of one cause have other words in their line."""

ASKED: Mapping[str, tuple[Mapping[str, Any], Sequence[str]]] = {
    "nothing-judged": ({"checkers": ["linearizable"]}, []),
    "undecided": ({"checkers": ["linearizable"]}, []),
    "partly-judged": ({"checkers": ["linearizable"]}, []),
    "copies-accepted": ({"checkers": ["linearizable"]}, []),
    "groups": ({}, ["fairness_by=node"]),
    "stranger": ({}, ["targets=n1"]),
    "left-out": ({}, ["without=read"]),
    "none-good": ({}, ["write_ratio=1"]),
    "keys-unused": ({}, ["resend_ratio=0"]),
}
"""What the user of such a run had asked for: fields of the spec, options."""

NOT_SAID = frozenset(
    {
        # A headline, made of lines that have their own.
        "a planned fault is not proven to have landed",
        "{} stood, but too few operations ran inside to count: {} began, {} are needed",
        "{} (and {} more)",
        # Where all is well, or beside what is not.
        "; {} that did {} not proven to have landed",
        "{} looks at {} faults, each found it standing",
        "; {} watched for {} s stood for {} at least",
        "; {} looks in between got no answer",
        "the runs that are compared share dstest, host, system, workload and options",
        "{} of {} outcomes are kept as unknown",
        "No audit row is short. On a first attempt that is unusual: check that the audit bites.",
        ", {} lost a race with another one ({})",
        "; core files go to a program of the host, and were not looked for",
        "{} log lines scanned",
        "no logs are offered",
        "end of a process",
        "1 {} (explained by a fault)",
        "{} {} (explained by faults)",
        " and {} more",
        # Of a violation, told by the report; the headline of a verdict.
        "{} lines of the logs tell of a crash or of damaged data, and no fault explains them",
        "at no known time",
        "{} s into the run",
        "The log of {} says, {}, and no fault that was made there explains it: {}",
        "{} judged {} and {} operations",
        "The checker found a violation ({}), and {}.",
        "The checker found a violation ({}); {}.",
        "none of {} re-runs showed it again",
        "it has not been re-run yet",
        "{} and found no violation",
        "{}; no fault was planned, so this says nothing about robustness{}.",
        "{} while {}; the run is too narrow to count as hardening.",
        "{} while {}; {}.",
        "{} while {}; only the smoke budget was met.",
        (
            "{} while all {} planned faults landed, the hardening budget was met and no audit row"
            " is short{}."
        ),
        "; the release budget was met as well",
        " (and {} more)",
        "rule {} holds",
        # Errors of ours.
        "the decision table is not total",
        "no arm to aggregate: a scenario that never ran is NOT-RUN, say so",
        # The record contradicts itself before that is asked.
        "it was never injected",
        # Lints that only warn.
        "every operation succeeded although faults landed: the library may retry unseen",
        "the checkers judged {} of {} operations",
    }
)
"""Sentences that stand in no line on what keeps a run from a pass."""


class Sentence(NamedTuple):
    """One that the judge may say, as it stands in its text; braces for what differs."""

    where: str
    text: str

    @property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(".*".join(map(re.escape, self.text.split("{}"))), re.DOTALL)


def _text_of(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if not isinstance(node, ast.JoinedStr):
        return None
    return "".join(str(v.value) if isinstance(v, ast.Constant) else "{}" for v in node.values)


def _left_out(function: ast.AST) -> Iterator[ast.AST]:
    """Docstrings, what a row says where all is well, parts of a sentence."""
    for node in ast.walk(function):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node):
            first = node.body[0]
            assert isinstance(first, ast.Expr)
            yield first.value
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("ok", "na")
        ):
            yield from ast.walk(node)
        if isinstance(node, ast.JoinedStr):
            yield from node.values


def sentences() -> Iterator[Sentence]:
    """All of three words and more that functions of the judge may say of a run."""
    home = Path(dstest.judge.__file__ or "").parent
    for name in ("audit", "audit_rows", "decide", "evidence", "facts", "lints"):
        tree = ast.parse((home / f"{name}.py").read_text())
        for part in tree.body:
            if not isinstance(part, ast.FunctionDef | ast.ClassDef):
                continue
            skipped = {id(node) for node in _left_out(part)}
            for node in ast.walk(part):
                text = _text_of(node)
                if text and id(node) not in skipped and len(text.split()) > 2:
                    yield Sentence(f"{name}.{part.name}", text)
