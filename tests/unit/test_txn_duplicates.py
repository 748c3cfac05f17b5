"""Who wrote one value twice."""

from __future__ import annotations

import json
from typing import Any

import pytest

from checkers.txn.columns import double_writers
from checkers.txn.ingest import load


def said(*txns: list[list[Any]]) -> str | None:
    events = [(kind, n, mops) for n, mops in enumerate(txns) for kind in ("invoke", "ok")]
    rows = [
        {"index": i, "type": kind, "process": n, "f": "txn", "value": mops}
        for i, (kind, n, mops) in enumerate(events)
    ]
    return double_writers(load(json.dumps(rows).encode(), "json", threads=1))


@pytest.mark.parametrize("value", [3, "a", True])
def test_names_both(value: Any) -> None:
    told = said([["w", "x", 1]], [["w", "x", value]], [["w", "y", value]], [["w", "x", value]])
    assert told == f"transactions 3 and 7 both write {value!r} to key 'x'"


def test_one_that_writes_twice_itself() -> None:
    told = said([["w", "x", 1], ["w", "x", 2], ["w", "x", 1]])
    assert told == "transaction 1 writes 1 to key 'x' twice"


def test_nothing_twice() -> None:
    assert said([["w", "x", 1]], [["w", "y", 1]], [["w", "x", "1"]]) is None
