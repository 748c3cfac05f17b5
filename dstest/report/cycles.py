"""A cycle of transactions as a drawing: who depends on whom, and why."""

from __future__ import annotations

import io
import math
from typing import Any

import matplotlib as mpl
import networkx as nx
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from dstest.core.check import Anomaly
from dstest.report.loops import CYCLES_DRAWN_MAX, is_cycle

__all__ = ["CYCLES_DRAWN_MAX", "cycle_svg", "is_cycle", "svg_of"]

_COLORS = {
    "ww": "#b2182b",
    "wr": "#2166ac",
    "rw": "#8c510a",
}
_OTHER = "#666666"
"""Of what no value tells: orders of processes, of time, and what follows from others."""


def svg_of(figure: Figure) -> str:
    """The figure as text; the same figure gives the same text."""
    out = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "dstest"}):
        FigureCanvasSVG(figure)
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


def _label(row: dict[str, Any]) -> str:
    mops = row["output"] if row["output"] is not None else row["input"]
    lines = [" ".join("nil" if v is None else str(v) for v in mop) for mop in mops[:4]]
    more = [f"... {len(mops) - 4} more"] if len(mops) > 4 else []
    return "\n".join([f"T{row['op_id']}", *lines, *more])


def cycle_svg(anomaly: Anomaly) -> str:
    """A cycle's transactions in a circle, each edge with its reason. Raises ValueError for an
    anomaly that is no cycle."""
    rows = [row for row in anomaly.witness if "edge" in row]
    if not rows:
        raise ValueError(f"{anomaly.type} is no cycle: nothing to draw")
    graph = nx.MultiDiGraph()
    place = {}
    for at, row in enumerate(rows):
        angle = math.pi / 2 - 2 * math.pi * at / len(rows)
        place[row["op_id"]] = (math.cos(angle), math.sin(angle))
        graph.add_edge(row["op_id"], row["edge"]["to"], reason=row["edge"]["reason"])
    figure = Figure(figsize=(7, 6))
    axes = figure.add_axes((0.0, 0.0, 1.0, 0.92))
    axes.set_axis_off()
    axes.margins(0.25)
    figure.suptitle(anomaly.type)
    for a, b, reason in graph.edges(data="reason"):
        nx.draw_networkx_edges(
            graph, place, edgelist=[(a, b)], ax=axes, node_size=6000,
            edge_color=_COLORS.get(reason, _OTHER), arrowsize=18, connectionstyle="arc3,rad=0.2",
        )  # fmt: skip
    names = {(a, b, i): reason for a, b, i, reason in graph.edges(keys=True, data="reason")}
    nx.draw_networkx_edge_labels(
        graph, place, edge_labels=names, ax=axes, connectionstyle="arc3,rad=0.2"
    )
    for row in rows:
        x, y = place[row["op_id"]]
        box = {"boxstyle": "round", "facecolor": "white", "edgecolor": "#444444"}
        axes.text(x, y, _label(row), ha="center", va="center", fontsize=8, bbox=box)
    return svg_of(figure)
