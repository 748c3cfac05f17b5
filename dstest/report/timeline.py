"""A witness as a drawing: one lane per process, one bar per operation from call to answer."""

from __future__ import annotations

import json
from html import escape
from typing import Any, Final

from dstest.core.op import NULL_IS_RESULT, Op, Outcome
from dstest.core.printable import printable

__all__ = ["label", "sentence", "timeline_svg"]

_WIDTH: Final = 900
_LEFT: Final = 90
_LANE: Final = 34
_BAR: Final = 20
_TEXT_MAX: Final = 40
_COLORS: Final = {Outcome.OK: "#2a9d5c", Outcome.FAIL: "#d08700", Outcome.UNKNOWN: "#c0392b"}


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=repr)
    text = printable(text).replace("\n", " ")
    return text if len(text) <= _TEXT_MAX else text[: _TEXT_MAX - 1] + "…"


def label(op: Op) -> str:
    """`write 4`, `read -> 3`, `cas [1, 2] -> fail`, `write 5 -> ?`."""
    asked = "" if op.input is None else f" {_short(op.input)}"
    if op.outcome is Outcome.UNKNOWN:
        return f"{op.op_type}{asked} → ?"
    if op.outcome is Outcome.FAIL:
        return f"{op.op_type}{asked} → fail"
    answer = (
        f" → {_short(op.output)}" if op.op_type in NULL_IS_RESULT or op.output is not None else ""
    )
    return f"{op.op_type}{asked}{answer}"


def sentence(op: Op) -> str:
    """One line for a list: who asked what, when, and what came back."""
    start = f"{op.invoke_ts / 1e9:.6f} s"
    end = (
        "never answered" if op.complete_ts is None else f"answered at {op.complete_ts / 1e9:.6f} s"
    )
    node = f" at {op.node_seen}" if op.node_seen else ""
    fault = f", in fault window {op.fault_epoch}" if op.fault_epoch else ""
    error = f" ({_short(op.error)})" if op.error else ""
    return (
        f"operation {op.op_id}, process {op.process_id}{node}: {label(op)}{error}; "
        f"asked at {start}, {end}{fault}"
    )


def timeline_svg(ops: list[Op]) -> str:
    """An SVG of the witness; times are to scale, and each bar names its operation.

    A bar without an end is an operation whose outcome is unknown.
    """
    if not ops:
        return ""
    lanes = {process: i for i, process in enumerate(dict.fromkeys(op.process_id for op in ops))}
    first = min(op.invoke_ts for op in ops)
    last = max(max(op.invoke_ts, op.complete_ts or 0) for op in ops)
    span = max(1, last - first)
    room = _WIDTH - _LEFT - 160

    def x(time_ns: int) -> float:
        return _LEFT + room * (time_ns - first) / span

    height = len(lanes) * _LANE + 30
    size = f'viewBox="0 0 {_WIDTH} {height}" font-size="12" font-family="sans-serif"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}>']
    for process, lane in lanes.items():
        y = lane * _LANE + _LANE / 2
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH}" y1="{y}" y2="{y}" stroke="currentColor" '
            f'stroke-opacity="0.15"/><text x="4" y="{y + 4}" fill="currentColor">'
            f"process {escape(printable(str(process)))}</text>"
        )
    for op in ops:
        y = lanes[op.process_id] * _LANE + (_LANE - _BAR) / 2
        open_end = op.complete_ts is None
        end = _WIDTH - 4 if op.complete_ts is None else x(op.complete_ts)
        start = x(op.invoke_ts)
        dash = ' stroke-dasharray="4 3"' if open_end else ""
        color = _COLORS[op.outcome]
        name, said = (escape(printable(text)) for text in (label(op), sentence(op)))
        parts.append(
            f'<rect x="{start:.1f}" y="{y}" width="{max(3.0, end - start):.1f}" height="{_BAR}" '
            f'rx="3" fill="{color}" fill-opacity="0.25" stroke="{color}"{dash}/>'
            f'<text x="{start + 4:.1f}" y="{y + 14}" fill="currentColor">{name}'
            f"<title>{said}</title></text>"
        )
    y = height - 8
    parts.append(
        f'<text x="{_LEFT}" y="{y}" fill="currentColor" fill-opacity="0.7">{first / 1e9:.4f} s'
        f'</text><text x="{_LEFT + room}" y="{y}" fill="currentColor" fill-opacity="0.7" '
        f'text-anchor="end">{last / 1e9:.4f} s</text></svg>'
    )
    return "".join(parts)
