"""Where objects break, counted: all keys of a violation by window, against brute force."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from lin_oracle import explains, loosened, random_history
from msgspec.structs import replace

from checkers.linearizable import CHECKER
from dstest.core.check import Budget
from dstest.core.history import Header, History
from dstest.core.op import Op, Outcome

pytestmark = pytest.mark.slow

ROUNDS = 40


def breaks_at(model: str, ops: list[Op]) -> Op | None:
    """The first completion that no order explains; None where all of it is linearizable."""
    done = [op for op in ops if op.complete_ts is not None and op.outcome is Outcome.OK]
    for last in sorted(done, key=lambda op: op.complete_ts or 0):
        now = last.complete_ts or 0
        begun = [op for op in ops if op.invoke_ts <= now and op.outcome is not Outcome.FAIL]
        known = [op if op in done and op.last_ns <= now else loosened(op) for op in begun]
        if not explains(model, known):
            return last
    return None


@pytest.mark.parametrize("model", ["register", "cas-register", "fifo-queue", "stack", "mutex"])
def test_every_key_is_counted_where_it_breaks(model: str) -> None:
    counted = 0
    for seed in range(ROUNDS):
        dice = random.Random(f"{model}-{seed}")
        ops: list[Op] = []
        wanted: Counter[str | None] = Counter()
        for key in range(6):
            own = [
                replace(
                    op,
                    key=f"{key}",
                    op_id=len(ops) + at,
                    invoke_ts=100 * op.invoke_ts,
                    complete_ts=None if op.complete_ts is None else 100 * op.complete_ts + at,
                    fault_epoch=dice.choice([None, "f1", "f2"]),
                )
                for at, op in enumerate(random_history(model, dice))
            ]
            if (last := breaks_at(model, own)) is not None:
                wanted[last.fault_epoch] += 1
            ops += own
        history = History(header=Header(workload="x", model=model), ops=ops)
        result = CHECKER.check(history, model, Budget())
        assert (result.valid is False) == bool(wanted)
        if not wanted:
            continue
        spread = result.spreads["nonlinearizable"]  # type: ignore[index]
        assert spread.count == sum(wanted.values())
        assert spread.told is not None
        got = Counter({**spread.told.epochs, None: spread.told.outside})
        assert +got == wanted, (seed, got, wanted)
        counted += spread.count
    assert counted > 20
