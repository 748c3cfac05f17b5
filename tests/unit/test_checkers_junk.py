"""Whatever a server answers, a checker says something about it: it never crashes."""

from __future__ import annotations

import random
from typing import Any, Final

import msgspec
import pytest

from dstest.core import registry
from dstest.core.check import Budget
from dstest.history.generator.true_histories import KINDS, history

pytestmark = pytest.mark.slow

JUNK: Final[tuple[Any, ...]] = (
    None, 0, -1, 2**70, 1.5, float("nan"), float("inf"), True, "", "x", [], {}, [1], [[1]], [None],
    {"a": 1}, {"from": 0, "to": [1], "amount": "x"}, [1, 2], ["append", 1], [["append", 1, 2]],
    [["r"]], [["r", 0], ["r", 1]], {"offset": "x"}, {"events": [1]},
    {"events": [{"revision": "x"}]}, {"from": "x"},
    {"id": [1]}, {"value": {}}, [[1, 2], [3]], [[[1], 2]], [{"a": 1}],
)  # fmt: skip


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_values_of_any_shape(kind: str) -> None:
    dice = random.Random(kind)
    checker = registry.load("checkers", KINDS[kind].checker)
    made = history(kind, 1, 60)
    for _ in range(80):
        ops = list(made.ops)
        for _ in range(dice.randint(1, 3)):
            at = dice.randrange(len(ops))
            value = {dice.choice(("input", "output")): dice.choice(JUNK)}
            ops[at] = msgspec.structs.replace(ops[at], **value)
        result = checker.check(
            msgspec.structs.replace(made, ops=ops), KINDS[kind].model, Budget(time_s=5)
        )
        assert result.valid in (True, False, "unknown")
        assert result.valid is not True or result.keys.decided == result.keys.total


@pytest.mark.parametrize("model", registry.load("checkers", "linearizable").models)
def test_values_of_any_shape_in_objects(model: str) -> None:
    dice = random.Random(model)
    checker = registry.load("checkers", "linearizable")
    made = history("causal", 1, 40)
    header = msgspec.structs.replace(made.header, options={"permits": 2})
    types = sorted(checker.op_types[model])
    for _ in range(30):
        ops = [msgspec.structs.replace(op, op_type=dice.choice(types)) for op in made.ops]
        for at in range(len(ops)):
            if dice.random() < 0.3:
                value = {dice.choice(("input", "output")): dice.choice(JUNK)}
                ops[at] = msgspec.structs.replace(ops[at], **value)
        found = msgspec.structs.replace(made, ops=ops, header=header)
        assert checker.check(found, model, Budget(time_s=0.3)).valid in (True, False, "unknown")


@pytest.mark.parametrize("workload", ["list-append", "rw-register"])
def test_micro_operations_of_any_shape(workload: str) -> None:
    dice = random.Random(workload)
    checker = registry.load("checkers", workload)
    for _ in range(200):
        op = history("causal", 1, 4).ops[0]
        ops = [
            msgspec.structs.replace(
                op, op_id=i, process_id=i, op_type="txn",
                input=dice.choice(JUNK), output=dice.choice(JUNK),
            )
            for i in range(4)
        ]  # fmt: skip
        made = msgspec.structs.replace(history("causal", 1, 4), ops=ops)
        assert checker.check(made, "serializable", Budget()).valid in (False, "unknown")
