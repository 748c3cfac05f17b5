"""`report.html`: one file that asks for nothing else, readable without knowing dstest."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from dstest.core.check import Anomaly
from dstest.core.printable import printable
from dstest.core.run_meta import RunMeta
from dstest.core.verdict import State
from dstest.core.words import shell_word
from dstest.judge.judged import share
from dstest.judge.words import blame_words, bug_words, rule_words, spelled, words_of
from dstest.monitor.rows import BASELINE, CLIENT, NODES
from dstest.report.besides import besides
from dstest.report.blame import probe_rows
from dstest.report.charts import axis_of, charts
from dstest.report.embedded import PAGE_MAX, Embedded, embedded, scripts
from dstest.report.errors import reasons
from dstest.report.fault_samples import fault_samples
from dstest.report.kinds import kinds, others
from dstest.report.leaders import recorded_changes
from dstest.report.logs import LogLine, read_logs, spoken
from dstest.report.loops import is_cycle, loop_svg
from dstest.report.measured_file import alert_lines
from dstest.report.model import RunReport
from dstest.report.moments import Moment, headline, moments, sentence
from dstest.report.numbers import number
from dstest.report.over_seeds import arms_of
from dstest.report.sampled import series_charts
from dstest.report.service import ALL_MAX, first_shown, least_ns, stretches
from dstest.report.settings import documented, settings
from dstest.report.timeline import story, timeline_svg
from dstest.store.layout import EVENTS

FAULT_DETAILS_MAX: Final = 40
"""Faults shown with every number; each takes some kilobytes, and all are in faults.jsonl."""

FAULT_ROWS_MAX: Final = 150
"""Faults in the table."""

LISTED_MAX: Final = 200
"""Anomalies in the list of those without a part of their own."""

_FACTS_MAX: Final = 60_000
"""Characters of run.json shown."""

_TOLD_MAX: Final = 3000
"""Characters of an explanation."""

_TONES = {"PASS": "pass", "FAIL": "fail", "INCONCLUSIVE": "open", "PARTIAL": "open", "NOT": "open"}

_FILES: Final = (
    ("history.jsonl", "every operation, a line each, after a header"),
    ("faults.jsonl", "every fault with its counters, a line each"),
    ("verdict.json", "the verdict, and what each checker answered with all witnesses"),
    ("evidence.json", "what the verdict was computed from"),
    ("canary.json", "broken copies of this history, and who rejected them"),
    ("effects.json", "what the servers wrote down of what they did"),
    ("run.json", "what the runner recorded"),
    ("spec.toml", "what was asked for"),
    ("schedule.json", "the faults as they were planned"),
    ("host.jsonl", "samples of the control host"),
    (NODES, "samples of the nodes"),
    (CLIENT, "what clients saw, second by second"),
    (BASELINE, "the baseline, alerts and health that follow from both"),
    ("run.log", "what the runner said while it went on"),
    (EVENTS, "every event of the simulation"),
    ("segments", "the operations as each worker wrote them down, before they were put together"),
    ("workers", "what each worker was given, and said"),
)
"""Files and folders of a run directory that are there before its report is drawn, where it has
them."""


def _finalize(value: Any) -> Any:
    """What the template prints, without control characters; markup of our own stays as it is."""
    return printable(value) if type(value) is str else value


def _cut(text: str) -> str:
    return text if len(text) <= _TOLD_MAX else f"{text[:_TOLD_MAX]} … (whole in verdict.json)"


def _twin(twin: Moment, moment: Moment) -> dict[str, Any]:
    """What another checker says of the same anomaly beside what is told already."""
    shown = {op.op_id for op in moment.ops}
    more = [op for op in twin.ops if op.op_id not in shown]
    return {
        "m": twin,
        "told": _cut(twin.anomaly.explanation),
        "where": "" if twin.where == moment.where else twin.where,
        "lines": [story(op) for op in more],
        "often": [line for line in twin.often if line not in moment.often],
    }


def _witness(moment: Moment, report: RunReport, twins: Sequence[Moment]) -> dict[str, Any]:
    """An anomaly with its drawings."""
    from markupsafe import Markup

    anomaly: Anomaly = moment.anomaly
    rows = [(line, log.node, False) for log in moment.logs for line in log.lines]
    place = moment.place
    if rows and place is not None:
        if place.word:
            rows.append((LogLine(place.at_ns, place.word), "client", True))
        if not place.word or place.told_ns != place.at_ns:
            rows.append((LogLine(place.told_ns, "the answer that gave it away"), "client", True))
    return {
        "m": moment,
        "twins": [_twin(twin, moment) for twin in twins],
        "told": _cut(sentence(anomaly.explanation)),
        "svg": Markup(timeline_svg(moment.ops, report.faults, moment.culprit)),
        "loop": Markup(loop_svg(anomaly) if is_cycle(anomaly) else ""),
        "lines": [(op.op_id == moment.culprit, story(op)) for op in moment.ops],
        "hidden": len(anomaly.ops) - len(moment.ops),
        "logs": sorted(rows, key=lambda row: (row[0].time_ns, row[1])),
        "spoke": any(log.lines and not log.why for log in moment.logs),
        "left_out": sum(log.left_out for log in moment.logs),
        "silent": _silent(moment),
        "events": "" if report.meta.transport == "network" else EVENTS,
        "events_ns": None if place is None else place.at_ns + (report.meta.origin_ns or 0),
        "centre": "" if place is None else place.centre,
    }


def _silent(moment: Moment) -> list[tuple[str, str, str]]:
    """(nodes, log, why) of the logs that say nothing then, those of one reason together."""
    groups: dict[tuple[str, str], list[str]] = {}
    for log in moment.logs:
        if log.why:
            groups.setdefault((log.name, log.why), []).append(log.node)
    return [(", ".join(nodes), name, why) for (name, why), nodes in groups.items()]


@cache
def templates() -> Any:
    """Those of reports, each compiled once."""
    return environment()


def environment() -> Any:
    """The templates, with our filters, to be added to."""
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
    made.filters["shell_word"] = shell_word
    made.filters["share"] = share
    made.filters["spelled"] = spelled
    return made


def tone_of(state: State) -> str:
    """The class that gives a verdict its colour."""
    return _TONES[state.value.split("-")[0]]


def _files(run: Path, meta: RunMeta) -> list[tuple[str, str]]:
    """(name, what it holds) of the run's raw files."""
    found = [(name, holds) for name, holds in _FILES if (run / name).exists()]
    logs = [] if meta.logs is None else sorted(meta.logs.files)
    return found + [(f"nodes/{name}", "a log of that node") for name in logs]


