"""Operations as columns of registers, against a reading of one operation at a time."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from checkers import _core
from checkers.columns import (
    CAS_FALSE,
    CAS_TRUE,
    CAS_UNKNOWN,
    NEVER,
    READ,
    WRITE,
    WRITE_UNKNOWN,
    encode,
)
from dstest.core.history import Header, History
from dstest.core.op import Op

KEYS: list[Any] = ["x", "y", 3, None, True, [1]]
VALUES: list[Any] = [None, 0, 1, 1.0, 1.5, True, False, "1", "", [1, 2], [1.0, 2], {"a": 1}, 2**70]


def any_op(dice: random.Random, number: int) -> Op:
    kind = dice.choice(["read", "write", "cas", "cas"] * 8 + ["append"])
    pair: Any = [dice.choice(VALUES), dice.choice(VALUES)]
    asked = dice.choice(VALUES) if kind != "cas" or dice.random() < 0.02 else pair
    at = number if dice.random() < 0.9 else dice.randrange(-5, 50)
    unknown = dice.random() < 0.2
    output = dice.choice(VALUES) if kind == "read" else dice.random() < 0.5
    if kind == "cas" and dice.random() < 0.02:
        output = None
    lasts = dice.choice([0, 3, 9, 9 if number % 31 else -1])
    return Op(
        op_id=number, process_id=0, invoke_ts=at, op_type=kind, input=asked, output=output,
        complete_ts=None if unknown else at + lasts,
        key=dice.choice(KEYS), timeout_marker=unknown,
        error="refused" if dice.random() < 0.1 else None,
    )  # fmt: skip


def same(value: Any) -> str:
    """Equal for what is equal as JSON, and numbers as numbers."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, list):
        return f"[{','.join(map(same, value))}]"
    return repr(value)


def slowly(ops: list[Op], model: str) -> tuple[dict[str, list[Any]], Counter[str], set[str]]:
    """Rows by key, what is left out, and keys that cannot be decided."""
    rows: dict[str, list[Any]] = {}
    left: Counter[str] = Counter()
    blocked, foreign = set(), False
    for place, op in enumerate(ops):
        key = same(op.key)
        mine = rows.setdefault(key, [])
        unknown = op.timeout_marker
        if op.op_type in ("read", "write", "cas") and not unknown and op.error is not None:
            left["fail"] += 1
            continue
        if op.op_type == "read" and unknown:
            left["unknown-read"] += 1
            continue
        end = NEVER if op.complete_ts is None else op.complete_ts
        if op.op_type == "append":
            foreign |= op.key is None
            blocked.add(key)
        elif (
            op.op_type == "cas"
            and (
                model == "register"
                or not isinstance(op.input, list)
                or len(op.input) != 2
                or not (unknown or isinstance(op.output, bool))
            )
        ) or end < op.invoke_ts:
            blocked.add(key)
        elif op.op_type == "cas":
            kind = CAS_UNKNOWN if unknown else CAS_TRUE if op.output else CAS_FALSE
            row = (kind, same(op.input[0]), same(op.input[1]))
            mine.append((op.invoke_ts, place, *row, end))
        else:
            kind = READ if op.op_type == "read" else WRITE_UNKNOWN if unknown else WRITE
            value = same(op.output if kind == READ else op.input)
            mine.append((op.invoke_ts, place, kind, value, None, end))
    if foreign and len(rows) > 1:
        blocked = set(rows)
    return {k: [] if k in blocked else sorted(v) for k, v in rows.items()}, left, blocked


@pytest.mark.parametrize("model", ["register", "cas-register"])
def test_same_as_slowly(model: str) -> None:
    dice = random.Random(model)
    whole = 0
    for _ in range(400):
        ops = [any_op(dice, i) for i in range(dice.randrange(40))]
        if model == "register" and dice.random() < 0.8:
            ops = [op for op in ops if op.op_type != "cas"]
        rows, left, blocked = slowly(ops, model)
        made = encode(History(header=Header(), ops=ops), model)
        assert sorted(map(same, made.keys)) == sorted(rows)
        assert made.excluded == left
        assert {same(made.keys[k]) for k in made.blocked} == blocked
        whole += not blocked
        for number, key in enumerate(made.keys):
            got = []
            for i in range(*made.of_key(number).indices(len(made.kind))):
                kind, a, b = int(made.kind[i]), made.values[made.a[i]], made.values[made.b[i]]
                other = same(b) if kind in (CAS_TRUE, CAS_FALSE, CAS_UNKNOWN) else None
                got.append(
                    (made.invoke[i], made.position[i], kind, same(a), other, made.complete[i])
                )
            assert got == rows[same(key)]
    assert whole > 50


def test_what_is_no_operation_is_refused() -> None:
    with pytest.raises(AttributeError):
        encode(History(header=Header(), ops=[object()]), "register")  # type: ignore[list-item]
    with pytest.raises(TypeError):
        _core.encode_registers()  # type: ignore[call-arg]
