"""Objects that do not start as usual: for every model, what was there first counts."""

from __future__ import annotations

from typing import Any

import pytest
from notation import check

from checkers.lin.catalogue import MODELS, STARTS
from dstest.core.check import CheckResult
from dstest.core.errors import ConfigError


def judged(model: str, text: str, **options: Any) -> CheckResult:
    return check("linearizable", model, text, **options)


CASES: list[tuple[str, Any, str, str]] = [
    # model, initial state, what it explains, what it does not
    ("register", 5, "1 read -> 5 @1-2", "1 read -> 4 @1-2"),
    ("register", None, "1 read -> null @1-2", "1 read -> 0 @1-2"),
    ("register", 0, "1 read -> 0 @1-2", "1 read -> null @1-2"),
    ("cas-register", "a", '1 cas ["a", "b"] -> true @1-2\n1 read -> "b" @3-4',
     "1 cas [null, 1] -> true @1-2"),
    ("cas-register", 0, "1 cas [0, null] -> true @1-2\n1 read -> null @3-4",
     "1 write 1 @1-2\n1 read -> 0 @3-4"),
    ("cas-register", [1, 2], "1 read -> [1, 2] @1-2", "1 read -> [2, 1] @1-2"),
    ("kv-map", "", '1 get[a] -> "" @1-2\n1 append[a] "x" @3-4\n1 get[a] -> "x" @5-6',
     "1 get[a] -> null @1-2"),
    ("kv-map", "z", '1 append[a] "x" @3-4\n1 get[a] -> "zx" @5-6',
     '1 append[a] "x" @3-4\n1 get[a] -> "x" @5-6'),
    ("kv-map", {"a": 1, "b": 2}, "1 get[a] -> 1 @1-2\n1 get[b] -> 2 @3-4",
     "1 get[a] -> 2 @1-2\n1 get[b] -> 2 @3-4"),
    ("multi-register", {"x": 0, "y": 0},
     '1 txn [["r","x",null],["w","y",1]] -> [["r","x",0],["w","y",1]] @1-2',
     '1 txn [["r","x",null]] -> [["r","x",null]] @1-2'),
    ("multi-register", 0,
     '1 txn [["r","x",null],["r","y",null]] -> [["r","x",0],["r","y",0]] @1-2',
     '1 txn [["r","x",null]] -> [["r","x",null]] @1-2'),
    ("multi-register", {"x": 0, "y": 7}, "1 read[x] -> 0 @1-2\n1 read[y] -> 7 @1-2",
     "1 read[x] -> 0 @1-2\n1 read[y] -> 0 @1-2"),
    ("counter", 10, "1 read -> 10 @1-2\n1 inc 2 -> 12 @3-4", "1 read -> 0 @1-2"),
    ("set", [1, 2], "1 contains 1 -> true @1-2\n1 add 2 -> false @3-4\n1 remove 2 -> true @5-6",
     "1 contains 1 -> false @1-2"),
    ("set", [1, 2], "1 read -> [2, 1] @1-2", "1 read -> [] @1-2"),
    ("set", {"a": [1], "b": []}, "1 contains[a] 1 -> true @1-2\n1 contains[b] 1 -> false @3-4",
     "1 contains[a] 1 -> true @1-2\n1 contains[b] 1 -> true @3-4"),
    ("fifo-queue", [1, 2], "1 dequeue -> 1 @1-2\n1 dequeue -> 2 @3-4\n1 dequeue -> null @5-6",
     "1 dequeue -> 2 @1-2"),
    ("stack", [1, 2], "1 pop -> 2 @1-2\n1 pop -> 1 @3-4", "1 pop -> 1 @1-2"),
    ("priority-queue", [5, 2], "1 delete-min -> 2 @1-2\n1 delete-min -> 5 @3-4",
     "1 delete-min -> 5 @1-2"),
    ("log", ["a", "b"], '1 append "c" -> 2 @1-2\n1 read 0 -> [[0,"a"],[1,"b"],[2,"c"]] @3-4',
     '1 append "c" -> 0 @1-2'),
    ("mutex", 3, "1 acquire -> false @1-2\n3 release @3-4\n1 acquire @5-6", "1 acquire @1-2"),
    ("mutex", {"a": 3, "b": None}, "1 acquire[a] -> false @1-2\n1 acquire[b] @3-4",
     "1 acquire[a] @1-2\n1 acquire[b] @3-4"),
    ("reentrant-mutex", [3, 2], "3 release @1-2\n3 release @3-4\n1 acquire @5-6",
     "3 release @1-2\n1 acquire @5-6"),
    ("reentrant-mutex", 3, "3 release @1-2\n1 acquire @5-6", "1 acquire @5-6"),
    ("fencing-lock", [None, 7], "1 acquire -> 8 @1-2", "1 acquire -> 7 @1-2"),
    ("semaphore", 1, "1 acquire @1-2\n2 acquire -> false @3-4", "1 acquire @1-2\n2 acquire @3-4"),
]  # fmt: skip


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
