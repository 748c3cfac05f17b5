"""A report does its work once, however much of it there is."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest
from made_moments import fault, op

from dstest.core.op import Op
from dstest.report import columns
from dstest.report.columns import packed
from dstest.report.service import stretches


def with_outages(count: int, outages: int, lasts_s: int = 3000) -> list[Op]:
    """Operations of two types and five nodes, none of which succeeds in the outages."""
    period, ops = lasts_s / outages, []
    for i in range(count):
        at = i * lasts_s / count
        down: dict[str, Any] = {"complete_ts": None, "timeout_marker": True, "node_seen": None}
        given = down if at % period < 1.6 else {"node_seen": f"n{i % 5 + 1}"}
        ops.append(op(i, at, ("read", "write")[i % 2], process_id=i % 20, **given))
    return ops


def test_outages_cost_no_look_at_the_whole_history_each() -> None:
    def spent_s(outages: int) -> float:
        ops = with_outages(20_000, outages)
        period = 3000 / outages
        windows = [fault(f"f{k}", k * period, k * period + 1.6) for k in range(outages)]
        begin = time.process_time()
        rows = stretches(ops, windows)
        assert len(rows) == outages
        return time.process_time() - begin

    few, many = spent_s(5), spent_s(300)
    assert many < 4 * few + 0.2, (few, many)


def test_columns_are_packed_once_however_often_texts_are_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ops = [op(i, i / 100, input=i * 2654435761 % (1 << 40)) for i in range(4000)]
    room = packed(ops, 10**7).size // 2
    calls: Counter[str] = Counter()
    ids, line = columns._ids, columns._line
    monkeypatch.setattr(columns, "_ids", lambda o: (calls.update(["ids"]), ids(o))[1])
    monkeypatch.setattr(columns, "_line", lambda o: (calls.update(["line"]), line(o))[1])
    found = packed(ops, room)
    assert found.kept == 4000
    assert 0 < found.told < 4000
    assert calls["ids"] == 1
    assert calls["line"] <= 2 * 4000
