"""The lattice of consistency models as a drawing."""

from __future__ import annotations

import io
from collections.abc import Iterable

import matplotlib as mpl
import networkx as nx
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure


def lattice_svg(graph: nx.DiGraph[str], ruled_out: Iterable[str] = ()) -> str:
    """`graph` leads from each model to those that it implies. Weakest at the bottom; models ruled
    out are red."""
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
