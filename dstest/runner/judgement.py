"""From a run directory to its verdict: seal, lint, check, canary, audit, decide, report.

Everything is read from the directory, so that a run which died is judged the same way as one that
ended (`dstest recover`).
"""

from __future__ import annotations

import tomllib
import traceback
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from dstest.core import plugin_files, registry
from dstest.core.check import Budget, CheckResult
from dstest.core.errors import EvidenceError, HarnessError
from dstest.core.evidence import LandingRecord, Rerun
from dstest.core.history import Header, History
from dstest.core.protocols import (
    CheckerTraits,
    NemesisTraits,
    SystemTraits,
)
from dstest.core.run_meta import RunMeta
from dstest.core.spec import SPEC, RunSpec
from dstest.core.verdict import Verdict
from dstest.judge._audit_logs import NO_CRASH, NO_CRASH_BREAKS, no_crash
from dstest.judge.blame import blame
from dstest.judge.budgeted import Job, Source, budgeted, model_of, run_jobs
from dstest.judge.canary_family import canaries
from dstest.judge.checker_answers import asked
from dstest.judge.decide import decide
from dstest.judge.evidence import build_evidence, lint_context
from dstest.judge.facts import Canary, Gap, RunFacts, Wire
from dstest.judge.lints import lint
from dstest.judge.symptom import symptom_of
from dstest.judge.taxdc import classify
from dstest.runner.blame_probes import offline_probes
from dstest.runner.declared_path import path_of
from dstest.runner.judges import claims_of
from dstest.runner.monitored import measured_of, write_monitored
from dstest.runner.of_nodes import OfNodes, of_nodes
from dstest.runner.reconcile import Beside, issued, reconcile
from dstest.runner.schedule_file import SCHEDULE, Schedule
from dstest.runner.server_effects import server_effects
from dstest.store.jsonl import read_raw, write_history
from dstest.store.layout import PLUGINS, RunDir
from dstest.store.seal import Folded, fold, windows_of

if TYPE_CHECKING:
    from dstest.report.model import RunReport

_GAP_NS: Final = 1_000_000_000
_NO_AUDIT: Final = {"cluster": ["no leak audit was made"]}


def seal(run: RunDir, meta: RunMeta) -> tuple[History, Folded]:
    """Merge the segments into `history.jsonl` and `faults.jsonl`."""
    spec = msgspec.convert(meta.spec, RunSpec)
    folded = fold(run.segments)
    counters = issued(meta) or {"issued": folded.counters["invokes"]}
    unsent = sum(note.get("unsent", 0) for note in folded.notes)
    if unsent:
        counters = {**counters, "unsent": unsent}
    header = Header(
        run=run.path.name,
        workload=spec.workload,
        model=meta.model,
        checkers=list(meta.checkers),
        system=spec.system,
        system_version=meta.system_version,
        nodes=list(meta.members or meta.nodes),
        concurrency=spec.concurrency,
        seed=spec.seed,
        clock=meta.clock,
        rate=spec.rate,
        time_limit_s=spec.time_limit_s,
        windows=windows_of(folded.records),
        counters=counters,
        options=spec.options,
    )
    history = History(header=header, ops=folded.ops)
    write_history(run.history, history)
    lines = b"".join(msgspec.json.encode(record) + b"\n" for record in folded.records)
    run.write("faults.jsonl", lines)
    return history, folded


def _gaps(history: History, workers: int, end_ns: int | None) -> list[Gap]:
    """Stretches longer than a second in which a worker asked for nothing."""
    last: dict[int, int] = {}
    gaps = []
    for op in history.ops:
        if end_ns is not None and op.invoke_ts >= end_ns:
            break
        worker = int(op.op_id) % workers
        if op.invoke_ts - last.get(worker, 0) > _GAP_NS:
            gaps.append(Gap(worker=str(worker), start_ns=last.get(worker, 0), end_ns=op.invoke_ts))
        last[worker] = op.invoke_ts
    return gaps


def check_all(run: RunDir, meta: RunMeta, history: History) -> dict[str, CheckResult]:
    """Each checker's answer; several work at the same time, each in a process of its own."""
    names = meta.checkers
    models = {n: model_of(registry.load("checkers", n), meta.model) for n in names}
    if len(names) == 1:
        checker = registry.load("checkers", names[0])
        results = [budgeted(checker, history, models[names[0]], Budget())]
    else:
        source = Source(path=str(run.history), format="dstest")
        results = run_jobs(
            [Job(source=source, checker=n, model=models[n], budget=Budget()) for n in names]
        )
    workload = history.header.workload
    return {
        name: msgspec.structs.replace(result, workload=workload)
        for name, result in zip(names, results, strict=True)
    }


def _elsewhere(meta: RunMeta) -> frozenset[str]:
    """Nodes whose clients are sent on to others."""
    return frozenset(one.node for one in meta.endpoints or [] if not one.pinned)


