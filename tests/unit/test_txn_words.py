"""What is said of violated transactions: the right kind, the right key, and the operations."""

from __future__ import annotations

import random
from typing import Any

import pytest

from checkers.txn.api import check
from checkers.txn.plugin import from_op_maps
from dstest.core.check import Budget, CheckResult

MODELS = ("read-committed", "causal-cerone", "snapshot-isolation", "serializable")


def judged(
    txns: list[tuple[int, int, int, list[list[Any]]]], workload: str, *models: str, **opts: Any
) -> CheckResult:
    """Of (process, event of invocation, event of completion, micro-operations)."""
    events: dict[int, dict[str, Any]] = {}
    for process, begin, end, mops in txns:
        asked = [[f, k, None if f == "r" else v] for f, k, v in mops]
        events[begin] = {"process": process, "type": "invoke", "f": "txn", "value": asked}
        events[end] = {"process": process, "type": "ok", "f": "txn", "value": mops}
    columns = from_op_maps([events[at] for at in sorted(events)])
    return check(columns, workload, models or ("strict-serializable",), opts)


@pytest.mark.parametrize("model", MODELS)
def test_a_register_read_before_the_transaction_wrote_it(model: str) -> None:
    one = [(0, 0, 1, [["r", 7, 41], ["w", 7, 41]])]
    result = judged(one, "rw-register", model)
    assert (result.valid, result.anomaly_types) == (False, ["future-read"])
    (found,) = result.anomalies["future-read"]
    assert (found.ops, found.minimal) == ([1], True)
    later = [*one, (1, 2, 3, [["r", 7, 41], ["w", 7, 42]])]
    assert judged(later, "rw-register", model).anomaly_types == ["future-read"]


@pytest.mark.parametrize("workload", ["rw-register", "list-append"])
def test_who_read_what_the_other_wrote_did_not_lose_it(workload: str) -> None:
    lists = workload == "list-append"
    write = "append" if lists else "w"
    read = [["r", 7, [2] if lists else 2]]
    txns = [(0, 0, 1, [*read, [write, 7, 2]]), (1, 2, 3, [*read, [write, 7, 3]])]
    found = judged(txns, workload, "snapshot-isolation")
    assert found.valid is False
    assert "lost-update" not in found.anomaly_types


@pytest.mark.parametrize("source", ["linearizable-keys?", "sequential-keys?", "transaction-order"])
@pytest.mark.parametrize("turned", [False, True])
def test_the_key_of_a_missed_write(source: str, turned: bool) -> None:
    reads = [["r", "x", 1], ["r", "y", 2]]
    txns = [
        (0, 1, 2, [["w", "x", 1], ["w", "y", 1]]),
        (0, 3, 4, [["w", "x", 2], ["w", "y", 2]]),
        (1, 0, 5, reads[::-1] if turned else reads),
    ]
    given = {2: 0, 4: 1, 5: 2} if source == "transaction-order" else True
    result = judged(txns, "rw-register", "strict-serializable", **{source: given})
    (found,) = result.anomalies["G-single-item"]
    assert "T5 read 1 in key x and T4 wrote 2, a later version" in found.explanation


def test_an_element_that_a_read_shows_did_not_come_after_all_reads() -> None:
    txns: list[tuple[int, int, int, list[list[Any]]]] = [
        (0, 0, 2, [["append", 1, 1]]),
        (1, 1, 3, [["append", 1, 2]]),
        (2, 4, 5, [["r", 1, [2]]]),
        (4, 6, 7, [["append", 1, 3]]),
        (3, 8, 9, [["r", 1, [1, 3]], ["r", 1, [1, 3]]]),
    ]
    result = judged(txns, "list-append")
    assert next(iter(result.anomalies)) == "incompatible-order"
    assert not any(kind.startswith(("G0", "G-single")) for kind in result.anomaly_types)
    garbage = judged([*txns, (5, 10, 11, [["r", 2, [9]], ["r", 2, [9]]])], "list-append")
    assert len(garbage.anomalies["garbage-read"]) == 1


@pytest.mark.parametrize(
    ("source", "ops"),
    [("linearizable-keys?", [1, 3, 7]), ("sequential-keys?", [1, 3, 5, 7]), ("wfr-keys?", None)],
)
def test_versions_in_a_circle_are_shown_with_who_orders_them(source: str, ops: Any) -> None:
    txns: list[tuple[int, int, int, list[list[Any]]]] = [
        (0, 0, 1, [["w", 1, 1]]),
        (0, 2, 3, [["w", 1, 2]]),
        (1, 4, 5, [["r", 1, 2]]),
        (1, 6, 7, [["r", 1, 1]]),
    ]
    if ops is None:
        txns, ops = (
            [(0, 0, 1, [["r", 1, 2], ["w", 1, 1]]), (1, 2, 3, [["r", 1, 1], ["w", 1, 2]])],
            [1, 3],
        )
    result = judged(txns, "rw-register", "strict-serializable", **{source: True})
    (found,) = result.anomalies["cyclic-versions"]
    assert (found.ops, len(found.witness)) == (ops, len(ops))


def _serial(seed: int, sessions: int, txns: int, keys: int) -> list[tuple[int, int, int, Any]]:
    rng = random.Random(seed)
    store: dict[int, int] = {}
    made, value = [], 0
    for at in range(txns):
        mops: list[list[Any]] = []
        for key in rng.sample(range(keys), 8):
            if rng.random() < 0.3:
                mops.append(["r", key, store.get(key)])
            else:
                value += 1
                store[key] = value
                mops.append(["w", key, value])
        made.append((rng.randrange(sessions), 2 * at, 2 * at + 1, mops))
    return made


@pytest.mark.parametrize("model", ["snapshot-isolation", "serializable", "prefix"])
@pytest.mark.parametrize("lost", [False, True])
def test_what_is_serial_in_each_session_needs_no_other_order(model: str, lost: bool) -> None:
    txns = sorted(_serial(1, 25, 1_200, 1_200), key=lambda txn: txn[0])  # as sessions have them
    rows: list[tuple[int, Any]] = [(process, mops) for process, _, _, mops in txns]
    if lost:
        _, key, value = next(mop for _, mops in rows for mop in mops if mop[0] == "w")
        rows += [(100 + n, [["r", key, value], ["w", key, -n]]) for n in (1, 2)]
    columns = from_op_maps(
        [{"process": process, "type": "ok", "f": "txn", "value": mops} for process, mops in rows]
    )
    result = check(columns, "rw-register", (model,), None, Budget(time_s=10.0, memory_mb=1024))
    if lost and model != "prefix":
        assert "lost-update" in result.anomaly_types
    else:
        assert result.valid in ((True, "unknown") if lost else (True,)), result.reason
