"""Signs that rest on what checkers, log checks and servers' own lines have found: the strongest
evidence that a run has.

Kinds of anomalies are a vocabulary (`report/static/anomalies.toml`). A kind *means* a pattern where
it is that pattern by definition, and *may* be of one where others show so as well.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from msgspec import UNSET

from dstest.core.check import Anomaly
from dstest.core.op import Op, Outcome
from dstest.debug.logs.scene import NO_TIME, Finding, Severity
from dstest.debug.patterns.journal import Claim, MemberMessage, Replica, Step, replicas
from dstest.debug.patterns.model import (
    EVERY,
    JUDGED,
    ROWS_MAX,
    EvidenceRow,
    Match,
    Need,
    Sign,
    Strength,
    evidence_row,
)
from dstest.debug.patterns.scene import CheckerFinding, Scene, writes

_ENDINGS: Final = ("-realtime", "-process", "-item", "-exact")
_TIMELESS: Final = "the lines have no time, and faults were done: one of them may explain it"


def base_of(kind: str) -> str:
    """`G-single` of `G-single-item-realtime`."""
    while (end := next((e for e in _ENDINGS if kind.endswith(e)), None)) is not None:
        kind = kind.removesuffix(end)
    return kind


def nodes_of(anomaly: Anomaly) -> list[str]:
    """Who answered the operations of its witness."""
    return sorted({str(op["node_seen"]) for op in anomaly.witness if op.get("node_seen")})


def when(anomaly: Anomaly) -> int | None:
    """When the answer that gives it away began; else the last operation of it."""
    culprit = None if anomaly.culprit is UNSET else anomaly.culprit
    ops = [op for op in anomaly.witness if isinstance(op.get("invoke_ts"), int)]
    picked: list[dict[str, Any]] = [op for op in ops if op.get("op_id") == culprit] or ops
    return max((int(op["invoke_ts"]) for op in picked), default=None)


def acknowledged_write(scene: Scene, anomaly: Anomaly) -> Op | None:
    """The first write of its witness that was acknowledged, which is what was lost."""
    ops = [scene.by_id[one] for one in anomaly.ops if one in scene.by_id]
    acked = [op for op in ops if op.outcome is Outcome.OK and writes(op)]
    return min(acked, key=lambda op: op.complete_ts or op.invoke_ts, default=None)


def _row(scene: Scene, one: Anomaly, checker: str) -> EvidenceRow:
    on = "" if one.key is None else f" on key {one.key}"
    first = one.ops[0] if one.ops else None
    place = scene.lines_of_ops.get(first, "verdict.json") if first is not None else "verdict.json"
    said = one.explanation or f"operations {', '.join(map(str, one.ops[:8]))}"
    nodes = ",".join(nodes_of(one))
    return evidence_row(
        "anomaly", place, f"{checker}: {one.type}{on}: {said}", when(one), nodes, one.ops
    )


def match_of(scene: Scene, one: CheckerFinding, *, lost: bool = False, **more: Any) -> Match:
    """All that a checker found of a kind. `lost`: what it found is the loss of what had been
    acknowledged, and began when that was, however late somebody looked."""
    nodes = sorted({node for anomaly in one.anomalies for node in nodes_of(anomaly)})
    times = [at for anomaly in one.anomalies if (at := when(anomaly)) is not None]
    acked = [op for a in one.anomalies if (op := acknowledged_write(scene, a))] if lost else []
    if acked:
        times = [op.complete_ts or op.invoke_ts for op in acked]
        nodes = sorted({op.node_seen for op in acked if op.node_seen})
    return Match(
        said=f"{one.checker} found {one.kind}, {one.count:,} times",
        rows=[_row(scene, anomaly, one.checker) for anomaly in one.anomalies[:ROWS_MAX]],
        count=one.count,
        nodes=nodes,
        at_ns=min(times, default=None),
        kinds=[one.kind],
        **({"acknowledged": bool(acked)} | more),
    )


def able(told: Sequence[str]) -> Need:
    """A checker of the run that has shown that it finds one of these."""

    kinds = frozenset(told)

    def missing(scene: Scene) -> str:
        able = any(kind in kinds or base_of(kind) in kinds for kind in scene.findable)
        return "" if able else "no checker of this run has shown that it finds any"

    named = ", ".join(told[:3])
    how = "another --workload, or --checker"
    return Need("verdict", f"a checker that finds {named} or the like", how, missing)


def of_anomalies(
    means: Sequence[str],
    may: Sequence[str] = (),
    *,
    severity: Severity = "critical",
    asks: str = "",
    lost: bool = False,
    basis: str = "",
) -> Sign:
    """A sign of these kinds of anomalies; `lost` where those that mean it are losses."""
    certain, possible = frozenset(means), frozenset(may)

    def find(scene: Scene) -> Iterator[Match]:
        for one in scene.findings:
            base = base_of(one.kind)
            if base in certain or one.kind in certain:
                yield match_of(scene, one, lost=lost)
            elif base in possible or one.kind in possible:
                yield match_of(scene, one, strength="indicated", severity="high")

    kinds = ", ".join([*means, *may][:4])
    return Sign(
        "judged",
        asks or f"a checker has found {kinds} or the like",
        find,
        (JUDGED, able([*means, *may])),
        "proven",
        severity,
        basis=basis,
    )


def _evaluated(check: str) -> Need:
    def missing(scene: Scene) -> str:
        return scene.checks[check].not_evaluated

    how = "`dstest logs RUN --check " + check + "` says what its lines lack"
    loose = "`dstest logs DIR --check " + check + "` says what its lines lack"
    return Need("logs", f"what the check {check} looks at", how, missing, of_files=loose)


def of_check(
    check: str,
    id_: str,
    *,
    strength: Strength,
    severity: Severity | None = None,
    only: Callable[[Finding], bool] | None = None,
    words: bool = False,
    basis: str = "",
) -> Sign:
    """Findings of one check, with the windows and severities that it has given, unless `severity`
    caps them."""

    def find(scene: Scene) -> Iterator[Match]:
        for one in scene.checks[check].findings:
            if only is None or only(one):
                timeless = one.window == NO_TIME and bool(scene.faults)
                yield Match(
                    said=f"{one.said} ({check})",
                    rows=[
                        evidence_row(
                            "operation" if line.place.startswith("history") else "log",
                            line.place,
                            line.text,
                            line.time_ns,
                        )
                        for line in one.rows[:ROWS_MAX]
                    ],
                    count=max(1, one.count),
                    nodes=one.nodes,
                    severity="medium" if timeless else severity or one.severity,
                    strength="weak" if timeless else None,
                    window=one.window,
                    expected=one.expected,
                    why=_TIMELESS if timeless else one.why,
                    at_ns=next((r.time_ns for r in one.rows if r.time_ns is not None), None),
                )

    return Sign(
        id_,
        f"the check `{check}` of logs",
        find,
        (EVERY, _evaluated(check)),
        strength,
        severity or "high",
        excusable=True,
        words=words,
        basis=basis,
    )


def _differs(mine: Replica, first: int, rows: list[Any], upto: int) -> int:
    """The first index up to `upto` at which other entries, or none, stand from now on; 0: none."""
    for index in range(first, upto + 1):
        at = index - first
        new = rows[at] if at < len(rows) else None
        old = mine.at(index)
        if old is not None and (new is None or (new[0], new[1]) != old):
            return index
    return 0


def promises_broken(scene: Scene) -> Iterator[Match]:
    """Where a server starts again without entries that it had acknowledged.

    Source: Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm" (2014),
    section 5.4.
    """
    found: dict[str, list[tuple[Step, int, int]]] = {}
    for step, mine, _ in replicas(scene.protocol):
        if step.kind != "start" or not mine.acked:
            continue
        first, rows = int(step.fields.get("first") or 1), step.fields.get("rows") or []
        index = _differs(mine, first, rows, mine.acked)
        if index:
            found.setdefault(step.node, []).append((step, index, mine.acked))
    for node, cases in found.items():
        rows_: list[EvidenceRow] = [
            step.row(f"{node} starts without entry {index}, and had acknowledged up to {acked}")
            for step, index, acked in cases[:6]
        ]
        lost = sum(acked - index + 1 for _, index, acked in cases)
        yield Match(
            said=f"{node} lost {lost} entries that it had acknowledged",
            rows=rows_,
            count=len(cases),
            nodes=[node],
            at_ns=cases[0][0].time_ns,
        )


def commits_undone(scene: Scene) -> Iterator[Match]:
    """Where a server that knew an entry to be committed takes another one in its place."""
    found: dict[str, list[EvidenceRow]] = {}
    first_ns: dict[str, int | None] = {}
    for step, mine, _ in replicas(scene.protocol):
        if step.kind != "accept" or not mine.commit:
            continue
        first, rows = int(step.fields.get("first") or 1), step.fields.get("rows") or []
        index = _differs(mine, first, rows, min(mine.commit, first + len(rows) - 1))
        if index:
            said = f"{step.node} takes another entry {index}, and had committed up to {mine.commit}"
            found.setdefault(step.node, []).append(step.row(said))
            first_ns.setdefault(step.node, step.time_ns)
    for node, rows_ in found.items():
        yield Match(
            said=f"{node} replaced entries that it knew to be committed",
            rows=rows_[:6],
            count=len(rows_),
            nodes=[node],
            at_ns=first_ns[node],
        )


_MINE: Final = re.compile(
    r"became leader|(?:^|: )leads in term|i am (?:now )?(?:the )?leader|elected (?:as )?leader"
    r"|switch(?:ing|ed)? to leader|promot(?:ed|ing) (?:self |itself )?to (?:leader|primary|master)",
    re.IGNORECASE,
)
"""What a member says of itself: of another one, all may say that it leads."""


def two_claims(scene: Scene) -> Iterator[Match]:
    """Two members say of themselves that they lead in one term."""
    by: dict[str, dict[str, Claim]] = defaultdict(dict)
    for claim in scene.notes.claims:
        record = claim.line.record
        if claim.term and (record.role == "primary" or _MINE.search(record.message)):
            by[claim.term].setdefault(claim.node, claim)
    for term, claims in by.items():
        if len(claims) > 1:
            names = sorted(claims)
            lines = [one.line for one in claims.values()]
            yield Match(
                said=f"{' and '.join(names)} both say that they lead in term {term}",
                rows=[
                    evidence_row("log", x.place, x.record.message, x.time_ns, x.node) for x in lines
                ],
                nodes=names,
                at_ns=lines[-1].time_ns,
            )


def differing_digests(scene: Scene) -> Iterator[Match]:
    """Two members got one message of one source, with different contents."""
    got: dict[tuple[str, str], MemberMessage] = {}
    for said in scene.notes.messages:
        if not said.digest or said.side != "received":
            continue
        before = got.setdefault((said.id, said.peer), said)
        if before.digest != said.digest:
            source = said.peer or "one source"
            yield Match(
                said=f"{before.node} and {said.node} got message {said.id} of {source} with "
                "different contents",
                rows=[
                    evidence_row("log", x.line.place, f"{x.id}: {x.digest}", x.time_ns, x.node)
                    for x in (before, said)
                ],
                nodes=sorted({before.node, said.node, said.peer} - {""}),
                at_ns=said.time_ns,
            )
