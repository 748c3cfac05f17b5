"""An operation that a checker does not know may have done anything: no verdict stands beside it."""

from __future__ import annotations

import msgspec
import pytest

from dstest.core import registry
from dstest.core.check import Budget
from dstest.core.history import History
from dstest.core.op import Op
from dstest.history.generator.true_histories import KINDS, history

ANY = {"fairness", "final-state", "reconciliation", "slo"}


def with_one(kind: str, op_type: str) -> History:
    """A true history in which one acknowledged operation in the middle has another name."""
    made = history(kind, 3, 200)
    at = next(i for i, op in enumerate(made.ops) if i >= 50 and op.complete_ts is not None)
    ops = list(made.ops)
    ops[at] = msgspec.structs.replace(ops[at], op_type=op_type)
    return msgspec.structs.replace(made, ops=ops)


@pytest.mark.parametrize("kind", [k for k in KINDS if KINDS[k].checker not in ANY])
@pytest.mark.parametrize("op_type", ["Dequeue", "deposit", "lock", "truncate", ""])
def test_an_unknown_type_leaves_the_history_unknown(kind: str, op_type: str) -> None:
    checker = registry.load("checkers", KINDS[kind].checker)
    result = checker.check(with_one(kind, op_type), KINDS[kind].model, Budget())
    assert result.valid == "unknown"
    assert "not an operation of" in (result.reason or "")
    assert result.keys.decided < result.keys.total


@pytest.mark.parametrize("name", registry.names("checkers"))
def test_every_checker_says_what_it_knows(name: str) -> None:
    checker = registry.load("checkers", name)
    for model in checker.models:
        types = checker.op_types.get(model)
        assert (types is None) == (name in ANY), model


def test_keys_that_hold_none_of_it_are_still_decided() -> None:
    def op(at: int, op_type: str, key: str, value: object, output: object = None) -> Op:
        return Op(op_id=at, process_id=at, invoke_ts=2 * at, complete_ts=2 * at + 1,
                  op_type=op_type, key=key, input=value, output=output)  # fmt: skip

    ops = [
        op(0, "add", "a", 1),
        op(1, "remove", "a", 1),
        op(2, "read", "a", None, []),
        op(3, "add", "b", 1),
        op(4, "read", "b", None, [1]),
        op(5, "add", "c", 1),
        op(6, "read", "c", None, []),
    ]
    made = History(header=history("set-full", 1, 1).header, ops=ops)
    result = registry.load("checkers", "set-full").check(made, "linearizable", Budget())
    assert (result.valid, result.keys.undecided) == (False, ["a"])
    assert {anomaly.key for group in result.anomalies.values() for anomaly in group} == {"c"}
