"""Spans out of files: JSON lines or arrays of our own form, and OTLP JSON.

| notation | a span is |
|---|---|
| own | `traceId spanId parentSpanId nodeId operation timestamp duration`; also `agentId`, `message`, `startNs` with `endNs`, `kind`, `error`, `operationId`, `vectorClock` |
| own, a message | `from to type messageId timestamp`, without `spanId` |
| OTLP JSON | `resourceSpans`, a request in the whole file or one on each line |

`timestamp` is ISO 8601 or milliseconds, `duration` milliseconds. Source of OTLP JSON: OpenTelemetry
Protocol 1.5, "JSON Protobuf Encoding".
"""  # noqa: E501

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from dstest.core.errors import HistoryError
from dstest.core.log_stamps import wall_time_ns
from dstest.core.printable import one_line
from dstest.traces.spans import NOBODY, Message, Span

SPANS_MAX: Final = 2_000_000
"""Spans of one look; a tree needs all of them in memory."""

WHOLE_MAX: Final = 512 << 20
"""Bytes of a file that is one JSON value over several lines."""

TIME_MAX_NS: Final = 1 << 62

_KINDS: Final = {1: "internal", 2: "server", 3: "client", 4: "producer", 5: "consumer"}
_NODES: Final = ("service.instance.id", "host.name", "k8s.pod.name", "service.name")
_ERROR: Final = 2


def _bad(path: str, line: int, why: str, column: int | None = None) -> HistoryError:
    return HistoryError(
        f"{path}: {why}",
        line=line,
        column=column,
        remedy="spans are JSON objects with traceId, spanId, a start and an end, or OTLP JSON",
    )


def read_file(path: Path, shown: str = "") -> Iterator[Span | Message]:
    """What a file holds, as it stands there. Raises HistoryError where it cannot be read."""
    name = shown or one_line(str(path))
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        opener = gzip.open if packed else Path.open
        with opener(path, "rb") as lines:
            yield from read_lines(lines, name)
    except (OSError, EOFError) as error:
        why = one_line(str(getattr(error, "strerror", None) or error))
        raise HistoryError(f"{name}: {why}", remedy="check the path") from None


def read_lines(lines: Any, name: str) -> Iterator[Span | Message]:
    """A JSON value on each line, or one over all of them."""
    decode = msgspec.json.Decoder().decode
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if number > 1:
                raise _bad(name, number, f"not JSON: {error}") from None
            value = _whole(line, lines, name)
        yield from _of_value(value, name, number)


def _whole(first: bytes, rest: Any, name: str) -> Any:
    """A value that goes on after the first line."""
    data = first + rest.read(WHOLE_MAX)
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _bad(name, 1, f"not JSON: {error}") from None


def _of_value(value: Any, name: str, line: int) -> Iterator[Span | Message]:
    if isinstance(value, list):
        for one in value:
            yield from _of_value(one, name, line)
        return
    if not isinstance(value, dict):
        raise _bad(name, line, f"a span is an object, and this is {type(value).__name__}")
    if "resourceSpans" in value:
        yield from _otlp(value["resourceSpans"], name, line)
    elif isinstance(value.get("spans"), list) or isinstance(value.get("messages"), list):
        for key in ("spans", "messages"):
            yield from _of_value(value.get(key) or [], name, line)
    elif "from" in value and "to" in value and "spanId" not in value:
        yield _message(value, name, line)
    else:
        yield _span(value, name, line)


def _text(value: Any) -> str:
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _first(fields: Mapping[str, Any], *names: str) -> Any:
    return next((fields[name] for name in names if fields.get(name) not in (None, "")), None)


def _ns(value: Any) -> int | None:
    """Nanoseconds of a stamp in ISO 8601 or in milliseconds."""
    if isinstance(value, str):
        return wall_time_ns(value[:64])
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e14:
        return round(value * 1e6)
    return None


def _whole_ns(value: Any) -> int | None:
    if isinstance(value, str) and value.isdigit() and len(value) < 20:
        value = int(value)
    good = isinstance(value, int) and not isinstance(value, bool) and abs(value) < TIME_MAX_NS
    return value if good else None


