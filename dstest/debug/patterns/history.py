"""Signs in the history by the second and in sampled figures: latency, throughput, resources,
queues.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from dstest.core.op import Op
from dstest.debug.logs.scene import NO_FAULT, Severity
from dstest.debug.monitor.client import CLIENT
from dstest.debug.patterns.model import ROWS_MAX, EvidenceRow, Match, evidence_row
from dstest.debug.patterns.scene import Fit, Scene, Series, fit_line
from dstest.judge.facts import SECOND_NS

RESOURCES: Final = ("rss", "fds", "connections", "threads", "processes")
QUEUES: Final = ("queue",)
CONSUMED: Final = ("throughput", "ok")
LATENCIES: Final = ("answer_time", "p99")
CPU: Final = "cpu"
"""Names of samples as `dstest monitor` has them: bytes, counts, 1/s, ms, % of all CPUs."""

HISTORY: Final = "history"
"""The record that what clients saw was counted from."""

SAMPLES_LEAST: Final = 3
"""Samples above a bound; fewer are noise."""


def of_ops(scene: Scene, ops: Sequence[Op], said: str, **more: Any) -> Match:
    """Operations as the evidence of a finding."""
    rows = []
    for op in ops[:ROWS_MAX]:
        took = op.complete_ts
        ms = "never answered" if took is None else f"{(took - op.invoke_ts) / 1e6:.1f} ms"
        text = f"op {op.op_id} {op.op_type} on {op.key}: {op.error or 'answered'}, {ms}"
        place = scene.lines_of_ops[op.op_id]
        rows.append(
            evidence_row("operation", place, text, op.invoke_ts, op.node_seen or "", [op.op_id])
        )
    more.setdefault("nodes", sorted({op.node_seen for op in ops if op.node_seen}))
    more.setdefault("at_ns", ops[0].invoke_ts if ops else None)
    return Match(said=said, rows=rows, count=len(ops), **more)


def by_second(scene: Scene, wanted: Callable[[Op], bool], *, ended: bool = False) -> list[int]:
    """How many of these operations of the load began, or `ended`, in each whole second of it."""
    counts = [0] * (scene.load_end_ns // SECOND_NS)
    for op in scene.load:
        at = op.complete_ts if ended else op.invoke_ts
        if at is not None and 0 <= at // SECOND_NS < len(counts) and wanted(op):
            counts[at // SECOND_NS] += 1
    return counts


def quiet_seconds(scene: Scene) -> list[bool]:
    """Of each whole second of the load: did no fault stand in any part of it?"""
    return [
        scene.calm(second * SECOND_NS, (second + 1) * SECOND_NS)
        for second in range(scene.load_end_ns // SECOND_NS)
    ]


def runs_of(flags: Sequence[bool]) -> list[tuple[int, int]]:
    """Stretches (first, one behind the last) in which a flag holds."""
    found, begin = [], None
    for at, flag in enumerate([*flags, False]):
        if flag and begin is None:
            begin = at
        elif not flag and begin is not None:
            found.append((begin, at))
            begin = None
    return found


def collapse(scene: Scene) -> Iterator[Match]:
    """Seconds in a row, outside of faults, with far fewer operations served than in those before
    the first fault, or in the first third of the load."""
    quiet = quiet_seconds(scene)
    served = by_second(scene, scene.served, ended=True)
    asked = by_second(scene, lambda op: True)
    first = min((w.start_ns for w in scene.faults), default=scene.load_end_ns) // SECOND_NS
    until = min(max(1, first), max(1, len(served) // 3)) if not scene.faults else first
    base = [n for n, calm in zip(served[1:until], quiet[1:until], strict=True) if calm]
    if len(base) < 3 or sum(base) < scene.settings.attempts_least:
        return
    rate = sum(base) / len(base)
    least = scene.settings.throughput_least * rate
    low = [n < least and calm for n, calm in zip(served, quiet, strict=True)]
    low[: until or 1] = [False] * min(until or 1, len(low))
    for begin, end in runs_of(low):
        if end - begin < scene.settings.throughput_s:
            continue
        mean, offered = sum(served[begin:end]) / (end - begin), sum(asked[begin:end])
        if not _wanted(scene, begin, end, offered, sum(served[begin:end])):
            continue  # clients asked for less, and were not kept waiting
        begin_ns, end_ns = begin * SECOND_NS, end * SECOND_NS
        busy = scene.host_busy(begin_ns, end_ns)
        full = busy is not None and busy > scene.settings.host_full
        yield Match(
            said=f"{mean:.1f} operations a second for {end - begin} s, {rate:.1f} before the first "
            f"fault or at the start; {offered} were asked for{_kind(scene, begin_ns, end_ns)}",
            rows=[
                evidence_row(
                    "sample", "history.jsonl", f"{served[s]} served in second {s}", s * SECOND_NS
                )
                for s in range(begin, min(end, begin + 6))
            ],
            count=end - begin,
            at_ns=begin_ns,
            severity="medium" if full else None,
            strength="weak" if full else None,
            window="no fault",
            expected=False,
            why=f"the host used {busy:.0%} of its CPUs: it may be the host that could do no more"
            if full
            else "no fault stood in these seconds",
        )


def _wanted(scene: Scene, begin: int, end: int, offered: int, done: int) -> bool:
    """Was more asked for than was served, or were clients kept waiting most of the time?"""
    if offered > 0 and done < (1 - scene.settings.timeouts_most) * offered:
        return True
    ops = scene.between(begin * SECOND_NS, end * SECOND_NS)
    until = end * SECOND_NS
    waited = sum(min(op.complete_ts or until, until) - op.invoke_ts for op in ops)
    clients = scene.header.concurrency or 0
    room = clients * (end - begin) * SECOND_NS
    return bool(room) and waited > scene.settings.waiting_most * room


def _kind(scene: Scene, start_ns: int, end_ns: int) -> str:
    """Idle servers wait for something; busy ones can do no more."""
    values = [v for one in scene.figures(CPU) for v in one.between(start_ns, end_ns)]
    if not values:
        return ""
    share = sum(values) / len(values) / 100
    if share < scene.settings.cpu_idle:
        return f"; CPUs were idle ({share:.0%}): something is waited for (head of line)"
    return f"; CPUs were busy ({share:.0%}): capacity"


def sampled_spikes(scene: Scene) -> Iterator[Match]:
    """Percentiles that were sampled, against the median of their first third outside of faults."""
    for one in scene.figures(*LATENCIES):
        calm = [(at, v) for at, v in zip(one.times_ns, one.values, strict=True) if scene.quiet(at)]
        early = sorted(v for _, v in calm[: max(3, len(calm) // 3)])
        if len(calm) < 6 or not early:
            continue
        base = early[len(early) // 2]
        high = [
            (at, v)
            for at, v in zip(one.times_ns, one.values, strict=True)
            if v > scene.settings.spike_times * base
        ]
        groups: dict[tuple[str, bool, str], list[tuple[int, float]]] = defaultdict(list)
        for at, value in high:
            said = scene.why(at, (one.node,))
            groups[said.window, said.expected, said.why].append((at, value))
        for (window, expected, why), rows in groups.items():
            if len(rows) < SAMPLES_LEAST:
                continue
            worst = max(value for _, value in rows)
            severity: Severity = "high" if worst > scene.settings.spike_ms else "medium"
            yield Match(
                said=f"{one.name} of {one.node} rose to {worst:.1f} ms, {base:.1f} ms before",
                rows=[evidence_row("sample", one.place, f"{v:.1f} ms", at, one.node)
                      for at, v in rows[:6]],
                count=len(rows),
                nodes=[one.node] if one.node in scene.nodes else [],
                at_ns=rows[0][0],
                severity=severity,
                basis=HISTORY if one.place == CLIENT else "",
                window=window,
                expected=expected,
                why=why,
            )  # fmt: skip


def resource_lines(scene: Scene) -> Iterator[Match]:
    """Lines that tell of resources that are gone, by what is gone."""
    by = defaultdict(list)
    for told in scene.notes.resources:
        said = scene.why(told.line.time_ns, (told.line.node,))
        by[told.what, said.window, said.expected, said.why].append(told.line)
    for (what, window, expected, why), lines in by.items():
        yield Match(
            said=f"{len(lines)} lines say that {what} ran out",
            rows=[
                evidence_row("log", x.place, x.record.message, x.time_ns, x.node) for x in lines[:6]
            ],
            count=len(lines),
            nodes=sorted({x.node for x in lines}),
            at_ns=lines[0].time_ns,
            window=window,
            expected=expected,
            why=why,
        )


def _calm_fit(scene: Scene, one: Series, skip: int = 0) -> Fit | None:
    """The line through its values outside of faults, from one of them on."""
    rows = zip(one.times_ns[skip:], one.values[skip:], strict=True)
    calm = [(at, value) for at, value in rows if scene.quiet(at)]
    return fit_line([at for at, _ in calm], [value for _, value in calm])


def _steady(scene: Scene, one: Series) -> Fit | None:
    """The line through its values outside of faults after the first fifth, where it is steady, long
    and steep."""
    skip = len(one.values) // 5
    fit = _calm_fit(scene, one, skip)
    times = [at for at in one.times_ns[skip:] if scene.quiet(at)]
    if fit is None or (times[-1] - times[0]) / 1e9 < scene.settings.slope_s:
        return None
    grown = (fit.last - fit.first) / fit.first if fit.first > 0 else float(fit.last > 0)
    steady = fit.slope > 0 and fit.r2 > scene.settings.slope_r2
    return fit if steady and grown >= scene.settings.growth_least else None


def grows(scene: Scene) -> Iterator[Match]:
    """Memory, descriptors and connections that grow on and on."""
    for one in scene.figures(*RESOURCES):
        if (fit := _steady(scene, one)) is None:
            continue
        over = one.name == "rss" and fit.last > scene.settings.rss_most
        hour = fit.slope * 3600
        yield Match(
            said=f"{one.name} of {one.node} grows by {hour:,.0f} an hour, steadily (R² "
            f"{fit.r2:.2f}): from {fit.first:,.0f} to {fit.last:,.0f}",
            rows=[_sample(one, at) for at in (0, len(one.values) // 2, -1)],
            count=len(one.values),
            nodes=[one.node] if one.node in scene.nodes else [],
            severity="high" if over else "medium",
            strength="strong" if over else "indicated",
            window=NO_FAULT,
            expected=False,
            why="it grows outside of faults",
        )


def _sample(one: Series, at: int) -> EvidenceRow:
    return evidence_row("sample", one.place, f"{one.values[at]:,.0f}", one.times_ns[at], one.node)


def _to_its_peak(one: Series) -> Series:
    """Without what came after the highest value."""
    end = one.values.index(max(one.values)) + 1
    return msgspec.structs.replace(one, times_ns=one.times_ns[:end], values=one.values[:end])


def queues_grow(scene: Scene) -> Iterator[Match]:
    """Queues that grow while what takes from them does not take more, be it that they are emptied
    in the end."""
    for each in scene.figures(*QUEUES):
        one = _to_its_peak(each)
        if (fit := _steady(scene, one)) is None:
            continue
        rates = [f for s in scene.figures(*CONSUMED) if (f := _calm_fit(scene, s))]
        faster = [f for f in rates if f.r2 > scene.settings.slope_r2 and f.last > 1.5 * f.first]
        if faster:
            continue
        over = fit.last > scene.settings.queue_most
        with_rate = "while what takes from it takes no more" if rates else "(no rate was sampled)"
        yield Match(
            said=f"{one.name} of {one.node} grows steadily (R² {fit.r2:.2f}) from {fit.first:,.0f} "
            f"to {fit.last:,.0f}, {with_rate}",
            rows=[_sample(one, at) for at in (0, len(one.values) // 2, -1)],
            count=len(one.values),
            nodes=[one.node] if one.node in scene.nodes else [],
            severity="high" if rates or over else "medium",
            strength="strong" if rates else "indicated",
            window=NO_FAULT,
            expected=False,
            why="it grows outside of faults",
        )
