"""One trace of two spans as Tempo, Jaeger, Zipkin and exporters to a console write it."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dstest.core.errors import HistoryError
from dstest.debug.traces.spans import Span, forest, read_file, read_lines

START_US = 1_709_633_730_500_000
ISO = "2024-03-05T10:15:30.500000Z"
ISO_END = "2024-03-05T10:15:30.510000Z"


def _otlp(name: str, id_: str, parent: str, kind: Any) -> dict[str, Any]:
    at, end = START_US * 1000, START_US * 1000 + 10_000_000
    span = {"traceId": "t", "spanId": id_, "parentSpanId": parent, "name": name, "kind": kind}
    times = {"startTimeUnixNano": str(at), "endTimeUnixNano": str(end)}
    about = [{"key": "service.name", "value": {"stringValue": f"of-{name}"}}]
    return {"resource": {"attributes": about}, "scopeSpans": [{"spans": [{**span, **times}]}]}


GROUPS = [_otlp("buy", "a", "", "SPAN_KIND_CLIENT"), _otlp("write", "b", "a", "SPAN_KIND_SERVER")]


def _jaeger(name: str, id_: str, parent: str, kind: str) -> dict[str, Any]:
    above = [{"refType": "CHILD_OF", "traceID": "t", "spanID": parent}] if parent else []
    return {
        "traceID": "t", "spanID": id_, "operationName": name, "references": above,
        "startTime": START_US, "duration": 10_000, "processID": f"p{id_}",
        "tags": [{"key": "span.kind", "type": "string", "value": kind}],
    }  # fmt: skip


JAEGER = {
    "traceID": "t",
    "spans": [_jaeger("buy", "a", "", "client"), _jaeger("write", "b", "a", "server")],
    "processes": {"pa": {"serviceName": "of-buy"}, "pb": {"serviceName": "of-write"}},
}


def _zipkin(name: str, id_: str, parent: str, kind: str) -> dict[str, Any]:
    return {
        "traceId": "t", "id": id_, **({"parentId": parent} if parent else {}), "name": name,
        "kind": kind, "timestamp": START_US, "duration": 10_000,
        "localEndpoint": {"serviceName": f"of-{name}"},
    }  # fmt: skip


ZIPKIN = [_zipkin("buy", "a", "", "CLIENT"), _zipkin("write", "b", "a", "SERVER")]


def _python(name: str, id_: str, parent: str | None, kind: str) -> dict[str, Any]:
    return {
        "name": name, "context": {"trace_id": "t", "span_id": id_, "trace_state": "[]"},
        "kind": f"SpanKind.{kind}", "parent_id": parent, "start_time": ISO, "end_time": ISO_END,
        "status": {"status_code": "UNSET"}, "attributes": {}, "events": [], "links": [],
        "resource": {"attributes": {"service.name": f"of-{name}"}, "schema_url": ""},
    }  # fmt: skip


PYTHON = [_python("buy", "a", None, "CLIENT"), _python("write", "b", "a", "SERVER")]


def _go(name: str, id_: str, parent: str, kind: int) -> dict[str, Any]:
    about = {"Key": "service.name", "Value": {"Type": "STRING", "Value": f"of-{name}"}}
    return {
        "Name": name, "SpanContext": {"TraceID": "t", "SpanID": id_}, "SpanKind": kind,
        "Parent": {"TraceID": "t", "SpanID": parent}, "StartTime": ISO, "EndTime": ISO_END,
        "Attributes": None, "Status": {"Code": "Unset", "Description": ""}, "Resource": [about],
    }  # fmt: skip


GO = [_go("buy", "a", "0000000000000000", 3), _go("write", "b", "a", 2)]

TEXTS = {
    "otlp": json.dumps({"resourceSpans": GROUPS}),
    "tempo": json.dumps({"batches": GROUPS}),
    "tempo within trace": json.dumps({"trace": {"resourceSpans": GROUPS}}, indent=1),
    "jaeger": json.dumps({"data": [JAEGER], "total": 0, "errors": None}, indent=2),
    "jaeger, a trace a line": json.dumps(JAEGER),
    "zipkin": json.dumps(ZIPKIN),
    "zipkin, a list of traces": json.dumps([ZIPKIN], indent=2),
    "python's console": "\n".join(json.dumps(one, indent=4) for one in PYTHON) + "\n",
    "go's console": "\n".join(json.dumps(one) for one in GO),
    "go's console, pretty": "\n".join(json.dumps(one, indent="\t") for one in GO),
}


def spans_of(text: str) -> list[Span]:
    found = list(read_lines(iter_of(text), "x"))
    assert all(isinstance(one, Span) for one in found)
    return [one for one in found if isinstance(one, Span)]


def iter_of(text: str) -> Any:
    return io.BytesIO(text.encode())


@pytest.mark.parametrize("form", TEXTS)
def test_the_same_trace_in_every_form(form: str) -> None:
    a, b = spans_of(TEXTS[form])
    assert (a.name, a.node, a.kind, a.parent) == ("buy", "of-buy", "client", "")
    assert (b.name, b.node, b.kind, b.parent) == ("write", "of-write", "server", "a")
    assert {one.trace for one in (a, b)} == {"t"}
    for one in (a, b):
        assert abs(one.start_ns - START_US * 1000) < 2000 and abs(one.duration_ns - 10**7) < 2000
    (trace,) = forest([a, b]).traces.values()
    assert [one.id for one in trace.roots] == ["a"] and not trace.orphans


def test_a_failed_span_says_so_in_every_form() -> None:
    jaeger = json.loads(json.dumps(JAEGER))
    jaeger["spans"][0]["tags"].append({"key": "error", "type": "bool", "value": True})
    zipkin = {**ZIPKIN[0], "tags": {"error": "no route"}}
    python = {**PYTHON[0], "status": {"status_code": "ERROR", "description": "no route"}}
    go = {**GO[0], "Status": {"Code": "Error", "Description": "no route"}}
    assert spans_of(json.dumps(jaeger))[0].error == "error"
    assert [spans_of(json.dumps(one))[0].error for one in (zipkin, python, go)] == ["no route"] * 3


def test_a_server_that_shares_its_clients_span_is_below_it() -> None:
    shared = {**_zipkin("write", "a", "", "SERVER"), "shared": True}
    a, b = spans_of(json.dumps([ZIPKIN[0], shared]))
    assert b.parent == a.id != b.id


def test_files_may_be_packed(tmp_path: Path) -> None:
    path = tmp_path / "spans.json.gz"
    path.write_bytes(gzip.compress(TEXTS["python's console"].encode()))
    assert len(list(read_file(path))) == 2


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"a":\n1} x',
        '{"data": [{"processes": {}, "spans": [3]}]}',
        '{"traceId": "t", "id": "a"}',
        '{"context": {}, "start_time": 3}',
        '{"SpanContext": {}, "StartTime": null}',
        '{"batches": 3}',
    ],
)
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(HistoryError):
        spans_of(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["trace", "data", "spans", "processes", "batches", "tags", "context"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@given(JSON, st.sampled_from([*JAEGER["spans"], *ZIPKIN, *PYTHON, *GO]), st.data())
def test_any_value_is_read_or_refused(value: Any, span: dict[str, Any], data: Any) -> None:
    changed = {**span, data.draw(st.sampled_from(sorted(span))): value}
    for one in (value, changed, {"processes": {"pa": value}, "spans": [changed]}):
        with contextlib.suppress(HistoryError):
            list(read_lines(iter_of(json.dumps(one)), "x"))
