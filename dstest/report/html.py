"""`report.html`: one file that asks for nothing else, readable without knowing dstest."""

from __future__ import annotations

import json
from typing import Any, Final

from dstest.core.check import Anomaly
from dstest.core.printable import printable
from dstest.core.verdict import State
from dstest.judge.judged import share
from dstest.report.cycles import CYCLES_DRAWN_MAX, cycle_svg, is_cycle
from dstest.report.model import RunReport
from dstest.report.numbers import number
from dstest.report.plots import latency_svg, rate_svg
from dstest.report.timeline import sentence, timeline_svg

__all__ = ["FAULT_DETAILS_MAX", "environment", "render_html", "tone_of"]

FAULT_DETAILS_MAX: Final = 40
"""Faults shown with every number; each takes some kilobytes, and all are in faults.jsonl."""

WITNESSES_MAX: Final = 3
"""Witnesses shown at once; the others open on demand."""

_FACTS_MAX: Final = 60_000
"""Characters of run.json shown."""

_TONES = {"PASS": "pass", "FAIL": "fail", "INCONCLUSIVE": "open", "PARTIAL": "open", "NOT": "open"}


def _finalize(value: Any) -> Any:
    """What the template prints, without control characters; markup of our own stays as it is."""
    return printable(value) if type(value) is str else value


def _cycle(anomaly: Anomaly, at: int) -> str:
    """The drawing of a cycle of transactions without its XML prolog; empty for the others, and
    for those after the first few."""
    if at >= CYCLES_DRAWN_MAX or not is_cycle(anomaly):
        return ""
    text = cycle_svg(anomaly)
    return text[text.index("<svg") :]


def _witnesses(report: RunReport) -> list[dict[str, Any]]:
    from markupsafe import Markup

    witnesses = []
    for at, (checker, anomaly) in enumerate(report.anomalies):
        ops = report.ops_of(anomaly)
        witnesses.append(
            {
                "checker": checker,
                "anomaly": anomaly,
                "svg": Markup(timeline_svg(ops)),
                "cycle": Markup(_cycle(anomaly, at)),
                "lines": [sentence(op) for op in ops],
                "hidden": len(anomaly.ops) - len(ops),
            }
        )
    return witnesses


def environment() -> Any:
    """The templates, with our filters."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("dstest.report"),
        autoescape=True,
        finalize=_finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["number"] = number
    made.filters["share"] = share
    return made


def tone_of(state: State) -> str:
    """The class that gives a verdict its colour."""
    return _TONES[state.value.split("-")[0]]


def render_html(report: RunReport, plots: dict[str, str] | None = None) -> str:
    """The page. `plots` (`latency`, `rate` as SVG) are drawn here where they are not given."""
    from markupsafe import Markup

    drawn = plots or {"latency": latency_svg(report), "rate": rate_svg(report)}
    rows = {key: value for key, value in report.meta.plain.items() if key != "records"}
    shown = json.dumps(rows, indent=2, default=repr, ensure_ascii=False)
    # What went wrong comes first where not all faults can be shown.
    detailed = sorted(report.faults, key=lambda f: f.landed == "yes")[:FAULT_DETAILS_MAX]
    template = environment().get_template("report.html.j2")
    page: str = template.render(
        r=report,
        tone=tone_of(report.state),
        plots={name: Markup(svg) for name, svg in drawn.items()},
        witnesses=_witnesses(report),
        witnesses_max=WITNESSES_MAX,
        detailed=detailed,
        facts=shown[:_FACTS_MAX],
    )
    return page
