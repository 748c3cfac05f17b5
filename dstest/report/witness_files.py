"""Witnesses of a checker's answer as drawings that stand by themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from dstest.core.check import CheckResult
from dstest.core.op import FIELDS, Op
from dstest.report.loops import CYCLES_DRAWN_MAX, is_cycle, loop_file
from dstest.report.timeline import timeline_svg

TIMELINES_MAX: Final = 20
"""Drawings of operations of one answer; all witnesses are in result.json."""


def witness_files(result: CheckResult) -> dict[str, str]:
    """SVG by file name: the first cycles as loops, other witnesses whose operations have times as
    a bar per operation, from call to answer."""
    found = [anomaly for group in result.anomalies.values() for anomaly in group]
    loops = {n: loop_file(one) for n, one in enumerate(found) if is_cycle(one)}
    loops = {n: svg for n, svg in loops.items() if svg}
    bars = [
        timeline_svg(ops)
        for n, one in enumerate(found)
        if n not in loops and (ops := _timed(one.witness))
    ]
    return {
        **{f"cycle-{n}.svg": svg for n, svg in enumerate([*loops.values()][:CYCLES_DRAWN_MAX])},
        **{f"witness-{n}.svg": svg for n, svg in enumerate(bars[:TIMELINES_MAX])},
    }


def names_of_drawings() -> list[str]:
    """What files with drawings may be called."""
    cycles = [f"cycle-{n}.svg" for n in range(CYCLES_DRAWN_MAX)]
    return cycles + [f"witness-{n}.svg" for n in range(TIMELINES_MAX)]


def _timed(rows: Sequence[Mapping[str, Any]]) -> list[Op]:
    """The witness as operations; none where it holds anything else, or events without times."""
    if any("invoke_event" in row for row in rows):
        return []
    try:
        return [msgspec.convert({k: row[k] for k in FIELDS if k in row}, Op) for row in rows]
    except (msgspec.ValidationError, TypeError):
        return []
