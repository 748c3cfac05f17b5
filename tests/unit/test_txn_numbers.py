"""Sentences, edges and witnesses call a transaction by one number: the op_id of the history."""

from __future__ import annotations

import re
from typing import Any

import pytest
from failing_runs import broken_ops
from passing_runs import RUNS

from checkers.txn.plugin import LIST_APPEND, RW_REGISTER, TxnChecker, from_history
from dstest.core.check import Anomaly, Budget
from dstest.core.history import Header, History
from dstest.core.op import Op

S = 1_000_000


def txn(op_id: int | str, at: int, *mops: list[Any], **changes: Any) -> Op:
    asked = [[kind, key, None if kind == "r" else value] for kind, key, value in mops]
    given: dict[str, Any] = {
        "complete_ts": at * S + 10 * S,
        "input": asked,
        "output": list(mops),
    } | changes
    return Op(op_id=op_id, process_id=at, invoke_ts=at * S, op_type="txn", **given)


def found(*ops: Op, checker: TxnChecker = LIST_APPEND) -> list[Anomaly]:
    model = "serializable"
    result = checker.check(History(header=Header(), ops=list(ops)), model, Budget(time_s=30))
    assert result.valid is False
    return [anomaly for group in result.anomalies.values() for anomaly in group]


def sentences(anomaly: Anomaly) -> str:
    edges = [row["edge"]["text"] for row in anomaly.witness if "edge" in row]
    return " ".join([anomaly.explanation, *edges])


def skewed(one: int | str, two: int | str, reader: int | str) -> list[Op]:
    """Read skew as a database at read committed gives it."""
    return [
        txn(one, 0, ["append", 897, 15], ["append", 833, 14]),
        txn(two, 1, ["r", 897, []], ["r", 833, [14]]),
        txn(reader, 2, ["r", 897, [15]], ["r", 833, [14]]),
    ]


def test_a_cycle_of_operations_whose_ids_are_no_positions() -> None:
    (anomaly,) = found(*skewed(687, 745, 901))
    assert sorted(anomaly.ops) == [687, 745]
    assert {*re.findall(r"\bT(\d+)", sentences(anomaly))} == {"687", "745", "901"}
    by_id = {row["op_id"]: row for row in anomaly.witness}
    assert by_id[745]["edge"]["text"].startswith("T745 read key 897 as []")
    assert by_id[745]["edge"]["to"] == 687
    assert by_id[745]["output"] == [["r", 897, []], ["r", 833, [14]]]


def test_a_finding_without_a_cycle_names_the_ids() -> None:
    ops = (txn(15, 0, ["append", 65, 3], ["r", 65, [5, 3]]), txn(249, 1, ["r", 65, [5, 10]]),
           txn(77, 2, ["append", 65, 5]), txn(79, 3, ["append", 65, 10]))  # fmt: skip
    anomaly = next(a for a in found(*ops) if a.type == "incompatible-order")
    assert anomaly.ops == [15, 249]
    assert "T249 read key 65 as [5 10] and T15 read it as [5 3]" in anomaly.explanation


@pytest.mark.parametrize("kind", ["list-append", "rw-register"])
def test_every_number_of_a_generated_history_is_an_op_id(kind: str) -> None:
    asked = {"workload": kind} | dict(RUNS[kind]())
    ops = broken_ops(kind, asked)
    # Ids as load workers give them: rising, with gaps.
    ops = [Op(**{f: getattr(o, f) for f in o.__struct_fields__} | {"op_id": 3 * n + 1000})
           for n, o in enumerate(ops)]  # fmt: skip
    ids = {op.op_id for op in ops}
    checker = LIST_APPEND if kind == "list-append" else RW_REGISTER
    anomalies = found(*ops, checker=checker)
    assert anomalies
    for anomaly in anomalies:
        told = {int(n) for n in re.findall(r"\bT(\d+)", sentences(anomaly))}
        assert told and told <= ids
        assert {row["op_id"] for row in anomaly.witness} <= {*anomaly.ops}
        assert {*anomaly.ops} <= ids
        if any("edge" in row for row in anomaly.witness):
            assert {*anomaly.ops} <= told


@pytest.mark.parametrize("ids", [("a", "b", "c"), (1, 1, 2), (1 << 63, 2, 3), (-1, 2, 3)])
def test_ids_that_are_no_numbers_of_their_own_leave_places(ids: tuple[Any, Any, Any]) -> None:
    history = History(header=Header(), ops=skewed(*ids))
    assert from_history(history).op_index.tolist() == [0, 1, 2]
    assert from_history(History(header=Header(), ops=skewed(5, 9, 7))).op_index.tolist() == [
        5,
        9,
        7,
    ]
    (anomaly,) = found(*skewed(*ids))
    assert {*anomaly.ops} == {ids[0], ids[1]}
