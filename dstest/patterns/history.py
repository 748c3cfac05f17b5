"""The history as evidence, and as figures by the second."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from dstest.core.op import Op
from dstest.patterns.model import ROWS_MAX, Found, row
from dstest.patterns.scene import Scene

SECOND_NS: Final = 1_000_000_000


def of_ops(scene: Scene, ops: Sequence[Op], said: str, **more: Any) -> Found:
    """Operations as the evidence of a finding."""
    rows = []
    for op in ops[:ROWS_MAX]:
        took = op.complete_ts
        ms = "never answered" if took is None else f"{(took - op.invoke_ts) / 1e6:.1f} ms"
        text = f"op {op.op_id} {op.op_type} on {op.key}: {op.error or 'answered'}, {ms}"
        place = scene.lines_of_ops[op.op_id]
        rows.append(row("operation", place, text, op.invoke_ts, op.node_seen or "", [op.op_id]))
    more.setdefault("nodes", sorted({op.node_seen for op in ops if op.node_seen}))
    more.setdefault("at_ns", ops[0].invoke_ts if ops else None)
    return Found(said=said, rows=rows, count=len(ops), **more)


def by_second(scene: Scene, wanted: Callable[[Op], bool], *, ended: bool = False) -> list[int]:
    """How many of these operations of the load began, or `ended`, in each whole second of it."""
    counts = [0] * (scene.load_end_ns // SECOND_NS)
    for op in scene.load:
        at = op.complete_ts if ended else op.invoke_ts
        if at is not None and 0 <= at // SECOND_NS < len(counts) and wanted(op):
            counts[at // SECOND_NS] += 1
    return counts


def quiet_seconds(scene: Scene) -> list[bool]:
    """Of each whole second of the load: did no fault stand in any part of it?"""
    return [
        scene.calm(second * SECOND_NS, (second + 1) * SECOND_NS)
        for second in range(scene.load_end_ns // SECOND_NS)
    ]


def runs_of(flags: Sequence[bool]) -> list[tuple[int, int]]:
    """Stretches (first, one behind the last) in which a flag holds."""
    found, begin = [], None
    for at, flag in enumerate([*flags, False]):
        if flag and begin is None:
            begin = at
        elif not flag and begin is not None:
            found.append((begin, at))
            begin = None
    return found