def _canary(meta: RunMeta, history: History, seed: int) -> Canary:
    details: list[dict[str, Any]] = []
    undistinguished: list[dict[str, Any]] = []
    for name in meta.checkers:
        checker = registry.load("checkers", name)
        model = model_of(checker, meta.model)
        check = partial(asked, checker, model=model, budget=Budget(), looks=False)
        tried = canaries(checker, model, history, seed, check)
        details += tried.details
        undistinguished += tried.undistinguished
    killed = sum(1 for row in details if row["valid"] is False)
    return Canary(
        killed=killed, total=len(details), details=details, undistinguished=undistinguished
    )


def _beside(run: RunDir) -> Beside:
    """What the files beside run.json say of the plan. A broken one is empty."""
    spec = None
    if (run.path / SPEC).exists():
        try:
            spec = tomllib.loads((run.path / SPEC).read_text())
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
            spec = {}
    schedule = run.read_json(SCHEDULE)
    if schedule is not None:
        try:
            schedule = msgspec.to_builtins(msgspec.convert(schedule, Schedule))
        except msgspec.ValidationError:
            schedule = {}
    return Beside(schedule=schedule, spec=spec)


def _absent(run: RunDir, meta: RunMeta) -> list[str]:
    """Files that were there before the load began."""
    began = meta.clock_start_ns is not None
    return [f"{n} is missing" for n in (SPEC, SCHEDULE) if began and not (run.path / n).exists()]


def _foreign(meta: RunMeta, workload: Any, claims: frozenset[str]) -> list[str]:
    """Does run.json ask for what this workload and its checkers do not know?"""
    known = {m for name in meta.checkers for m in registry.load("checkers", name).models}
    wrong = []
    if meta.model not in known:
        wrong.append(f"run.json demands {meta.model}, which none of its checkers knows")
    if meta.claims is not None and meta.claims != sorted(claims):
        wrong.append(f"run.json claims {meta.claims}, {workload.name} something else")
    asked = msgspec.convert(meta.spec, RunSpec).checkers
    if left_out := [name for name in asked if name not in meta.checkers]:
        wrong.append(f"the run was asked for {', '.join(left_out)}, which run.json does not name")
    return wrong


def _traits(nemesis: str) -> NemesisTraits:
    """What this nemesis declares; nothing for one that is not known."""
    known = nemesis in registry.names("nemeses")
    return NemesisTraits.of(registry.load("nemeses", nemesis)) if known else NemesisTraits()


def _traits_of(facts: RunFacts) -> tuple[dict[str, CheckerTraits], dict[str, NemesisTraits]]:
    """Those of the checkers and of the nemeses of a run, by name."""
    known = {name: CheckerTraits.of(registry.load("checkers", name)) for name in facts.results}
    known[NO_CRASH] = CheckerTraits(breaks=NO_CRASH_BREAKS)
    return known, {record.nemesis: _traits(record.nemesis) for record in facts.records}


def _failures(meta: RunMeta) -> list[str]:
    """Of a simulation; one that died did not come to say."""
    return ["what failed in it was not recorded"] if meta.failures is None else meta.failures


def _known(time_ns: int | msgspec.UnsetType | None) -> int | None:
    return None if time_ns is msgspec.UNSET else time_ns


