"""A model of one's own is judged by its own steps, whatever it is called and derived from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from notation import op as parsed

from checkers.lin import catalogue
from checkers.lin.catalogue import Mutex
from checkers.lin.containers import FifoQueue, Log, Stack
from checkers.lin.model import Call, Model
from checkers.linearizable import CHECKER, LinearizableModel
from dstest.core.check import Budget
from dstest.core.history import Header, History


def judged(model: Model, *lines: str) -> Any:
    ops = [parsed(line, n) for n, line in enumerate(lines)]
    checker = LinearizableModel(model)
    return checker.check(History(header=Header(), ops=ops), model.name, Budget()).valid


class Bounded(FifoQueue):
    """Forgets what is put in when one value is there."""

    name = "bounded"

    def step(self, state: Any, call: Call) -> Iterable[Any]:
        return [after[:1] for after in super().step(state, call)]


class Upwards(Stack):
    """A stack that gives back the oldest value."""

    name = "stack"

    def first(self, state: Any) -> int:
        del state
        return 0


class Short(Log):
    """A log that begins with offset 1."""

    name = "log"

    def step(self, state: Any, call: Call) -> Iterable[Any]:
        return super().step(state, call) if call.output != 0 else ()


@pytest.mark.parametrize("name", ["fifo-queue", "stack", "priority-queue", "log", "mutex"])
def test_a_name_makes_no_model(name: str) -> None:
    class Named(Model):
        op_types = ("say",)
        initial = 0

        def step(self, state: Any, call: Call) -> Iterable[Any]:
            return (state + 1,) if not call.known or call.output == state else ()

    Named.name = name
    assert judged(Named(), "0 say -> 0 @1-2", "0 say -> 1 @3-4") is True
    assert judged(Named(), "0 say -> 1 @1-2", "0 say -> 0 @3-4") is False


def test_what_is_derived_from_a_queue_is_none() -> None:
    lines = ["0 enqueue 1 @1-2", "0 enqueue 2 @3-4", "0 dequeue -> 1 @5-6"]
    assert judged(FifoQueue(), *lines, "0 dequeue -> 2 @7-8") is True
    assert judged(FifoQueue(), *lines, "0 dequeue -> null @7-8") is False
    assert judged(Bounded(), *lines, "0 dequeue -> 2 @7-8") is False
    assert judged(Bounded(), *lines, "0 dequeue -> null @7-8") is True


def test_a_derived_model_that_keeps_the_name_is_none_either() -> None:
    lines = ["0 push 1 @1-2", "0 push 2 @3-4"]
    assert judged(Stack(), *lines, "0 pop -> 2 @5-6") is True
    assert judged(Upwards(), *lines, "0 pop -> 2 @5-6") is False
    assert judged(Upwards(), *lines, "0 pop -> 1 @5-6") is True
    told = ["0 append 5 -> 0 @1-2", "0 read 0 -> [[0, 5]] @3-4"]
    assert judged(Log(), *told) is True
    assert judged(Short(), *told) is False


def test_every_model_of_ours_has_the_shape_that_it_names() -> None:
    shapes = {name: catalogue.make(name, {"permits": 2}).exact_shape for name in CHECKER.models}
    assert {shapes[name] for name in ("fifo-queue", "stack", "priority-queue", "log")} == {
        "queue", "stack", "priority", "log"
    }  # fmt: skip
    locks = ("mutex", "reentrant-mutex", "fencing-lock", "semaphore")
    assert {name for name, shape in shapes.items() if shape == "lock"} == {*locks}
    assert Mutex().begun(3).exact_shape == "lock"
    assert Bounded().exact_shape == Upwards().exact_shape == ""


def test_the_models_are_listed_once_each_and_made_by_name() -> None:
    assert CHECKER.models[:2] == ("register", "cas-register")
    for name in CHECKER.models:
        assert catalogue.make(name, {"permits": 2}).name == name
        assert CHECKER.op_types[name] and CHECKER.initial[name]
