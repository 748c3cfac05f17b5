"""Explanations read as sentences, whatever the model."""

from __future__ import annotations

import re
from typing import Any

import pytest
from initial_states import CASES
from notation import op as parsed

from checkers.atomic_view import CHECKER as VIEWS
from checkers.linearizable import CHECKER
from checkers.total_queue import CHECKER as QUEUE
from dstest.core.check import Budget
from dstest.core.history import Header, History
from dstest.core.op import Op


def explained(model: str, text: str, options: dict[str, Any]) -> list[str]:
    ops = [parsed(line, n) for n, line in enumerate(text.splitlines())]
    result = CHECKER.check(History(header=Header(options=options), ops=ops), model, Budget())
    assert result.valid is False, result.reason
    return [a.explanation for found in result.anomalies.values() for a in found]


@pytest.mark.parametrize(("model", "initial", "right", "wrong"), CASES)
def test_no_mark_stands_twice(model: str, initial: Any, right: str, wrong: str) -> None:
    del right
    permits = {"permits": 3} if model == "semaphore" else {}
    for text in explained(model, wrong, {"initial": initial, **permits}):
        assert not re.search(r"([:;,.])\s*\1|[:;,]\s*[.;]|  | [.,:;]", text), text


def test_elements_of_a_set_are_held_or_not() -> None:
    for last, needs in (("false", "not hold the element"), ("true", "hold the element")):
        before = "add" if last == "false" else "remove"
        lines = ["0 add 1 @1-2", f"0 {before} 1 @3-4", f"0 contains 1 -> {last} @5-6"]
        (text,) = explained("set", "\n".join(lines), {})
        other = "hold the element" if last == "false" else "not hold the element"
        assert f"There the set can: {other}." in text, text
        assert f"it needs the set to {needs}." in text, text


def test_a_view_that_went_back_names_numbers_and_rows() -> None:
    # mariadb at repeatable read: 0, 0, 0, then 1 in row 1, and 0 in row 2
    seen = [["r", 2, 0], ["r", 0, 0], ["touch", 1, None], ["r", 0, 0], ["r", 1, 1], ["r", 2, 0]]
    ops = [
        Op(op_id=34, process_id=1, invoke_ts=1, complete_ts=9, op_type="bump", key="1-1",
           input=[0, 1, 2], output=[1, 1, 1]),
        Op(op_id=35, process_id=2, invoke_ts=2, complete_ts=8, op_type="look", key="1-1",
           input=None, output=seen),
    ]  # fmt: skip
    history = History(header=Header(), ops=ops)
    result = VIEWS.check(history, "monotonic-atomic-view", Budget())
    (found,) = result.anomalies["nonmonotonic-view"]
    assert found.explanation == "look (op 35) read 1 in row 1, then 0 in row 2"
    result = VIEWS.check(history, "snapshot-isolation", Budget())
    (found,) = result.anomalies["read-skew"]
    assert found.explanation == "look (op 35) read 0 in row 0, then 1 in row 1"


def test_a_lost_message_is_told_from_its_operation() -> None:
    ops = [
        Op(op_id=616, process_id=1, invoke_ts=1, complete_ts=2, op_type="enqueue", input=165),
        Op(op_id=700, process_id=2, invoke_ts=3, complete_ts=4, op_type="dequeue"),
        Op(op_id=617, process_id=1, invoke_ts=1, complete_ts=2, op_type="enqueue", input=7),
        Op(op_id=699, process_id=2, invoke_ts=2, complete_ts=3, op_type="dequeue", output=7),
    ]
    result = QUEUE.check(History(header=Header(), ops=ops), QUEUE.models[0], Budget())
    (found,) = result.anomalies["lost"]
    assert found.explanation.startswith("enqueue (op 616, element 165) was acknowledged, it never")
