"""Signs that rest on what checkers have found: the strongest evidence that a run has.

Kinds of anomalies are a vocabulary (`report/static/anomalies.toml`). A kind *means* a pattern where
it is that pattern by definition, and *may* be of one where others show so as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import UNSET

from dstest.core.check import Anomaly
from dstest.core.op import Op, Outcome
from dstest.logs.findings import Severity
from dstest.patterns.model import ROWS_MAX, Found, Need, Row, Sign, row
from dstest.patterns.needs import JUDGED
from dstest.patterns.scene import Judged, Scene, writes

_ENDINGS: Final = ("-realtime", "-process", "-item", "-exact")


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


def acknowledged(scene: Scene, anomaly: Anomaly) -> Op | None:
    """The first write of its witness that was acknowledged, which is what was lost."""
    ops = [scene.by_id[one] for one in anomaly.ops if one in scene.by_id]
    acked = [op for op in ops if op.outcome is Outcome.OK and writes(op)]
    return min(acked, key=lambda op: op.complete_ts or op.invoke_ts, default=None)


def _row(scene: Scene, one: Anomaly, checker: str) -> Row:
    on = "" if one.key is None else f" on key {one.key}"
    first = one.ops[0] if one.ops else None
    place = scene.lines_of_ops.get(first, "verdict.json") if first is not None else "verdict.json"
    said = one.explanation or f"operations {', '.join(map(str, one.ops[:8]))}"
    nodes = ",".join(nodes_of(one))
    return row("anomaly", place, f"{checker}: {one.type}{on}: {said}", when(one), nodes, one.ops)


def found_of(scene: Scene, one: Judged, *, lost: bool = False, **more: Any) -> Found:
    """All that a checker found of a kind. `lost`: what it found is the loss of what had been
    acknowledged, and began when that was, however late somebody looked."""
    nodes = sorted({node for anomaly in one.anomalies for node in nodes_of(anomaly)})
    times = [at for anomaly in one.anomalies if (at := when(anomaly)) is not None]
    acked = [op for a in one.anomalies if (op := acknowledged(scene, a))] if lost else []
    if acked:
        times = [op.complete_ts or op.invoke_ts for op in acked]
        nodes = sorted({op.node_seen for op in acked if op.node_seen})
    return Found(
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


def judged(
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

    def find(scene: Scene) -> Iterator[Found]:
        for one in scene.findings:
            base = base_of(one.kind)
            if base in certain or one.kind in certain:
                yield found_of(scene, one, lost=lost)
            elif base in possible or one.kind in possible:
                yield found_of(scene, one, strength="indicated", severity="high")

    kinds = ", ".join([*means, *may][:4])
    return Sign(
        id="judged",
        asks=asks or f"a checker has found {kinds} or the like",
        needs=(JUDGED, able([*means, *may])),
        find=find,
        strength="proven",
        severity=severity,
        excusable=False,
        basis=basis,
    )