def _run_facts(
    run: RunDir, meta: RunMeta, history: History, folded: Folded, canary: Canary | None
) -> RunFacts:
    spec = msgspec.convert(meta.spec, RunSpec)
    system = registry.load("systems", spec.system)
    workload = registry.load("workloads", spec.workload)
    claims = claims_of(workload, [registry.load("checkers", name) for name in meta.checkers])
    path = path_of(spec, meta, folded)
    told = OfNodes() if path.simulated else of_nodes(run, system, meta, folded)
    records: list[LandingRecord] = folded.records
    load_end_ns = _known(meta.load_end_ns)
    nemeses = {name: _traits(name) for name in dict.fromkeys(r.nemesis for r in records)}
    agreed = reconcile(folded, meta, _beside(run))
    return RunFacts(
        history=history,
        records=records,
        faults_planned=meta.faults_planned,
        attempted=bool(history.ops) or bool(meta.missing_capability),
        ended_by=meta.ended_by or meta.stopped_by,
        workers=meta.workers or 0,
        missing_capability=list(meta.missing_capability or []),
        claims=claims,
        fields=workload.fields,
        options=spec.options,
        checkers_declared=list(meta.checkers),
        results=check_all(run, meta, history),
        checker_kinds={n: registry.load("checkers", n).kind for n in meta.checkers},
        canary=canary or _canary(meta, history, spec.seed),
        node_of_process=dict(folded.process_nodes),
        served_elsewhere=_elsewhere(meta),
        conflict_errors=SystemTraits.of(system).conflict_errors,
        generator_gaps=_gaps(history, 1 if meta.workers is None else meta.workers, load_end_ns),
        op_timeout_s=float(spec.options["op_timeout_s"]),
        measured=measured_of(write_monitored(run, meta, folded)),
        clocks=told.clocks,
        log_lines=told.logs.lines,
        alarms=told.logs.alarms,
        log_gaps=told.logs.gaps,
        logless=told.logs.none,
        processes=told.processes,
        explains={name: sorted(one.explains) for name, one in nemeses.items()},
        page_cache={name: one.page_cache for name, one in nemeses.items()},
        settled_ns=_known(meta.settled_ns),
        load_end_ns=load_end_ns,
        minimum={**dict.fromkeys(workload.op_types, 0), **workload.minimum},
        healthy=meta.healthy or {},
        mismatches=[
            *agreed.wrong,
            *path.wrong,
            *_absent(run, meta),
            *_foreign(meta, workload, claims),
        ],
        forgiven=agreed.forgiven,
        residue=_NO_AUDIT if meta.residue is None else meta.residue,
        replicas=told.replicas,
        members_at=told.members_at,
        problems=[*(meta.clean_up_problems or []), *(meta.heal_problems or [])],
        recoveries=meta.recoveries or [],
        wire=[msgspec.convert(n["wire"], Wire) for n in folded.notes if "wire" in n],
        rerun=meta.rerun or Rerun(),
        members_most=SystemTraits.of(system).members_most,
        node_counts_run=[spec.nodes],
        built_in=[found] if (found := server_effects(run, system, meta, history)) else [],
        tier_wanted=meta.tier_wanted or "smoke",
        transport=path.transport,
        failures=_failures(meta) if path.simulated else None,
    )


class Judged(NamedTuple):
    """A verdict and what the report shows beside it."""

    verdict: Verdict
    history: History
    records: list[LandingRecord]
    meta: RunMeta
    canary: Canary


def assess(run: RunDir, canary: Canary | None = None) -> Judged:
    """Seal and judge a run directory, but for its report and its status. Never passes silently.
    `canary` is what came of broken copies of it before, where they are not made again.

    What the run recorded about itself is `run.json`; what is missing there counts against it.
    """
    meta = run.read_meta()
    if meta is None:
        raise EvidenceError(f"{run.path} has no run.json", remedy="nothing was recorded in it")
    plugin_files.check_digests(meta.plugin_files or {}, run.path / PLUGINS)
    history, folded = seal(run, meta)
    run_facts = _run_facts(run, meta, history, folded, canary)
    workload = registry.load("workloads", history.header.workload or "")
    context = lint_context(run_facts, workload.op_types)
    history_lint = lint(history, read_raw(run.history), context)
    crash = no_crash(run_facts)
    built_in = [*([crash] if crash else []), *run_facts.built_in]
    results = {**run_facts.results, **{result.checker: result for result in built_in}}
    evidence = msgspec.structs.replace(
        build_evidence(run_facts, history_lint),
        probes=offline_probes(run, run_facts, history_lint, results, meta.model),
        symptom=symptom_of(run_facts, results.values(), *_traits_of(run_facts)),
    )
    checkers = {n: msgspec.to_builtins(r) for n, r in results.items()}
    verdict = decide(evidence, checkers)
    verdict = msgspec.structs.replace(verdict, blame=blame(evidence), bug=classify(evidence))
    run.write_json("evidence.json", evidence)
    run.write_json("verdict.json", verdict)
    return Judged(verdict, history, folded.records, meta, run_facts.canary)


def judge(run: RunDir) -> tuple[Verdict, HarnessError | None]:
    """`assess`, and the report. The error, if any, says why that could not be drawn; the verdict
    stands without it."""
    verdict, error, _ = judge_reported(run)
    return verdict, error


def judge_reported(run: RunDir) -> tuple[Verdict, HarnessError | None, RunReport | None]:
    """As `judge`, with the report that was drawn; it holds the history."""
    judged = assess(run)
    verdict = judged.verdict
    try:
        return verdict, None, _report(run, judged)
    except HarnessError as error:
        return verdict, error, None
    except Exception as error:
        run.write("report-error.txt", traceback.format_exc())
        failure = HarnessError(
            f"the report could not be drawn: {type(error).__name__}: {error}",
            remedy=f"the verdict stands; see {run.path}/report-error.txt",
        )
        return verdict, failure, None


def _report(run: RunDir, judged: Judged) -> RunReport:
    """Report, findings, plots and JUnit; heavy imports stay here."""
    from dstest.report.write import write_reports

    return write_reports(
        Path(run.path),
        judged.verdict,
        judged.records,
        judged.history,
        judged.meta,
        judged.canary,
    )
