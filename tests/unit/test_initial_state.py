"""Objects that do not start as usual: for every model, what was there first counts."""

from __future__ import annotations

from typing import Any

import pytest
from initial_states import CASES
from notation import check

from checkers.lin.catalogue import MODELS, STARTS
from checkers.lin.model import KvMap
from dstest.core.check import CheckResult
from dstest.core.errors import ConfigError


def judged(model: str, text: str, **options: Any) -> CheckResult:
    return check("linearizable", model, text, **options)


@pytest.mark.parametrize(("model", "initial", "right", "wrong"), CASES)
def test_what_was_there_first_counts(model: str, initial: Any, right: str, wrong: str) -> None:
    permits = {"permits": 3} if model == "semaphore" else {}
    good = judged(model, right, initial=initial, **permits)
    assert good.valid is True, (good.reason, good.anomalies)
    bad = judged(model, wrong, initial=initial, **permits)
    assert bad.valid is False, bad.reason
    assert bad.anomalies["nonlinearizable"]


def test_every_model_takes_one() -> None:
    assert {model for model, *_ in CASES} == set(MODELS) == set(STARTS)
    assert all(STARTS.values())


@pytest.mark.parametrize(
    ("model", "initial"),
    [
        ("counter", "3"),
        ("counter", True),
        ("fifo-queue", 1),
        ("fifo-queue", [None]),
        ("priority-queue", ["a"]),
        ("set", "abc"),
        ("log", 1),
        ("mutex", 1.5),
        ("reentrant-mutex", [1, 0]),
        ("fencing-lock", 3),
        ("semaphore", 4),
        ("semaphore", {"a": 4}),
    ],
)
def test_what_is_no_state_is_refused(model: str, initial: Any) -> None:
    texts = {"semaphore": "1 acquire[a] @1-2", "counter": "1 read -> 1 @1-2"}
    with pytest.raises(ConfigError, match="initial state") as caught:
        judged(model, texts.get(model, "1 add[a] 1 @1-2"), initial=initial, permits=3)
    assert caught.value.remedy


def test_a_mistaken_name_is_refused_and_a_spare_one_is_not() -> None:
    text = "1 read[x] -> 0 @1-2"
    with pytest.raises(ConfigError, match="'X', which does not occur, and not 'x'"):
        judged("register", text, initial={"X": 0})
    assert judged("register", text, initial={"x": 0, "spare": 1}).valid is True
    assert judged("register", text + "\n1 read[z] -> null @3-4", initial={"x": 0}).valid is True
    with pytest.raises(ConfigError, match="null"):
        judged("register", "1 read -> 0 @1-2", initial={"x": 0})


def test_an_operation_that_may_touch_any_key_leaves_all_open() -> None:
    text = "1 read[a] -> 1 @1-2\n1 read[b] -> 2 @3-4\n1 shuffle @5-6"
    assert judged("cas-register", text, initial={"a": 1, "b": 2}).valid == "unknown"


def test_the_explanation_knows_what_was_there() -> None:
    found = judged("register", "1 write 1 @1-2\n2 read -> 5 @3-4", initial=5)
    assert "needs the value 5" in found.anomalies["nonlinearizable"][0].explanation
    null = judged("register", "1 read -> null @1-2", initial=5)
    text = null.anomalies["nonlinearizable"][0].explanation
    assert "can hold: 5" in text and "needs the value null" in text


def test_a_map_that_tells_states_apart_by_its_calls_starts_as_it_did() -> None:
    begun = KvMap().begun("a")
    assert begun.among([]).initial == begun.initial == "a"
