"""What explains records as a trace: up to the one refused, in any order that their times allow;
and such traces read again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from counter_spec import Count, Counter, history, op

from dstest.core.errors import ConfigError
from dstest.core.op import Op
from dstest.spec import FrozenDict, Record, Step, action, maps
from dstest.spec.conform import conform_history, conform_log
from dstest.spec.explained import Explained, explained
from dstest.spec.mapping import Event
from dstest.spec.model import Model, Watch, model_of, show
from dstest.spec.recorded import read_for, recorded_bytes, value_of
from dstest.spec.taking import replay


def explanation(model: Model, ops: list[Op]) -> tuple[str, Explained]:
    found: list[Explained] = []
    said = conform_history(model, ops, explain=lambda *given: found.append(explained(*given)))
    return said.verdict, found[0]


def at(number: int, begun: int, ended: int | None, kind: str, given: Any, got: Any = None) -> Op:
    return Op(
        op_id=number, process_id=number, invoke_ts=begun, complete_ts=ended, op_type=kind,
        input=given, output=got, timeout_marker=ended is None,
    )  # fmt: skip


def test_the_way_to_what_is_refused() -> None:
    model = model_of(Counter())
    ops = list(history(op(0, "inc", given=2), op(1, "read", got=2), op(2, "read", got=7)).ops)
    verdict, found = explanation(model, ops)
    assert verdict == "reject"
    assert found.trace is not None
    assert found.trace.steps == (Step("add", (2,)), Step("read", (2,)))
    assert found.refused == (Step("read", (7,)),)


def test_another_order_is_found() -> None:
    """The read saw the second increment and not the first."""
    model = model_of(Counter())
    ops = [at(0, 0, 100, "inc", 2), at(1, 1, 90, "inc", 1), at(2, 2, 50, "read", None, 1)]
    _, found = explanation(model, ops)
    assert found.trace is not None
    assert found.trace.steps[:2] == (Step("add", (1,)), Step("read", (1,)))
    assert found.trace.last == Count(3)


def test_one_of_unknown_outcome_takes_effect_where_it_has_to() -> None:
    model = model_of(Counter())
    ops = [at(0, 0, None, "inc", 2), at(1, 5, 6, "read", None, 0), at(2, 7, 8, "read", None, 2)]
    _, found = explanation(model, ops)
    assert found.trace is not None
    assert [str(one) for one in found.trace.steps] == ["read(0)", "add(2)", "read(2)"]


@pytest.mark.parametrize("seed", range(30))
def test_each_is_a_behaviour_of_the_model(seed: int) -> None:
    dice = random.Random(seed)
    model, ops, value = model_of(Counter()), list[Op](), 0
    for number in range(40):
        begun = 10 * number - dice.randrange(25)
        ended = 10 * number + 1 + dice.randrange(25)
        if dice.random() < 0.5:
            value += (by := dice.choice((1, 2)))
            ops.append(at(number, begun, None if dice.random() < 0.1 else ended, "inc", by))
        else:
            wrong = dice.random() < 0.02
            ops.append(at(number, begun, ended, "read", None, value + wrong * 100))
    verdict, found = explanation(model, ops)
    assert found.trace is not None
    done = replay(model, found.trace.steps)
    assert done.refused is None
    assert done.trace.states == found.trace.states
    if verdict == "reject":
        assert all(not model.action(s.action).enabled(done.trace.last, s.args)
                   for s in found.refused)  # fmt: skip


def test_a_log_with_a_gap() -> None:
    class Crashing(Counter):
        crash = "forget"

        @action()
        def forget(self, s: Count) -> Count:
            return Count()

        @maps("add")
        def of_add(self, record: Record) -> Iterator[Step]:
            yield Step("add", (record.by,))

    events = [
        Event("add", {"key": "a", "by": 2}),
        Event("gap"),
        Event("add", {"key": "a", "by": 1}),
    ]
    found: list[Explained] = []
    conform_log(model_of(Crashing()), events,
                explain=lambda *given: found.append(explained(*given)))  # fmt: skip
    assert found[0].trace is not None
    assert [str(one) for one in found[0].trace.steps] == ["add(2)", "forget()", "add(1)"]


def test_out_of_time_there_is_none() -> None:
    model = model_of(Counter())
    ops = [at(n, 0, None, "inc", 1) for n in range(200)]
    found: list[Explained] = []

    def late(m: Model, mapped: Any, events: Any, place: Any, watch: Watch) -> None:
        found.append(explained(m, mapped, events, place, Watch(within_s=0.0)))

    conform_history(model, [*ops, at(300, 5, 6, "read", None, 50)], explain=late)
    assert found[0].trace is None
    assert "within" in found[0].why


@pytest.mark.parametrize(
    "value",
    [1, -2, "it's", None, True, (1, ("a", None)), frozenset({1, 2}), frozenset(),
     Count(3), FrozenDict({1: (2, Count(4))})],
)  # fmt: skip
def test_values_are_read_as_they_are_shown(value: Any) -> None:
    model = model_of(Counter())
    globals_there = vars(__import__(Counter.__module__))
    assert "Count" in globals_there
    assert value_of(show(value), model) == value


@pytest.mark.parametrize("text", ["open('x')", "Count(", "__import__", "[1]", "Count(1)", "x.y"])
def test_what_is_no_value_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="no value"):
        value_of(text, model_of(Counter()))


def test_arguments_of_records_are_read_back(tmp_path: Path) -> None:
    model = model_of(Counter())
    ops = list(history(op(0, "inc", given=77), op(1, "read", got=76)).ops)
    _, found = explanation(model, ops)
    file = tmp_path / "t.json"
    file.write_bytes(recorded_bytes(model, found))
    asked, read = read_for(model, file)
    assert read.steps == (Step("add", (77,)),)
    assert list(asked.action("read").choices(read.start)) == [(76,)]
    assert (77,) not in list(asked.action("add").choices(read.start))
    assert read.refused == (Step("read", (76,)),)


def test_a_trace_of_an_exploration_takes_no_other_arguments(tmp_path: Path) -> None:
    model = model_of(Counter())
    ops = list(history(op(0, "inc", given=77), op(1, "read", got=76)).ops)
    _, found = explanation(model, ops)
    file = tmp_path / "t.json"
    file.write_bytes(
        recorded_bytes(model, found).replace(b'"recorded": true', b'"recorded": false')
    )
    with pytest.raises(ConfigError, match="cannot take"):
        read_for(model, file)
