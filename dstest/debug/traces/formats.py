"""Spans of other tracers as the fields of our own (`spans`): Jaeger, Zipkin, and what exporters to
a console write. Times of Jaeger and Zipkin are microseconds.

Sources: Jaeger, "Internal HTTP JSON" (`/api/traces`); Zipkin API v2 (`Span`); OpenTelemetry for
Python (`ReadableSpan.to_json`) and for Go (`stdouttrace`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

Fields = dict[str, Any]

_US_NS: Final = 1000


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _ns(value: Any) -> int | None:
    """Of microseconds; None where it is no number."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e18
    return round(value * _US_NS) if good else None


def _ended(start: int | None, took: int | None) -> int | None:
    return None if start is None or took is None else start + took


def is_jaeger(value: Mapping[str, Any]) -> bool:
    """A trace with its processes."""
    return isinstance(value.get("processes"), dict) and isinstance(value.get("spans"), list)


def of_jaeger(trace: Mapping[str, Any]) -> Iterator[Any]:
    """Each span of a trace; what is no object as it is."""
    processes = _dict(trace["processes"])
    for span in trace["spans"]:
        yield _of_jaeger(span, processes) if isinstance(span, dict) else span


def _of_jaeger(span: Mapping[str, Any], processes: Mapping[str, Any]) -> Fields:
    process = _dict(processes.get(str(span.get("processID")), span.get("process")))
    tags = {str(_dict(one).get("key")): _dict(one).get("value") for one in _list(span.get("tags"))}
    about = {
        str(_dict(one).get("key")): _dict(one).get("value") for one in _list(process.get("tags"))
    }
    above = [_dict(one) for one in _list(span.get("references"))]
    parent = next((one for one in above if one.get("refType") == "CHILD_OF"), None)
    parent = parent or next(iter(above), {})
    start, took = _ns(span.get("startTime")), _ns(span.get("duration"))
    return {
        "traceId": span.get("traceID"),
        "spanId": span.get("spanID"),
        "parentSpanId": parent.get("spanID") or span.get("parentSpanID") or "",
        "nodeId": about.get("node") or about.get("hostname") or process.get("serviceName"),
        "name": span.get("operationName"),
        "startNs": start,
        "endNs": _ended(start, took),
        "kind": tags.get("span.kind"),
        "error": "error" if tags.get("error") in (True, "true") else "",
        "operationId": tags.get("dstest.op_id"),
    }


def is_zipkin(value: Mapping[str, Any]) -> bool:
    return "traceId" in value and "id" in value and "spanId" not in value


def of_zipkin(span: Mapping[str, Any]) -> Fields:
    """A span of its second form. A server that shares the id of its client's span is another span
    below that."""
    kind = str(span.get("kind") or "").lower()
    start, took = _ns(span.get("timestamp")), _ns(span.get("duration") or 0)
    tags, id_ = _dict(span.get("tags")), span.get("id")
    shared = span.get("shared") is True
    return {
        "traceId": span.get("traceId"),
        "spanId": f"{id_}-shared" if shared else id_,
        "parentSpanId": id_ if shared else span.get("parentId"),
        "nodeId": _dict(span.get("localEndpoint")).get("serviceName"),
        "name": span.get("name"),
        "startNs": start,
        "endNs": _ended(start, took),
        "kind": kind,
        "error": str(tags.get("error") or "error") if "error" in tags else "",
        "operationId": tags.get("dstest.op_id"),
    }


def is_python_console(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("context"), dict) and "start_time" in value


def of_python_console(span: Mapping[str, Any]) -> Fields:
    """Of `ConsoleSpanExporter`."""
    context, status = _dict(span["context"]), _dict(span.get("status"))
    about = {
        **_dict(_dict(span.get("resource")).get("attributes")),
        **_dict(span.get("attributes")),
    }
    failed = status.get("status_code") == "ERROR"
    return {
        "traceId": context.get("trace_id"),
        "spanId": context.get("span_id"),
        "parentSpanId": span.get("parent_id") or "",
        "nodeId": _node(about),
        "name": span.get("name"),
        "timestamp": span.get("start_time"),
        "endTime": span.get("end_time"),
        "kind": str(span.get("kind") or "").rpartition(".")[2].lower(),
        "error": (status.get("description") or "error") if failed else "",
        "operationId": about.get("dstest.op_id"),
    }


def is_go_console(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("SpanContext"), dict) and "StartTime" in value


_GO_KINDS: Final = {2: "server", 3: "client", 4: "producer", 5: "consumer"}
_NOBODY: Final = frozenset("0")


def of_go_console(span: Mapping[str, Any]) -> Fields:
    """Of `stdouttrace`. A root has a parent of zeros."""
    context, parent = _dict(span["SpanContext"]), _dict(span.get("Parent"))
    about = {
        str(_dict(one).get("Key")): _dict(_dict(one).get("Value")).get("Value")
        for one in [*_list(span.get("Resource")), *_list(span.get("Attributes"))]
    }
    status, above = _dict(span.get("Status")), str(parent.get("SpanID") or "")
    kind = span.get("SpanKind")
    return {
        "traceId": context.get("TraceID"),
        "spanId": context.get("SpanID"),
        "parentSpanId": "" if set(above) <= _NOBODY else above,
        "nodeId": _node(about),
        "name": span.get("Name"),
        "timestamp": span.get("StartTime"),
        "endTime": span.get("EndTime"),
        "kind": _GO_KINDS.get(kind, "") if isinstance(kind, int) else "",
        "error": (status.get("Description") or "error") if status.get("Code") == "Error" else "",
        "operationId": about.get("dstest.op_id"),
    }


NODES: Final = ("service.instance.id", "host.name", "k8s.pod.name", "service.name")
"""Attributes of a resource that say whose span it is, the closest first."""


def _node(about: Mapping[str, Any]) -> Any:
    own = about.get("dstest.node") or about.get("node")
    return own or next((about[key] for key in NODES if about.get(key)), None)


FORMATS: Final[
    tuple[tuple[Callable[[Mapping[str, Any]], bool], Callable[[Mapping[str, Any]], Fields]], ...]
] = (
    (is_python_console, of_python_console),
    (is_go_console, of_go_console),
    (is_zipkin, of_zipkin),
)
"""Is a value a span of this form, and what it is in fields of ours."""
