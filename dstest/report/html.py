"""`report.html`: one file that asks for nothing else, readable without knowing dstest; with the
operations, faults, changes of the lead and anomalies that its timeline is given.

It is complete without scripts (charts, witnesses and cycles are SVG), below 2 MB, and says what it
left out; its content policy forbids every request. The headline tells how a read was wrong, and
nothing that takes a search. When a session ends, the pages of its failed arms are drawn again: only
then is it known in how many arms an anomaly came.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NamedTuple

from dstest.core.check import Anomaly
from dstest.core.history import FaultWindow
from dstest.core.run_record import RunMeta
from dstest.core.verdict import State
from dstest.core.words import printable, shell_word
from dstest.debug.monitor.analysis import alert_line
from dstest.debug.monitor.client import BASELINE, CLIENT, NODES
from dstest.debug.patterns.diagnosis import Cause, causes
from dstest.history.layout import EVENTS
from dstest.judge.audit_rows import NOT_SERVING, UNEXPLAINED
from dstest.judge.decide import share
from dstest.judge.words import blame_words, bug_words, rule_words, spelled, words_of
from dstest.report.charts import Axis, axis_of, charts, fault_samples, series_charts
from dstest.report.columns import Packed, density, packed
from dstest.report.logs import LogLine, read_logs, recorded_changes, spoken
from dstest.report.model import RunReport, alert_lines
from dstest.report.moments import Moment, arms_of, headline, kinds, moments, others, sentence
from dstest.report.numbers import number
from dstest.report.service import ALL_MAX, Stretch, first_shown, least_ns, reasons, stretches
from dstest.report.settings import documented, settings, ways_out
from dstest.report.strip import strip_svg
from dstest.report.terminal import probe_rows
from dstest.report.timeline import is_cycle, loop_svg, story, timeline_svg

_LEAST_NS: Final = 5_000_000_000
"""How long nothing succeeds before it is worth a line of its own."""

_CUT: Final = 300
_ALERTS_MAX: Final = 3

PAGE_MAX: Final = 1_950_000
"""Bytes of a page, all in all."""

_SCRIPTS: Final = ("timeline-data.js", "timeline-rows.js", "timeline.js", "timeline-ui.js")

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
    (
        "verdict.json",
        "the verdict, its evidence, all answers of checkers, and what came of broken copies",
    ),
    ("effects.json", "what the servers wrote down of what they did"),
    ("run.json", "what was asked for, and what the runner recorded"),
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


class Besides(NamedTuple):
    """A sentence, and the id of the element of the page that tells more."""

    said: str
    anchor: str


def _unexplained(report: RunReport) -> list[Besides]:
    """Crashes, panics and ends of processes, as the audit says them."""
    found = []
    for row in report.audit:
        if row.status == "short" and UNEXPLAINED in row.evidence:
            said = row.evidence if len(row.evidence) <= _CUT else row.evidence[: _CUT - 1] + "…"
            found.append(Besides(f"{said}.", f"audit-{row.id}"))
    return found


def _not_serving(report: RunReport) -> list[Besides]:
    down = [node for node, serves in (report.meta.healthy or {}).items() if serves is False]
    if not down:
        return []
    who = "No node" if len(down) == len(report.meta.healthy or {}) > 1 else ", ".join(down)
    verb = "served" if who == "No node" else "did not serve"
    row = next((row for row in report.audit if NOT_SERVING in row.evidence), None)
    anchor = "audit" if row is None else f"audit-{row.id}"
    return [Besides(f"{who} {verb} after the settle phase.", anchor)]


def _free(start_ns: int, end_ns: int, faults: Sequence[FaultWindow]) -> tuple[int, int]:
    """The longest part of a stretch in which no fault stood."""
    parts, at = [], start_ns
    windows = [(f.start_ns, f.healed_ns) for f in faults]
    for begun, healed in sorted(windows, key=lambda window: window[0]):
        parts.append((at, min(end_ns, begun)))
        at = max(at, end_ns if healed is None else healed)
    parts.append((at, end_ns))
    return max(parts, key=lambda part: part[1] - part[0])


def _silence(report: RunReport, outages: Sequence[Stretch]) -> list[Besides]:
    """The longest stretch of the whole system while no fault stood."""
    whole = [(n, row) for n, row in enumerate(outages) if row.whole]
    found = [(*_free(row.start_ns, row.end_ns, report.windows), n) for n, row in whole]
    longest = max(found, key=lambda row: row[1] - row[0], default=None)
    if longest is None or longest[1] - longest[0] < _LEAST_NS:
        return []
    start, end, n = longest
    until = f"from {start / 1e9:.1f} s to {end / 1e9:.1f} s ({(end - start) / 1e9:.1f} s)"
    shown = {number for number, _ in first_shown(outages)[0]}
    anchor = f"outage-{n + 1}" if n + 1 in shown else "timeline-charts"
    return [Besides(f"No operation succeeded {until}, while no fault stood.", anchor)]


def _alerts(report: RunReport) -> list[Besides]:
    """What was measured, was high or critical, and is explained by no proven fault."""
    found = [] if report.measured is None else report.measured.severe
    return [Besides(f"Alert: {alert_line(alert)}.", "measured") for alert in found[:_ALERTS_MAX]]


def besides(report: RunReport, outages: Sequence[Stretch]) -> list[Besides]:
    """What went wrong besides what the verdict is about; `outages` are the stretches without
    service, as the page lists them."""
    return [
        *_unexplained(report),
        *_not_serving(report),
        *_silence(report, outages),
        *_alerts(report),
    ]


class Embedded(NamedTuple):
    """`run` is JSON that may stand in a script element; `said` is what the timeline leaves out."""

    run: str
    numbers: str
    texts: str
    said: str


def scripts() -> str:
    """Our own scripts, one after the other."""
    place = files("dstest.report").joinpath("static")
    return "\n".join(place.joinpath(name).read_text(encoding="utf-8") for name in _SCRIPTS)


def _quiet(value: Any) -> Any:
    """Plain data without control characters."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [_quiet(one) for one in value]
    if isinstance(value, dict):
        return {key: _quiet(one) for key, one in value.items()}
    return value


