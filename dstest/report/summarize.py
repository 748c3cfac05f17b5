"""A run at a glance, out of its report: `RunSummary`, for programs and for pages of many runs, and
the sentence that a page begins with: what the database did wrong.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import UNSET

from checkers.slo import measure_all
from dstest.core.check import Anomaly, CheckResult
from dstest.core.evidence import Symptom
from dstest.core.history import History
from dstest.core.op import Op
from dstest.core.run_record import RunMeta
from dstest.core.summary import Figures, KindCount, RunSummary, Tested, Violation
from dstest.core.verdict import Brief, Verdict
from dstest.core.words import printable, quoted
from dstest.judge.symptom import UNCLASSIFIED, all_fingerprints, fingerprint_of
from dstest.judge.words import spelled
from dstest.report.meanings import culprit_of, meaning_of, stuck_of
from dstest.report.model import RunReport, load_brief, load_report
from dstest.report.moments import Moment, headline, in_a_line, moments, rank, whole
from dstest.report.places import read_wrongly

FIGURES: Final = ("ok_per_s", "p50_ms", "p99_ms", "ok_ratio", "unknown_ratio", "gap_s")
"""Metrics of the checker of service levels that every run is measured by."""

_LINES_MAX: Final = 20
"""Of a witness that are named."""


def headline_of(report: RunReport) -> str:
    """As report.html has it: what the database did wrong, or the reason of the verdict."""
    said = headline(report, moments(report, ()))[0]
    return said or spelled(report.verdict.reason)


def headline_of_result(result: CheckResult, system: str, ops: Callable[[], Sequence[Op]]) -> str:
    """Of a checker's answer about a history by itself, empty where it names no anomaly. `ops` gives
    all operations of the history, and is called only where they say more than the anomaly does."""
    found = [one for group in result.anomalies.values() for one in group]
    if result.valid is not False or not found:
        return ""
    first = min(found, key=lambda one: rank(result.checker, one))
    did = _read(first, ops) or meaning_of(result.checker, first.type).did
    return in_a_line(system, did, first.key)


def _read(anomaly: Anomaly, ops: Callable[[], Sequence[Op]]) -> str:
    """How a read that fits no order was wrong; empty where it is none, or nothing tells."""
    if stuck_of(anomaly) is None:
        return ""
    every = ops()
    wanted = set(anomaly.ops)
    witness = [op for op in every if op.op_id in wanted]
    named = culprit_of(anomaly, witness)
    culprit = next((op for op in witness if op.op_id == named), None)
    return "" if culprit is None else read_wrongly(culprit, every)


def _line_numbers(report: RunReport, found: list[Moment]) -> dict[int | str, int]:
    """Lines of history.jsonl by op_id: a header, then an operation each."""
    wanted = {op.op_id for moment in found for op in moment.ops}
    return {op.op_id: at for at, op in enumerate(report.history.ops, 2) if op.op_id in wanted}


def _witness_lines(moment: Moment, lines: dict[int | str, int]) -> tuple[int, ...]:
    first = [moment.culprit] if moment.culprit in lines else []
    ids = dict.fromkeys([*first, *(op.op_id for op in moment.ops)])
    return tuple(lines[id_] for id_ in ids if id_ in lines)[:_LINES_MAX]


def _violation(moment: Moment, result: CheckResult, lines: dict[int | str, int]) -> Violation:
    anomaly = moment.anomaly
    return Violation(
        checker=moment.checker,
        type=anomaly.type,
        key="" if anomaly.key is None else quoted(anomaly.key),
        explanation=printable(anomaly.explanation),
        did=moment.meaning.did,
        means=moment.meaning.means,
        where=moment.where,
        fingerprint=fingerprint_of(result, anomaly.type),
        start_ns=moment.start_ns,
        told_ns=moment.told_ns,
        lines=_witness_lines(moment, lines),
    )


def _without_witness(report: RunReport) -> Iterator[Violation]:
    """Kinds of anomalies that a checker only names, and violations that it has no name for."""
    for name, result in report.results.items():
        if result.valid is not False:
            continue
        told = {kind for kind, group in result.anomalies.items() if group}
        for kind in sorted(result.kinds - told):
            meaning = meaning_of(name, kind)
            yield Violation(
                checker=name,
                type=kind,
                key="",
                explanation=printable(result.reason or "no operation is named for it"),
                did=meaning.did,
                means=meaning.means,
                where="",
                fingerprint=fingerprint_of(result, kind),
            )


def _counted(results: Mapping[str, CheckResult]) -> Iterator[KindCount]:
    for name, result in results.items():
        if result.valid is False:
            spreads = result.spreads or {}
            for kind, count in (dict.fromkeys(sorted(result.kinds), 1) | result.counted).items():
                yield KindCount(checker=name, kind=kind, count=count, spread=spreads.get(kind))


def _all(counted: Sequence[KindCount], found: Sequence[Moment]) -> int:
    """Of all kinds, each as often as the checker found it that found most; a kind whose every
    witness repeats one of another kind is that one."""
    told = {m.anomaly.type for m in found}
    repeated = told - {m.anomaly.type for m in found if m.twin_of is None}
    most: dict[str, int] = {}
    for one in counted:
        if one.kind not in repeated:
            most[one.kind] = max(most.get(one.kind, 0), one.count)
    return sum(most.values())


def test_of(meta: RunMeta) -> Tested:
    """What a run tested. The builds under test and the seed make no other test of it."""
    spec = meta.spec
    same = {k: v for k, v in spec.items() if k not in ("seed", "builds", "files", "lab")}
    if not same.get("attach"):
        same.pop("attach", None)  # as of runs that are older than the word
    plain = msgspec.json.encode([same, sorted((meta.plugin_files or {}).values())], order="sorted")
    return Tested(
        id=hashlib.sha256(plain).hexdigest()[:12],
        system=_text(spec.get("system")),
        version=_text(meta.system_version),
        workload=_text(spec.get("workload")),
        nemesis=_text(spec.get("nemesis")),
        model=meta.model,
        nodes=len(meta.members or meta.nodes),
        seed=spec.get("seed"),
        settings=tuple(meta.options_given or ()),
    )


def figures_of(history: History, *, stopped: bool) -> Figures:
    """How it served. `stopped`: its load was ended before its time on purpose."""
    found = measure_all(history, FIGURES, stopped=stopped)
    whys = {name: value for name, value in found.items() if isinstance(value, str)}
    values = {name: value for name, value in found.items() if not isinstance(value, str)}
    finite: dict[str, Any] = {name: value for name, value in values.items() if isfinite(value)}
    return Figures(
        whys=whys,
        why="" if values else next(iter(whys.values())),
        unbounded=tuple(name for name in values if name not in finite),
        **finite,
    )


def _bug(verdict: Verdict) -> str:
    """`partition under partition`, `ordering under none`, `unclassified under kill, pause`."""
    found, symptom = verdict.bug, verdict.evidence.symptom
    if found is None or symptom is None:
        return ""
    faults = sorted({fault.nemesis for fault in symptom.faults}) or ["none"]
    type_ = "unclassified" if found.type.startswith(UNCLASSIFIED) else found.type
    return f"{type_} under {', '.join(faults)}"


def _origin_ns(meta: RunMeta) -> int | None:
    """When run time was 0, on the wall clock."""
    if meta.clock_start_ns is None or meta.origin_ns is None:
        return None
    return meta.clock_start_ns + meta.origin_ns


def _text(value: Any) -> str:
    return "" if value is None else printable(str(value))


def summary_of(report: RunReport) -> RunSummary:
    """All of a run that a list, a page or a format may want, without its history."""
    found = moments(report, [])
    said, exactly = headline(report, found)
    lines = _line_numbers(report, found)
    violations = [_violation(one, report.results[one.checker], lines) for one in found]
    made = without_history(report.run, report.meta, report.verdict, report.results)
    ends = (max(op.invoke_ts, op.complete_ts or 0) for op in report.history.ops)
    return msgspec.structs.replace(
        made,
        counted=tuple(_placed(report, one, found) for one in made.counted),
        command=report.command,
        headline=printable(said),
        exactly=printable(exactly),
        faults=tuple(report.windows),
        load_s=report.load_s,
        end_ns=max(ends, default=0),
        types=tuple(report.types),
        figures=figures_of(report.history, stopped=bool(report.meta.stopped_by)),
        anomalies=_all(made.counted, found),
        violations=(*violations, *_without_witness(report)),
    )


def _placed(report: RunReport, one: KindCount, found: Sequence[Moment]) -> KindCount:
    """With when and where they fell, also of a checker that does not say it."""
    group = [m for m in found if (m.checker, m.anomaly.type) == (one.checker, one.kind)]
    spread = whole(report.results[one.checker], one.kind, group, report.windows).spread
    return msgspec.structs.replace(one, spread=spread)


def stored_summary(run: str, meta: RunMeta, verdict: Verdict) -> RunSummary:
    """What was kept with a verdict; where that is of an older version, `without_history`."""
    if verdict.summary is not UNSET:
        return verdict.summary
    results = msgspec.convert(verdict.checkers, dict[str, CheckResult])
    return without_history(run, meta, verdict, results)


def without_history(
    run: str, meta: RunMeta, verdict: Verdict, results: Mapping[str, CheckResult]
) -> RunSummary:
    """What run.json and verdict.json alone tell of a run; all that takes its history is empty."""
    evidence = verdict.evidence
    counted = tuple(_counted(results))
    test = test_of(meta)
    said = (headline_of_result(one, test.versioned, tuple) for one in results.values())
    return RunSummary(
        run=printable(run),
        dstest=_text(meta.host and meta.host.dstest),
        started=meta.started or "",
        origin_ns=_origin_ns(meta),
        test=test,
        command="",
        lab=_text(meta.lab or meta.spec.get("lab")),
        transport=evidence.transport,
        tier_met=evidence.budget.met,
        tier_wanted=meta.tier_wanted or "",
        ended_by=printable(meta.ended_by) if isinstance(meta.ended_by, str) else "",
        headline=next(filter(None, said), "") if verdict.verdict.failed else "",
        exactly="",
        bug=_bug(verdict),
        found_s=_found_s(evidence.symptom) if counted else None,
        fingerprints=_fingerprints(verdict),
        faults_planned=evidence.faults_planned,
        faults_landed=sum(fault.landed == "yes" for fault in evidence.faults),
        faults=(),
        recoveries=tuple(meta.recoveries or ()),
        load_s=meta.load_s or 0.0,
        end_ns=0,
        load_end_ns=meta.load_end_ns if isinstance(meta.load_end_ns, int) else None,
        operations=evidence.checker.ops_judged,
        types=(),
        figures=Figures(why="it was not measured when it was judged"),
        counted=counted,
        anomalies=sum(one.count for one in counted),
        violations=(),
    )


def _found_s(symptom: Symptom | None) -> float | None:
    """Seconds of load until the first violation was complete; None where no operation shows it."""
    return None if symptom is None or symptom.end_ns is None else symptom.end_ns / 1e9


def _fingerprints(verdict: Verdict) -> tuple[str, ...]:
    first = verdict.evidence.violation_fingerprint
    return tuple(sorted({*all_fingerprints(verdict), *([first] if first else [])}))


def brief_of(path: Path) -> tuple[Brief, RunSummary]:
    """What verdict.json of a judged run says at a glance; what older versions did not keep is made
    of its files. Raises ConfigError where it was never judged."""
    brief = load_brief(path)
    kept = brief.summary
    return brief, summary_of(load_report(path)) if kept is UNSET else kept