def _message(fields: Mapping[str, Any], name: str, line: int) -> Message:
    source, target = _text(fields.get("from")), _text(fields.get("to"))
    if not source or not target:
        raise _bad(name, line, "a message has no sender or nobody that it is for")
    return Message(
        source=source,
        target=target,
        type=_text(_first(fields, "type", "operation", "message")),
        id=_text(fields.get("messageId")),
        trace=_text(fields.get("traceId")),
        time_ns=_ns(fields.get("timestamp")),
        place=f"{name}:{line}",
    )


def _times(fields: Mapping[str, Any], name: str, line: int) -> tuple[int, int]:
    start = _whole_ns(_first(fields, "startNs", "startTimeUnixNano"))
    end = _whole_ns(_first(fields, "endNs", "endTimeUnixNano"))
    if start is None:
        start = _ns(_first(fields, "timestamp", "startTime", "start"))
    if start is None:
        raise _bad(name, line, "a span has no start: timestamp, or startNs")
    if end is None:
        took = _first(fields, "duration", "durationMs")
        if not isinstance(took, int | float) or isinstance(took, bool) or not abs(took) < 1e14:
            raise _bad(name, line, "a span has no end: duration in milliseconds, or endNs")
        end = start + round(took * 1e6)
    if end < start:
        raise _bad(name, line, f"a span ends {(start - end) / 1e6:g} ms before it starts")
    return start, end


def _vector(value: Any) -> dict[str, int]:
    if not isinstance(value, dict):
        return {}
    rows = {k: v for k, v in value.items() if isinstance(v, int) and not isinstance(v, bool)}
    return rows if len(rows) == len(value) else {}


def _span(fields: Mapping[str, Any], name: str, line: int) -> Span:
    id_, trace = _text(fields.get("spanId")), _text(fields.get("traceId"))
    if not id_ or not trace:
        raise _bad(name, line, "a span has no spanId or no traceId")
    start, end = _times(fields, name, line)
    return Span(
        trace=trace,
        id=id_,
        parent=_text(fields.get("parentSpanId")),
        node=_text(_first(fields, "nodeId", "agentId", "node")) or NOBODY,
        name=_text(_first(fields, "operation", "name", "message")),
        kind=_text(fields.get("kind")),
        start_ns=start,
        end_ns=end,
        error=_text(fields.get("error")),
        operation=_text(_first(fields, "operationId", "opId")),
        vector=_vector(_first(fields, "vectorClock", "vector")),
        place=f"{name}:{line}",
    )


def _attributes(rows: Any) -> dict[str, str]:
    """Of OTLP: `{key, value: {stringValue | intValue | ...}}`."""
    found: dict[str, str] = {}
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and isinstance(row.get("value"), dict):
            for value in row["value"].values():
                found[_text(row.get("key"))] = _text(value)
    return found


def _otlp(groups: Any, name: str, line: int) -> Iterator[Span]:
    if not isinstance(groups, list):
        raise _bad(name, line, "resourceSpans is no list")
    for group in groups:
        if not isinstance(group, dict):
            raise _bad(name, line, "resourceSpans holds something that is no object")
        resource = group.get("resource")
        about = _attributes(resource.get("attributes") if isinstance(resource, dict) else None)
        node = next((about[key] for key in _NODES if about.get(key)), NOBODY)
        for scope in group.get("scopeSpans") or ():
            spans = scope.get("spans") if isinstance(scope, dict) else None
            for one in spans if isinstance(spans, list) else ():
                if not isinstance(one, dict):
                    raise _bad(name, line, "spans holds something that is no object")
                yield _otlp_span(one, node, name, line)


def _otlp_span(fields: dict[str, Any], node: str, name: str, line: int) -> Span:
    about = _attributes(fields.get("attributes"))
    status = fields.get("status")
    status = status if isinstance(status, dict) else {}
    kind = fields.get("kind")
    code = status.get("code")
    failed = code == _ERROR or code == "STATUS_CODE_ERROR"
    plain = {
        **{key: fields.get(key) for key in ("traceId", "spanId", "parentSpanId", "name")},
        "startNs": fields.get("startTimeUnixNano"),
        "endNs": fields.get("endTimeUnixNano"),
        "nodeId": about.get("dstest.node") or about.get("node") or node,
        "kind": _KINDS.get(kind, "") if isinstance(kind, int) else "",
        "error": (_text(status.get("message")) or "error") if failed else "",
        "operationId": about.get("dstest.op_id", ""),
    }
    return _span(plain, name, line)
