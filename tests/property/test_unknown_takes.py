"""Takes of unknown outcome: queues and stacks whose clients crashed, against brute force.

Each case is a seed of its own. `DSTEST_ROUNDS` is the number of histories of a case.
"""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest
from lin_oracle import explains

from checkers.columns import ILLEGAL, OK
from checkers.lin import catalogue, monitor
from checkers.lin.search import encode
from checkers.linearizable import CHECKER
from dstest.core.check import Budget
from dstest.core.history import Header, History
from dstest.core.op import Op

pytestmark = pytest.mark.slow

ROUNDS = int(os.environ.get("DSTEST_ROUNDS", "2500"))
NAMES = {"fifo-queue": ("enqueue", "dequeue"), "stack": ("push", "pop")}


def operation(model: str, number: int, take: bool, times: tuple[int, int | None], got: Any) -> Op:
    """One operation; without an end it is of unknown outcome."""
    unknown = times[1] is None
    return Op(
        op_id=number,
        process_id=number,
        invoke_ts=times[0],
        complete_ts=times[1],
        op_type=NAMES[model][take],
        key="k",
        input=None if take else number,
        output=got if take and not unknown else None,
        timeout_marker=unknown,
    )


def drawn(model: str, dice: random.Random, most: int) -> list[Op]:
    """Some operations of a real object, of which some takes are of unknown outcome, some did not
    happen, and some that happened are not in the history; results are falsified now and then."""
    spread = dice.choice([0, 0, 1, 2, 4, 8])
    doubt, puts = dice.choice([0.1, 0.3, 0.5]), dice.choice([0.4, 0.5])
    lies, lost = dice.choice([0.0, 0.1, 0.2]), dice.choice([0.0, 0.2, 0.4])
    held: list[int] = []
    ops: list[Op] = []
    for number in range(1, dice.randint(4, most) + 1):
        at, take = 3 * number, dice.random() >= puts
        begin, end = at - dice.randint(0, spread), at + dice.randint(0, spread)
        fate = dice.random()
        unknown = fate < (doubt if take else doubt / 4)
        begin -= dice.randint(0, 3 * spread) if unknown else 0
        got = None
        if not unknown or dice.random() < 0.6:
            if not take:
                held.append(number)
            elif held:
                got = held.pop(0 if model == "fifo-queue" else -1)
        if dice.random() < lies:
            got = dice.choice([None, dice.randint(1, number)])
        if dice.random() >= lost or not take:
            ops.append(operation(model, number, take, (begin, None if unknown else end), got))
    return sorted(ops, key=lambda op: op.invoke_ts)


def together(made: list[list[Op]]) -> History:
    keyed = [
        Op(**{f: getattr(op, f) for f in Op.__struct_fields__} | {"key": key})
        for key, ops in enumerate(made)
        for op in ops
    ]
    return History(header=Header(), ops=sorted(keyed, key=lambda op: op.invoke_ts))


def told(model: str, made: list[list[Op]]) -> list[int]:
    """What the monitor says of each."""
    coded = encode(catalogue.make(model, {}), together(made).ops)
    parts = monitor.parts_of(coded)
    assert parts is not None and not coded.blocked
    found = dict(zip(coded.keys, monitor.verdicts(coded, parts, 2**30).tolist(), strict=True))
    return [found[key] for key in range(len(made))]


def matters(model: str, ops: list[Op]) -> bool:
    """Do takes of unknown outcome decide it, by being there, or by being too few? Else it is as
    wrong or as right without them, or with so many as it likes."""
    certain = [op for op in ops if not op.timeout_marker or op.input is not None]
    begin = min(op.invoke_ts for op in ops)
    many = [operation(model, 100 + i, True, (begin, None), None) for i in range(4)]
    return not explains(model, certain) and bool(explains(model, [*certain, *many]))


@pytest.mark.timeout(600)
@pytest.mark.sampled(2)
@pytest.mark.parametrize("model", list(NAMES))
@pytest.mark.parametrize("seed", range(10))
def test_takes_of_unknown_outcome_agree_with_brute_force(seed: int, model: str) -> None:
    dice = random.Random(f"{model}{seed}")
    made = [ops for _ in range(ROUNDS) if (ops := drawn(model, dice, 9))]
    found = told(model, made)
    for ops, verdict in zip(made, found, strict=True):
        assert verdict == monitor.UNFIT or (verdict == OK) == explains(model, ops), ops
    unfit = [ops for ops, verdict in zip(made, found, strict=True) if verdict == monitor.UNFIT]
    assert not unfit, unfit[0]
    share = np.mean(np.array(found) == ILLEGAL)
    assert 0.1 < share < 0.9
    needed = [v for ops, v in zip(made, found, strict=True) if matters(model, ops)]
    assert min(needed.count(OK), needed.count(ILLEGAL)) > ROUNDS / 50


@pytest.mark.parametrize("model", list(NAMES))
def test_the_whole_checker_explains_what_takes_of_unknown_outcome_cannot(model: str) -> None:
    dice = random.Random(f"whole {model}")
    for _ in range(ROUNDS // 10):
        ops = drawn(model, dice, 8)
        result = CHECKER.check(History(header=Header(), ops=ops), model, Budget())
        if explains(model, ops):
            assert result.valid is not False, ops
            continue
        assert result.valid is False, ops
        for anomaly in result.anomalies["nonlinearizable"]:
            assert anomaly.minimal
            assert not explains(model, [op for op in ops if op.op_id in anomaly.ops]), ops
