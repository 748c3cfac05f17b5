"""From a run directory to its verdict: seal, lint, check, canary, audit, decide, report.

Everything is read from the directory, so that a run which died is judged the same way as one that
ended (`dstest recover`): also the servers' own word (audit-NODE.jsonl, effects.json), which is
judged against the clients'. The parts of a record must agree (`reconcile`): what the board, the
segments or the plan say and another does not is lost, doubled or edited, and no checker's answer
about the rest counts then (lint H14). Only what a writer that died leaves behind is forgiven: its
last line may be torn, and its last event uncounted.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from dstest import __version__
from dstest.core import registry
from dstest.core.attach import system_of
from dstest.core.check import Budget, CheckResult
from dstest.core.errors import EvidenceError, HarnessError
from dstest.core.evidence import BlameProbe, Canary, LandingRecord, Rerun, Symptom
from dstest.core.history import Header, History, windows_of
from dstest.core.implements import implements
from dstest.core.protocols import (
    Checker,
    Membership,
    Nemesis,
    Processes,
    Replicas,
)
from dstest.core.run_record import RunMeta, RunSpec
from dstest.core.verdict import Verdict
from dstest.history.jsonl import read_raw, says_no_more, write_history
from dstest.history.layout import PLUGINS, RunDir, write_verdict
from dstest.history.segment import Folded, Segment, fold
from dstest.judge.audit_rows import NO_CRASH, NO_CRASH_BREAKS, no_crash
from dstest.judge.blame import RELAXED, blame
from dstest.judge.checker_answers import (
    Job,
    Source,
    ask_checker,
    bounded_answer,
    model_of,
    run_jobs,
)
from dstest.judge.decide import decide
from dstest.judge.evidence import build_evidence, lint_context
from dstest.judge.facts import ClockFact, Gap, ProcessFacts, RunFacts, Wire
from dstest.judge.lints import lint
from dstest.judge.mutants.families import canaries
from dstest.judge.relaxations import weaker_promises
from dstest.judge.server_journal import effects_of, judge_effects
from dstest.judge.symptom import NOT_BY_MODEL, classify, symptom_of
from dstest.runner.blame_probes import offline_probes
from dstest.runner.logs import LogFacts, log_names, scan_logs
from dstest.runner.measurements import measured_of, write_monitored
from dstest.runner.plugins import claims_of
from dstest.runner.requirements import deployment_of
from dstest.runner.transport import path_of

if TYPE_CHECKING:
    from dstest.report.model import RunReport


CONTROL = "control.seg"

_GAP_NS: Final = 1_000_000_000
_NO_AUDIT: Final = {"cluster": ["no leak audit was made"]}


class Reconciled(NamedTuple):
    """`wrong` voids the run, a sentence each; `forgiven` is said and changes nothing."""

    wrong: list[str]
    forgiven: list[str]


def reconcile(folded: Folded, meta: RunMeta) -> Reconciled:
    """Compare the segments with each other and with `meta`, the content of run.json."""
    wrong: list[str] = []
    forgiven: list[str] = []
    workers = _workers(folded, meta)
    dead = _dead(meta, workers)
    _exits(meta, workers, wrong)
    _counters(folded.counters, wrong)
    _files(folded, meta, workers, dead, wrong, forgiven)
    _traffic(folded, meta, dead, wrong, forgiven)
    _faults(folded, meta, wrong)
    _whole(folded, meta, wrong, forgiven)
    _late(folded, forgiven)
    return Reconciled(wrong, forgiven)


def _whole(folded: Folded, meta: RunMeta, wrong: list[str], forgiven: list[str]) -> None:
    """Is all there that a run which ended by itself writes down, and about the same nodes?"""
    if meta.ended_by is msgspec.UNSET:
        wrong.append("run.json does not say how the run ended")
    if meta.ended_by:
        return
    wanted = RunMeta.AT_THE_END
    if meta.transport != "network" and meta.failures is not None:
        wanted = wanted - RunMeta.OF_NODES | RunMeta.SIMULATED
    absent = wanted - meta.plain.keys()
    if meta.stopped_by:
        # A violation was proven in mid-run: nobody waited for the cluster to be whole again.
        absent -= {"load_end_ns", "healthy"}
    if absent:
        wrong.append(f"run.json lacks {', '.join(sorted(absent))}")
    nodes = meta.nodes
    if len({*nodes}) != len(nodes) or len(nodes) != meta.spec.get("nodes"):
        wrong.append("run.json names other nodes than were asked for")
    _recoveries(folded, meta, wrong)
    forgiven += [
        f"worker {number} did not end by itself ({status})"
        for number, status in enumerate(meta.worker_exits or [])
        if status != 0
    ]


def _recoveries(folded: Folded, meta: RunMeta, wrong: list[str]) -> None:
    """Is there a recovery for the heals, each after the first of them and within the run?"""
    healed = [one.healed_at for one in folded.records if one.healed_at is not None]
    if healed and not meta.recoveries and not meta.stopped_by:
        wrong.append("run.json does not say what followed the heals of its faults")
    for one in meta.recoveries or ():
        last_ns = max(one.healed_ns, one.settled_ns or 0)
        beyond = meta.load_s is not None and last_ns > (meta.load_s + 1) * 1e9
        if one.healed_ns < min(healed, default=0) or beyond:
            wrong.append(
                f"run.json has a recovery at {last_ns / 1e9:.1f} s, which fits no heal of a load "
                f"of {meta.load_s or 0:g} s"
            )


def _late(folded: Folded, forgiven: list[str]) -> None:
    """Did the control process stand still as a window began or ended?"""
    if folded.late:
        worst_ms = max(said.told_ns - said.edge_ns for said in folded.late) / 1e6
        forgiven.append(
            f"workers were told late of {len(folded.late)} beginnings and ends of faults, by up to"
            f" {worst_ms:,.0f} ms: what ended meanwhile is assigned to faults by its times"
        )


def issued(meta: RunMeta) -> dict[str, int]:
    """What the workers counted on the board, for the history's header; empty where they died.

    An operation that was issued and neither answered nor given up is of unknown outcome.
    """
    if meta.traffic is None:
        return {}
    rows = list(meta.traffic.values())
    sums = {kind: sum(row[kind] for row in rows) for kind in ("invoked", "ok", "fail")}
    invoked, ok, fail = sums["invoked"], sums["ok"], sums["fail"]
    return {"issued": invoked, "ok": ok, "fail": fail, "unknown": invoked - ok - fail}


def _workers(folded: Folded, meta: RunMeta) -> int:
    """How many workers there were; a run that died did not come to say so, its segments do."""
    if meta.workers is not None or not meta.ended_by:
        return meta.workers or 0
    return max((h.workers or 0 for h in folded.headers), default=0)


def _dead(meta: RunMeta, workers: int) -> set[str]:
    """Names of the segments whose writer did not end by itself."""
    names = [f"worker-{i}.seg" for i in range(workers)]
    exits = meta.worker_exits
    if exits is None:
        # Only a control process that died could not say how its workers ended; they die with it.
        return {CONTROL, *names} if meta.ended_by else set()
    return {name for name, status in zip(names, exits, strict=False) if status != 0}


def _exits(meta: RunMeta, workers: int, wrong: list[str]) -> None:
    """Is there an exit status of each worker? Of a load that never began some may not exist."""
    exits = meta.worker_exits
    if exits is None or (meta.ended_by and meta.clock_start_ns is None):
        return
    if len(exits) != workers or None in exits:
        known = sum(status is not None for status in exits)
        wrong.append(f"run.json has exit statuses of {known} workers, there were {workers}")


def _counters(counters: Mapping[str, int], wrong: list[str]) -> None:
    said = {
        "damaged_lines": "lines of the segments cannot be read: their checksums do not match",
        "malformed_events": "events in the segments are of no known shape, or at a wrong place",
        "duplicate_completions": "operations were completed twice",
        "orphan_completions": "completions belong to no operation",
    }
    wrong += [f"{counters[name]:,} {what}" for name, what in said.items() if counters.get(name)]


def _files(
    folded: Folded,
    meta: RunMeta,
    workers: int,
    dead: set[str],
    wrong: list[str],
    forgiven: list[str],
) -> None:
    """Is each writer's file there, once, whole, and its own?"""
    there = {segment.name: segment for segment in folded.segments}
    expected = {f"worker-{i}.seg": i for i in range(workers)}
    began = meta.clock_start_ns is not None or bool(folded.ops)
    wanted = {*expected, CONTROL} if began else set()
    wrong += [f"{name} is missing" for name in sorted(wanted - there.keys() - dead)]
    wrong += [
        f"{name} is of no worker of this run"
        for name in sorted(there.keys() - {*expected, CONTROL})
    ]
    for name, segment in there.items():
        if segment.header is None:
            if segment.lines or name not in dead:
                wrong.append(f"{name} does not begin with its header")
            continue
        of = segment.header
        if (of.worker, of.control) != (expected.get(name), name == CONTROL):
            whose = "the control process" if of.control else f"worker {of.worker}"
            wrong.append(f"{name} is the segment of {whose}")
        elif name in expected and of.workers != workers:
            wrong.append(f"{name} is of one of {of.workers} workers, and there were {workers}")
        _end(segment, name in dead, began, wrong, forgiven)


