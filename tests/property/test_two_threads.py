"""Keys judged in two threads get the verdicts that they get in one."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from lin_generator import MODELS, generate
from msgspec.structs import replace

from checkers import _core
from checkers import columns as _native
from checkers.columns import ILLEGAL, MEMORY, OK, Columns, Decision, Limits, check_registers, encode
from checkers.lin import catalogue, monitor, registers
from checkers.lin.registers import chains
from checkers.lin.search import encode as encode_calls
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


FACTS = ("valid", "reason", "anomaly_types", "anomalies", "ops", "keys")
MODELS_OF_HALVES = ("register", "cas-register", "fifo-queue", "stack", "priority-queue")
READS = frozenset({"read", "dequeue", "pop", "delete-min"})


def lied(history: History, wrong: set[Any]) -> History:
    """The same history, in which the last result of each of these keys is one of long before."""
    ops = list(history.ops)
    for key in wrong:
        told = [i for i, op in enumerate(ops)
                if op.key == key and op.op_type in READS and op.output is not None
                and op.complete_ts is not None]  # fmt: skip
        ops[told[-1]] = replace(ops[told[-1]], output=ops[told[0]].output)
    return replace(history, ops=ops)


def order_of_keys(history: History) -> list[Any]:
    """The keys as they lie in the columns: as they occur."""
    return list(dict.fromkeys(op.key for op in history.ops))


def parts_asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Which engine is called for how many keys from now on."""
    asked: list[tuple[str, int]] = []

    def watched(name: str, at: int) -> Callable[..., None]:
        real = getattr(_core, name)

        def call(*args: Any) -> None:
            asked.append((name, len(args[at])))
            real(*args)

        return call

    for name, at in (("check_registers", 6), ("monitor", 5), ("chains", 6)):
        monkeypatch.setattr(_core, name, watched(name, at))
    return asked


@pytest.mark.parametrize("model", MODELS_OF_HALVES)
@pytest.mark.parametrize("wrong", [(), (0,), (-1,), (0, -1), (0, 1, 2, 3, 4, 5)])
def test_whole_checker(model: str, wrong: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong in the first key lies in one half, what is wrong in the last in the other."""
    assert model in MODELS
    history = generate(model, 1, 400, keys=6)
    keys = order_of_keys(history)
    illegal = {keys[i] for i in wrong}
    history = lied(history, illegal)
    one = CHECKER.check(history, model, Budget())
    monkeypatch.setattr(_native, "OPS_WORTH_TWO", 10)
    asked = parts_asked(monkeypatch)
    two = CHECKER.check(history, model, Budget())
    assert one.valid is not bool(wrong)
    assert {a.key for found in two.anomalies.values() for a in found} == illegal
    for fact in FACTS:
        assert getattr(one, fact) == getattr(two, fact), fact
    assert len([n for _, n in asked if 1 < n < 6]) >= 2, asked


def least(enough: Callable[[int], bool]) -> int:
    """The least memory that is enough."""
    low, high = 1, 2**28
    assert enough(high)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low


@pytest.mark.parametrize("model", ["cas-register", "fifo-queue", "stack", "priority-queue"])
def test_half_of_the_memory_leaves_no_more_open_to_monitors(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = generate(model, 2, 2_000, keys=6, crash=0)
    keys = order_of_keys(history)
    history = lied(history, {keys[0], keys[-1]})
    judged: Callable[[int], Any]
    if model == "cas-register":
        columns = encode(history, model)
        judged = partial(chains, columns)
    else:
        coded = encode_calls(catalogue.make(model, {}), history.ops)
        parts = monitor.parts_of(coded)
        assert parts is not None
        judged = partial(monitor.some, coded, parts, parts.kind != monitor.LOOK)
    memory = least(lambda m: bool((judged(m) != MEMORY).all()))
    alone = judged(memory).tolist()
    assert {OK, ILLEGAL} <= set(alone) and (judged(memory - 1) == MEMORY).any()
    monkeypatch.setattr(_native, "OPS_WORTH_TWO", 10)
    asked = parts_asked(monkeypatch)
    assert judged(memory).tolist() == alone
    assert len(asked) > 2, asked
