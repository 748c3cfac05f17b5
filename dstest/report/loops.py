"""A cycle of transactions drawn in the colours of its page: who depends on whom, and why."""

from __future__ import annotations

import math
from typing import Any, Final

from dstest.core.check import Anomaly
from dstest.report.axis import said
from dstest.report.timeline import mop_text

CYCLES_DRAWN_MAX: Final = 10
"""Drawings of one report; nobody looks at more."""

MEMBERS_MAX: Final = 12
"""Transactions of a cycle that fit around it; a longer one is told in words alone."""

_WIDTH: Final = 860
_BOX: Final = 230
_LINE: Final = 15
_LINES_MAX: Final = 4
_CHARS: Final = 34

_REASONS: Final = {
    "ww": "overwrote",
    "wr": "was read by",
    "rw": "missed the write of",
    "process": "came before, in its session,",
    "realtime": "ended before the start of",
}

_STYLE: Final = (
    "svg{background:#fff;font-family:sans-serif}"
    ".box{fill:#f6f6f4;stroke:#666}text{fill:#1c1c1c;font-size:12px}"
    ".txn{font-weight:700}.why{font-weight:600;paint-order:stroke;stroke:#fff;stroke-width:5px}"
    ".edge{fill:none;stroke:#666;stroke-width:1.6}.tip{fill:#666}"
    ".edge.rw{stroke:#8c510a;stroke-dasharray:6 3}.edge.ww{stroke:#b2182b;stroke-width:2.2}"
    ".edge.wr{stroke:#2166ac}"
)
"""What the page says in its style sheet, for a drawing that stands by itself."""


def is_cycle(anomaly: Anomaly) -> bool:
    """Does the witness say which transaction depends on which?"""
    return any("edge" in row for row in anomaly.witness)


def _lines(row: dict[str, Any]) -> list[str]:
    mops = row["output"] if row["output"] is not None else row["input"]
    mops = mops if isinstance(mops, list) else []
    more = [f"… {len(mops) - _LINES_MAX} more"] if len(mops) > _LINES_MAX else []
    texts = [mop_text(mop) for mop in mops[:_LINES_MAX]]
    return [*(t if len(t) <= _CHARS else t[: _CHARS - 1] + "…" for t in texts), *more]


def _edge_of(x: float, y: float, half: float, toward: tuple[float, float]) -> tuple[float, float]:
    """Where the line from a box's middle toward a point leaves the box."""
    dx, dy = toward[0] - x, toward[1] - y
    share = min(
        (_BOX / 2 + 3) / abs(dx) if dx else math.inf, (half + 3) / abs(dy) if dy else math.inf
    )
    return x + dx * min(1.0, share), y + dy * min(1.0, share)


def _arrow(a: tuple[float, float, float], b: tuple[float, float, float], reason: str) -> str:
    mid = ((a[0] + b[0]) / 2, (a[1] + b[1]) / 2)
    dx, dy = b[0] - a[0], b[1] - a[1]
    length = math.hypot(dx, dy) or 1.0
    bend = 46.0
    control = (mid[0] - dy / length * bend, mid[1] + dx / length * bend)
    x1, y1 = _edge_of(*a, control)
    x2, y2 = _edge_of(*b, control)
    cx, cy = (control[0] + mid[0]) / 2, (control[1] + mid[1]) / 2
    kind = reason if reason in ("ww", "wr", "rw") else "other"
    words = _REASONS.get(reason)
    text = f"{reason}: {words}" if words else reason
    return (
        f'<path class="edge {kind}" marker-end="url(#tip)" '
        f'd="M{x1:.1f} {y1:.1f}Q{control[0]:.1f} {control[1]:.1f} {x2:.1f} {y2:.1f}"/>'
        f'<text class="why" x="{cx:.1f}" y="{cy + 4:.1f}" text-anchor="middle">{said(text)}</text>'
    )


def loop_svg(anomaly: Anomaly) -> str:
    """The drawing; empty where the witness holds no cycle, or one that is too long to be drawn."""
    rows = [row for row in anomaly.witness if "edge" in row]
    if not 1 < len(rows) <= MEMBERS_MAX:
        return ""
    n = len(rows)
    rx, ry = 290.0, 0.0 if n == 2 else 60.0 + 26.0 * n
    most = max(len(_lines(row)) for row in rows)
    height = 2 * ry + max(120.0, (most + 1) * _LINE + 40)
    places: dict[Any, tuple[float, float, float]] = {}
    boxes = []
    for at, row in enumerate(rows):
        angle = math.pi + 2 * math.pi * at / n
        x, y = _WIDTH / 2 + rx * math.cos(angle), height / 2 + ry * math.sin(angle)
        texts = _lines(row)
        half = (len(texts) + 1) * _LINE / 2 + 6
        places[row["op_id"]] = (x, y, half)
        left, top = x - _BOX / 2, y - half
        drawn = "".join(
            f'<text class="mop" x="{left + 10:.1f}" y="{top + 20 + (i + 1) * _LINE:.1f}">'
            f"{said(text)}</text>"
            for i, text in enumerate(texts)
        )
        boxes.append(
            f'<rect class="box" x="{left:.1f}" y="{top:.1f}" width="{_BOX}" '
            f'height="{2 * half:.1f}" rx="6"/><text class="txn" x="{left + 10:.1f}" '
            f'y="{top + 18:.1f}">T{said(str(row["op_id"]))}</text>{drawn}'
        )
    arrows = [
        _arrow(places[row["op_id"]], places[row["edge"]["to"]], str(row["edge"]["reason"]))
        for row in rows
        if row["edge"]["to"] in places
    ]
    label = f"{anomaly.type}: " + ", ".join(
        f"T{row['op_id']} {row['edge']['reason']} T{row['edge']['to']}" for row in rows
    )
    tip = (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto"><path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="loop" viewBox="0 0 {_WIDTH} {height:g}" '
        f'role="img" aria-label="{said(label)}">{tip}{"".join(arrows)}{"".join(boxes)}</svg>'
    )


def loop_file(anomaly: Anomaly) -> str:
    """`loop_svg` for a file of its own, with its style in it."""
    opening, end, rest = loop_svg(anomaly).partition(">")
    return f"{opening}{end}<style>{_STYLE}</style>{rest}" if end else ""
