"""A history of Python is judged as it is, or not at all."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dstest.core.errors import HistoryError
from dstest.core.history import ClockSource, Header
from dstest.core.history import History as Made
from dstest.core.op import Op
from dstest.history.jsonl import read_history, write_exact
from dstest.notebook import History
from dstest.testing.checks import Checks

pytestmark = pytest.mark.slow

HEADER = Header(workload="register", model="register")


def op(number: int, kind: str, asked: Any, answered: Any, **more: Any) -> Op:
    given: dict[str, Any] = {
        "op_id": number, "process_id": 0, "invoke_ts": 10 * number, "op_type": kind, "key": "x",
        "complete_ts": 10 * number + 5, "input": asked, "output": answered,
    }  # fmt: skip
    return Op(**(given | more))


def writes(value: Any, read: Any) -> list[Op]:
    return [op(0, "write", value, None), op(1, "read", None, read)]


VALUES = [
    math.nan, math.inf, -math.inf, b"bytes", {1}, frozenset(), {1: 2}, {None: 1}, [1, [math.inf]],
    {"a": {"b": math.nan}}, "\ud800", {"\ud800": 1}, Decimal(1), 1j, object(), ("a", b"b"),
]  # fmt: skip
FIELDS: list[dict[str, Any]] = [
    {"invoke_ts": 1.5}, {"invoke_ts": 2**65}, {"invoke_ts": True}, {"complete_ts": 15.0},
    {"complete_ts": -(2**64)}, {"op_id": 1.5}, {"op_id": "\udfff"}, {"process_id": ("a",)},
    {"op_type": b"read"}, {"error": "\ud800"}, {"error": 5}, {"node_seen": 1},
    {"fault_epoch": "\ud800"}, {"timeout_marker": 0}, {"key": math.nan},
]  # fmt: skip
HEADERS: list[dict[str, Any]] = [
    {"options": {"initial": math.nan}}, {"options": {1: 2}}, {"rate": math.inf},
    {"workload": "\ud800"}, {"clock": ClockSource(host="\ud800")}, {"nodes": [b"n1"]},
]  # fmt: skip

Writes = Callable[[Header, list[Op], Path], object]
WRITERS: dict[str, Writes] = {
    "check": lambda header, ops, _: History.of(header, ops).check(),
    "parquet": lambda header, ops, path: History.of(header, ops).to_parquet(path / "h.parquet"),
    "jsonl": lambda header, ops, path: write_exact(path / "h.jsonl", header, ops),
    "dstest_check": lambda header, ops, path: Checks(path, path)(Made(header=header, ops=ops)),
}


def refused(writer: str) -> Any:
    if writer == "dstest_check":
        return pytest.raises(pytest.fail.Exception, match="remedy: values are")
    return pytest.raises(HistoryError, match="remedy: values are")


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("value", VALUES, ids=map(str, range(len(VALUES))))
def test_a_value_that_json_would_change_is_refused(value: Any, writer: str, tmp_path: Path) -> None:
    with refused(writer) as caught:
        WRITERS[writer](HEADER, writes(value, None), tmp_path)
    assert "operation 0" in str(caught.value) and "in its input, which JSON" in str(caught.value)
    with refused(writer):
        WRITERS[writer](HEADER, writes(1, value), tmp_path)


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("field", FIELDS, ids=map(str, range(len(FIELDS))))
def test_a_field_that_is_none_is_refused(
    field: dict[str, Any], writer: str, tmp_path: Path
) -> None:
    good = writes(1, 1)
    with refused(writer) as caught:
        WRITERS[writer](HEADER, [good[0], replace(good[1], **field)], tmp_path)
    assert next(iter(field)) in str(caught.value)


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("field", HEADERS, ids=map(str, range(len(HEADERS))))
def test_so_is_one_of_the_header(field: dict[str, Any], writer: str, tmp_path: Path) -> None:
    with refused(writer) as caught:
        WRITERS[writer](replace(HEADER, **field), writes(1, 1), tmp_path)
    assert "the header" in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == []


def test_what_json_holds_is_judged_as_it_is(tmp_path: Path) -> None:
    for value in (0.1, 2**70, "é", [None, True], {"a": [1]}, -0.0):
        write_exact(tmp_path / "h.jsonl", HEADER, writes(value, value))
        assert repr(read_history(tmp_path / "h.jsonl").ops) == repr(writes(value, value))
    (good,) = History.of(HEADER, writes(0.5, 0.5)).check()
    (bad,) = History.of(HEADER, writes(0.5, None)).check()
    assert (good.valid, bad.valid) == (True, False)


def test_a_tuple_is_a_list(tmp_path: Path) -> None:
    made = History.of(HEADER, writes(("a", 1), ["a", 1]))
    made.to_parquet(tmp_path / "h.parquet")
    assert History.from_parquet(tmp_path / "h.parquet").ops == writes(["a", 1], ["a", 1])
    (good,) = made.check()
    (bad,) = History.of(HEADER, writes(("a", 1), ["a", 2])).check()
    assert (good.valid, bad.valid) == (True, False)
    Checks(tmp_path, tmp_path)(Made(header=HEADER, ops=writes(("a", 1), ["a", 1])))
