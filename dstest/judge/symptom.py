"""How a violation showed: its time, its nodes, the faults near it; what kind of bug that is and how
bad, from fault, timing and symptom alone; and a name for it that stays the same when it is seen
again.

    linearizable/stale-read/#-#/register

checker, anomaly class, pattern of the key (digits become #), model. Two runs show the same
violation when their fingerprints are equal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from dstest.core.check import GATED, Anomaly, CheckResult
from dstest.core.evidence import Evidence, LandingRecord, NearFault, Symptom
from dstest.core.fingerprint import Parts, joined
from dstest.core.history import History
from dstest.core.op import Op, last_ns
from dstest.core.protocols import Checker, Nemesis
from dstest.core.verdict import Bug, Verdict
from dstest.judge.audit_rows import unexplained_alarms
from dstest.judge.blame import RELAXED
from dstest.judge.facts import SECOND_NS, RunFacts

AFTER_NS: Final = 10 * SECOND_NS
"""So long after its heal a fault may still be what a violation comes from."""

_LEADERS: Final = frozenset({"leader", "primaries"})
"""Values of a fault's facts that say that it was aimed at who leads."""

UNCLASSIFIED: Final = "unclassified: "

_SLO: Final = "performance-SLO"

_ERROR_BRANCHES: Final = frozenset(
    {"assertion", "corruption", "exception", "fatal", "internal", "panic"}
)
"""Kinds of alarms that a server writes where it handles an error, or does not."""

_TAGS: Final = {
    "durability": ("durability", "safety"),
    "idempotency": ("idempotency/dedup", "safety"),
    "liveness": ("liveness",),
    **dict.fromkeys(("safety", "isolation", "ordering", "membership", "boundary"), ("safety",)),
}
"""By broken claim."""

DOCUMENTED: Final = "documented"

SEVERITIES: Final = {
    "P0": "data are lost or wrong, or another promise of safety is broken",
    "P1": "members did not serve in the end",
    "P2": "users see it, and all members served again",
    DOCUMENTED: "the system documents that it promises less with these settings",
}
"""What each weight says; the first that fits."""

NOT_BY_MODEL: Final = frozenset({"durability", "idempotency", "liveness", "operational"})
"""No model that is weaker allows these to be broken."""

_P0: Final = GATED | {"boundary"}
_P1: Final = frozenset({"liveness", "operational"})

_DIGITS = re.compile(r"\d+")


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
                    found.append((max(map(last_ns, held)), len(found), result, anomaly, held))
    if found:
        _, _, result, anomaly, held = min(found, key=lambda row: row[:2])
        return result, anomaly, held
    shown = next((a for rows in bad[0].anomalies.values() for a in rows), None)
    return bad[0], shown, []


def spans_of(ops: Sequence[Op], history: History, timeout_s: float) -> list[tuple[int, int]]:
    """From when to when each operation lasted, one without an end until its timeout. Without any
    operation the whole run is meant."""
    limit_ns = int(timeout_s * SECOND_NS)
    if not ops:
        times = [last_ns(op) for op in history.ops]
        return [(0, max(times))] if times else []
    return [
        (op.invoke_ts, op.invoke_ts + limit_ns if op.complete_ts is None else op.complete_ts)
        for op in ops
    ]


def symptom_of(
    facts: RunFacts,
    results: Iterable[CheckResult],
    checkers: Mapping[str, Checker],
    nemeses: Mapping[str, Nemesis],
) -> Symptom | None:
    """The symptom of the first violation, None where nothing was violated. Plug-ins are by name."""
    first = first_anomaly(results, facts.history)
    if first is None:
        return None
    result, anomaly, ops = first
    checker = checkers.get(result.checker, Checker())
    claim = checker.breaks.get(anomaly.type if anomaly else "")
    spans = spans_of(ops, facts.history, facts.op_timeout_s)
    start_ns = min((a for a, _ in spans), default=None) if ops else None
    end_ns = max((b for _, b in spans), default=None) if ops else None
    to_ns = max((b for _, b in spans), default=0)
    return Symptom(
        checker=result.checker,
        claims=[claim] if claim else sorted(checker.claims or facts.claims),
        start_ns=start_ns,
        end_ns=end_ns,
        nodes=sorted({op.node_seen for op in ops if op.node_seen is not None}),
        concurrent=_concurrent(ops, facts.history),
        faults=_near(facts.records, start_ns, to_ns, nemeses),
        alarms=sorted(
            {a.kind for a in unexplained_alarms(facts) if a.ts is not None and a.ts <= to_ns}
        ),
        unhealthy=sorted(name for name, serves in facts.healthy.items() if not serves),
    )


def _near(
    records: Iterable[LandingRecord],
    start_ns: int | None,
    end_ns: int,
    nemeses: Mapping[str, Nemesis],
) -> list[NearFault]:
    found, after = faults_between(records, start_ns, end_ns)
    return [_fault(record, nemeses, after=after) for record in found]


