"""Spans of toykv's servers: written when they end, below what asked for them, or not at all."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import Any

import pytest

from clusters.systems.toykv.agents.wire import Spans, context_of


def made(lines: list[str] | None) -> Spans:
    ticks = itertools.count(100, 10)
    return Spans("n1", lambda: next(ticks), None if lines is None else lines.append)


def rows(lines: list[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines]


def test_a_span_is_below_the_one_that_is_under_way() -> None:
    lines: list[str] = []
    spans = made(lines)
    with (
        spans.span("write", "server", ["op-1", "op-1"], key="k") as outer,
        spans.span("commit", "internal"),
    ):
        pass
    inner, whole = rows(lines)
    assert whole["parentSpanId"] == "op-1" and inner["parentSpanId"] == whole["spanId"]
    assert {inner["traceId"], whole["traceId"]} == {"op-1"}
    assert whole["startNs"] < inner["startNs"] < inner["endNs"] < whole["endNs"]
    assert outer.context == ["op-1", whole["spanId"]] and whole["key"] == "k"


def test_nothing_is_written_without_a_file_or_for_nobody() -> None:
    with made(None).span("write", "server", ["op-1", "op-1"]) as span:
        assert span.context is None
    lines: list[str] = []
    with made(lines).span("append", "server") as span:
        assert span.context is None
    assert lines == []


def test_what_failed_says_so_and_what_was_cut_off_is_missing() -> None:
    lines: list[str] = []
    spans = made(lines)
    with pytest.raises(TimeoutError), spans.span("ask", "client", ["t", "p"]):
        raise TimeoutError
    assert rows(lines)[0]["error"] == "TimeoutError()"

    async def waits() -> None:
        with spans.span("ask", "client", ["t", "p"]):
            await asyncio.sleep(1)

    going = waits()

    async def begun() -> None:
        going.send(None)

    asyncio.run(begun())
    going.close()
    assert len(lines) == 1


def test_a_process_that_starts_again_has_other_ids() -> None:
    lines: list[str] = []
    for start in (100, 200):
        ticks = itertools.count(start)
        with Spans("n1", ticks.__next__, lines.append).root("campaign", "n1-term-1"):
            pass
    assert len({row["spanId"] for row in rows(lines)}) == 2


@pytest.mark.parametrize("told", [None, 7, "op-1", [], ["a"], ["a", 1], [["a"], "b"], {"a": "b"}])
def test_what_is_no_span_is_none(told: object) -> None:
    assert context_of({"span": told}) is None
    assert context_of({"span": ["op-1", "x"]}) == ["op-1", "x"]
