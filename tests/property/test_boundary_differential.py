"""`boundary` against slow oracles that share no line with it, on histories that are clean, and on
such of stores that take one name for another."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import msgspec
import pytest
from slow_boundary import orders_fit, who_may_see

from checkers.boundary import CHECKER, OBSERVERS
from dstest.core.check import Budget, CheckResult
from dstest.core.history import Header, History
from dstest.core.op import Op, Outcome
from dstest.history.generator.true_histories import history

pytestmark = pytest.mark.slow

NAMES = {"leak", "wrong-key", "phantom-key", "failed-but-applied", "listed-twice", "count-off"}


def judged(ops: list[Op], model: str = "isolated") -> CheckResult:
    return CHECKER.check(History(header=Header(), ops=ops), model, Budget(time_s=60.0))


def answered(dice: random.Random, op: Op, ops: list[Op]) -> Op:
    """Another answer, of what occurs in the history, or of what does not."""
    values = [one.input["value"] for one in ops if one.op_type == "put"] + ["nobody's"]
    if op.op_type in ("count", "probe_count"):
        output: Any = max(0, op.output + dice.choice((-1, 1)))
    elif op.op_type in ("get", "probe"):
        output = dice.choice([None, *values])
    else:
        rows = [list(row) for row in op.output]
        if rows and dice.random() < 0.5:
            rows.pop(dice.randrange(len(rows)))
        else:
            rows.append([dice.choice(("k", "K", "k ", "1k")), dice.choice(values)])
        output = rows
    return msgspec.structs.replace(op, output=output)


def small(seed: int) -> list[Op]:
    """A few operations of three clients, of which a third is broken in up to two answers."""
    dice = random.Random(seed)
    made = history("boundary", seed, dice.randint(4, 11), processes=3, unknown=0.15, fail=0.1).ops
    ops = [op for op in made if op.outcome is not Outcome.FAIL or dice.random() < 0.7]
    for _ in range(dice.choice((0, 1, 1, 2))):
        asked = [
            at for at, op in enumerate(ops)
            if op.op_type in OBSERVERS and op.outcome is Outcome.OK
        ]  # fmt: skip
        if asked:
            at = dice.choice(asked)
            ops[at] = answered(dice, ops[at], ops)
    return ops


@pytest.mark.timeout(600)
def test_what_is_reported_fits_no_order_and_little_is_missed() -> None:
    came: Counter[str] = Counter()
    for seed in range(6000):
        ops = small(seed)
        result, late = judged(ops), judged(ops, "isolated-late")
        fits, may = orders_fit(ops), who_may_see(ops)
        if not any(op.outcome is Outcome.OK and op.op_type in OBSERVERS for op in ops):
            assert result.valid == "unknown"
            continue
        assert (late.valid is True) == may, (seed, late.anomaly_types)
        if result.valid is False:
            assert not fits, (seed, result.anomaly_types)
        if not may:
            assert result.valid is False, seed
        came["fits" if fits else "found" if result.valid is False else "missed"] += 1
    assert came["found"] > 1500 and came["fits"] > 1500, came
    assert came["missed"] < 0.02 * came["found"], came


@pytest.mark.timeout(600)
def test_clean_histories_are_clean() -> None:
    for seed in range(2500):
        luck = random.Random(seed)
        made = history(
            *("boundary", seed, luck.randint(20, 150)),
            processes=luck.randint(1, 12),
            unknown=luck.choice((0.0, 0.02, 0.2, 0.5)),
            fail=luck.choice((0.0, 0.1)),
        )
        for model in CHECKER.models:
            result = CHECKER.check(made, model, Budget(time_s=60.0))
            assert result.valid is True, (seed, model, result.reason)
