"""Notations of spans, and what is said of those that cannot be read."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dstest.core.errors import HistoryError
from dstest.debug.traces.spans import Message, Span, read_file, read_lines

OWN = {
    "traceId": "t1",
    "spanId": "s1",
    "parentSpanId": None,
    "agentId": "n1",
    "message": "work",
    "timestamp": "2026-11-28T12:00:00.250Z",
    "duration": 900,
}

OTLP = {
    "resourceSpans": [
        {
            "resource": {
                "attributes": [
                    {"key": "service.name", "value": {"stringValue": "shop"}},
                    {"key": "host.name", "value": {"stringValue": "web-1"}},
                ]
            },
            "scopeSpans": [
                {
                    "spans": [
                        {
                            "traceId": "5b8efff798038103d269b633813fc60c",
                            "spanId": "eee19b7ec3c1b174",
                            "parentSpanId": "eee19b7ec3c1b173",
                            "name": "GET /",
                            "kind": 2,
                            "startTimeUnixNano": "1544712660000000000",
                            "endTimeUnixNano": "1544712661000000000",
                            "status": {"code": 2, "message": "no such item"},
                            "attributes": [{"key": "dstest.op_id", "value": {"intValue": "7"}}],
                        }
                    ]
                }
            ],
        }
    ]
}


def read(text: str) -> list[Any]:
    return list(read_lines(io.BytesIO(text.encode()), "x"))


def test_our_own_form() -> None:
    (span,) = read(json.dumps(OWN))
    assert isinstance(span, Span)
    assert (span.trace, span.id, span.parent, span.node) == ("t1", "s1", "", "n1")
    assert span.name == "work" and span.duration_ns == 900_000_000
    assert span.start_ns % 1_000_000_000 == pytest.approx(250_000_000, abs=1000)
    assert span.place == "x:1"


def test_messages_and_arrays_and_values_over_several_lines() -> None:
    message = {"from": "a", "to": "b", "type": "vote", "messageId": 7, "timestamp": 1000}
    text = json.dumps({"spans": [OWN], "messages": [message]}, indent=2)
    span, sent = read(text)
    assert isinstance(span, Span) and isinstance(sent, Message)
    assert (sent.source, sent.target, sent.id, sent.time_ns) == ("a", "b", "7", 1_000_000_000)
    assert len(read(json.dumps([OWN, message]))) == 2
    assert len(read(f"{json.dumps(OWN)}\n\n{json.dumps(message)}\n")) == 2


def test_otlp_json_on_one_line_or_on_many(tmp_path: Path) -> None:
    for text in (json.dumps(OTLP), json.dumps(OTLP, indent=1)):
        (span,) = read(text)
        assert (span.node, span.name, span.kind) == ("web-1", "GET /", "server")
        assert (span.duration_ns, span.error, span.operation) == (10**9, "no such item", "7")
    packed = tmp_path / "spans.json.gz"
    packed.write_bytes(gzip.compress((json.dumps(OTLP) + "\n").encode() * 3))
    assert len(list(read_file(packed))) == 3


def test_what_this_project_exports_can_be_read_again(tmp_path: Path) -> None:
    """Runs as traces of OpenTelemetry, which `dstest report --otlp` writes."""
    pytest.importorskip("opentelemetry.sdk.trace")
    from dstest.store.export.formats import Result
    from dstest.store.export.telemetry import render_otlp

    made = Result(path=tmp_path, kind="run", state=None, reason="x", exit=3)
    (span,) = read(render_otlp([made], 5 * 10**9))
    assert span.node == "dstest" and span.start_ns == 5 * 10**9 and span.error


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("not json", "not JSON"),
        ('{"traceId": "t"}', "no spanId"),
        ("7", "a span is an object"),
        ('{"traceId":"t","spanId":"s"}', "no start"),
        ('{"traceId":"t","spanId":"s","startNs":5}', "no end"),
        ('{"traceId":"t","spanId":"s","startNs":5,"endNs":4}', "before it starts"),
        ('{"traceId":"t","spanId":"s","timestamp":"yesterday","duration":1}', "no start"),
        ('{"traceId":"t","spanId":"s","timestamp":1,"duration":-5}', "before it starts"),
        ('{"resourceSpans": 7}', "no list"),
        ('{"resourceSpans": [7]}', "no object"),
        ('{"from": "", "to": "b"}', "no sender"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_bad_input_is_said_with_its_line(text: str, said: str) -> None:
    with pytest.raises(HistoryError, match=said) as raised:
        read(text)
    assert raised.value.line == 1 and raised.value.remedy
    with pytest.raises(HistoryError) as raised:
        read(f"{json.dumps(OWN)}\n{text}")
    assert raised.value.line == 2


WORDS = [
    *("traceId", "spanId", "parentSpanId", "startNs", "endNs", "timestamp", "duration"),
    *("from", "to", "spans", "kind", "resourceSpans", "resource", "scopeSpans", "attributes"),
    *("key", "value", "status", "code", "name"),
]

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "traceId",
                    "spanId",
                    "parentSpanId",
                    "startNs",
                    "endNs",
                    "timestamp",
                    "duration",
                    "from",
                    "to",
                    "spans",
                    "kind",
                    "resourceSpans",
                    "resource",
                    "scopeSpans",
                    "attributes",
                    "key",
                    "value",
                    "status",
                    "code",
                    "name",
                ]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=25,
)


@given(values)
def test_any_json_is_read_or_refused(value: object) -> None:
    try:
        for one in read(json.dumps(value)):
            assert isinstance(one, Message) or one.start_ns <= one.end_ns
    except HistoryError as error:
        assert error.remedy


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        list(read_lines(io.BytesIO(data), "x"))
    except HistoryError as error:
        assert error.remedy
