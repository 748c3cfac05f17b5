"""A run debugged in four steps: observe, hypothesise, test, verify. Source: discipline 7.2."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from dstest.core.errors import Exit
from dstest.core.op import Outcome
from dstest.patterns.catalogue import PATTERNS
from dstest.patterns.checklists import Box, filled
from dstest.patterns.look import looked_for
from dstest.patterns.model import Answer
from dstest.patterns.rank import Hypothesis, ranked
from dstest.patterns.scene import Scene
from dstest.patterns.settings import Settings
from dstest.patterns.steps import next_measures, tests_of, verifications_of


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of one node; one that is not declared stands for operations that nobody
    answered."""

    node: str
    declared: bool
    lines: int
    operations: int
    served: int
    unknown: int
    faults: list[str]


class Debugged(msgspec.Struct, kw_only=True):
    """`begin_ns` and `end_ns` are what was looked at, in run time. `unclaimed` is what checkers
    found that no pattern speaks of. `tests` and `verifications` are by pattern (what, command)."""

    path: str
    system: str
    workload: str
    verdict: str
    begin_ns: int
    end_ns: int
    nodes: list[Node]
    faults: list[dict[str, Any]]
    findings: list[str]
    hypotheses: list[Hypothesis]
    answers: list[Answer]
    unclaimed: list[str]
    tests: dict[str, list[tuple[str, str]]]
    verifications: dict[str, list[tuple[str, str]]]
    checklists: dict[str, list[Box]]
    measures: list[str]
    notes: list[str]
    thresholds: Settings
    similar: list[str] = []

    @property
    def alarms(self) -> list[Hypothesis]:
        """Hypotheses that speak against the system."""
        return [one for one in self.hypotheses if one.alarm]

    @property
    def code(self) -> Exit:
        """1: something high or critical that nothing explains; 3: nothing could be looked for."""
        if self.alarms:
            return Exit.FAIL
        return Exit.PASS if any(one.operations for one in self.nodes) else Exit.NOT_PROVEN


def debugged(path: Path, settings: Settings | None = None) -> Debugged:
    """Of a sealed run. Raises ConfigError, EvidenceError and HistoryError."""
    scene = Scene(path, settings)
    answers = looked_for(scene)
    found = ranked(answers, PATTERNS)
    by = {pattern.id: pattern for pattern in PATTERNS}
    return Debugged(
        path=str(path),
        system=scene.of.system,
        workload=scene.header.workload or "",
        verdict=str(scene.verdict.get("verdict", "")) or "not judged",
        begin_ns=min((op.invoke_ts for op in scene.ops), default=0),
        end_ns=max((op.complete_ts or op.invoke_ts for op in scene.ops), default=0),
        nodes=_nodes(scene),
        faults=_faults(scene),
        findings=[f"{one.checker}: {one.kind}, {one.count:,} times" for one in scene.findings],
        hypotheses=found,
        answers=answers,
        unclaimed=_unclaimed(scene, answers),
        tests={one.pattern: tests_of(scene, by[one.pattern], one) for one in found},
        verifications={one.pattern: verifications_of(scene, one) for one in found},
        checklists=filled(scene, answers),
        measures=next_measures(answers, by),
        notes=_notes(scene),
        thresholds=scene.settings,
    )


def _nodes(scene: Scene) -> list[Node]:
    asked, served, unknown = Counter[str](), Counter[str](), Counter[str]()
    for op in scene.ops:
        node = op.node_seen or ""
        asked[node] += 1
        served[node] += scene.served(op)
        unknown[node] += op.outcome is Outcome.UNKNOWN
    names = [*scene.nodes, *(["nobody known"] if asked[""] else [])]
    return [
        Node(
            node=name,
            declared=name in scene.nodes,
            lines=scene.noted.lines.get(name, 0),
            operations=asked[name if name in scene.nodes else ""],
            served=served[name if name in scene.nodes else ""],
            unknown=unknown[name if name in scene.nodes else ""],
            faults=[w.id for w in scene.faults if name in w.nodes],
        )
        for name in names
    ]


def _faults(scene: Scene) -> list[dict[str, Any]]:
    return [
        {
            "id": record.fault_id,
            "nemesis": record.nemesis,
            "targets": [str(one) for one in record.targets],
            "landed": record.landed,
            "injected_ns": record.injected_at,
            "landed_ns": record.landed_at,
            "healed_ns": record.healed_at,
            "heal_verified": record.heal_verified,
        }
        for record in scene.records
    ]


def _unclaimed(scene: Scene, answers: list[Answer]) -> list[str]:
    """Kinds of anomalies that stand in no detection."""
    claimed = {kind for a in answers for one in a.detections for kind in one.kinds}
    return [f"{one.checker}: {one.kind}" for one in scene.findings if one.kind not in claimed]


def _notes(scene: Scene) -> list[str]:
    """What was there and is not whole."""
    journal = scene.journal
    notes = [] if isinstance(journal, str) else [f"journal: {one}" for one in journal.lost]
    notes += [one for one in scene.gaps() if f"journal: {one}" not in notes]
    if scene.series_lost:
        notes.append(f"samples: {scene.series_lost}")
    if scene.noted.lost:
        notes.append(f"{scene.noted.lost:,} lines beyond what is remembered of logs")
    return notes
