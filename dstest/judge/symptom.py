"""How a violation showed: its time, its nodes, the faults near it. Facts, without conclusions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from dstest.core.check import Anomaly, CheckResult
from dstest.core.evidence import LandingRecord, NearFault, Symptom
from dstest.core.history import History
from dstest.core.op import Op
from dstest.core.protocols import CheckerTraits, NemesisTraits
from dstest.judge._audit_logs import unexplained_alarms
from dstest.judge.facts import SECOND_NS, RunFacts

AFTER_NS: Final = 10 * SECOND_NS
"""So long after its heal a fault may still be what a violation comes from."""

_LEADERS: Final = frozenset({"leader", "primaries"})
"""Values of a fault's facts that say that it was aimed at who leads."""


def first_anomaly(
    results: Iterable[CheckResult], history: History
) -> tuple[CheckResult, Anomaly | None, list[Op]] | None:
    """Of all that was found, what was complete first, with its operations; None where there is
    nothing. What names no operation comes last."""
    bad = [result for result in results if result.valid is False]
    if not bad:
        return None
    named = {op_id for r in bad for rows in r.anomalies.values() for a in rows for op_id in a.ops}
    ops = {op.op_id: op for op in history.ops if op.op_id in named}
    found: list[tuple[int, int, CheckResult, Anomaly, list[Op]]] = []
    for result in bad:
        for rows in result.anomalies.values():
            for anomaly in rows:
                held = [ops[op_id] for op_id in anomaly.ops if op_id in ops]
                if held:
                    found.append((max(map(_last_ns, held)), len(found), result, anomaly, held))
    if found:
        _, _, result, anomaly, held = min(found, key=lambda row: row[:2])
        return result, anomaly, held
    shown = next((a for rows in bad[0].anomalies.values() for a in rows), None)
    return bad[0], shown, []


def _last_ns(op: Op) -> int:
    return op.invoke_ts if op.complete_ts is None else op.complete_ts


def spans_of(ops: Sequence[Op], history: History, timeout_s: float) -> list[tuple[int, int]]:
    """From when to when each operation lasted, one without an end until its timeout. Without any
    operation the whole run is meant."""
    limit_ns = int(timeout_s * SECOND_NS)
    if not ops:
        times = [_last_ns(op) for op in history.ops]
        return [(0, max(times))] if times else []
    return [
        (op.invoke_ts, op.invoke_ts + limit_ns if op.complete_ts is None else op.complete_ts)
        for op in ops
    ]


def symptom_of(
    facts: RunFacts,
    results: Iterable[CheckResult],
    checkers: Mapping[str, CheckerTraits],
    nemeses: Mapping[str, NemesisTraits],
) -> Symptom | None:
    """The symptom of the first violation, None where nothing was violated. Traits are by name."""
    first = first_anomaly(results, facts.history)
    if first is None:
        return None
    result, anomaly, ops = first
    traits = checkers.get(result.checker, CheckerTraits())
    claim = traits.breaks.get(anomaly.type if anomaly else "")
    spans = spans_of(ops, facts.history, facts.op_timeout_s)
    start_ns = min((a for a, _ in spans), default=None) if ops else None
    end_ns = max((b for _, b in spans), default=None) if ops else None
    last_ns = max((b for _, b in spans), default=0)
    return Symptom(
        checker=result.checker,
        claims=[claim] if claim else sorted(traits.claims or facts.claims),
        start_ns=start_ns,
        end_ns=end_ns,
        nodes=sorted({op.node_seen for op in ops if op.node_seen is not None}),
        concurrent=_concurrent(ops, facts.history),
        faults=_near(facts.records, start_ns, last_ns, nemeses),
        alarms=sorted(
            {a.kind for a in unexplained_alarms(facts) if a.ts is not None and a.ts <= last_ns}
        ),
        unhealthy=sorted(name for name, serves in facts.healthy.items() if not serves),
    )


def _near(
    records: Iterable[LandingRecord],
    start_ns: int | None,
    end_ns: int,
    nemeses: Mapping[str, NemesisTraits],
) -> list[NearFault]:
    found, after = stood_by(records, start_ns, end_ns)
    return [_fault(record, nemeses, after=after) for record in found]


def stood_by(
    records: Iterable[LandingRecord], start_ns: int | None, end_ns: int
) -> tuple[list[LandingRecord], bool]:
    """Landed faults that stood in between; where there is none, the last one that was healed
    shortly before, and True."""
    landed = [r for r in records if r.landed == "yes" and r.injected_at is not None]
    began = 0 if start_ns is None else start_ns
    inside = [
        r
        for r in landed
        if (r.injected_at or 0) <= end_ns and (r.healed_at is None or r.healed_at >= began)
    ]
    if inside:
        return inside, False
    healed = [r for r in landed if r.healed_at is not None and 0 < began - r.healed_at <= AFTER_NS]
    last = max(healed, key=lambda r: r.healed_at or 0, default=None)
    return ([], False) if last is None else ([last], True)


def _fault(
    record: LandingRecord, nemeses: Mapping[str, NemesisTraits], *, after: bool
) -> NearFault:
    traits = nemeses.get(record.nemesis, NemesisTraits())
    led = any(isinstance(v, str) and v in _LEADERS for v in record.facts.values())
    tags = {*traits.taxdc_tags, *(["leadership/election"] if led else [])}
    return NearFault(
        id=record.fault_id,
        nemesis=record.nemesis,
        taxdc=traits.taxdc,
        tags=sorted(tags),
        after=after,
    )


def _concurrent(ops: Sequence[Op], history: History) -> bool:
    """Did one of these operations overlap with another of its key, or of none?"""
    keys = {repr(op.key) for op in ops}
    beside = [op for op in history.ops if repr(op.key) in keys]
    return any(
        op.op_id != other.op_id and other.invoke_ts <= _last_ns(op) and op.invoke_ts <= _end(other)
        for op in ops
        for other in beside
    )


def _end(op: Op) -> int:
    return 1 << 62 if op.complete_ts is None else op.complete_ts
