"""Spans and messages out of files, and the trees that spans make.

| notation | a span is |
|---|---|
| own | `traceId spanId parentSpanId nodeId operation timestamp duration`; also `agentId`, `message`, `startNs` with `endNs`, `kind`, `error`, `operationId`, `vectorClock` |
| own, a message | `from to type messageId timestamp`, without `spanId` |
| OTLP JSON | `resourceSpans`, a request in the whole file or one on each line |
| Tempo | the same, as `batches`, and within `trace` |
| Jaeger, Zipkin, consoles | see `formats` |

`timestamp` is ISO 8601 or milliseconds, `duration` milliseconds. Files are JSON lines, arrays, or
values one behind the other.
Source of OTLP JSON: OpenTelemetry Protocol 1.5, "JSON Protobuf Encoding".
"""  # noqa: E501

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from dstest.core.errors import HistoryError
from dstest.core.log_lines import wall_time_ns
from dstest.core.words import one_line
from dstest.debug.logs.lines import first_of
from dstest.debug.traces import formats

NOBODY: Final = "?"
"""The node of a span that names none."""

SPANS_MAX: Final = 2_000_000
"""Spans of one look; a tree needs all of them in memory."""

WHOLE_MAX: Final = 512 << 20
"""Bytes of a file that is one JSON value over several lines."""

