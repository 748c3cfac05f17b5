"""Anomalies of transactions are counted and placed, all of them, however few are written out."""

from __future__ import annotations

from typing import Any

import msgspec

from checkers.txn.explain import EXPLAINED_MAX
from checkers.txn.plugin import LIST_APPEND
from dstest.core.check import Budget
from dstest.core.history import FaultWindow, Header, History
from dstest.core.op import Op

MS = 1_000_000
PAIRS = EXPLAINED_MAX + 100


def txn(number: int, at_ms: int, mops: list[Any], **changes: Any) -> Op:
    return Op(
        op_id=number,
        process_id=number % 2,
        invoke_ts=at_ms * MS,
        complete_ts=(at_ms + 5) * MS,
        op_type="txn",
        input=[[k, key, None if k == "r" else v] for k, key, v in mops],
        output=mops,
        node_seen=f"n{number % 2 + 1}",
        **changes,
    )


def lost_updates() -> History:
    """Of each key two transactions that both read nothing and both append."""
    ops = []
    for n in range(PAIRS):
        for who in (0, 1):
            mops = [["r", n, []], ["append", n, who + 1]]
            ops.append(txn(2 * n + who, 10 * n + who, mops))
    ops += [txn(10_000 + n, 10 * PAIRS + 10 * n, [["r", n, [1, 2]]]) for n in range(PAIRS)]
    window = FaultWindow(
        epoch="f1", nemesis="partition", landed="yes", start_ns=0, healed_ns=1000 * MS
    )
    ops = [
        msgspec.structs.replace(op, fault_epoch="f1" if op.invoke_ts < 1000 * MS else None)
        for op in ops
    ]
    return History(header=Header(model="serializable", windows=[window]), ops=ops)


def test_all_are_counted_and_placed() -> None:
    result = LIST_APPEND.check(lost_updates(), "serializable", Budget())
    assert result.valid is False
    assert len(result.anomalies["lost-update"]) == EXPLAINED_MAX
    assert result.counted["lost-update"] == PAIRS
    assert isinstance(result.spreads, dict)
    spread = result.spreads["lost-update"]
    assert spread.told is not None and spread.count == PAIRS and spread.first_of == ""
    # The later answer of each pair gives it away.
    assert spread.told.nodes == {"n2": PAIRS}
    assert spread.told.first_ns == 6 * MS and spread.told.last_ns == (10 * (PAIRS - 1) + 6) * MS
    assert spread.told.epochs == {"f1": 100} and spread.told.outside == PAIRS - 100
    assert isinstance(spread.told.over_time, list) and sum(spread.told.over_time) == PAIRS
    assert spread.keys_total == PAIRS


def test_a_clean_history_has_no_places() -> None:
    ops = [txn(0, 0, [["append", 1, 1]]), txn(1, 10, [["r", 1, [1]]])]
    result = LIST_APPEND.check(History(header=Header(), ops=ops), "serializable", Budget())
    assert result.valid is True and "anomalies" not in result.stats
    assert result.spreads is msgspec.UNSET


def test_what_one_transaction_shows_twice_is_one() -> None:
    failed = msgspec.structs.replace(txn(0, 0, [["append", 1, 1]]), output=None, error="no")
    read = txn(1, 10, [["r", 1, [1]], ["r", 1, [1]], ["r", 1, [1]]])
    result = LIST_APPEND.check(
        History(header=Header(), ops=[failed, read]), "serializable", Budget()
    )
    assert result.counted["G1a"] == len(result.anomalies["G1a"]) == 1


def test_a_cycle_is_there_with_the_last_answer_that_is_known() -> None:
    """And not with the time-out of a transaction that may have been committed later."""
    slow = msgspec.structs.replace(
        txn(0, 0, [["append", 1, 1], ["r", 2, None]]),
        complete_ts=9000 * MS, output=None, error="timeout", timeout_marker=True,
    )  # fmt: skip
    ops = [
        slow,
        txn(1, 1, [["append", 2, 1], ["r", 1, []]]),
        txn(2, 20, [["append", 3, 1], ["r", 4, []]]),
        txn(3, 21, [["append", 4, 1], ["r", 3, []]]),
        txn(4, 40, [["r", 3, [1]], ["r", 4, [1]]]),
    ]
    result = LIST_APPEND.check(History(header=Header(), ops=ops), "serializable", Budget())
    assert result.valid is False and isinstance(result.spreads, dict)
    ends = [one.told.last_ns for one in result.spreads.values() if one.told is not None]
    assert ends and max(ends) < 9000 * MS
