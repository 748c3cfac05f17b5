"""Jepsen's histories of `long-fork`: transactions of one write, or of the reads of a group."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.long_fork import CHECKER, REVERSE
from dstest.check.source import guess
from dstest.core import registry
from dstest.core.check import Budget, CheckResult
from dstest.core.history import History
from dstest.history.jepsen import from_edn, pair

Txn = tuple[int, int, int, str, str, str]
"""Process, invoked at, completed at, how, what was asked, what it came to."""


def history(*txns: Txn) -> History:
    events = sorted(
        (at, f"{{:process {process} :type {kind} :f :txn :value {value} :time {at}}}")
        for process, began, ended, how, asked, told in txns
        for at, kind, value in ((began, ":invoke", asked), (ended, f":{how}", told))
    )
    return pair(from_edn("\n".join(text for _, text in events)))


def write(process: int, began: int, ended: int, member: Any, how: str = "ok") -> Txn:
    value = f"[[:w {member} 1]]"
    return process, began, ended, how, value, value


def read(process: int, began: int, ended: int, how: str = "ok", **seen: Any) -> Txn:
    """In the order in which they are given: k4="nil", k3=1."""
    rows = [(name.removeprefix("k"), value) for name, value in seen.items()]
    asked = " ".join(f"[:r {member} nil]" for member, _ in rows)
    told = " ".join(f"[:r {member} {value}]" for member, value in rows)
    return process, began, ended, how, f"[{asked}]", f"[{told}]"


WRITES = (write(0, 0, 30, 0), write(1, 1, 31, 1))
ONE, OTHER = read(2, 2, 20, k1=1, k0="nil"), read(3, 3, 21, k0=1, k1="nil")


def asked(of: Any, of_history: History, model: str = "strict-serializable") -> CheckResult:
    found: CheckResult = of.check(of_history, model, Budget())
    return found


@pytest.mark.parametrize("model", ["strict-serializable", "snapshot-isolation"])
def test_a_fork_is_found_whatever_the_order_of_the_reads(model: str) -> None:
    found = asked(CHECKER, history(*WRITES, ONE, OTHER), model)
    assert (found.valid, found.anomaly_types) == (False, ["long-fork"])
    (fork,) = found.anomalies["long-fork"]
    assert (fork.key, sorted(map(int, fork.ops))) == ("0,1", [0, 1, 2, 3])


def test_what_has_an_order_is_none() -> None:
    found = asked(CHECKER, history(*WRITES, ONE, read(3, 3, 21, k0=1, k1=1)))
    assert found.valid is True
    assert (found.ops.consumed, found.keys.decided) == (4, 1)


def test_groups_are_judged_apart_and_unread_members_are_groups_by_themselves() -> None:
    more = (
        *(write(4, 4, 40, 2), write(5, 5, 41, 3), write(6, 6, 42, '"a"'), write(7, 7, 43, 10)),
        *(read(8, 8, 22, k2=1, k3="nil"), read(9, 9, 23, k3=1, k2="nil")),
        read(10, 10, 24, k10="nil"),
    )
    found = asked(CHECKER, history(*WRITES, ONE, *more))
    assert (found.valid, [one.key for one in found.anomalies["long-fork"]]) == (False, ["2,3"])
    assert found.keys.total == 4


def test_a_write_of_unknown_outcome_may_be_seen_and_a_failed_one_may_not() -> None:
    unknown = history(write(0, 0, 30, 0, "info"), WRITES[1], ONE, read(3, 3, 21, k0=1, k1=1))
    assert asked(CHECKER, unknown).valid is True
    failed = history(write(0, 0, 2, 0, "fail"), WRITES[1], ONE, read(3, 3, 21, k0=1, k1=1))
    assert asked(CHECKER, failed).anomaly_types == ["failed-but-applied"]
    open_ = history(*WRITES, ONE, read(3, 3, 21, "info", k0=1, k1="nil"))
    assert asked(CHECKER, open_).valid is not False, "a read of unknown outcome saw nothing"


def test_lost_and_reversed_writes_are_found() -> None:
    lost = history(write(0, 0, 5, 0), write(1, 6, 9, 1), read(2, 20, 30, k0="nil", k1=1),
                   read(3, 21, 31, k0="nil", k1=1))  # fmt: skip
    assert asked(CHECKER, lost).anomaly_types == ["lost"]
    assert asked(REVERSE, lost).anomaly_types == ["causal-reverse"]


BOTH = (2, 2, 20, "ok", "[[:w 1 1] [:w 0 2]]", "[[:w 1 1] [:w 0 2]]")
APPEND = (2, 2, 20, "ok", "[[:append 1 1]]", "[[:append 1 1]]")
MIXED = (2, 2, 20, "ok", "[[:r 1 nil] [:w 0 2]]", "[[:r 1 nil] [:w 0 2]]")
TWICE = (2, 2, 20, "ok", "[[:r 1 nil] [:r 1 nil]]", "[[:r 1 nil] [:r 1 1]]")
STRANGE = (2, 2, 20, "ok", "[[:r 1 nil] [:r 0 nil]]", "[[:r 1 nil] [:r 7 1]]")
NOTHING = (2, 2, 20, "ok", "[[:w 1 nil]]", "[[:w 1 nil]]")
PART = read(2, 2, 20, k1="nil", k0=1, k5="nil")


@pytest.mark.parametrize(
    ("strange", "why"),
    [
        (BOTH, "neither one write nor reads alone"),
        (APPEND, "neither one write nor reads alone"),
        (MIXED, "neither one write nor reads alone"),
        (TWICE, "reads a member twice"),
        (STRANGE, "answered for other members"),
        (NOTHING, "writes nothing"),
        (PART, "another read some of these with others"),
    ],
)
def test_what_is_none_of_groups_accuses_nobody(strange: Txn, why: str) -> None:
    """Also beside a fork: what else was written nobody can say."""
    given = history(*WRITES, OTHER, read(4, 4, 22, k1=1, k0="nil"), strange)
    for checker in (CHECKER, REVERSE):
        found = asked(checker, given)
        assert (found.valid, found.anomaly_types) == ("unknown", [])
        assert why in (found.reason or "")


def test_a_member_that_is_written_twice_leaves_its_group_undecided() -> None:
    again = (4, 50, 60, "ok", "[[:w 0 2]]", "[[:w 0 2]]")
    found = asked(CHECKER, history(*WRITES, ONE, OTHER, again))
    assert (found.valid, found.keys.undecided) == ("unknown", ["0,1"])


def test_whoever_asks_nothing_gets_the_registers_judged() -> None:
    """Which knows forks by Elle's name for them, and needs no word of the file."""
    given = history(*WRITES, ONE, OTHER)
    assert guess(given).workload == "rw-register"


def test_the_checker_says_that_it_takes_transactions() -> None:
    for name in ("long-fork", "causal-reverse"):
        checker = registry.load("checkers", name)
        assert all("txn" in types for types in checker.op_types.values())
