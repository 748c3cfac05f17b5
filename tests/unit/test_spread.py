"""All anomalies of a kind together, and the data that each says of itself."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from made_moments import fault

from checkers._findings import ANOMALIES_MAX
from checkers._spread import KEYS_MAX
from dstest.core import registry
from dstest.core.check import Anomaly, Budget, CheckResult, Stuck
from dstest.core.history import FaultWindow, Header, History
from dstest.core.op import Op
from dstest.report.moments import _windows, tallies

MS = 1_000_000


def op(number: int, at_ms: int, op_type: str, **fields: Any) -> Op:
    given: dict[str, Any] = {
        "process_id": number, "complete_ts": (at_ms + 1) * MS, "node_seen": "n1", "key": "s",
    }  # fmt: skip
    return Op(op_id=number, invoke_ts=at_ms * MS, op_type=op_type, **given | fields)


def answer(name: str, ops: list[Op], model: str = "") -> CheckResult:
    checker = registry.load("checkers", name)
    header = Header(model=model or checker.models[0])
    found: CheckResult = checker.check(History(header=header, ops=ops), header.model, Budget())
    return found


def losses(count: int, **fields: Any) -> list[Op]:
    """Adds at 0, 10, .. ms by two nodes, the first half inside a fault, and a read of nothing."""
    adds = [
        op(n, 10 * n, "add", input=n, node_seen=f"n{n % 2 + 1}",
           fault_epoch="f1" if n < count // 2 else None, **fields)
        for n in range(count)
    ]  # fmt: skip
    return [*adds, op(1000, 10 * count, "read", output=[], node_seen="n3")]


@pytest.mark.parametrize("name", ["set-full", "no-lost-ack"])
def test_what_has_no_witness_of_its_own_is_counted_in_time_place_and_epoch(name: str) -> None:
    found = answer(name, losses(40))
    assert len(found.anomalies["lost"]) == ANOMALIES_MAX
    assert isinstance(found.spreads, dict)
    spread = found.spreads["lost"]
    assert spread.count == 40
    assert spread.known is not None and spread.told is not None
    assert (spread.known.first_ns, spread.known.last_ns) == (1 * MS, 391 * MS)
    assert (spread.told.first_ns, spread.told.last_ns) == (401 * MS, 401 * MS)
    assert spread.known.nodes == {"n1": 20, "n2": 20}
    assert spread.told.nodes == {"n3": 40}
    assert (spread.known.epochs, spread.known.outside) == ({"f1": 20}, 20)
    assert (spread.keys, spread.keys_total) == ([("s", 40)], 1)
    assert found.stats["anomalies"] == {"lost": 40}
    assert found.stats["anomalies_by_epoch"] == {"lost": {"none": 40}}


def test_of_many_keys_those_with_most_are_named() -> None:
    ops = [one for key in range(12) for one in (
        *(op(100 * key + n, 10, "add", key=key, input=n) for n in range(key + 1)),
        op(100 * key + 99, 30, "read", key=key, output=[]),
    )]  # fmt: skip
    found = answer("set-full", sorted(ops, key=lambda one: one.invoke_ts))
    assert isinstance(found.spreads, dict)
    spread = found.spreads["lost"]
    assert len(spread.keys) == KEYS_MAX
    assert spread.keys[0] == (11, 12)
    assert spread.keys_total == 12


def test_an_anomaly_says_which_element_it_is_about_and_which_answer_gave_it_away() -> None:
    for name in ("set-full", "no-lost-ack"):
        (one,) = answer(name, losses(1)).anomalies["lost"]
        assert (one.element, one.culprit) == (0, 1000)
    taken = [op(1, 0, "enqueue", input={"a": 1}), op(2, 10, "dequeue", output=None)]
    (one,) = answer("total-queue", taken).anomalies["lost"]
    assert (one.element, one.culprit) == ({"a": 1}, 2)
    # The read that saw the newer one, not the read by which the older was known.
    reversed_ = [
        op(1, 0, "add", input="a"),
        op(3, 0, "read", output=["b"], complete_ts=95 * MS),
        op(2, 10, "add", input="b", complete_ts=90 * MS),
        op(4, 200, "read", output=["a", "b"]),
    ]
    (one,) = answer("set-full", reversed_).anomalies["causal-reverse"]
    assert (one.element, one.culprit) == ("a", 3)


def test_two_holds_say_from_when_to_when() -> None:
    lock = [
        op(1, 0, "acquire", process_id=1, output=True),
        op(2, 10, "acquire", process_id=2, output=True),
        op(3, 30, "release", process_id=1),
    ]
    (one,) = answer("exclusion", lock, "lock").anomalies["overlapping-holds"]
    assert (one.overlap_ns, one.culprit) == ((11 * MS, 30 * MS), 2)
    (one,) = answer("exclusion", lock[:2], "lock").anomalies["overlapping-holds"]
    assert one.overlap_ns == (11 * MS, None)


def test_what_a_checker_does_not_know_is_absent_from_its_answer() -> None:
    plain = msgspec.to_builtins(Anomaly(type="lost"))
    assert {"element", "culprit", "overlap_ns", "stuck"}.isdisjoint(plain)
    fine = answer("set-full", [op(1, 0, "add", input=1), op(2, 10, "read", output=[1])])
    assert fine.valid is True
    assert "spreads" not in msgspec.to_builtins(fine)
    null = Anomaly(type="lost", element=None, overlap_ns=(1, None))
    assert msgspec.json.decode(msgspec.json.encode(null), type=Anomaly) == null


def test_an_answer_is_the_same_after_it_was_written_down() -> None:
    found = answer("set-full", losses(3))
    assert msgspec.json.decode(msgspec.json.encode(found), type=CheckResult) == found
    assert msgspec.convert(msgspec.to_builtins(found), CheckResult) == found


def test_what_fits_no_order_says_which_answer_and_why() -> None:
    ops = [
        op(1, 0, "write", input=1),
        op(2, 10, "write", input=2),
        op(3, 20, "read", output=1),
        op(4, 30, "read", output=2),
    ]
    (one,) = answer("linearizable", ops).anomalies["nonlinearizable"]
    assert one.culprit == 3
    assert one.stuck == Stuck(needs="it needs the value 1", noun="register", held="2")
    found = answer("linearizable", ops)
    assert isinstance(found.spreads, dict)
    assert found.spreads["nonlinearizable"].count == 1
    puts = [op(1, 0, "enqueue", input=1), op(2, 10, "enqueue", input=2)]
    queue = [*puts, op(3, 20, "dequeue", output=2)]
    (one,) = answer("linearizable", queue, "fifo-queue").anomalies["nonlinearizable"]
    assert one.culprit == 3


def test_a_transaction_that_read_what_failed_is_the_culprit() -> None:
    write = op(1, 0, "txn", key=None, input=[["append", 5, 1]], error="aborted")
    read = op(2, 10, "txn", key=None, input=[["r", 5, None]], output=[["r", 5, [1]]])
    checker = registry.load("checkers", "list-append")
    header = Header(model="serializable", workload="list-append")
    found = checker.check(History(header=header, ops=[write, read]), "serializable", Budget())
    (one,) = found.anomalies["G1a"]
    assert (one.culprit, one.element) == (2, 1)


def test_terminal_and_page_have_one_account_of_where_anomalies_fell() -> None:
    """Acknowledged in the fault, and after its heal; missing at the very end."""
    window = FaultWindow(epoch="f1", nemesis="partition", start_ns=0, healed_ns=195 * MS)
    checker = registry.load("checkers", "no-lost-ack")
    header = Header(model=checker.models[0], windows=[window])
    found = checker.check(History(header=header, ops=losses(40)), header.model, Budget())
    assert isinstance(found.spreads, dict) and found.spreads["lost"].known is not None
    assert found.spreads["lost"].known.after == {"f1": 20}
    (line,) = tallies({"no-lost-ack": found})
    said = "lost (20 acknowledged in f1, 20 acknowledged after the heal of f1)"
    assert line.endswith(f"anomalies by epoch: {said}"), line
    faults = [fault("f1", 0, 1)]
    assert "20 inside f1 (partition) and 20 after the heal of f1 (partition)" in _windows(
        found.spreads["lost"].known, faults
    )


@pytest.mark.parametrize(
    ("until_ms", "after", "outside"), [(None, 20, 20), (291, 10, 20), (195, 0, 20)]
)
def test_an_effect_lasts_until_the_measured_recovery(
    until_ms: int | None, after: int, outside: int
) -> None:
    window = FaultWindow(
        epoch="f1",
        nemesis="partition",
        landed="yes",
        start_ns=0,
        healed_ns=195 * MS,
        until_ns=None if until_ms is None else until_ms * MS,
    )
    checker = registry.load("checkers", "no-lost-ack")
    header = Header(model=checker.models[0], windows=[window])
    found = checker.check(History(header=header, ops=losses(40)), header.model, Budget())
    assert isinstance(found.spreads, dict)
    known = found.spreads["lost"].known
    assert known is not None
    assert sum((known.after or {}).values()) == after
    assert known.outside == outside
    said = _windows(known, [window])
    if until_ms is None:
        assert said == "20 inside f1 (partition) and 20 after the heal of f1 (partition)"
    elif after:
        assert said == (
            "20 inside f1 (partition), 10 after the heal of f1 (partition), until 0.3 s and 10 "
            "outside every fault"
        )
    else:
        assert said == "20 inside f1 (partition) and 20 outside every fault"


def test_windows_with_and_without_a_recovery_may_end_together() -> None:
    both = [
        FaultWindow(epoch="f1", nemesis="kill", start_ns=0, healed_ns=195 * MS, until_ns=300 * MS),
        FaultWindow(epoch="f2", nemesis="kill", start_ns=0, healed_ns=195 * MS),
    ]
    for windows in (both, both[::-1]):
        header = Header(model="durable", windows=windows)
        checker = registry.load("checkers", "no-lost-ack")
        found = checker.check(History(header=header, ops=losses(40)), "durable", Budget())
        assert isinstance(found.spreads, dict)
        assert found.spreads["lost"].known.after == {"f2": 20}


def test_a_fault_that_has_not_landed_has_no_effects() -> None:
    window = FaultWindow(epoch="f1", nemesis="kill", start_ns=0, healed_ns=195 * MS, landed="no")
    checker = registry.load("checkers", "no-lost-ack")
    header = Header(model=checker.models[0], windows=[window])
    found = checker.check(History(header=header, ops=losses(40)), header.model, Budget())
    assert isinstance(found.spreads, dict)
    assert found.spreads["lost"].known.outside == 20
    assert not found.spreads["lost"].known.after