def _end(segment: Segment, dead: bool, began: bool, wrong: list[str], forgiven: list[str]) -> None:
    name = segment.name
    if segment.torn_tail:
        message = f"the last line of {name} is torn"
        if dead:
            forgiven.append(f"{message}: its writer died")
        else:
            wrong.append(f"{message}, and its writer did not die")
    if segment.end is not None:
        if segment.end != segment.lines - 1:
            wrong.append(
                f"{name} holds {segment.lines - 1:,} lines, its writer wrote {segment.end:,}"
            )
        if dead and began:
            wrong.append(f"{name} has its last line, and run.json says that its writer died")
    elif began:
        if dead:
            forgiven.append(f"{name} has no last line: its writer died")
        else:
            wrong.append(f"{name} has no last line: its end is missing")


def _traffic(
    folded: Folded,
    meta: RunMeta,
    dead: set[str],
    wrong: list[str],
    forgiven: list[str],
) -> None:
    """Board against segments, node by node."""
    if meta.traffic is None:
        if not meta.ended_by:
            wrong.append("run.json does not say how many operations the workers issued")
        elif folded.ops:
            forgiven.append("how many operations were issued is not known: the run died")
        return
    # A worker that is killed between its write and its count is one event ahead of the board.
    slack = sum(1 for name in dead if name != CONTROL)
    for node in sorted({*meta.traffic, *folded.by_node}):
        board = meta.traffic.get(node, {})
        for kind in ("invoked", "ok", "fail", "unknown"):
            counted = int(board.get(kind, 0))
            held = folded.by_node.get(node, {}).get(kind, 0)
            if held == counted:
                continue
            message = f"{node}: the workers counted {counted:,} {kind}, the segments hold {held:,}"
            if counted < held <= counted + slack:
                forgiven.append(f"{message}: a worker was killed")
            else:
                wrong.append(message)
    offered = (meta.load or {}).get("offered")
    total = sum(int(row.get("invoked", 0)) for row in meta.traffic.values())
    if offered != total:
        wrong.append(f"the workers offered {offered} operations and counted {total} per node")