def faults_between(
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


def _fault(record: LandingRecord, nemeses: Mapping[str, Nemesis], *, after: bool) -> NearFault:
    nemesis = nemeses.get(record.nemesis, Nemesis())
    led = any(isinstance(v, str) and v in _LEADERS for v in record.facts.values())
    tags = {*nemesis.taxdc_tags, *(["leadership/election"] if led else [])}
    return NearFault(
        id=record.fault_id,
        nemesis=record.nemesis,
        taxdc=nemesis.taxdc,
        tags=sorted(tags),
        after=after,
    )


def _concurrent(ops: Sequence[Op], history: History) -> bool:
    """Did one of these operations overlap with another of its key, or of none?"""
    keys = {repr(op.key) for op in ops}
    beside = [op for op in history.ops if repr(op.key) in keys]
    return any(
        op.op_id != other.op_id and other.invoke_ts <= last_ns(op) and op.invoke_ts <= _end(other)
        for op in ops
        for other in beside
    )


def _end(op: Op) -> int:
    return 1 << 62 if op.complete_ts is None else op.complete_ts


def classify(evidence: Evidence) -> Bug | None:
    """Type, tags and severity of the violation; None where there is none, or none of which more is
    known than that it is one.

    Types are those of Leesatapornwongsa et al., "TaxDC" (ASPLOS 2016). What is not known is called
    unclassified, with why.
    """
    symptom = evidence.symptom
    if symptom is None:
        return None
    type_, why = _type(symptom)
    probe = evidence.probes.get(RELAXED)
    severity, weight = _severity(symptom, kept=probe is not None and probe.fired is True)
    tags, told = _tags(symptom)
    return Bug(type=type_, tags=tags, severity=severity, reasons=[*why, *told, *weight])


def _type(s: Symptom) -> tuple[str, list[str]]:
    if s.claims == [_SLO]:
        return "performance", ["What was broken is a bound on performance."]
    branches = [kind for kind in s.alarms if kind in _ERROR_BRANCHES]
    if branches:
        said = f"Before it a server logged what no fault explains ({', '.join(branches)})."
        return "fault-handling", [said, *(_when(s) if s.faults else [])]
    if not s.faults:
        return _without_fault(s)
    kinds = sorted({fault.taxdc for fault in s.faults})
    if kinds == [""]:
        names = ", ".join(sorted({fault.nemesis for fault in s.faults}))
        return f"{UNCLASSIFIED}{names} says of no type of bug that it shows it", _when(s)
    if len(kinds) > 1:
        rows = ", ".join(f"{f.id} {f.nemesis} ({f.taxdc or 'of no type'})" for f in s.faults)
        return f"{UNCLASSIFIED}faults of different types were near: {rows}", _when(s)
    return kinds[0], [*_when(s), f"Such faults show bugs of the type {kinds[0]}."]


def _without_fault(s: Symptom) -> tuple[str, list[str]]:
    if s.start_ns is None:
        return f"{UNCLASSIFIED}no operation is named, so that its time is not known", []
    if s.concurrent:
        return "ordering", ["No landed fault was near, and operations on what it is about overlap."]
    return f"{UNCLASSIFIED}no landed fault was near, and no operations overlapped", []


def _when(s: Symptom) -> list[str]:
    names = " and ".join(f"{fault.id} ({fault.nemesis})" for fault in s.faults)
    if any(fault.after for fault in s.faults):
        return [f"It began after {names} was healed, within ten seconds."]
    whole = "; it names no operations, so the whole run counts" if s.start_ns is None else ""
    return [f"{names} stood while its operations lasted{whole}."]


def _tags(s: Symptom) -> tuple[list[str], list[str]]:
    tags = {tag for claim in s.claims for tag in _TAGS.get(claim, ())}
    why = []
    if len(s.nodes) > 1:
        tags.add("replication")
        why.append(f"The operations were answered by {', '.join(s.nodes)}: replication.")
    for fault in s.faults:
        new = sorted({*fault.tags} - tags)
        if new:
            tags.update(new)
            why.append(f"{fault.id} was about {', '.join(new)}.")
    return sorted(tags), why


def _severity(s: Symptom, *, kept: bool) -> tuple[str, list[str]]:
    """`kept`: the weaker model that the system documents is shown to hold."""
    if s.documented:
        models = " or ".join(s.documented)
        why = f"With these settings the system promises {models} only"
        if kept:
            return DOCUMENTED, [f"{why}, and keeps that."]
        return f"{UNCLASSIFIED}with these settings {models} is promised, which nobody judged", [
            f"{why}; whether it keeps that was not judged."
        ]
    serious = sorted(_P0 & set(s.claims))
    if serious:
        return "P0", [f"What was broken is a claim of {', '.join(serious)}: P0."]
    if s.unhealthy:
        return "P1", [f"{', '.join(s.unhealthy)} did not serve in the end: P1."]
    if set(s.claims) & _P1:
        return "P2", ["All members served again by themselves: P2."]
    if s.claims:
        return "P2", [f"What was broken ({', '.join(s.claims)}) is seen by users: P2."]
    return f"{UNCLASSIFIED}no claim is known that was broken", []


def key_pattern(key: object) -> str:
    """A key with every run of digits replaced by `#`; `*` for no key."""
    return "*" if key is None else _DIGITS.sub("#", str(key))


def violation_fingerprint(result: CheckResult) -> str:
    """Fingerprint of the first anomaly by name. ValueError where there is no violation."""
    if result.valid is not False:
        raise ValueError(f"{result.checker}: no violation to name (valid is {result.valid})")
    kinds = sorted(result.anomaly_types or result.anomalies) or ["violation"]
    return fingerprint_of(result, kinds[0])


def fingerprints_of(result: CheckResult) -> set[str]:
    """Fingerprints of all kinds of anomalies that it found; none where there is no violation.

    A run may show a violation beside others that come first by name.
    """
    return {fingerprint_of(result, kind) for kind in result.kinds}


def all_fingerprints(verdict: Verdict) -> list[str]:
    """Of all violations that the checkers of a verdict found, in order."""
    results = msgspec.convert(verdict.checkers, dict[str, CheckResult])
    return sorted(name for result in results.values() for name in fingerprints_of(result))


def fingerprint_of(result: CheckResult, kind: str) -> str:
    """Fingerprint of one kind of anomaly that it found."""
    shown = result.anomalies.get(kind, [])
    key = key_pattern(shown[0].key) if shown else "*"
    return joined(Parts(result.checker, kind, key, result.model or result.workload or "*"))
