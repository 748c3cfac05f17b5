"""Results as traces of OpenTelemetry: a run as a span, with its phases and its fault windows as
spans below it, and anomalies as events.

Ids follow from the run, so that what is exported twice is the same trace.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dstest import __version__
from dstest.ci.paths import shown_path
from dstest.core.extras import need
from dstest.results.model import FaultSpan, Result, RunFacts
from dstest.results.prometheus import timestamp_s

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

EXTRA: Final = "otel"
_WHAT: Final = "OpenTelemetry"
_S: Final = 1_000_000_000


class _Event(NamedTuple):
    name: str
    at_ns: int
    attributes: dict[str, Any]


class _Span(NamedTuple):
    """Times in nanoseconds since 1970. `trouble` makes it an error."""

    name: str
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    events: list[_Event]
    trouble: str | None


def _fault(fault: FaultSpan, origin_ns: int, end_ns: int) -> _Span | None:
    if fault.start_ns is None:
        return None
    until_ns = end_ns if fault.end_ns is None else fault.end_ns
    events = []
    if fault.landed_ns is not None:
        events.append(_Event("landed", origin_ns + fault.landed_ns, {}))
    told = {
        "dstest.fault.id": fault.id,
        "dstest.fault.nemesis": fault.nemesis,
        "dstest.fault.kind": fault.kind,
        "dstest.fault.targets": fault.targets,
        "dstest.fault.landed": fault.landed,
        "dstest.fault.heal_verified": fault.heal_verified,
    }
    trouble = None
    if fault.landed != "yes":
        trouble = f"not proven to have landed: {fault.landed}"
    elif not fault.heal_verified:
        trouble = "its heal is not proven"
    name = f"fault {fault.id} {fault.nemesis}"
    return _Span(name, origin_ns + fault.start_ns, origin_ns + until_ns, told, events, trouble)


def _phases(run: RunFacts, origin_ns: int) -> Iterator[_Span]:
    """What its record tells: making ready, load, coming to itself after a heal, last reads."""
    started = timestamp_s(run.started)
    if started is not None and started * _S < origin_ns:
        yield _Span("set up", int(started) * _S, origin_ns, {}, [], None)
    load_end = run.end_ns if run.load_end_ns is None else min(run.load_end_ns, run.end_ns)
    yield _Span("load", origin_ns, origin_ns + load_end, {}, [], None)
    for healed_ns, settled_ns in run.settled:
        until_ns = run.end_ns if settled_ns is None else settled_ns
        trouble = "the load did not go well again" if settled_ns is None else None
        begin, end = origin_ns + healed_ns, origin_ns + max(healed_ns, until_ns)
        yield _Span("recovery", begin, end, {}, [], trouble)
    if run.end_ns > load_end:
        yield _Span("after the load", origin_ns + load_end, origin_ns + run.end_ns, {}, [], None)


def _anomalies(run: RunFacts, origin_ns: int) -> list[_Event]:
    return [
        _Event(
            "anomaly",
            origin_ns + (run.end_ns if one.told_ns is None else one.told_ns),
            {
                "dstest.anomaly.type": one.type,
                "dstest.anomaly.checker": one.checker,
                "dstest.anomaly.key": one.key,
                "dstest.anomaly.explanation": one.explanation,
                "dstest.anomaly.fingerprint": one.fingerprint,
            },
        )
        for one in run.violations
    ]


def _about(result: Result) -> dict[str, Any]:
    told: dict[str, Any] = {
        "dstest.path": shown_path(result.path),
        "dstest.verdict": result.word,
        "dstest.reason": result.reason,
        "dstest.passed": result.green,
        "dstest.exit_code": result.exit,
        "dstest.command": result.command,
    }
    if (run := result.run) is not None:
        told |= {
            "dstest.run": run.run,
            "dstest.system": run.system,
            "dstest.system_version": run.system_version,
            "dstest.workload": run.workload,
            "dstest.nemesis": run.nemesis,
            "dstest.seed": -1 if run.seed is None else run.seed,
            "dstest.nodes": run.nodes,
            "dstest.tier": run.tier_met,
            "dstest.rule": run.rule,
            "dstest.faults.planned": run.faults_planned,
            "dstest.faults.landed": run.faults_landed,
            "dstest.operations": sum(one.total for one in run.types),
        }
    return told


def _tree(result: Result, now_ns: int) -> tuple[_Span, list[_Span]]:
    """The span of the result, and those below it."""
    trouble = None if result.green else f"{result.word}: {result.reason}"
    run = result.run
    if run is None:
        name = f"dstest {result.kind} {result.word}"
        return _Span(name, now_ns, now_ns, _about(result), [], trouble), []
    origin_ns = run.origin_ns
    if origin_ns is None:
        origin_ns = int(timestamp_s(run.started) or now_ns / _S) * _S
    below = [*_phases(run, origin_ns)]
    windows = (_fault(fault, origin_ns, run.end_ns) for fault in run.faults)
    below += [window for window in windows if window is not None]
    begin = min([origin_ns, *(span.start_ns for span in below)])
    end = max([origin_ns + run.end_ns, *(span.end_ns for span in below)])
    name = f"dstest run {run.system} {run.workload} {run.nemesis}"
    return _Span(name, begin, end, _about(result), _anomalies(run, origin_ns), trouble), below


def spans_of(results: Sequence[Result], now_ns: int) -> list[ReadableSpan]:
    """A trace for each result. Raises ConfigError where the extra is not installed.

    `now_ns`, since 1970, is the time of those that have none to believe.
    """
    need("opentelemetry.sdk.trace", EXTRA, _WHAT)
    from opentelemetry.sdk.resources import Resource

    resource = Resource({"service.name": "dstest", "service.version": __version__})
    found: list[ReadableSpan] = []
    for result in results:
        seed = "" if result.run is None else f"{result.run.started} {result.run.seed}"
        key = hashlib.sha256(f"{shown_path(result.path)} {seed}".encode()).digest()
        root, below = _tree(result, now_ns)
        for number, span in enumerate([root, *below]):
            found.append(_readable(span, key, number, resource))
    return found


def _readable(span: _Span, key: bytes, number: int, resource: Any) -> ReadableSpan:
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

    def context(of: int) -> SpanContext:
        id_ = hashlib.sha256(key + of.to_bytes(4, "big")).digest()
        return SpanContext(
            int.from_bytes(key[:16], "big"),
            int.from_bytes(id_[:8], "big"),
            is_remote=False,
            trace_flags=TraceFlags(TraceFlags.SAMPLED),
        )

    bad = span.trouble is not None
    return ReadableSpan(
        name=span.name,
        context=context(number),
        parent=context(0) if number else None,
        resource=resource,
        attributes=span.attributes,
        events=[Event(e.name, e.attributes, e.at_ns) for e in span.events],
        kind=SpanKind.INTERNAL,
        instrumentation_scope=InstrumentationScope("dstest", __version__),
        status=Status(StatusCode.ERROR, span.trouble) if bad else Status(StatusCode.OK),
        start_time=span.start_ns,
        end_time=span.end_ns,
    )
