"""What kind of bug a violation shows, and how bad it is: from fault, timing and symptom alone.

Types are those of Leesatapornwongsa et al., "TaxDC" (ASPLOS 2016); the way from what is known to a
type, tags and a severity is discipline 3.2. What is not known is called unclassified, with why.
"""

from __future__ import annotations

from typing import Final

from dstest.core.claims import GATED
from dstest.core.evidence import Evidence, Symptom
from dstest.core.verdict import Bug

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

SEVERITIES: Final = {
    "P0": "data are lost or wrong, or another promise of safety is broken",
    "P1": "members did not serve in the end",
    "P2": "users see it, and all members served again",
}
"""What each weight says; the first that fits."""

_P0: Final = GATED | {"boundary"}
_P1: Final = frozenset({"liveness", "operational"})


def classify(evidence: Evidence) -> Bug | None:
    """Type, tags and severity of the violation; None where there is none, or none of which more is
    known than that it is one."""
    symptom = evidence.symptom
    if symptom is None:
        return None
    type_, why = _type(symptom)
    severity, weight = _severity(symptom)
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


def _severity(s: Symptom) -> tuple[str, list[str]]:
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