def _script_json(value: Any) -> str:
    """JSON in which nothing can end a script element or begin a comment in it."""
    text = json.dumps(_quiet(value), ensure_ascii=True, separators=(",", ":"), default=repr)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _anomaly(moment: Moment, group: list[Moment], at: dict[int | str, int]) -> dict[str, Any]:
    """`group` are it and those that repeat it."""
    ops = dict.fromkeys(id for one in group for id in one.anomaly.ops)
    culprit = -1 if moment.culprit is None else at.get(moment.culprit, -1)
    return {
        "number": moment.number,
        "title": moment.title,
        "from": moment.start_ns,
        "to": moment.end_ns,
        "at": moment.told_ns,
        "ops": [at[id] for id in ops if id in at],
        "culprit": culprit,
    }


def _edges(axis: Axis, found: Sequence[Moment]) -> list[int]:
    """The instants that operations are kept around."""
    times = [t for m in found for t in (m.start_ns, m.end_ns) if t is not None]
    times += [t for f in axis.faults for t in (f.start_ns, f.healed_ns) if t is not None]
    return times


def _left_out_text(found: Packed, total: int) -> str:
    if not total:
        return "There are no operations to show."
    if found.kept == total and found.told == total:
        what = f"All {total:,} operations are here"
        exact = "" if found.unit_ns == 1 else ", times to the microsecond"
        return f"{what}, each with what was asked and answered{exact}."
    rest = "nearest to anomalies and to the edges of fault windows"
    if found.kept == total:
        return (
            f"All {total:,} operations are here, times to the microsecond; {found.told:,} of them, "
            f"those {rest}, with what was asked and answered. All of it is in history.jsonl."
        )
    return (
        f"{found.kept:,} of {total:,} operations are here, those {rest}, {found.told:,} of them "
        "with what was asked and answered, times to the microsecond; the overview on top counts "
        "all. The others would have made this page larger than 2 MB: they are in history.jsonl."
    )


def embedded(report: RunReport, axis: Axis, found: Sequence[Moment], room: int) -> Embedded:
    """The data for a page that has `room` bytes left."""
    ops = report.history.ops
    wanted_ids = {id for m in found for id in m.anomaly.ops}
    wanted = [n for n, op in enumerate(ops) if op.op_id in wanted_ids]
    run: dict[str, Any] = {
        "start_ns": axis.start_ns,
        "end_ns": axis.end_ns,
        "density": density(ops, axis.start_ns, axis.end_ns),
        "faults": [
            {
                "id": f.id,
                "nemesis": f.nemesis,
                "landed": f.landed == "yes",
                "start": f.start_ns,
                "end": f.healed_ns,
            }
            for f in axis.faults
        ],
        "leaders": [{"time": c.time_ns, "said": c.said} for c in axis.leaders],
    }
    room -= len(_script_json(run)) + 200 * len(found)
    data = packed(ops, room, wanted=wanted, instants=_edges(axis, found)) if ops else None
    if data is None or data.size > room:
        said = (
            ""
            if data is None
            else "This page has no room for operations. All are in history.jsonl."
        )
        return Embedded("", "", "", said or "There are no operations to show.")
    at = {
        ops[place].op_id: n for n, place in enumerate(data.places) if ops[place].op_id in wanted_ids
    }
    groups: dict[int, list[Moment]] = {}
    for m in found:
        groups.setdefault(m.twin_of or m.number, []).append(m)
    told = [m for m in found if m.twin_of is None and m.start_ns is not None]
    run["anomalies"] = [_anomaly(m, groups[m.number], at) for m in told]
    run["ops"] = data.head
    return Embedded(_script_json(run), data.numbers, data.texts, _left_out_text(data, len(ops)))


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


