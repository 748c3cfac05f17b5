"""Small witnesses of a register: the C core against the same rule in numpy.

DSTEST_ROUNDS is the number of small histories (default 2,000; 20,000 for the record).
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from reduce_oracle import reduced

from checkers import _core, _witness
from checkers.columns import (
    CAS_FALSE,
    CAS_TRUE,
    CAS_UNKNOWN,
    NEVER,
    READ,
    WRITE,
    WRITE_UNKNOWN,
    Columns,
)

pytestmark = pytest.mark.slow

ROUNDS = int(os.environ.get("DSTEST_ROUNDS", "2000"))
Row = tuple[int, int, int, int, int]


def columns_of(rows: Sequence[Row], n_values: int) -> Columns:
    table = np.array(rows, np.int64).reshape(-1, 5)
    return Columns(
        kind=table[:, 0].astype(np.uint8),
        a=table[:, 1].astype(np.int32),
        b=table[:, 2].astype(np.int32),
        invoke=np.ascontiguousarray(table[:, 3]),
        complete=np.ascontiguousarray(table[:, 4]),
        position=np.arange(len(table)),
        offsets=np.array([0, len(table)], np.int64),
        keys=["k"],
        values=list(range(n_values)),
        excluded={},
        blocked={},
    )


def register(dice: random.Random, count: int, values: int, lies: float) -> list[Row]:
    """Operations of a real register, some results falsified, some outcomes unknown."""
    spread, doubt = dice.choice([1, 4, 12, 30]), dice.choice([0.0, 0.1, 0.3])
    rows, now = [], 0
    for at in range(0, 2 * count, 2):
        a, b, what = dice.randrange(values), dice.randrange(values), dice.randrange(10)
        unknown = what > 3 and dice.random() < doubt
        lazy = unknown and dice.random() < 0.5
        if what <= 3:
            kind, a = READ, now
        elif what <= 6:
            kind, now = WRITE_UNKNOWN if unknown else WRITE, now if lazy else a
        else:
            a = now if dice.random() < 0.6 else a
            kind = CAS_UNKNOWN if unknown else CAS_TRUE if a == now else CAS_FALSE
            now = b if a == now and not lazy else now
        if dice.random() < lies:
            a = dice.randrange(values)
        end = NEVER if unknown else at + dice.randint(0, spread)
        rows.append((kind, a, b, at - dice.randint(0, spread), end))
    return sorted(rows, key=lambda r: r[3])


def illegal_ones(seed: int, many: int, count: int, lies: float) -> Iterator[Columns]:
    dice = random.Random(seed)
    for _ in range(many):
        values = dice.choice([2, 3, 5, 40])
        columns = columns_of(register(dice, dice.randint(1, count), values, lies), values)
        found = _witness.illegal(columns, np.arange(len(columns.kind)), 10**9, 2**28)
        if found is not None:
            whole = dice.random() < 0.3
            yield columns if whole else _witness.cut(columns, 0, int(found.bad[0]))


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("many", "count", "lies"), [(ROUNDS, 10, 0.2), (ROUNDS // 10, 60, 0.05), (40, 1_500, 0.002)]
)
def test_same_as_in_numpy(many: int, count: int, lies: float) -> None:
    seen = 0
    for columns in illegal_ones(count, many, count, lies):
        made = _witness.reduce(columns, time_ns=10**10, memory_bytes=2**28)
        assert made.minimal
        assert made.rows.tolist() == reduced(columns).tolist()
        seen += 1
    assert seen > many // 8


def test_budgets_leave_something_illegal() -> None:
    for columns in illegal_ones(7, 20, 200, 0.01):
        for time_ns, memory in ((0, 2**28), (10**10, 0), (10**10, 20_000)):
            made = _witness.reduce(columns, time_ns=time_ns, memory_bytes=memory)
            assert not made.minimal or memory
            assert _witness.illegal(columns, made.rows, 10**10, 2**28) is not None


def test_garbage_is_refused() -> None:
    good = columns_of([(WRITE, 1, 0, 0, 1), (READ, 0, 0, 2, 3)], 2)

    def reduce(**changed: Any) -> bool:
        kind, a, b, invoke, complete = (
            changed.get(name, getattr(good, name))
            for name in ("kind", "a", "b", "invoke", "complete")
        )
        stays = np.zeros(changed.get("size", 2), np.uint8)
        return _core.reduce_registers(
            kind, a, b, invoke, complete, stays, np.zeros(1, np.int32),
            changed.get("n_values", 2), 0, 10**9, 2**28, 0, 100,
        )  # fmt: skip

    assert reduce()
    wrong: list[dict[str, Any]] = [
        {"kind": np.array([9, 0], np.uint8)},
        {"a": np.array([2, 0], np.int32)},
        {"b": np.array([-1, 0], np.int32)},
        {"invoke": np.array([3, 2], np.int64)},
        {"complete": np.array([-1, 3], np.int64)},
        {"kind": np.array([WRITE, WRITE_UNKNOWN], np.uint8)},
        {"kind": np.zeros(3, np.uint8)},
        {"n_values": 0},
        {"size": 3},
    ]
    for changed in wrong:
        with pytest.raises(ValueError, match=r"."):
            reduce(**changed)
