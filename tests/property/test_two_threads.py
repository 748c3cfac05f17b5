"""Keys judged in two threads get the verdicts that they get in one."""

from __future__ import annotations

import random

import numpy as np
import pytest
from lin_generator import MODELS, generate

from checkers import _native
from checkers._columns import Columns, encode
from checkers._native import ILLEGAL, MEMORY, OK, Decision, Limits, check_registers
from checkers.lin import registers
from checkers.linearizable import CHECKER
from dstest.core.check import Budget
from dstest.core.history import Header, History
from dstest.core.op import Op

LIMITS = Limits(10**11, 2**28, states=3, exact_states=True)


def register(dice: random.Random, keys: int, each: int) -> list[Op]:
    """Registers; a third of the keys have a read of another value."""
    ops = []
    for key in range(keys):
        now = None
        lied = dice.randrange(each) if key % 3 == 0 else -1
        for i in range(each):
            at, kind = 10 * i + dice.randrange(5), dice.choice(["read", "write"])
            value = dice.randrange(5)
            ops.append(Op(op_id=0, process_id=key, invoke_ts=at, complete_ts=at + 12, op_type=kind,
                          key=key, input=value if kind == "write" else None,
                          output=9 if i == lied else now if kind == "read" else None))  # fmt: skip
            now = value if kind == "write" else now
    ops.sort(key=lambda op: op.invoke_ts)
    return ops


def decided(columns: Columns, limits: Limits = LIMITS) -> Decision:
    return check_registers(
        columns.kind, columns.a, columns.b, columns.invoke, columns.complete, columns.offsets,
        n_values=len(columns.values), limits=limits,
    )  # fmt: skip


@pytest.mark.parametrize("keys", [1, 2, 3, 40])
def test_registers(keys: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ops = register(random.Random(keys), keys, 30)
    columns = encode(History(header=Header(), ops=ops), "register")
    one, verdict = decided(columns), registers.decide(columns, Budget()).verdict
    monkeypatch.setattr(_native, "OPS_WORTH_TWO", 10)
    two = decided(columns)
    for name in ("verdict", "bad", "prefix", "steps", "states"):
        assert np.array_equal(getattr(one, name), getattr(two, name)), name
    assert np.array_equal(registers.decide(columns, Budget()).verdict, verdict)
    assert keys == 1 or {OK, ILLEGAL} == set(verdict.tolist())


def test_half_of_the_memory_being_too_little_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ops = register(random.Random(0), 2, 400)
    columns = encode(History(header=Header(), ops=ops), "register")
    monkeypatch.setattr(_native, "OPS_WORTH_TWO", 10)
    enough = next(m for m in range(1_000, 2**24, 4_000)
                  if (decided(columns, Limits(10**11, m)).verdict != MEMORY).all())  # fmt: skip
    with monkeypatch.context() as alone:
        alone.setattr(_native, "OPS_WORTH_TWO", 10**9)
        assert (decided(columns, Limits(10**11, enough)).verdict != MEMORY).all()
        assert (decided(columns, Limits(10**11, max(1, enough - 4_000))).verdict == MEMORY).any()


@pytest.mark.parametrize("model", ["register", "cas-register", "fifo-queue", "stack"])
def test_whole_checker(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert model in MODELS
    history = generate(model, 1, 400, keys=6)
    one = CHECKER.check(history, model, Budget())
    monkeypatch.setattr(_native, "OPS_WORTH_TWO", 10)
    two = CHECKER.check(history, model, Budget())
    assert one.valid is True
    assert two.valid is True
