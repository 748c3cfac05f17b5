"""All stale reads of a history are counted, and the oldest is the witness."""

from __future__ import annotations

import random

import pytest

from checkers.linearizable import CHECKER
from dstest.core.check import Budget, CheckResult, Spread
from dstest.core.history import FaultWindow, Header, History
from dstest.core.op import Op, Outcome
from dstest.report.places import aged_ns

S = 1_000_000_000


def op(op_id: int, begin: int, end: int | None, kind: str, value: int | None, **more: object) -> Op:
    side = {"input": value} if kind == "write" else {"output": value}
    fields = {"key": "k", **side, **more}
    if end is None:
        fields |= {"timeout_marker": True, "error": "unknown: lost", "output": None}
    return Op(op_id=op_id, process_id=op_id, invoke_ts=begin, complete_ts=end, op_type=kind,
              node_seen="n1", **fields)  # type: ignore[arg-type]  # fmt: skip


def judged(ops: list[Op], windows: list[FaultWindow] | None = None) -> CheckResult:
    history = History(header=Header(windows=windows or []), ops=ops)
    return CHECKER.check(history, "register", Budget(time_s=20))


def stale(ops: list[Op]) -> Spread:
    found = judged(ops).stale
    assert isinstance(found, Spread)
    return found


def test_every_one_is_counted_and_the_oldest_is_shown() -> None:
    ops = [
        op(1, 0, 1 * S, "write", 1),
        op(2, 2 * S, 3 * S, "write", 2),
        op(3, 4 * S, 5 * S, "read", 1, fault_epoch="f1"),
        op(4, 9 * S, 10 * S, "read", 1),
        op(5, 9 * S, 10 * S, "read", None),
        op(6, 9 * S, 10 * S, "read", 2),
    ]
    found = stale(ops)
    assert (found.count, found.keys_total, found.first_of) == (3, 1, "")
    assert found.oldest_ns == 8 * S, "nothing was there, and the first write had ended at 1 s"
    assert found.told is not None and found.told.epochs == {"f1": 1} and found.told.outside == 2
    result = judged(ops)
    (anomaly,) = result.anomalies["nonlinearizable"]
    assert anomaly.ops == [1, 5] and anomaly.minimal
    assert result.counted == {"nonlinearizable": 1}, "keys are counted as before"


@pytest.mark.parametrize(
    "ops",
    [
        [op(1, 0, 1, "write", 1), op(2, 2, 9, "write", 2), op(3, 5, 6, "read", 1)],
        [op(1, 0, 9, "write", 1), op(2, 2, 4, "write", 2), op(3, 5, 6, "read", 1)],
        [op(1, 0, None, "write", 1), op(2, 2, 4, "write", 2), op(3, 5, 6, "read", 1)],
        [op(1, 0, 1, "write", 1), op(2, 2, None, "write", 2), op(3, 5, 6, "read", 1)],
        [op(1, 0, 1, "write", 1), op(2, 2, 4, "write", 2), op(3, 5, 6, "read", 2)],
    ],
)
def test_what_may_still_have_been_there_is_not_stale(ops: list[Op]) -> None:
    result = judged(ops)
    assert result.valid is True and not isinstance(result.stale, Spread)


def test_a_value_that_two_have_written_tells_nothing() -> None:
    twice = [op(1, 0, 1, "write", 1), op(2, 2, 3, "write", 2), op(3, 4, None, "write", 1)]
    result = judged([*twice, op(4, 5, 6, "read", 1), op(5, 7, 8, "read", 9)])
    assert result.valid is False and not isinstance(result.stale, Spread)


def surely(read: Op, ops: list[Op]) -> int:
    """How old what it shows is, asked of each pair of writes; 0 where it may be new."""
    if read.op_type != "read" or read.outcome is not Outcome.OK:
        return 0
    writes = [one for one in ops if one.op_type == "write" and one.key == read.key]
    made = [one for one in writes if one.input == read.output]
    if len(made) > 1 or not (made or read.output is None):
        return 0
    over = [
        one.complete_ts
        for one in writes
        if one.outcome is Outcome.OK and one not in made
        and all(m.outcome is Outcome.OK and (m.complete_ts or 0) < one.invoke_ts for m in made)
    ]  # fmt: skip
    return max((read.invoke_ts - (end or 0) for end in over), default=0)


@pytest.mark.parametrize("seed", range(60))
def test_as_an_independent_count_of_the_history(seed: int) -> None:
    dice = random.Random(seed)
    ops: list[Op] = []
    for number in range(40):
        begin = dice.randrange(200)
        end = None if dice.random() < 0.1 else begin + dice.randrange(1, 30)
        key = dice.choice("ab")
        if dice.random() < 0.4:
            ops.append(op(number, begin, end, "write", number, key=key))
        else:
            wrote = [one.input for one in ops if one.op_type == "write" and one.key == key]
            ops.append(op(number, begin, end, "read", dice.choice([*wrote, None]), key=key))
    ops.sort(key=lambda one: one.invoke_ts)
    ages = {one.op_id: age for one in ops if (age := surely(one, ops)) > 0}
    told = {one.op_id: aged_ns(one, ops) for one in ops}
    assert ages == {op_id: age for op_id, age in told.items() if age is not None}
    result = judged(ops)
    found = result.stale
    if not ages:
        assert not isinstance(found, Spread)
        return
    assert result.valid is False and isinstance(found, Spread)
    assert (found.count, found.oldest_ns) == (len(ages), max(ages.values()))
    first = result.anomalies["nonlinearizable"][0]
    assert ages[int(str(first.culprit))] == max(ages.values())