def _facts(report: RunReport) -> str:
    rows = {key: value for key, value in report.meta.plain.items() if key != "records"}
    text = json.dumps(rows, indent=2, default=repr, ensure_ascii=False)
    return text if len(text) <= _FACTS_MAX else f"{text[:_FACTS_MAX]}\n… (whole in run.json)"


def _next_steps(report: RunReport) -> list[tuple[str, list[str]]]:
    """(command, what it supplies) of what stands between the verdict and the next better one; of a
    failure, what to do about it: that it is one needs no saying."""
    groups: dict[str, list[str]] = {}
    for remedy in report.remedies:
        if not (report.state.failed and remedy.obstacle.startswith("A violation")):
            groups.setdefault(remedy.command, []).append(remedy.obstacle)
    return list(groups.items())


def render_html(report: RunReport) -> str:
    """The page."""
    from markupsafe import Markup

    run = Path(report.path)
    logs = read_logs(run, report.meta, report.history.header.system)
    found = moments(report, logs, arms_of(run))
    told = [m for m in found if m.twin_of is None]
    listed = [m for m in told if not m.detailed]
    twins: dict[int, list[Moment]] = {}
    for m in found:
        if m.twin_of is not None:
            twins.setdefault(m.twin_of, []).append(m)
    leaders = recorded_changes(report.records)
    axis = axis_of(report, leaders)
    outages = stretches(report.history.ops, report.faults, report.load_end_ns)
    at_once, later = first_shown(outages)
    drawn, charts_left_out = charts(report, axis, outages)
    together = kinds(report, found)
    main, exact = headline(report, found)
    template = templates().get_template("report.html.j2")
    parts: dict[str, Any] = {
        "r": report,
        "tone": tone_of(report.state),
        "headline": main or spelled(report.verdict.reason),
        "exact": exact,
        "settings": settings(report),
        "documented": documented(report) if report.state.failed else [],
        "besides": besides(report, outages),
        "reasons": reasons(report.history),
        "rule_words": rule_words(report.verdict.rule, report.state),
        "blame_words": blame_words(report.verdict.blame or ""),
        "bug_words": bug_words,
        "words_of": words_of,
        "kinds": together,
        "others": others(told, together),
        "witnesses": [_witness(m, report, twins.get(m.number, [])) for m in told if m.detailed],
        "listed": listed[:LISTED_MAX],
        "twins": twins,
        "unlisted": max(0, len(listed) - LISTED_MAX),
        "steps": _next_steps(report),
        "charts": [(chart.title, Markup(chart.svg)) for chart in drawn],
        "sampled": [(chart.title, Markup(chart.svg)) for chart in series_charts(run, axis)],
        "fault_samples": fault_samples(run, report.records),
        "measured": [] if report.measured is None else alert_lines(report.measured),
        "charts_left_out": charts_left_out,
        "outages": at_once,
        "least_outage_s": f"{least_ns(report.history.ops) / 1e9:.3g}",
        "more_outages": later[:ALL_MAX],
        "outages_left_out": len(later) - ALL_MAX,
        "leaders": leaders,
        "spoken": spoken(logs) if len(logs) else [],
        # What went wrong comes first where not all faults can be shown.
        "detailed": sorted(report.faults, key=lambda f: f.landed == "yes")[:FAULT_DETAILS_MAX],
        "rows": report.faults[:FAULT_ROWS_MAX],
        "probes": probe_rows(report.evidence, None) if report.state.failed else [],
        "files": _files(run, report.meta),
        "facts": _facts(report),
        "script": Markup(scripts()),
    }
    bare: str = template.render(**parts, data=Embedded("", "", "", ""))
    data = embedded(report, axis, found, PAGE_MAX - len(bare.encode(errors="replace")))
    page: str = template.render(**parts, data=data)
    return page
