"""Latency and rate over the run as SVG, fault windows shaded and named, and the lattice of
consistency models.

Drawn without pyplot and without global state. Axes and text take the colour of the page around
them, so that one drawing serves a light and a dark page. A plot of many operations shows a sample;
its title says how many of how many.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from dstest.core import rng
from dstest.core.history import FaultWindow
from dstest.core.op import Op, Outcome
from dstest.report.model import RunReport
from dstest.report.numbers import per_second, seconds_of
from dstest.report.timeline import COLORS

if TYPE_CHECKING:
    import networkx as nx

POINTS_MAX: Final = 2500
"""A point is about 90 bytes of SVG; the report stays far below a megabyte."""

_PLACE: Final = (0.08, 0.17, 0.73, 0.72)
"""Of the axes in each drawing: the same, so that their times lie one above the other."""

_INK: Final = "#010203"
"""Stands for the page's own text colour until the drawing is done."""

_SETTINGS: Final[Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "dstest",
    "font.size": 9.0,
    "text.parse_math": False,
}


def _figure() -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 2.9))
    figure.patch.set_alpha(0.0)
    axes = figure.add_axes(_PLACE)
    axes.patch.set_alpha(0.0)
    return figure, axes


def _style(axes: Any, title: str, label: str, ink: str) -> None:
    axes.set_title(title, color=ink, loc="left", fontsize=10)
    axes.set_xlabel("seconds since the load began", color=ink)
    axes.set_ylabel(label, color=ink)
    axes.tick_params(colors=ink, which="both")
    for spine in axes.spines.values():
        spine.set_color(ink)
        spine.set_alpha(0.4)
    axes.spines[["top", "right"]].set_visible(False)


def shade(axes: Any, faults: Sequence[FaultWindow], end_s: float, ink: str) -> None:
    """Fault windows: red where the landing is proven, grey where it is not."""
    for fault in faults:
        start_s = fault.start_ns / 1e9
        until_s = end_s if fault.healed_ns is None else fault.healed_ns / 1e9
        color = "#e76f51" if fault.landed == "yes" else "#888888"
        axes.axvspan(start_s, until_s, color=color, alpha=0.16, linewidth=0)
        axes.text(
            start_s,
            1.0,
            f" {fault.id}",
            transform=axes.get_xaxis_transform(),
            va="top",
            color=ink,
            fontsize=8,
        )


def _svg(figure: Figure) -> str:
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    canvas: Any = FigureCanvasSVG(figure)
    canvas.print_svg(buffer, metadata=nothing)
    text = buffer.getvalue()
    return text[text.index("<svg") :].replace(_INK, "currentColor")