TIME_MAX_NS: Final = 1 << 62
_KINDS: Final = {1: "internal", 2: "server", 3: "client", 4: "producer", 5: "consumer"}
_ERROR: Final = 2
_BLANK: Final = re.compile(r"\s*")
Relation = Literal["happens-before", "happens-after", "equal", "concurrent"]
WORDS: Final[tuple[Relation, ...]] = ("happens-before", "happens-after", "equal", "concurrent")


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """Something that `node` did, from `start_ns` to `end_ns`, for the span `parent`; empty for the
    first of a trace. `kind` is `client` for who waits for another node, `server` for who is asked.
    `operation` is the id of the operation of a history that it is part of. `vector` is its vector
    clock as it began. `place` is where it was read."""

    trace: str
    id: str
    parent: str = ""
    node: str = NOBODY
    name: str = ""
    kind: str = ""
    start_ns: int
    end_ns: int
    error: str = ""
    operation: str = ""
    vector: dict[str, int] = msgspec.field(default_factory=dict)
    place: str = ""

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message from node to node, of a record that tells of nothing else. `time_ns` is None
    where it has no time."""

    source: str
    target: str
    type: str = ""
    id: str = ""
    trace: str = ""
    time_ns: int | None = None
    place: str = ""


def _bad(path: str, line: int, why: str, column: int | None = None) -> HistoryError:
    return HistoryError(
        f"{path}: {why}",
        line=line,
        column=column,
        remedy="spans are JSON objects with traceId, spanId, a start and an end, or those of OTLP, "
        "Tempo, Jaeger, Zipkin or a console exporter",
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
            for value in _whole(line, lines, name):
                yield from _of_value(value, name, number)
            return
        yield from _of_value(value, name, number)


def _whole(first: bytes, rest: Any, name: str) -> Iterator[Any]:
    """Values that go on over lines, one behind the other."""
    data = first + rest.read(WHOLE_MAX)
    try:
        yield msgspec.json.decode(data)
        return
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if not data.lstrip().startswith((b"{", b"[")):
            raise _bad(name, 1, f"not JSON: {error}") from None
    try:
        text, at = data.decode(), 0
        decode = json.JSONDecoder().raw_decode
        while (at := _BLANK.match(text, at).end()) < len(text):  # type: ignore[union-attr]
            value, at = decode(text, at)
            yield value
    except (ValueError, RecursionError) as error:
        raise _bad(name, 1, f"not JSON: {error}") from None


def _of_value(value: Any, name: str, line: int) -> Iterator[Span | Message]:
    if isinstance(value, list):
        for one in value:
            yield from _of_value(one, name, line)
        return
    value = _object(value, name, line)
    groups = first_of(value, "resourceSpans", "batches")
    if groups is not None:
        yield from _otlp(groups, name, line)
    elif "spanId" not in value and isinstance(
        inner := first_of(value, "trace", "data"), dict | list
    ):
        yield from _of_value(inner, name, line)
    elif formats.is_jaeger(value):
        for fields in formats.of_jaeger(value):
            yield _span(_object(fields, name, line), name, line)
    elif isinstance(value.get("spans"), list) or isinstance(value.get("messages"), list):
        for key in ("spans", "messages"):
            yield from _of_value(value.get(key) or [], name, line)
    elif "from" in value and "to" in value and "spanId" not in value:
        yield _message(value, name, line)
    else:
        form = next((of for is_of, of in formats.FORMATS if is_of(value)), None)
        yield _span(value if form is None else form(value), name, line)


def _object(value: Any, name: str, line: int) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _bad(name, line, f"a span is an object, and this is {type(value).__name__}")
    return value


def _text(value: Any) -> str:
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


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
        type=_text(first_of(fields, "type", "operation", "message")),
        id=_text(fields.get("messageId")),
        trace=_text(fields.get("traceId")),
        time_ns=_ns(fields.get("timestamp")),
        place=f"{name}:{line}",
    )


def _times(fields: Mapping[str, Any], name: str, line: int) -> tuple[int, int]:
    start = _whole_ns(first_of(fields, "startNs", "startTimeUnixNano"))
    end = _whole_ns(first_of(fields, "endNs", "endTimeUnixNano"))
    if start is None:
        start = _ns(first_of(fields, "timestamp", "startTime", "start"))
    if start is None:
        raise _bad(name, line, "a span has no start: timestamp, or startNs")
    if end is None:
        end = _ns(fields.get("endTime"))
    if end is None:
        took = first_of(fields, "duration", "durationMs")
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
        node=_text(first_of(fields, "nodeId", "agentId", "node")) or NOBODY,
        name=_text(first_of(fields, "operation", "name", "message")),
        kind=_text(fields.get("kind")),
        start_ns=start,
        end_ns=end,
        error=_text(fields.get("error")),
        operation=_text(first_of(fields, "operationId", "opId")),
        vector=_vector(first_of(fields, "vectorClock", "vector")),
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
        node = next((about[key] for key in formats.NODES if about.get(key)), NOBODY)
        for scope in first_of(group, "scopeSpans", "instrumentationLibrarySpans") or ():
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
        "kind": _kind(kind),
        "error": (_text(status.get("message")) or "error") if failed else "",
        "operationId": about.get("dstest.op_id", ""),
    }
    return _span(plain, name, line)


def _kind(told: Any) -> str:
    """A number, or `SPAN_KIND_SERVER`."""
    if isinstance(told, str):
        return told.rpartition("_")[2].lower()
    return _KINDS.get(told, "") if isinstance(told, int) else ""


class Trace(msgspec.Struct, kw_only=True):
    """One trace. `roots` are spans without a parent, then `orphans`, whose parent is not there, and
    those at which a loop of parents was cut (`looped`). `children` are in the order in which they
    began."""

    id: str
    spans: dict[str, Span]
    roots: list[Span]
    orphans: list[Span]
    looped: list[Span]
    children: dict[str, list[Span]]

    @property
    def tops(self) -> list[Span]:
        """All that have nobody above them."""
        return [*self.roots, *self.orphans, *self.looped]

    @property
    def start_ns(self) -> int:
        return min(span.start_ns for span in self.spans.values())

    @property
    def end_ns(self) -> int:
        return max(span.end_ns for span in self.spans.values())

    def below(self, span: Span) -> list[Span]:
        """Its children."""
        return self.children.get(span.id, [])

    def walk(self) -> Iterator[tuple[int, Span]]:
        """(depth, span), each once, children behind their parent."""
        stack = [(0, span) for span in reversed(self.tops)]
        while stack:
            depth, span = stack.pop()
            yield depth, span
            stack += [(depth + 1, child) for child in reversed(self.below(span))]


class Traces(msgspec.Struct, kw_only=True):
    """All of them by id, in the order of their starts. `doubled` are spans that were told of again
    with the same words, `clashes` those whose id another span of the trace has already."""

    traces: dict[str, Trace]
    doubled: int
    clashes: list[Span]

    @property
    def spans(self) -> Iterator[Span]:
        return (span for trace in self.traces.values() for span in trace.spans.values())


def forest(spans: Iterable[Span]) -> Traces:
    """Of spans in any order.

    Every span is in exactly one tree, whatever is wrong with it.
    """
    found: dict[str, dict[str, Span]] = {}
    doubled, clashes = 0, []
    for span in spans:
        mine = found.setdefault(span.trace, {})
        other = mine.get(span.id)
        if other is None:
            mine[span.id] = span
        elif msgspec.structs.replace(span, place="") == msgspec.structs.replace(other, place=""):
            doubled += 1
        else:
            clashes.append(span)
    traces = [_trace(id_, mine) for id_, mine in found.items()]
    traces.sort(key=lambda trace: (trace.start_ns, trace.id))
    return Traces(traces={t.id: t for t in traces}, doubled=doubled, clashes=clashes)


def _order(span: Span) -> tuple[int, int, str]:
    return span.start_ns, -span.end_ns, span.id


def _trace(id_: str, spans: dict[str, Span]) -> Trace:
    children: dict[str, list[Span]] = {}
    roots, orphans = [], []
    for span in spans.values():
        if not span.parent:
            roots.append(span)
        elif span.parent not in spans:
            orphans.append(span)
        else:
            children.setdefault(span.parent, []).append(span)
    for below in children.values():
        below.sort(key=_order)
    trace = Trace(
        id=id_,
        spans=spans,
        roots=sorted(roots, key=_order),
        orphans=sorted(orphans, key=_order),
        looped=[],
        children=children,
    )
    _cut_loops(trace)
    return trace


def _cut_loops(trace: Trace) -> None:
    """Spans that only hang on one another: each loop is cut at its earliest span."""
    seen = {span.id for _, span in trace.walk()}
    for span in sorted(trace.spans.values(), key=_order):
        if span.id in seen:
            continue
        at = _on_loop(trace, span)
        trace.children[at.parent] = [one for one in trace.children[at.parent] if one.id != at.id]
        trace.looped.append(at)
        seen |= _reached(trace, at)


def _on_loop(trace: Trace, span: Span) -> Span:
    """The earliest span of the loop that the parents of this one lead into."""
    path: list[str] = []
    met: set[str] = set()
    while span.id not in met:
        met.add(span.id)
        path.append(span.id)
        span = trace.spans[span.parent]
    loop: Sequence[str] = path[path.index(span.id) :]
    return min((trace.spans[id_] for id_ in loop), key=_order)


def _reached(trace: Trace, top: Span) -> set[str]:
    found, stack = set(), [top]
    while stack:
        span = stack.pop()
        found.add(span.id)
        stack += trace.below(span)
    return found


def relation(a: Mapping[str, int], b: Mapping[str, int]) -> Relation:
    """How the event with clock `a` stands to that with clock `b`; who is not named is at 0.

    Source: Fidge (1988), Mattern (1989).
    """
    names = a.keys() | b.keys()
    less = any(a.get(name, 0) < b.get(name, 0) for name in names)
    more = any(a.get(name, 0) > b.get(name, 0) for name in names)
    if less and more:
        return "concurrent"
    if less:
        return "happens-before"
    return "happens-after" if more else "equal"


def contradictions(trace: Trace) -> Iterator[tuple[Span, Span]]:
    """(parent, child) of which the vector clocks say that the child was not begun by the parent."""
    for span in trace.spans.values():
        parent = trace.spans.get(span.parent)
        if parent is None or not parent.vector or not span.vector:
            continue
        if relation(parent.vector, span.vector) != "happens-before":
            yield parent, span
