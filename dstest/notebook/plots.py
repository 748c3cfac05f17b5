"""Plots of a history as functions that draw on axes of matplotlib and return them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from dstest.core.errors import ConfigError
from dstest.core.history import FaultWindow
from dstest.core.op import Op, Outcome, who
from dstest.report.moments import Moment, moments
from dstest.report.numbers import per_second, seconds_of
from dstest.report.plots import draw_latency, draw_rate, shade
from dstest.report.timeline import COLORS, full_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dstest.notebook.history import History

_S: Final = 1_000_000_000


def _bands(history: History) -> list[FaultWindow]:
    """The fault windows: of a run as the judge sees them, else not proven."""
    if history.is_run:
        return history.report.windows
    return [structs.replace(w, landed="ambiguous") for w in history.windows]


def _axes(ax: Axes | None) -> tuple[Axes, str]:
    """The axes, and the colour of text on them."""
    import matplotlib as mpl

    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=(9.6, 2.9), layout="constrained")
    return ax, str(mpl.rcParams["text.color"])


def plot_latency(history: History, ax: Axes | None = None) -> Axes:
    """Every operation at its invocation, how long it took, by outcome; fault windows shaded, red
    where their landing is proven. Of many operations a sample, which the title counts."""
    ax, ink = _axes(ax)
    draw_latency(ax, history.ops, _bands(history), history.header.seed or 0, ink)
    return ax


def plot_rate(history: History, ax: Axes | None = None) -> Axes:
    """Operations invoked in each second, by outcome."""
    ax, ink = _axes(ax)
    draw_rate(ax, history.ops, _bands(history), ink)
    return ax


def plot_outcomes(history: History, ax: Axes | None = None) -> Axes:
    """The share of each outcome among the operations invoked in each second."""
    ax, ink = _axes(ax)
    ops = history.ops
    seconds, counts = seconds_of(ops), per_second(ops)
    totals = [sum(parts) for parts in zip(*counts.values(), strict=True)]
    edges = list(range(seconds.first_s, seconds.end_s + 1, seconds.width_s))
    below = [0.0] * seconds.parts
    for outcome, color in COLORS.items():
        shares = [
            n / total if total else 0.0 for n, total in zip(counts[outcome], totals, strict=True)
        ]
        top = [a + b for a, b in zip(below, shares, strict=True)]
        ax.stairs(
            top, edges, baseline=below, fill=True, color=color, alpha=0.7, label=outcome.value
        )
        below = top
    shade(ax, _bands(history), seconds.end_s, ink)
    ax.set_title("Outcomes of the operations invoked in each second", loc="left", fontsize=10)
    ax.set_xlabel("seconds since the load began")
    ax.set_ylabel("share")
    ax.set_xlim(seconds.first_s, seconds.end_s)
    ax.set_ylim(0, 1)
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=8)
    return ax


def _numbered(history: History, number: int) -> Moment:
    found = moments(history.report, [])
    for one in found:
        if one.number == number:
            return one
    raise ConfigError(
        f"the run has no anomaly {number}: there are {len(found)}",
        remedy="history.anomalies() lists them; history.verdict says what their absence means",
    )


def plot_anomaly(history: History, number: int = 1, ax: Axes | None = None) -> Axes:
    """The witness of an anomaly: a bar per operation from call to answer, with the fault windows of
    that time. The answer that gave it away is solid; an unknown outcome has no end."""
    moment = _numbered(history, number)
    ops = moment.ops
    if not ops:
        raise ConfigError(
            f"anomaly {number} names no operation of the history", remedy="history.anomalies()"
        )
    ax, ink = _axes(ax)
    first = min(op.invoke_ts for op in ops)
    last = max(op.complete_ts or op.invoke_ts for op in ops)
    pad = max(1, (last - first) // 40)
    for row, op in enumerate(ops):
        _bar(ax, row, op, last + pad, op.op_id == moment.culprit)
    shade(ax, [band for band in _bands(history) if band.stands(first, last)], last / _S, ink)
    ax.set_yticks(range(len(ops)), [_name(op) for op in ops], fontsize=8)
    ax.invert_yaxis()
    ax.set_xlim((first - pad) / _S, (last + pad) / _S)
    ax.set_xlabel("seconds since the load began")
    ax.set_title(moment.title, loc="left", fontsize=10)
    return ax


def _name(op: Op) -> str:
    text = f"{who(op.process_id, short=True)} {op.node_seen or ''}  {full_label(op)}"
    return (text if len(text) <= 60 else f"{text[:59]}…").replace("$", r"\$")


def _bar(ax: Any, row: int, op: Op, until_ns: int, telling: bool) -> None:
    end_ns = until_ns if op.complete_ts is None else op.complete_ts
    ax.barh(
        row, max(1, end_ns - op.invoke_ts) / _S, left=op.invoke_ts / _S, height=0.6,
        color=COLORS[op.outcome], alpha=0.9 if telling else 0.4,
        linestyle="--" if op.outcome is Outcome.UNKNOWN else "-",
        edgecolor=COLORS[op.outcome],
    )  # fmt: skip
