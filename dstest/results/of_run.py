"""A run's `RunFacts`, out of its report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import UNSET

from dstest.core.check import CheckResult
from dstest.core.printable import printable
from dstest.core.run_meta import RunMeta
from dstest.core.words import quoted
from dstest.judge.fingerprint import all_fingerprints, fingerprint_of
from dstest.report.meanings import meaning_of
from dstest.report.model import FaultView, RunReport
from dstest.report.moments import Moment, headline, moments
from dstest.results.model import FaultSpan, RunFacts, Violation

_LINES_MAX: Final = 20
"""Of a witness that are named."""


def _line_numbers(report: RunReport, found: list[Moment]) -> dict[int | str, int]:
    """Lines of history.jsonl by op_id: a header, then an operation each."""
    wanted = {op.op_id for moment in found for op in moment.ops}
    return {op.op_id: at for at, op in enumerate(report.history.ops, 2) if op.op_id in wanted}


def _shown(moment: Moment, lines: dict[int | str, int]) -> tuple[int, ...]:
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
        lines=_shown(moment, lines),
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


def _counted(report: RunReport) -> Iterator[tuple[str, str, int]]:
    for name, result in report.results.items():
        if result.valid is False:
            counts = dict.fromkeys(sorted(result.kinds), 1) | result.counted
            yield from ((name, kind, count) for kind, count in counts.items())


def _all(counted: Sequence[tuple[str, str, int]], found: Sequence[Moment]) -> int:
    """Of all kinds, each as often as the checker found it that found most; a kind whose every
    witness repeats one of another kind is that one."""
    told = {m.anomaly.type for m in found}
    repeated = told - {m.anomaly.type for m in found if m.twin_of is None}
    most: dict[str, int] = {}
    for _, kind, count in counted:
        if kind not in repeated:
            most[kind] = max(most.get(kind, 0), count)
    return sum(most.values())


def _fault(view: FaultView, landed_ns: int | None) -> FaultSpan:
    return FaultSpan(
        id=view.id,
        nemesis=view.nemesis,
        kind=view.kind,
        targets=view.targets,
        landed=view.landed,
        heal_verified=view.heal_verified,
        start_ns=view.start_ns,
        landed_ns=landed_ns,
        end_ns=view.end_ns,
    )


def _origin_ns(meta: RunMeta) -> int | None:
    """When run time was 0, on the wall clock."""
    if meta.clock_start_ns is None or meta.origin_ns is None:
        return None
    return meta.clock_start_ns + meta.origin_ns


def _text(value: Any) -> str:
    return "" if value is None else printable(str(value))


def facts_of(report: RunReport) -> RunFacts:
    """All of a run that a format may want, without its history."""
    header, meta, evidence = report.history.header, report.meta, report.evidence
    found = moments(report, [])
    said, exactly = headline(report, found)
    lines = _line_numbers(report, found)
    landed_at = {record.fault_id: record.landed_at for record in report.records}
    violations = [_violation(one, report.results[one.checker], lines) for one in found]
    counted = tuple(_counted(report))
    load_end = meta.load_end_ns
    return RunFacts(
        run=printable(report.run),
        system=_text(header.system),
        system_version=_text(header.system_version),
        workload=_text(header.workload),
        nemesis=_text(meta.spec.get("nemesis")),
        seed=header.seed,
        nodes=len(header.nodes),
        model=meta.model,
        dstest=_text(meta.host and meta.host.dstest),
        tier_met=evidence.budget.met,
        tier_wanted=meta.tier_wanted or "",
        rule=report.verdict.rule,
        command=report.command,
        headline=printable(said),
        exactly=printable(exactly),
        why_not_better=tuple(map(printable, report.verdict.why_not_better)),
        fingerprints=tuple(all_fingerprints(report.verdict)),
        faults_planned=evidence.faults_planned,
        faults_landed=report.landed,
        load_s=report.load_s,
        origin_ns=_origin_ns(meta),
        started=meta.started or "",
        end_ns=max(
            (max(op.invoke_ts, op.complete_ts or 0) for op in report.history.ops), default=0
        ),
        load_end_ns=None if load_end is UNSET else load_end,
        types=tuple(report.types),
        faults=tuple(_fault(view, landed_at.get(view.id)) for view in report.faults),
        violations=(*violations, *_without_witness(report)),
        counted=counted,
        anomalies=_all(counted, found),
        steps=tuple(printable(step.command) for step in report.steps()),
        settled=tuple((one.healed_ns, one.settled_ns) for one in meta.recoveries or ()),
    )