def _faults(folded: Folded, meta: RunMeta, wrong: list[str]) -> None:
    """The landing records against the plan."""
    for note in folded.notes:
        if "planned" not in note:
            continue
        plan = note["planned"]
        if len(plan) != meta.faults_planned:
            wrong.append(f"run.json plans {meta.faults_planned} faults, {CONTROL} {len(plan)}")
        _against(plan, folded, wrong)


def _against(plan: Sequence[Mapping[str, Any]], folded: Folded, wrong: list[str]) -> None:
    """Is each record that of a fault as it was planned?"""
    wanted = {row.get("fault_id"): (row.get("nemesis"), row.get("start_ns", 0)) for row in plan}
    for record in folded.records:
        nemesis, start_ns = wanted.get(record.fault_id, (None, 0))
        if (record.nemesis, record.scheduled_at) != (nemesis, start_ns):
            planned = f"plans it as {nemesis} at {start_ns / 1e9:g} s" if nemesis else "has none"
            wrong.append(
                f"the record of {record.fault_id} is of {record.nemesis} at "
                f"{record.scheduled_at / 1e9:g} s, {CONTROL} {planned}"
            )


class OfNodes(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of `RunFacts`, as they are where nobody has nodes to ask.

    Clocks, logs, processes, members and states of replicas: of nodes that were simulated nothing of
    that was to be asked.
    """

    clocks: list[ClockFact] = msgspec.field(default_factory=list)
    logs: LogFacts = msgspec.field(default_factory=LogFacts)
    processes: ProcessFacts | None = None
    members_at: dict[str, list[str]] | None = None
    replicas: dict[str, str | None] | None = None


def of_nodes(run: RunDir, system: Any, meta: RunMeta, folded: Folded) -> OfNodes:
    """By run.json, the journal, and the files that were fetched. What the system offers, and the
    run did not come to record, is there and empty: it counts against the run."""
    kind = deployment_of(system)
    seen = meta.processes
    processes = None if seen is None else msgspec.convert(seen, ProcessFacts)
    if processes is not None and not processes.offered and implements(kind, Processes):
        processes = None
    # A run that died did not come to write run.json again.
    journaled = {k: v for note in folded.notes for k, v in note.get("members_at", {}).items()}
    members_at = journaled if implements(kind, Membership) else None
    replicas: dict[str, str | None] | None = {} if implements(kind, Replicas) else None
    return OfNodes(
        clocks=_clocks(meta),
        logs=scan_logs(run, system, _logs_of(system, meta), meta, processes),
        processes=processes,
        members_at=members_at if meta.members_at is None else meta.members_at,
        replicas=replicas if meta.replicas is None else meta.replicas,
    )


def _clocks(meta: RunMeta) -> list[ClockFact]:
    """Wall against monotonic clock of this host and of every node, where both ends were taken."""
    own = (meta.clock.host, meta.clock_start_ns, meta.clock_end_ns)
    start, end = meta.node_clocks_start_ns or {}, meta.node_clocks_end_ns or {}
    return [
        ClockFact(host=host, wall_minus_mono_start_ns=before, wall_minus_mono_end_ns=after)
        for host, before, after in (own, *((n, start[n], end.get(n)) for n in start))
        if before is not None and after is not None
    ]


def _logs_of(system: Any, meta: RunMeta) -> dict[str, list[str]]:
    """The logs of each member, without what it writes down of its effects, its protocol and its
    spans, which are no logs."""
    beside = system.journals.names
    every = log_names(system, meta)
    return {m: [name for name in names if name not in beside] for m, names in every.items()}


def server_effects(run: RunDir, system: Any, meta: RunMeta, history: History) -> CheckResult | None:
    """The violation that the servers' word shows, None where there is none or no such word.

    audit-NODE.jsonl   node, seq, index, term, op_type, key, input, result, request, again, ...
    effects.json       what joining and replaying came to
    """
    log = system.journals.effects
    if log is None:
        return None
    members = list(meta.members or meta.nodes)
    effects = effects_of(run.nodes, members, log)
    if effects is None:
        return None
    for member in effects.by_node:
        lines = []
        path = run.nodes / member / log.file
        for seq, line in enumerate(path.read_bytes().split(b"\n")[:-1]):
            try:
                index, effect = log.effect_of(msgspec.json.decode(line))
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
                continue
            if effect is not None:
                row = {"node": member, "seq": seq, **msgspec.structs.asdict(effect)}
                lines.append(msgspec.json.encode({**row, "index": index}))
        run.write(f"audit-{member}.jsonl", b"".join(line + b"\n" for line in lines))
    answer = judge_effects(history, effects, log)
    run.write_json("effects.json", answer.plain)
    return answer.violation


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
        windows=windows_of(folded.records, meta.recoveries or ()),
        counters=counters,
        options=spec.options,
    )
    history = History(header=header, ops=folded.ops)
    _write(run, meta, history)
    lines = b"".join(msgspec.json.encode(record) + b"\n" for record in folded.records)
    run.write("faults.jsonl", lines)
    return history, folded


def _write(run: RunDir, meta: RunMeta, history: History) -> None:
    """A history that another version has written stays to the letter: by its digest the run is
    known to others."""
    if meta.made_by(__version__) or not run.history.is_file():
        write_history(run.history, history)
        return
    made = run.history.with_suffix(".new")
    write_history(made, history)
    if says_no_more(run.history.read_bytes(), made.read_bytes()):
        made.unlink()
    else:
        made.replace(run.history)


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
        results = [bounded_answer(checker, history, models[names[0]], Budget())]
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
        check = partial(ask_checker, checker, model=model, budget=Budget(), looks=False)
        tried = canaries(checker, model, history, seed, check)
        details += tried.details
        undistinguished += tried.undistinguished
    killed = sum(1 for row in details if row["valid"] is False)
    return Canary(
        killed=killed, total=len(details), details=details, undistinguished=undistinguished
    )


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


class _NoCrash(Checker):
    """What the ends of servers would say of themselves, were a checker to find them."""

    breaks = NO_CRASH_BREAKS


def _nemeses_of(records: Sequence[LandingRecord]) -> dict[str, Nemesis]:
    """Those of these records, by name."""
    return {r.nemesis: registry.known("nemeses", r.nemesis) for r in records}


def _plugins_of(facts: RunFacts) -> tuple[dict[str, Checker], dict[str, Nemesis]]:
    """The checkers and the nemeses of a run, by name."""
    known = {name: registry.load("checkers", name) for name in facts.results}
    known[NO_CRASH] = _NoCrash()
    return known, _nemeses_of(facts.records)


def _promised(
    facts: RunFacts,
    header: Header,
    model: str | None,
    probes: Mapping[str, BlameProbe],
    symptom: Symptom,
) -> list[str]:
    """The weaker models that the system documents for these options and that may explain the
    violation, unless it broke them too."""
    probe = probes.get(RELAXED)
    if header.system is None or (probe is not None and probe.fired is False):
        return []
    if symptom.checker == NO_CRASH or not NOT_BY_MODEL.isdisjoint(symptom.claims):
        return []
    rows = registry.load("systems", header.system).relaxations
    return [row.model for row in weaker_promises(rows, facts.options, model)]


def _failures(meta: RunMeta) -> list[str]:
    """Of a simulation; one that died did not come to say."""
    return ["what failed in it was not recorded"] if meta.failures is None else meta.failures


def _known(time_ns: int | msgspec.UnsetType | None) -> int | None:
    return None if time_ns is msgspec.UNSET else time_ns


def _run_facts(
    run: RunDir, meta: RunMeta, history: History, folded: Folded, canary: Canary | None
) -> RunFacts:
    spec = msgspec.convert(meta.spec, RunSpec)
    system = system_of(spec.system, attach=spec.attach)
    workload = registry.load("workloads", spec.workload)
    claims = claims_of(workload, [registry.load("checkers", name) for name in meta.checkers])
    path = path_of(spec, meta, folded)
    told = OfNodes() if path.simulated else of_nodes(run, system, meta, folded)
    records: list[LandingRecord] = folded.records
    load_end_ns = _known(meta.load_end_ns)
    nemeses = _nemeses_of(records)
    agreed = reconcile(folded, meta)
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
        conflict_errors=system.conflict_errors,
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
        members_most=system.members_most,
        node_counts_run=[spec.nodes],
        built_in=[found] if (found := server_effects(run, system, meta, history)) else [],
        tier_wanted=meta.tier_wanted or "smoke",
        transport=path.transport,
        failures=_failures(meta) if path.simulated else None,
    )


class Judgement(NamedTuple):
    """A verdict and what the report shows beside it."""

    verdict: Verdict
    history: History
    records: list[LandingRecord]
    meta: RunMeta


def assess(run: RunDir, canary: Canary | None = None) -> Judgement:
    """Seal and judge a run directory, but for its report and its status. Never passes silently.
    `canary` is what came of broken copies of it before, where they are not made again.

    What the run recorded about itself is `run.json`; what is missing there counts against it.
    """
    meta = run.read_meta()
    if meta is None:
        raise EvidenceError(f"{run.path} has no run.json", remedy="nothing was recorded in it")
    registry.check_digests(meta.plugin_files or {}, run.path / PLUGINS)
    history, folded = seal(run, meta)
    run_facts = _run_facts(run, meta, history, folded, canary)
    workload = registry.load("workloads", history.header.workload or "")
    context = lint_context(run_facts, workload.op_types)
    history_lint = lint(history, read_raw(run.history), context)
    crash = no_crash(run_facts)
    built_in = [*([crash] if crash else []), *run_facts.built_in]
    results = {**run_facts.results, **{result.checker: result for result in built_in}}
    probes = offline_probes(run, run_facts, history_lint, results, meta.model)
    symptom = symptom_of(run_facts, results.values(), *_plugins_of(run_facts))
    if symptom is not None:
        weaker = _promised(run_facts, history.header, meta.model, probes, symptom)
        symptom = msgspec.structs.replace(symptom, documented=weaker)
    evidence = msgspec.structs.replace(
        build_evidence(run_facts, history_lint), probes=probes, symptom=symptom
    )
    checkers = {n: msgspec.to_builtins(r) for n, r in results.items()}
    verdict = decide(evidence, checkers)
    verdict = msgspec.structs.replace(
        verdict, blame=blame(evidence), bug=classify(evidence), canary=run_facts.canary
    )
    write_verdict(run, verdict)
    return Judgement(verdict, history, folded.records, meta)


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


def _report(run: RunDir, judged: Judgement) -> RunReport:
    """Report, findings, plots and JUnit; heavy imports stay here."""
    from dstest.report.write import write_reports

    return write_reports(
        Path(run.path),
        judged.verdict,
        judged.records,
        judged.history,
        judged.meta,
    )
