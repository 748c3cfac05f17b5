"""Findings that resemble one another: what they have in common, and how much that is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from dstest.core.fingerprint import parts_of
from dstest.kb.records import Finding

_WEIGHTS: Final = {"anomaly": 4, "checker": 2, "keys": 1, "model": 1, "system": 3, "faults": 2}
"""What two findings may have in common. The kind of anomaly says most, then the system."""

_LEAST: Final = 0.5


class Alike(msgspec.Struct, frozen=True, kw_only=True):
    """Another finding. `score` is the share, from 0 to 1, of what could be in common that is;
    `common` names it."""

    finding: Finding
    score: float
    common: tuple[str, ...]


def alike(
    system: str, fingerprint: str, nemesis: str, others: Iterable[Finding], top: int
) -> list[Alike]:
    """At most `top` findings other than this one, the most alike first."""
    mine = _traits(system, fingerprint, {nemesis})
    found = []
    for other in others:
        if (other.system, other.fingerprint) == (system, fingerprint):
            continue
        nemeses = {one.nemesis for one in other.sightings}
        theirs = _traits(other.system, other.fingerprint, nemeses)
        common = tuple(name for name in _WEIGHTS if mine[name] & theirs[name])
        score = sum(_WEIGHTS[name] for name in common) / sum(_WEIGHTS.values())
        if score >= _LEAST:
            found.append(Alike(finding=other, score=score, common=common))
    return sorted(found, key=lambda one: (-one.score, one.finding.id))[:top]


def _traits(system: str, fingerprint: str, nemeses: Iterable[str]) -> dict[str, set[str]]:
    checker, kind, key, model = parts_of(fingerprint)
    faults = {word for name in nemeses for word in name.split(",")} - {"none", ""}
    return {
        "anomaly": {kind},
        "checker": {checker},
        "keys": {key} - {"*"},
        "model": {model} - {"*"},
        "system": {system},
        "faults": faults,
    }