def _one_value(texts: Iterable[str]) -> str:
    """What several rows all say; empty where they differ, or are one."""
    found = list(texts)
    return found[0] if len(found) > 1 and len(set(found)) == 1 else ""


def _in_all(listed: Sequence[Moment], twins: Mapping[int, Sequence[Moment]]) -> dict[str, str]:
    """What stands above the rows of witnesses, since all of them say it."""
    whole = [one for m in listed for one in (m, *twins.get(m.number, []))]
    by = "" if len(whole) > len(listed) else _one_value(m.checker for m in listed)
    return {"listed_by": by, "listed_where": _one_value(m.where for m in whole)}


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
    others = [_twin(twin, moment) for twin in twins]
    return {
        "m": moment,
        "twins": others,
        "same": [twin for twin in others if not twin["lines"]],
        "told": _cut(sentence(anomaly.explanation)),
        "svg": Markup(timeline_svg(moment.ops, report.windows, moment.culprit, key=anomaly.key)),
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


def _first(report: RunReport, found: Sequence[Moment], axis: Axis) -> dict[str, Any]:
    """What a person looks at first: every anomaly over the run, why, what to do, the worst one."""
    from markupsafe import Markup

    together, ways, behind = kinds(report, found), ways_out(report), _causes(report)
    worst = next((m for m in found if m.ops), None)
    first = found[0].anomaly.type
    ordered = sorted(together, key=lambda kind: kind.type != first)
    told = {kind.drawn: kind.shown for kind in ordered if kind.shown is not None}
    narrow = (
        "" if worst is None
        else timeline_svg(
            worst.ops, report.windows, worst.culprit, key=worst.anomaly.key, narrow=True
        )
    )  # fmt: skip
    return {
        "strip": Markup(strip_svg(axis, report.history.ops, told)),
        "narrow": Markup(narrow),
        "why": [*(one.says for one in documented(report)), *(cause.said for cause in behind)],
        "helps": [] if ways else [way for cause in behind for way in cause.helps],
        "steps": [*ways, *report.steps()],
        "explain": f"dstest explain {shell_word(report.path)}",
    }


def _causes(report: RunReport) -> list[Cause]:
    """What servers' own records show to lie behind it, or why they could not be looked at: a log
    of others that breaks a rule of ours costs nobody the page."""
    try:
        return causes(Path(report.path), report.history.ops)
    except Exception as error:
        told = printable(str(error) or type(error).__name__).partition("\n")[0]
        return [Cause(f"The servers' records could not be looked at: {told}.", ())]


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
    made.filters["command"] = _command
    made.filters["spelled"] = spelled
    return made


def _command(words: str) -> Any:
    """As code in which no flag is broken where a line ends."""
    from markupsafe import Markup, escape

    parts = [escape(printable(word)) for word in words.split(" ")]
    whole = [
        Markup('<span class="w">{}</span>').format(part) if part.startswith("-") else part
        for part in parts
    ]
    return Markup("<code>{}</code>").format(Markup(" ").join(whole))


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
    outages = stretches(report.history.ops, report.windows, report.load_end_ns)
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
        "first": _first(report, found, axis) if report.state.failed and found else None,
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
        **_in_all(listed[:LISTED_MAX], twins),
        "unlisted": max(0, len(listed) - LISTED_MAX),
        "steps": _next_steps(report),
        "charts": [(chart.title, Markup(chart.svg)) for chart in drawn if not chart.closer],
        "closer": [
            *((chart.title, Markup(chart.svg)) for chart in drawn if chart.closer),
            *((chart.title, Markup(chart.svg)) for chart in series_charts(run, axis)),
        ],
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