def sample(ops: list[Op], seed: int, points_max: int = POINTS_MAX) -> list[Op]:
    """At most `points_max` operations; those that did not succeed have up to half of the places."""
    if len(ops) <= points_max:
        return ops
    dice = rng.stream(seed, "plot")
    trouble = [op for op in ops if op.outcome is not Outcome.OK]
    fine = [op for op in ops if op.outcome is Outcome.OK]
    kept = dice.sample(trouble, min(len(trouble), points_max // 2))
    return kept + dice.sample(fine, min(len(fine), points_max - len(kept)))


def _end_s(ops: Sequence[Op]) -> float:
    return max((op.invoke_ts for op in ops), default=0) / 1e9


def draw_latency(
    axes: Any, ops: list[Op], faults: Sequence[FaultWindow], seed: int, ink: str
) -> None:
    """Every operation at its invocation, how long it took, log scale, by outcome.

    An operation of unknown outcome has no duration; it is drawn at the top.
    """
    from matplotlib.ticker import FuncFormatter, NullFormatter

    shown = sample(ops, seed)
    part = "" if len(shown) == len(ops) else f" (a sample: {len(shown):,} of {len(ops):,})"
    done = [op.complete_ts - op.invoke_ts for op in shown if op.complete_ts is not None]
    top_ms = 2 * max(done, default=1_000_000) / 1e6
    _style(axes, f"Latency of each operation{part}", "milliseconds", ink)
    shade(axes, faults, _end_s(ops), ink)
    for outcome, color in COLORS.items():
        points = [op for op in shown if op.outcome is outcome]
        label = outcome.value if outcome is not Outcome.UNKNOWN else "unknown (at the top)"
        axes.scatter(
            [op.invoke_ts / 1e9 for op in points],
            [
                top_ms
                if op.complete_ts is None or outcome is Outcome.UNKNOWN
                else max(1e-3, (op.complete_ts - op.invoke_ts) / 1e6)
                for op in points
            ],
            s=4,
            color=color,
            alpha=0.7,
            linewidths=0,
            label=f"{label} {sum(op.outcome is outcome for op in ops):,}",
        )
    low_ms = max(1e-3, min(done, default=1_000_000) / 1e6)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylim(low_ms / 1.5, top_ms * 1.5)
    axes.set_xlim(0, _end_s(ops) or 1)
    _legend(axes, ink)


def draw_rate(axes: Any, ops: list[Op], faults: Sequence[FaultWindow], ink: str) -> None:
    """Operations invoked per second, by outcome."""
    _style(axes, "Operations invoked in each second", "operations per second", ink)
    shade(axes, faults, _end_s(ops), ink)
    seconds, rows = seconds_of(ops), per_second(ops)
    for outcome, color in COLORS.items():
        counts = rows[outcome]
        edges = list(range(seconds.first_s, seconds.end_s + 1, seconds.width_s))
        axes.stairs(counts, edges, color=color, linewidth=1.3, label=outcome.value)
    axes.set_ylim(bottom=0)
    axes.set_xlim(seconds.first_s, max(_end_s(ops), seconds.first_s + 1))
    _legend(axes, ink)


def latency_svg(report: RunReport) -> str:
    """`draw_latency` of a run."""
    import matplotlib as mpl

    with mpl.rc_context(_SETTINGS):
        figure, axes = _figure()
        seed = report.history.header.seed or 0
        draw_latency(axes, report.history.ops, report.windows, seed, _INK)
        return _svg(figure)


def rate_svg(report: RunReport) -> str:
    """`draw_rate` of a run."""
    import matplotlib as mpl

    with mpl.rc_context(_SETTINGS):
        figure, axes = _figure()
        draw_rate(axes, report.history.ops, report.windows, _INK)
        return _svg(figure)


def _legend(axes: Any, ink: str) -> None:
    axes.legend(
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        frameon=False,
        labelcolor=ink,
        fontsize=8,
        markerscale=3,
    )


def lattice_svg(graph: nx.DiGraph[str], ruled_out: Iterable[str] = ()) -> str:
    """`graph` leads from each model to those that it implies. Weakest at the bottom; models ruled
    out are red."""
    import networkx as nx

    out = set(ruled_out)
    height = {m: len(nx.dag_longest_path(graph.subgraph(nx.descendants(graph, m)))) for m in graph}
    rows: dict[int, list[str]] = {}
    for model in sorted(graph):
        rows.setdefault(height[model], []).append(model)
    place = {
        m: ((i + 0.5) / len(row) + 0.04 * (level % 2), level)
        for level, row in rows.items()
        for i, m in enumerate(row)
    }
    figure = Figure(figsize=(16, 11))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    axes.margins(0.08)
    nx.draw_networkx_edges(graph, place, ax=axes, edge_color="#999999", node_size=1200)
    for model, (x, y) in place.items():
        color = "#b2182b" if model in out else "#222222"
        box = {"boxstyle": "round", "facecolor": "white", "edgecolor": color}
        axes.text(
            x, y, model, ha="center", va="center", fontsize=7, color=color, bbox=box, rotation=12
        )
    return _svg_of(figure)


def _svg_of(figure: Figure) -> str:
    """The figure as text; the same figure gives the same text."""
    out = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "dstest"}):
        FigureCanvasSVG(figure)
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()
