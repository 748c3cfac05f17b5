"""Results in the text format of Prometheus, as node_exporter's textfile collector reads it, and as
traces of OpenTelemetry, by OTLP/HTTP or as a file of OTLP JSON.

A run is a span with its phases and fault windows below it and anomalies as events. Ids follow from
the run, so that what is exported twice is the same trace.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from dstest import __version__
from dstest.core.errors import ConfigError, HarnessError
from dstest.core.extras import need
from dstest.core.history import FaultWindow
from dstest.core.summary import RunSummary
from dstest.core.verdict import State
from dstest.core.words import escaped
from dstest.report.ci_formats import shown_path
from dstest.store.export.formats import ENDED_EARLY, NOT_BELIEVED, Result

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from prometheus_client.core import GaugeMetricFamily


_WORDS: Final = (*(state.value for state in State), ENDED_EARLY, NOT_BELIEVED)
_STAMP: Final = "%Y%m%dT%H%M%SZ"
EXTRA: Final = "otel"
_WHAT: Final = "OpenTelemetry"
_S: Final = 1_000_000_000
_TIMEOUT_S: Final = 10


class _Families:
    """The metrics by name, each with its help and its labels."""

    def __init__(self) -> None:
        self.made: dict[str, GaugeMetricFamily] = {}

    def add(self, name: str, help_: str, labels: dict[str, str], value: float) -> None:
        from prometheus_client.core import GaugeMetricFamily

        if name not in self.made:
            self.made[name] = GaugeMetricFamily(name, help_, labels=list(labels))
        self.made[name].add_metric([escaped(text) for text in labels.values()], value)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """As a collector of prometheus_client."""
        yield from self.made.values()


def _verdict(out: _Families, result: Result, about: dict[str, str]) -> None:
    for word in _WORDS:
        labels = {**about, "state": word}
        help_ = "1 for what the verdict is, 0 for what it is not."
        out.add("dstest_verdict", help_, labels, float(word == result.word))
    out.add("dstest_passed", "1 for a pass of what was asked for.", about, float(result.green))
    help_ = "What dstest report exits with: 0 pass, 1 violation, 3 not proven."
    out.add("dstest_exit_code", help_, about, float(result.exit))


def timestamp_s(started: str) -> float | None:
    """Seconds since 1970 of a stamp such as `20261121T215100Z`; None where it is none."""
    try:
        found = datetime.datetime.strptime(started, _STAMP).replace(tzinfo=datetime.UTC)
    except ValueError:
        return None
    return found.timestamp()


def _run(out: _Families, rule: str, run: RunSummary, about: dict[str, str]) -> None:
    told = {
        **about,
        "system": run.test.system,
        "system_version": run.test.version,
        "workload": run.test.workload,
        "nemesis": run.test.nemesis,
        "model": run.test.model,
        "seed": str(run.test.seed),
        "nodes": str(run.test.nodes),
        "tier": run.tier_met,
        "rule": rule,
        "dstest": run.dstest,
    }
    out.add("dstest_run_info", "What the run was; always 1.", told, 1.0)
    if (started := timestamp_s(run.started)) is not None:
        out.add("dstest_run_start_timestamp_seconds", "When it began.", about, started)
    help_ = (
        "First invocation to the end of the load, final reads not included; to the last invocation "
        "where that end is not known."
    )
    out.add("dstest_run_load_seconds", help_, about, run.load_s)
    planned, landed = float(run.faults_planned), float(run.faults_landed)
    out.add("dstest_run_faults_planned", "Faults that were planned.", about, planned)
    out.add("dstest_run_faults_landed", "Faults proven to have landed.", about, landed)
    for row in run.types:
        for outcome, count in (("ok", row.ok), ("fail", row.fail), ("unknown", row.unknown)):
            labels = {**about, "op_type": row.op_type, "outcome": outcome}
            out.add("dstest_run_operations", "Operations by outcome.", labels, float(count))
        for quantile, ms in (("0.5", row.p50_ms), ("0.99", row.p99_ms), ("1", row.max_ms)):
            if ms is not None:
                labels = {**about, "op_type": row.op_type, "quantile": quantile}
                help_ = "Latency of operations that succeeded."
                out.add("dstest_run_latency_seconds", help_, labels, ms / 1e3)
    help_ = "Anomalies that were counted, with a witness or without, each once."
    out.add("dstest_run_anomalies", help_, about, float(run.anomalies))
    for one in run.counted:
        labels = {**about, "checker": one.checker, "anomaly": one.kind}
        help_ = "Anomalies that a checker counted, by kind."
        out.add("dstest_run_anomalies_by_kind", help_, labels, float(one.count))


def render_prometheus(results: Sequence[Result], now_ns: int) -> str:
    """The exposition; the label `path` tells results apart. `now_ns` is since 1970."""
    from prometheus_client import CollectorRegistry, generate_latest

    out = _Families()
    for result in results:
        about = {"path": shown_path(result.path), "kind": result.kind}
        _verdict(out, result, about)
        if result.run is not None:
            _run(out, result.rule, result.run, about)
    help_ = "When these metrics were written."
    out.add("dstest_report_timestamp_seconds", help_, {}, now_ns / 1e9)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(out)
    return generate_latest(registry).decode()


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


def _fault(fault: FaultWindow, origin_ns: int, end_ns: int) -> _Span:
    until_ns = end_ns if fault.healed_ns is None else fault.healed_ns
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


def _phases(run: RunSummary, origin_ns: int) -> Iterator[_Span]:
    """What its record tells: making ready, load, coming to itself after a heal, last reads."""
    started = timestamp_s(run.started)
    if started is not None and started * _S < origin_ns:
        yield _Span("set up", int(started) * _S, origin_ns, {}, [], None)
    load_end = run.end_ns if run.load_end_ns is None else min(run.load_end_ns, run.end_ns)
    yield _Span("load", origin_ns, origin_ns + load_end, {}, [], None)
    for one in run.recoveries:
        until_ns = run.end_ns if one.settled_ns is None else one.settled_ns
        trouble = "the load did not go well again" if one.settled_ns is None else None
        begin, end = origin_ns + one.healed_ns, origin_ns + max(one.healed_ns, until_ns)
        yield _Span("recovery", begin, end, {}, [], trouble)
    if run.end_ns > load_end:
        yield _Span("after the load", origin_ns + load_end, origin_ns + run.end_ns, {}, [], None)


def _anomalies(run: RunSummary, origin_ns: int) -> list[_Event]:
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
            "dstest.system": run.test.system,
            "dstest.system_version": run.test.version,
            "dstest.workload": run.test.workload,
            "dstest.nemesis": run.test.nemesis,
            "dstest.seed": -1 if run.test.seed is None else run.test.seed,
            "dstest.nodes": run.test.nodes,
            "dstest.tier": run.tier_met,
            "dstest.rule": result.rule,
            "dstest.faults.planned": run.faults_planned,
            "dstest.faults.landed": run.faults_landed,
            "dstest.operations": run.requests,
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
    below += [_fault(fault, origin_ns, run.end_ns) for fault in run.faults]
    begin = min([origin_ns, *(span.start_ns for span in below)])
    end = max([origin_ns + run.end_ns, *(span.end_ns for span in below)])
    name = f"dstest run {run.test.system} {run.test.workload} {run.test.nemesis}"
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
        seed = "" if result.run is None else f"{result.run.started} {result.run.test.seed}"
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


_PATH: Final = "/v1/traces"
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_IDS: Final = ("traceId", "spanId", "parentSpanId")


def require_otlp(place: str) -> None:
    """Raises ConfigError where what sends or writes traces to this place is not installed, or it is
    no place (`endpoint_of`)."""
    endpoint = endpoint_of(place)
    need("opentelemetry.sdk.trace", EXTRA, _WHAT)
    need("opentelemetry.exporter.otlp.proto.common.trace_encoder", EXTRA, "OTLP")
    if endpoint is not None:
        need("opentelemetry.exporter.otlp.proto.http.trace_exporter", EXTRA, "OTLP")


def endpoint_of(text: str) -> str | None:
    """The URL of the traces of a collector, None where the text is a file's name.

    `http://host:4318` stands for `http://host:4318/v1/traces`. Raises ConfigError for any other
    scheme.
    """
    if (other := _SCHEME.match(text)) and other[1].lower() not in ("http", "https"):
        raise ConfigError(
            f"--otlp {text}: traces are not sent by {other[1]}",
            remedy="OTLP over HTTP is: http://HOST:4318 or https://; or give the name of a file",
        )
    if not text.lower().startswith(("http://", "https://")):
        return None
    return text.rstrip("/") + _PATH if urlsplit(text).path in ("", "/") else text


def _hex(value: Any) -> Any:
    """OTLP JSON has ids in hexadecimal, where the JSON of protobuf has base64."""
    if isinstance(value, dict):
        return {
            key: base64.b64decode(one).hex() if key in _IDS else _hex(one)
            for key, one in value.items()
        }
    return [_hex(one) for one in value] if isinstance(value, list) else value


def render_otlp(results: Sequence[Result], now_ns: int) -> str:
    """One line of OTLP JSON, as collectors read and write them. Raises ConfigError where the extra
    is not installed."""
    encoder = need("opentelemetry.exporter.otlp.proto.common.trace_encoder", EXTRA, "OTLP")
    from google.protobuf.json_format import MessageToDict

    message = encoder.encode_spans(spans_of(results, now_ns))
    plain = MessageToDict(message, use_integers_for_enums=True)
    return json.dumps(_hex(plain), ensure_ascii=False) + "\n"


def send_otlp(results: Sequence[Result], endpoint: str, now_ns: int) -> None:
    """To a collector. Raises ConfigError where the extra is not installed, HarnessError where the
    collector does not take them."""
    exporter_module = need("opentelemetry.exporter.otlp.proto.http.trace_exporter", EXTRA, "OTLP")
    from opentelemetry.sdk.trace.export import SpanExportResult

    exporter = exporter_module.OTLPSpanExporter(endpoint=endpoint, timeout=_TIMEOUT_S)
    try:
        said = exporter.export(spans_of(results, now_ns))
    finally:
        exporter.shutdown()
    if said is not SpanExportResult.SUCCESS:
        raise HarnessError(
            f"the collector at {endpoint} did not take the traces",
            remedy="look at its log; or write them to a file, --otlp FILE.json",
        )
