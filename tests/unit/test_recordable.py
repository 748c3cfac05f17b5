"""What would be changed or refused when a history is written is found where it is given."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dstest.core.protocols import OpDraft
from dstest.core.recordable import DEPTH_MAX, why_no_draft, why_not


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)  # fmt: skip


@given(PLAIN)
def test_what_json_gives_back_is_recorded(value: Any) -> None:
    assert why_not(value) == ""
    assert msgspec.json.decode(msgspec.json.encode(value)) == value


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (math.nan, "the number nan"),
        ([1, {"a": -math.inf}], "the number -inf"),
        (b"x", "a bytes"),
        ({1, 2}, "a set"),
        (object(), "a object"),
        ({1: 2}, "a key that is no text"),
        ({None: 2}, "a key that is no text"),
        (1 << 64, "more than 64 bits"),
        ("a\ud800", "no UTF-8"),
        ({"a\ud800": 1}, "no UTF-8"),
        (nested(DEPTH_MAX + 1), "nested deeper"),
        (nested(3000), "nested deeper"),
    ],
)
def test_what_is_not_recorded_says_why(value: Any, said: str) -> None:
    assert said in why_not([value] if said != "nested deeper" else value)


def test_the_deepest_value_can_be_read_again() -> None:
    value = nested(DEPTH_MAX)
    assert why_not(value) == ""
    from dstest.history.jsonl import require_plain

    require_plain(json.dumps({"ops": {"input": value}}).encode(), 1)


@pytest.mark.parametrize(
    ("draft", "said"),
    [
        (("write", "k", 1), "a tuple, not an OpDraft"),
        (OpDraft(5, "k", 1), "of the type 5"),  # type: ignore[arg-type]
        (OpDraft("write", ("k",), 1), "a key that is a tuple"),  # type: ignore[arg-type]
        (OpDraft("write", math.nan, 1), "the number nan in the key of `write`"),
        (OpDraft("write", "k", object()), "a object in the input of `write`"),
        (OpDraft("write", "k", 1, -1), "`write` after -1 ns"),
        (OpDraft("write", "k", 1, 0.5), "`write` after 0.5 ns"),  # type: ignore[arg-type]
        (OpDraft("write", "k", 1, True), "`write` after True ns"),
    ],
)
def test_a_draft_that_is_none_says_why(draft: Any, said: str) -> None:
    assert said in why_no_draft(draft)


def test_a_draft_is_one() -> None:
    assert why_no_draft(OpDraft("txn", None, [["r", 1, None], ("append", 2, 3)])) == ""
