"""A run's transactions become the same columns by way of their text in C and one by one here, or
the first way leaves them to the second."""

from __future__ import annotations

import dataclasses
from datetime import date
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.txn.columns import TxnColumns
from checkers.txn.plugin import _numbers, _read_here, _read_in_c, from_history
from dstest.core.history import Header, History
from dstest.core.op import Op

SCALARS = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([0.0, 1.0, 1.5, True, False, "1", "x", "\u00e9", 2**53, 2**70, -(2**63)]),
)
STRANGE: list[Any] = [float("nan"), float("inf"), "\ud800", [1], {"a": 1}]
STRANGE += [b"x", Decimal("1.5"), frozenset({1}), date(2020, 1, 1), UUID(int=1)]
ODD = st.one_of(SCALARS, st.none(), st.sampled_from([*STRANGE]))


@st.composite
def micro_ops(draw: st.DrawFn, write: str, values: st.SearchStrategy[Any]) -> list[Any]:
    key = draw(SCALARS)
    if draw(st.booleans()):
        return [write, key, draw(values)]
    lists = write == "append"
    result = draw(st.none() | (st.lists(values, max_size=3) if lists else values))
    return draw(st.sampled_from([["r", key, result], ["r", key]]))


def asked_of(answer: list[Any]) -> list[Any]:
    return [[*mop[:2], None] if mop[0] == "r" else list(mop) for mop in answer]


@st.composite
def histories(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> History:
    write = draw(st.sampled_from(["append", "w"]))
    ids = draw(st.sampled_from(["numbers", "words", "twice"]))
    ops = []
    for at in range(draw(st.integers(1, 6))):
        answer = draw(st.lists(micro_ops(write, values), max_size=4))
        invoke_ts = draw(st.integers(0, 9))
        how = draw(st.sampled_from(["ok", "ok", "ok", "failed", "unknown", "no answer", "other"]))
        endings: dict[str, dict[str, Any]] = {
            "ok": {},
            "failed": {"error": "aborted", "output": None},
            "unknown": {"error": "unknown: lost", "output": None, "timeout_marker": True},
            "no answer": {"output": None},
            "other": {"input": [["r", 0, None]]},
        }
        names: dict[str, int | str] = {"numbers": 7 * at + 3, "words": f"t{at}", "twice": at // 2}
        named = names[ids]
        fields: dict[str, Any] = {"input": asked_of(answer), "output": answer} | endings[how]
        ended = (
            None
            if how == "unknown" and draw(st.booleans())
            else invoke_ts + draw(st.integers(0, 9))
        )
        kind = draw(st.sampled_from(["txn", "txn", "txn", "read"]))
        ops.append(
            Op(op_id=named, process_id=draw(st.integers(0, 2)), invoke_ts=invoke_ts,
               complete_ts=ended, op_type=kind, **fields)
        )  # fmt: skip
    return History(header=Header(), ops=ops)


def plain(columns: TxnColumns) -> dict[str, Any]:
    """With names instead of their numbers, which are in order of the text or of invocation."""
    found = {}
    for field in dataclasses.fields(columns):
        value = getattr(columns, field.name)
        found[field.name] = (
            (value.dtype, value.tolist()) if isinstance(value, np.ndarray) else value
        )
    keys, values = found.pop("key_names"), [*found.pop("value_names"), None]
    found["mop_key"] = [repr(keys[at]) for at in columns.mop_key.tolist()]
    found["mop_value"] = [repr(values[at]) for at in columns.mop_value.tolist()]
    found["elem"] = [repr(values[at]) for at in columns.elem.tolist()]
    return found


def alike(history: History) -> bool:
    """Are both ways alike? False where only the slow one reads it."""
    numbers = _numbers(history)
    fast = _read_in_c(history.ops, numbers)
    try:
        slow = _read_here(history.ops, numbers)
    except ValueError:
        assert fast is None
        return False
    if fast is None:
        return False
    assert plain(fast) == plain(slow)
    return True


@settings(max_examples=300, deadline=None)
@given(histories(SCALARS))
def test_both_ways_agree(history: History) -> None:
    alike(history)


@settings(max_examples=300, deadline=None)
@given(histories(ODD))
def test_what_json_does_not_have_is_not_changed_on_the_way(history: History) -> None:
    alike(history)


@pytest.mark.parametrize("write", ["append", "w"])
def test_an_ordinary_history_goes_the_fast_way(write: str) -> None:
    answers: list[list[Any]] = [
        [[write, 1, 5], ["r", 2, None]],
        [["r", 1, [5] if write == "append" else 5]],
    ]
    ops = [
        Op(op_id=9 - at, process_id=at, invoke_ts=at, complete_ts=at + 5, op_type="txn",
           input=asked_of(answer), output=answer)
        for at, answer in enumerate(answers)
    ]  # fmt: skip
    history = History(header=Header(), ops=ops)
    assert alike(history)
    assert from_history(history).op_index.tolist() == [9, 8]
