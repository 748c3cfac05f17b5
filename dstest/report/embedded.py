"""What the page's timeline is given: the operations, faults, changes of the lead and anomalies."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, Final, NamedTuple

from dstest.core.printable import printable
from dstest.report.axis import Axis
from dstest.report.columns import Packed, density, packed
from dstest.report.model import RunReport
from dstest.report.moments import Moment

PAGE_MAX: Final = 1_950_000
"""Bytes of a page, all in all."""

_SCRIPTS: Final = ("timeline-data.js", "timeline-rows.js", "timeline.js", "timeline-ui.js")


class Embedded(NamedTuple):
    """`run` is JSON that may stand in a script element; `said` is what the timeline leaves out."""

    run: str
    numbers: str
    texts: str
    said: str


def scripts() -> str:
    """Our own scripts, one after the other."""
    place = files("dstest.report").joinpath("static")
    return "\n".join(place.joinpath(name).read_text(encoding="utf-8") for name in _SCRIPTS)


def _quiet(value: Any) -> Any:
    """Plain data without control characters."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [_quiet(one) for one in value]
    if isinstance(value, dict):
        return {key: _quiet(one) for key, one in value.items()}
    return value


def _script_json(value: Any) -> str:
    """JSON in which nothing can end a script element or begin a comment in it."""
    text = json.dumps(_quiet(value), ensure_ascii=True, separators=(",", ":"), default=repr)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _anomaly(moment: Moment, group: list[Moment], at: dict[int | str, int]) -> dict[str, Any]:
    """`group` are it and those that repeat it."""
    ops = dict.fromkeys(id for one in group for id in one.anomaly.ops)
    culprit = -1 if moment.culprit is None else at.get(moment.culprit, -1)
    return {
        "number": moment.number,
        "title": moment.title,
        "from": moment.start_ns,
        "to": moment.end_ns,
        "at": moment.told_ns,
        "ops": [at[id] for id in ops if id in at],
        "culprit": culprit,
    }


def _edges(axis: Axis, found: Sequence[Moment]) -> list[int]:
    """The instants that operations are kept around."""
    times = [t for m in found for t in (m.start_ns, m.end_ns) if t is not None]
    times += [t for f in axis.faults for t in (f.start_ns, f.end_ns) if t is not None]
    return times


def _said(found: Packed, total: int) -> str:
    if not total:
        return "There are no operations to show."
    if found.kept == total and found.told == total:
        what = f"All {total:,} operations are here"
        exact = "" if found.unit_ns == 1 else ", times to the microsecond"
        return f"{what}, each with what was asked and answered{exact}."
    rest = "nearest to anomalies and to the edges of fault windows"
    if found.kept == total:
        return (
            f"All {total:,} operations are here, times to the microsecond; {found.told:,} of them, "
            f"those {rest}, with what was asked and answered. All of it is in history.jsonl."
        )
    return (
        f"{found.kept:,} of {total:,} operations are here, those {rest}, {found.told:,} of them "
        "with what was asked and answered, times to the microsecond; the overview on top counts "
        "all. The others would have made this page larger than 2 MB: they are in history.jsonl."
    )


def embedded(report: RunReport, axis: Axis, found: Sequence[Moment], room: int) -> Embedded:
    """The data for a page that has `room` bytes left."""
    ops = report.history.ops
    wanted_ids = {id for m in found for id in m.anomaly.ops}
    wanted = [n for n, op in enumerate(ops) if op.op_id in wanted_ids]
    run: dict[str, Any] = {
        "start_ns": axis.start_ns,
        "end_ns": axis.end_ns,
        "density": density(ops, axis.start_ns, axis.end_ns),
        "faults": [
            {
                "id": f.id,
                "nemesis": f.nemesis,
                "landed": f.landed == "yes",
                "start": f.start_ns,
                "end": f.end_ns,
            }
            for f in axis.faults
            if f.start_ns is not None
        ],
        "leaders": [{"time": c.time_ns, "said": c.said} for c in axis.leaders],
    }
    room -= len(_script_json(run)) + 200 * len(found)
    data = packed(ops, room, wanted=wanted, instants=_edges(axis, found)) if ops else None
    if data is None or data.size > room:
        said = (
            ""
            if data is None
            else "This page has no room for operations. All are in history.jsonl."
        )
        return Embedded("", "", "", said or "There are no operations to show.")
    at = {
        ops[place].op_id: n for n, place in enumerate(data.places) if ops[place].op_id in wanted_ids
    }
    groups: dict[int, list[Moment]] = {}
    for m in found:
        groups.setdefault(m.twin_of or m.number, []).append(m)
    told = [m for m in found if m.twin_of is None and m.start_ns is not None]
    run["anomalies"] = [_anomaly(m, groups[m.number], at) for m in told]
    run["ops"] = data.head
    return Embedded(_script_json(run), data.numbers, data.texts, _said(data, len(ops)))
