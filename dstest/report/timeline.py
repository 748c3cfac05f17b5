"""A witness as a drawing that stands by itself, and in words: a row and a bar per operation from
call to answer, or a cycle of transactions in the colours of its page, who depends on whom, and why.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from dstest.core.check import Anomaly, CheckResult
from dstest.core.op import FIELDS, NULL_IS_RESULT, Op, Outcome, who
from dstest.core.words import printable, printable_line
from dstest.report.charts import LANE, bands_of, svg_text

if TYPE_CHECKING:
    from dstest.core.history import FaultWindow


_BAR: Final = 14
_ROW_LEAST: Final = 24
"""Height of a bar with the room around it."""

_TEXT_MAX: Final = 40
_NAME_MAX: Final = 40
_TAIL: Final = 3
"""Elements of a list that are shown, the last ones."""

_APART_MAX: Final = 16
"""Characters of a list that are shown where it parts from another."""

_ROWS_MAX: Final = 40
_STORY_MAX: Final = 600


class _Layout(NamedTuple):
    """Where bars lie. Names stand in `left` before their bars, or above them where that is none."""

    width: int
    left: int
    right: int
    row: int


_WIDE: Final = _Layout(1000, 330, 24, _ROW_LEAST)
_NARROW: Final = _Layout(400, 4, 6, _ROW_LEAST + 16)

COLORS: Final = {Outcome.OK: "#2a9d5c", Outcome.FAIL: "#d08700", Outcome.UNKNOWN: "#c0392b"}
"""Of outcomes, in drawings that take no colours of a page."""

CYCLES_DRAWN_MAX: Final = 10
"""Drawings of one report; nobody looks at more."""

MEMBERS_MAX: Final = 12
"""Transactions of a cycle that fit around it; a longer one is told in words alone."""

_LOOP_WIDTH: Final = 860
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

TIMELINES_MAX: Final = 20
"""Drawings of operations of one answer; all witnesses are in result.json."""


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=repr)
    text = printable_line(text)
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


def full_label(op: Op, shown: Callable[[Any], str] = _short) -> str:
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
    text = printable_line(text)
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
    text = full_label(op, _whole)
    most = 2 * _STORY_MAX
    return _sentence(op, text if len(text) <= most else text[: most - 1] + "…")


def _name(op: Op, what: str) -> str:
    """`p3 n2  read → 4`, short enough to stand before its bar."""
    at = f" {op.node_seen}" if op.node_seen else ""
    text = printable(f"{who(op.process_id, short=True)}{at}  {what}")
    return text if len(text) <= _NAME_MAX else text[: _NAME_MAX - 1] + "…"


def _on_key(op: Op, key: Any) -> list[Any]:
    """What a transaction that succeeded did to a key; empty for all else."""
    if op.op_type != "txn" or key is None or not isinstance(op.output, list | tuple):
        return []
    known = [mop for mop in op.output if isinstance(mop, list | tuple) and len(mop) == 3]
    return [mop for mop in known if str(mop[1]) == str(key)]


def _apart(lists: Sequence[Sequence[Any]]) -> int | None:
    """Where the first two of lists that contradict each other part; None where each is the
    beginning of another."""
    for one in lists:
        for other in lists:
            pairs = enumerate(zip(one, other, strict=False))
            parted = next((at for at, (a, b) in pairs if a != b), None)
            if parted is not None:
                return parted
    return None


def _around(value: Sequence[Any], at: int) -> str:
    """`[… 3 4 …]`: a list where it parts from another."""
    start = max(0, at - 1)
    parts = [str(one) for one in value[start : at + 2]]
    while len(parts) > 1 and len(" ".join(parts)) > _APART_MAX:
        parts.pop()
    before = "… " if start else ""
    after = " …" if start + len(parts) < len(value) else ""
    return f"[{before}{_short(' '.join(parts))}{after}]"


def _names(ops: Sequence[Op], key: Any) -> list[str]:
    """Names of bars. Of transactions of which one `key` is told, what they did to it, and of lists
    that contradict each other the place where they part."""
    mine = [_on_key(op, key) for op in ops]
    reads = [m[2] for mops in mine for m in mops if m[0] == "r" and isinstance(m[2], list | tuple)]
    at = _apart(reads)
    names = []
    for op, mops in zip(ops, mine, strict=True):
        texts = [
            f"r {mop[1]} → {_around(mop[2], at)}"
            if at is not None and mop[0] == "r" and isinstance(mop[2], list | tuple)
            else mop_text(mop)
            for mop in (mops if at is None else [m for m in mops if m[0] == "r"] or mops)
        ]
        names.append(_name(op, ", ".join(texts) if texts else full_label(op)))
    return names


def _bar(op: Op, told: str, y: float, x: Callable[[int], float], telling: bool, at: _Layout) -> str:
    open_end = op.complete_ts is None
    start = x(op.invoke_ts)
    end = at.width - at.right if op.complete_ts is None else x(op.complete_ts)
    color = COLORS[op.outcome]
    dash = ' stroke-dasharray="5 3"' if op.outcome is Outcome.UNKNOWN else ""
    weight = ' font-weight="700"' if telling else ""
    name, words = escape(told), escape(printable(_sentence(op, full_label(op))))
    mark = "▶ " if telling else ""
    above = at is _NARROW
    top = y + (at.row - _ROW_LEAST if above else 0)
    tail = (
        f'<path d="M{end:.1f} {top - 2:g}v{_BAR + 4}" stroke="{color}" stroke-width="2"/>'
        if not open_end and op.outcome is Outcome.OK
        else ""
    )
    place = f'x="{at.left}"' if above else f'x="{at.left - 10}" text-anchor="end"'
    return (
        f'<text {place} y="{y + 11:g}" fill="currentColor"{weight}>'
        f"{mark}{name}<title>{words}</title></text>"
        f'<rect x="{start:.1f}" y="{top:g}" width="{max(3.0, end - start):.1f}" height="{_BAR}" '
        f'rx="2" fill="{color}" fill-opacity="{0.55 if telling else 0.3}" stroke="{color}"'
        f"{dash}><title>{words}</title></rect>{tail}"
    )


def timeline_svg(
    ops: Sequence[Op],
    faults: Sequence[FaultWindow] = (),
    culprit: int | str | None = None,
    *,
    key: Any = None,
    narrow: bool = False,
) -> str:
    """An SVG of the witness: a row per operation, from call to answer, to scale, with the fault
    windows of that time behind them, as many of them with a name as there is room for. `culprit`
    is marked; of transactions what they did to `key` is told. A `narrow` one is for the screen of a
    telephone, each name above its bar.

    A bar that is dashed is an operation whose outcome is unknown; one that never ended goes to the
    edge. Of many operations the last are drawn.
    """
    if not ops:
        return ""
    layout = _NARROW if narrow else _WIDE
    width, left, right = layout.width, layout.left, layout.width - layout.right
    shown = list(ops)[-_ROWS_MAX:]
    first = min(op.invoke_ts for op in shown)
    last = max(max(op.invoke_ts, op.complete_ts or 0) for op in shown)
    span = max(1, last - first)
    pad = span // 40
    first, last = first - pad, last + pad

    def x(time_ns: int) -> float:
        return left + (right - left) * (time_ns - first) / max(1, last - first)

    bands = bands_of(faults, first, last, x)
    top = 5 + LANE * bands.lanes
    height = top + len(shown) * layout.row + 24
    size = f'viewBox="0 0 {width} {height}" font-size="13" font-family="sans-serif"'
    words = f"{len(ops)} operations of the witness from call to answer"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{words}" {size}>',
        *bands.svg(height - 22, left - 10),
    ]
    for at, (op, told) in enumerate(zip(shown, _names(shown, key), strict=True)):
        y = top + at * layout.row
        foot = y + layout.row - 4
        parts.append(
            f'<line x1="{left}" x2="{right}" y1="{foot}" y2="{foot}" stroke="currentColor" '
            f'stroke-opacity="0.12"/>' + _bar(op, told, y, x, op.op_id == culprit, layout)
        )
    for step, anchor in ((0, "start"), (1, "middle"), (2, "end")):
        time_ns = first + (last - first) * step // 2
        parts.append(
            f'<text x="{x(time_ns):.1f}" y="{height - 6}" fill="currentColor" fill-opacity="0.75" '
            f'font-size="12" text-anchor="{anchor}">{time_ns / 1e9:.4f} s</text>'
        )
    return "".join([*parts, "</svg>"])


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
    caption = svg_text(f"{reason}: {words}" if words else reason)
    return (
        f'<path class="edge {kind}" marker-end="url(#tip)" '
        f'd="M{x1:.1f} {y1:.1f}Q{control[0]:.1f} {control[1]:.1f} {x2:.1f} {y2:.1f}"/>'
        f'<text class="why" x="{cx:.1f}" y="{cy + 4:.1f}" text-anchor="middle">{caption}</text>'
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
        x, y = _LOOP_WIDTH / 2 + rx * math.cos(angle), height / 2 + ry * math.sin(angle)
        texts = _lines(row)
        half = (len(texts) + 1) * _LINE / 2 + 6
        places[row["op_id"]] = (x, y, half)
        left, top = x - _BOX / 2, y - half
        drawn = "".join(
            f'<text class="mop" x="{left + 10:.1f}" y="{top + 20 + (i + 1) * _LINE:.1f}">'
            f"{svg_text(text)}</text>"
            for i, text in enumerate(texts)
        )
        boxes.append(
            f'<rect class="box" x="{left:.1f}" y="{top:.1f}" width="{_BOX}" '
            f'height="{2 * half:.1f}" rx="6"/><text class="txn" x="{left + 10:.1f}" '
            f'y="{top + 18:.1f}">T{svg_text(str(row["op_id"]))}</text>{drawn}'
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
        f'<svg xmlns="http://www.w3.org/2000/svg" class="loop" viewBox="0 0 {_LOOP_WIDTH} '
        f'{height:g}" role="img" aria-label="{svg_text(label)}">'
        f"{tip}{''.join(arrows)}{''.join(boxes)}</svg>"
    )


def loop_file(anomaly: Anomaly) -> str:
    """`loop_svg` for a file of its own, with its style in it."""
    opening, end, rest = loop_svg(anomaly).partition(">")
    return f"{opening}{end}<style>{_STYLE}</style>{rest}" if end else ""


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
