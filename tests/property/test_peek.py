"""Peeks at queues, stacks and priority queues, against brute force."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest
from lin_oracle import explains

from checkers.columns import ILLEGAL, OK, Limits
from checkers.lin import catalogue, monitor
from checkers.lin.search import UNTESTED, encode, search
from checkers.linearizable import CHECKER
from dstest.core.check import Budget
from dstest.core.history import Header, History
from dstest.core.op import Op

pytestmark = pytest.mark.slow

ROUNDS = int(os.environ.get("DSTEST_ROUNDS", "2000"))
TYPES = {
    "fifo-queue": ("enqueue", "dequeue"),
    "stack": ("push", "pop"),
    "priority-queue": ("insert", "delete-min"),
}


def small(model: str, dice: random.Random, key: str) -> list[Op]:
    """Up to seven operations of a real container, some results falsified or unknown."""
    put, take = TYPES[model]
    spread, lies, doubt = dice.choice([1, 3, 8, 20]), dice.choice([0, 0.1, 0.3]), dice.random() / 4
    few = dice.random() < 0.3
    items: list[int] = []
    ops = []
    for i in range(dice.randint(1, 7)):
        kind = dice.choice([put, put, take, "peek", "peek"])
        value = dice.randint(1, 2) if few else dice.randrange(9) * 10 + i + 1
        unknown = dice.random() < doubt
        output: Any = None
        if kind == put:
            if not unknown or dice.random() < 0.5:
                items = sorted([*items, value]) if model == "priority-queue" else [*items, value]
        elif items:
            at = len(items) - 1 if model == "stack" else 0
            output = items[at]
            if kind == take and (not unknown or dice.random() < 0.5):
                del items[at]
        if kind != put and dice.random() < lies:
            output = dice.choice([None, 1, 2, *items])
        ops.append(
            Op(op_id=i, process_id=i, invoke_ts=2 * i - dice.randint(0, spread), op_type=kind,
               complete_ts=None if unknown else 2 * i + dice.randint(0, spread), key=key,
               input=value if kind == put else None, output=None if unknown else output,
               timeout_marker=unknown)
        )  # fmt: skip
    return sorted(ops, key=lambda op: op.invoke_ts)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("model", list(TYPES))
def test_agrees_with_brute_force(model: str) -> None:
    dice = random.Random(model)
    made = [small(model, dice, f"k{i}") for i in range(ROUNDS)]
    good = [explains(model, ops) for ops in made]
    assert 0.3 < good.count(True) / len(good) < 0.9
    both = sorted((op for ops in made for op in ops), key=lambda op: op.invoke_ts)
    coded = encode(catalogue.make(model, {}), both)
    found = search(coded, Limits(60 * 10**9, 2**30)).verdict
    parts = monitor.parts_of(coded)
    assert parts is not None
    settled = monitor.verdicts(coded, parts, 2**30)
    assert np.isin(settled, (OK, ILLEGAL, monitor.UNFIT)).all()
    assert (settled == ILLEGAL).sum() > 0.02 * len(made)
    assert ((settled == monitor.UNFIT) | (settled == found)).all()
    by_key = dict(zip(coded.keys, found.tolist(), strict=True))
    for ops, wanted in zip(made, good, strict=True):
        assert by_key.get(ops[0].key, OK) == (OK if wanted else ILLEGAL), ops
    for ops, wanted in list(zip(made, good, strict=True))[: ROUNDS // 4]:
        result = CHECKER.check(History(header=Header(), ops=ops), model, Budget())
        if wanted:
            assert result.valid is True or result.reason == UNTESTED, (ops, result.reason)
            continue
        assert result.valid is False, (ops, result.reason)
        (anomaly,) = result.anomalies["nonlinearizable"]
        assert anomaly.minimal
        assert not explains(model, [op for op in ops if op.op_id in anomaly.ops]), ops


def test_a_peek_at_what_was_taken_is_found() -> None:
    def op(i: int, kind: str, value: Any = None, output: Any = None) -> Op:
        return Op(op_id=i, process_id=0, invoke_ts=2 * i, complete_ts=2 * i + 1, op_type=kind,
                  input=value, output=output)  # fmt: skip

    ops = [op(0, "enqueue", 1), op(1, "enqueue", 2), op(2, "dequeue", None, 1)]
    ops.append(op(3, "peek", None, 2))
    history = History(header=Header(), ops=ops)
    assert CHECKER.check(history, "fifo-queue", Budget()).valid is True
    ops[3] = op(3, "peek", None, 1)
    result = CHECKER.check(History(header=Header(), ops=ops), "fifo-queue", Budget())
    assert result.valid is False
    assert "peek -> 1 (op 3, process 0)" in result.anomalies["nonlinearizable"][0].explanation
