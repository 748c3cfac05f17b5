"""A witness as a drawing, a row and a bar per operation from call to answer; and in words."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final

from dstest.core.op import NULL_IS_RESULT, Op, Outcome, who
from dstest.core.printable import printable
from dstest.report.bands import LANE, bands_of

if TYPE_CHECKING:
    from dstest.report.model import FaultView

_WIDTH: Final = 1000
_LEFT: Final = 330
"""Room for the names of operations, which stand before their bars."""

_RIGHT: Final = 24
_ROW: Final = 24
_BAR: Final = 14
_TEXT_MAX: Final = 40
_NAME_MAX: Final = 40
_TAIL: Final = 3
"""Elements of a list that are shown, the last ones."""

_ROWS_MAX: Final = 40
_STORY_MAX: Final = 600

COLORS: Final = {Outcome.OK: "#2a9d5c", Outcome.FAIL: "#d08700", Outcome.UNKNOWN: "#c0392b"}
"""Of outcomes, in drawings that take no colours of a page."""


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=repr)
    text = printable(text).replace("\n", " ")
    return text if len(text) <= _TEXT_MAX else text[: _TEXT_MAX - 1] + "…"


def label(op: Op, shown: Callable[[Any], str] = _short) -> str:
    """`write 4`, `read -> 3`, `cas [1, 2] -> fail`, `write 5 -> ?`."""
    asked = "" if op.input is None else f" {shown(op.input)}"
    if op.outcome is Outcome.UNKNOWN:
        return f"{op.op_type}{asked} → ?"
    if op.outcome is Outcome.FAIL:
        return f"{op.op_type}{asked} → fail"
    answer = (
        f" → {shown(op.output)}" if op.op_type in NULL_IS_RESULT or op.output is not None else ""
    )
    return f"{op.op_type}{asked}{answer}"


def _value(value: Any) -> str:
    """A value of a transaction: of a long list its end, where it differs from others."""
    if isinstance(value, list | tuple):
        end = " ".join(str(one) for one in value[-_TAIL:])
        return f"[… {end}]" if len(value) > _TAIL else f"[{end}]"
    return "nil" if value is None else _short(value)


def mop_text(mop: Any) -> str:
    """`r 5 → [… 20 21 22]`, `append 5 23`."""
    if not isinstance(mop, list | tuple) or len(mop) != 3:
        return _short(mop)
    kind, key, value = mop
    return f"{kind} {key} → {_value(value)}" if kind == "r" else f"{kind} {key} {_value(value)}"


def told(op: Op, shown: Callable[[Any], str] = _short) -> str:
    """As `label`, with a transaction as what it did, one after the other."""
    mops = op.output if isinstance(op.output, list | tuple) else op.input
    known = (
        isinstance(mops, list | tuple)
        and mops
        and all(isinstance(mop, list | tuple) and len(mop) == 3 for mop in mops)
    )
    if op.op_type != "txn" or not known:
        return label(op, shown)
    assert isinstance(mops, list | tuple)
    if op.outcome is not Outcome.OK or op.output is None:
        mops = [[kind, key, "?" if kind == "r" else value] for kind, key, value in mops]
    ending = {Outcome.OK: "", Outcome.FAIL: " → fail", Outcome.UNKNOWN: " → ?"}[op.outcome]
    return printable(", ".join(map(mop_text, mops)) + ending).replace("\n", " ")


def _whole(value: Any) -> str:
    """A value as far as there is room; of a long list its end too, where it differs from others."""
    text = value if isinstance(value, str) else json.dumps(value, default=repr)
    text = printable(text).replace("\n", " ")
    if len(text) <= _STORY_MAX:
        return text
    if isinstance(value, list | tuple):
        return f"{text[: _STORY_MAX // 4]} … {text[-_STORY_MAX * 3 // 4 :]}"
    return text[: _STORY_MAX - 1] + "…"


def _sentence(op: Op, what: str) -> str:
    start = f"{op.invoke_ts / 1e9:.6f} s"
    end = (
        "never answered" if op.complete_ts is None else f"answered at {op.complete_ts / 1e9:.6f} s"
    )
    node = f" at {op.node_seen}" if op.node_seen else ""
    fault = f", in fault window {op.fault_epoch}" if op.fault_epoch else ""
    error = f" ({_short(op.error)})" if op.error else ""
    return (
        f"operation {op.op_id}, {who(op.process_id)}{node}: {what}{error}; "
        f"asked at {start}, {end}{fault}"
    )


def sentence(op: Op) -> str:
    """One line for a list: who asked what, when, and what came back."""
    return _sentence(op, label(op))


def story(op: Op) -> str:
    """As `sentence`, for a page: a transaction as what it did."""
    text = told(op, _whole)
    most = 2 * _STORY_MAX
    return _sentence(op, text if len(text) <= most else text[: most - 1] + "…")


def _name(op: Op) -> str:
    """`p3 n2  read → 4`, short enough to stand before its bar."""
    at = f" {op.node_seen}" if op.node_seen else ""
    text = printable(f"{who(op.process_id, short=True)}{at}  {told(op)}")
    return text if len(text) <= _NAME_MAX else text[: _NAME_MAX - 1] + "…"


def _bar(op: Op, y: float, x: Callable[[int], float], telling: bool) -> str:
    open_end = op.complete_ts is None
    start = x(op.invoke_ts)
    end = _WIDTH - _RIGHT if op.complete_ts is None else x(op.complete_ts)
    color = COLORS[op.outcome]
    dash = ' stroke-dasharray="5 3"' if op.outcome is Outcome.UNKNOWN else ""
    weight = ' font-weight="700"' if telling else ""
    name, words = escape(_name(op)), escape(printable(_sentence(op, told(op))))
    mark = "▶ " if telling else ""
    tail = (
        f'<path d="M{end:.1f} {y - 2:g}v{_BAR + 4}" stroke="{color}" stroke-width="2"/>'
        if not open_end and op.outcome is Outcome.OK
        else ""
    )
    return (
        f'<text x="{_LEFT - 10}" y="{y + 11:g}" text-anchor="end" fill="currentColor"{weight}>'
        f"{mark}{name}<title>{words}</title></text>"
        f'<rect x="{start:.1f}" y="{y:g}" width="{max(3.0, end - start):.1f}" height="{_BAR}" '
        f'rx="2" fill="{color}" fill-opacity="{0.55 if telling else 0.3}" stroke="{color}"'
        f"{dash}><title>{words}</title></rect>{tail}"
    )


def timeline_svg(
    ops: Sequence[Op], faults: Sequence[FaultView] = (), culprit: int | str | None = None
) -> str:
    """An SVG of the witness: a row per operation, from call to answer, to scale, with the fault
    windows of that time behind them, as many of them with a name as there is room for. `culprit`
    is marked.

    A bar that is dashed is an operation whose outcome is unknown; one that never ended goes to the
    edge. Of many operations the last are drawn.
    """
    if not ops:
        return ""
    shown = list(ops)[-_ROWS_MAX:]
    first = min(op.invoke_ts for op in shown)
    last = max(max(op.invoke_ts, op.complete_ts or 0) for op in shown)
    span = max(1, last - first)
    pad = span // 40
    first, last = first - pad, last + pad
    room = _WIDTH - _LEFT - _RIGHT

    def x(time_ns: int) -> float:
        return _LEFT + room * (time_ns - first) / max(1, last - first)

    bands = bands_of(faults, first, last, x)
    top = 5 + LANE * bands.lanes
    height = top + len(shown) * _ROW + 24
    size = f'viewBox="0 0 {_WIDTH} {height}" font-size="13" font-family="sans-serif"'
    words = f"{len(ops)} operations of the witness from call to answer"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{words}" {size}>',
        *bands.svg(height - 22, _LEFT - 10),
    ]
    for at, op in enumerate(shown):
        y = top + at * _ROW
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y + _ROW - 4}" y2="{y + _ROW - 4}" '
            f'stroke="currentColor" stroke-opacity="0.12"/>' + _bar(op, y, x, op.op_id == culprit)
        )
    for step, anchor in ((0, "start"), (1, "middle"), (2, "end")):
        time_ns = first + (last - first) * step // 2
        parts.append(
            f'<text x="{x(time_ns):.1f}" y="{height - 6}" fill="currentColor" fill-opacity="0.75" '
            f'font-size="12" text-anchor="{anchor}">{time_ns / 1e9:.4f} s</text>'
        )
    return "".join([*parts, "</svg>"])
