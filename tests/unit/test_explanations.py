"""Explanations read as sentences, whatever the model."""

from __future__ import annotations

import re
from typing import Any

import pytest
from initial_states import CASES
from notation import op as parsed

from checkers.linearizable import CHECKER
from dstest.core.check import Budget
from dstest.core.history import Header, History


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
