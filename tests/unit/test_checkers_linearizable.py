"""Outcome rules, vacuity, budgets and witnesses of the linearizability checker.

The mini-language: `w1[0,5]` is an ok write of 1 from 0 to 5, `r1[..]` a read that returned 1, `r-`
a read of nothing, `c1>2` a cas that swapped and `c1!2` one that differed; `[3,?]` has an unknown
outcome and `[3,5]x` failed. `y:w1[0,5]` is on key y.
"""

from __future__ import annotations

import re
import threading
from typing import Any

import numpy as np
import pytest
from lin_oracle import MODELS as ORACLE

from checkers import columns
from checkers.columns import Interner
from checkers.linearizable import CHECKER
from dstest.core.check import Budget, CheckResult
from dstest.core.history import FaultWindow, Header, History
from dstest.core.op import Op

pytestmark = pytest.mark.slow

_OP = re.compile(r"(?:(\w+):)?([rwc])([\d-]+)(?:([>!])(\d+))?\[(\d+),(\d+|\?)\](x?)")


def parse(text: str) -> list[Op]:
    ops = []
    for i, token in enumerate(text.split()):
        found = _OP.fullmatch(token)
        assert found, token
        key, f, a, sign, b, invoke, complete, failed = found.groups()
        value = None if a == "-" else int(a)
        unknown = complete == "?"
        output = {"r": value, "w": None, "c": sign == ">"}[f]
        ops.append(
            Op(
                op_id=i,
                process_id=i,
                invoke_ts=int(invoke),
                complete_ts=None if unknown else int(complete),
                op_type={"r": "read", "w": "write", "c": "cas"}[f],
                key=key,
                input={"r": None, "w": value, "c": [value, int(b or 0)]}[f],
                output=None if unknown or failed else output,
                error="refused" if failed else None,
                timeout_marker=unknown,
            )
        )
    return sorted(ops, key=lambda op: op.invoke_ts)


def check(text: str, model: str = "cas-register", budget: Budget | None = None) -> CheckResult:
    return CHECKER.check(History(header=Header(), ops=parse(text)), model, budget or Budget())


def test_it_is_a_checker() -> None:
    assert (CHECKER.name, CHECKER.kind) == ("linearizable", "history")
    assert CHECKER.models[:2] == ("register", "cas-register")
    assert len(set(CHECKER.models)) == len(CHECKER.models)
    assert set(CHECKER.models) == set(ORACLE), "each is held to a definition of its own"


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("r-[0,1]", True),
        ("w1[0,1] r1[2,3]", True),
        ("w1[0,1] r-[2,3]", False),
        ("w1[0,1] w2[2,3] r1[4,5]", False),
        ("w1[0,9] r-[1,2] r1[3,4]", True),
        ("w1[0,9] r1[1,2] r-[3,4]", False),
        ("r7[0,1]", False),
        # a tie is concurrent: intervals are closed
        ("w1[0,5] r-[5,6]", True),
        ("w1[0,5] r-[6,7]", False),
        # unknown writes may take effect at any later time, once, or never
        ("w1[0,1] w2[2,?] r1[3,4] r2[9,10]", True),
        ("w1[0,1] w2[2,?] r2[3,4] r1[5,6]", False),
        ("w1[0,1] w2[2,?] r2[3,4] w1[5,6] r2[7,8]", False),
        ("r2[0,1] w2[2,?]", False),
        # failed operations had no effect
        ("w1[0,1] w2[2,3]x r1[4,5]", True),
        ("w1[0,1] w2[2,3]x r2[4,5]", False),
        # cas
        ("w1[0,1] c1>2[2,3] r2[4,5]", True),
        ("w1[0,1] c1>2[2,3] r1[4,5]", False),
        ("w1[0,1] c3>2[2,3]", False),
        ("w1[0,1] c1!2[2,3]", False),
        ("w1[0,1] c3!2[2,3] r1[4,5]", True),
        ("w1[0,1] c1>2[2,?] r2[4,5] r1[6,7]", False),
        ("w1[0,1] c1>2[2,?] r1[4,5] r2[6,7]", True),
        ("w1[0,1] c1>1[2,3] r1[4,5]", True),
        # a write hides before a write of the same value
        ("c0>1[0,1] w0[0,2] r1[3,4] r0[5,6]", False),
        ("w0[0,3] c0>1[1,4] r1[6,7]", True),
        # the write of null changes nothing, before the unknown cas lets the other cas differ
        ("w-[0,10] c-!7[0,5] c->1[0,?] r1[11,12]", True),
        # keys are independent
        ("x:w1[0,1] y:w2[2,3] x:r1[4,5] y:r2[6,7]", True),
        ("x:w1[0,1] y:w2[2,3] x:r1[4,5] y:r1[6,7]", False),
    ],
)
def test_small_histories(text: str, valid: bool) -> None:
    result = check(text)
    assert result.valid is valid
    assert result.keys.decided == result.keys.total
    assert result.ops.consumed + sum(result.ops.excluded.values()) == result.ops.total
    assert result.anomaly_types == ([] if valid else ["nonlinearizable"])


@pytest.mark.parametrize(
    "text", ["", "w1[0,1]x", "r1[0,?]", "w1[0,1] w2[2,3]", "w1[0,?] c1>2[3,?]"]
)
def test_what_nothing_could_refute_is_unknown(text: str) -> None:
    result = check(text)
    assert result.valid == "unknown"
    assert result.reason and "nothing was tested" in result.reason


def test_excluded_by_reason() -> None:
    result = check("w1[0,1] w2[2,3]x r1[4,?] r1[5,6]")
    assert result.ops.excluded == {"fail": 1, "unknown-read": 1}
    assert (result.ops.total, result.ops.consumed) == (4, 2)


def test_a_foreign_operation_blocks_its_key_and_never_vanishes() -> None:
    ops = parse("x:w1[0,1] x:r1[2,3] y:w1[4,5] y:r1[6,7]")
    strange = Op(op_id=9, process_id=9, invoke_ts=8, complete_ts=9, op_type="incr", key="x")
    result = CHECKER.check(History(header=Header(), ops=[*ops, strange]), "register", Budget())
    assert result.valid == "unknown"
    assert result.keys.undecided == ["x"]
    assert result.reason and "op 9 (incr)" in result.reason
    assert result.ops.consumed == 2
    bad = parse("y:r3[10,11]")
    result = CHECKER.check(
        History(header=Header(), ops=[*ops, strange, *bad]), "register", Budget()
    )
    assert result.valid is False  # key y is contradicted whatever happened to x
    nowhere = Op(op_id=9, process_id=9, invoke_ts=8, complete_ts=9, op_type="txn")
    result = CHECKER.check(
        History(header=Header(), ops=[*ops, nowhere, *bad]), "register", Budget()
    )
    assert result.valid == "unknown"  # a transaction without a key may have touched y
    assert result.keys.decided == 0


@pytest.mark.parametrize(
    "op",
    [
        {"op_type": "cas", "input": [1, 2], "output": None},
        {"op_type": "cas", "input": [1, 2], "output": "OK"},
        {"op_type": "cas", "input": 3, "output": True},
        {"op_type": "read", "output": 1, "complete_ts": 1},
        {"op_type": "read", "output": 1, "invoke_ts": 2**70, "complete_ts": 2**70},
        {"op_type": "read", "output": 1, "complete_ts": 2**63 - 1},
    ],
)
def test_an_unreadable_operation_is_unknown(op: dict[str, object]) -> None:
    fields: dict[str, object] = {"op_id": 5, "process_id": 5, "invoke_ts": 4, "complete_ts": 6}
    ops = [*parse("w1[0,1] r1[2,3]"), Op(**{**fields, **op})]  # type: ignore[arg-type]
    result = CHECKER.check(History(header=Header(), ops=ops), "cas-register", Budget())
    assert result.valid == "unknown"
    assert result.reason and "op 5" in result.reason


def test_register_has_no_cas() -> None:
    assert check("w1[0,1] c1>2[2,3] r2[4,5]", "register").valid == "unknown"
    with pytest.raises(ValueError, match="linearizable knows"):
        check("w1[0,1]", "queue")


def test_values_are_json_values() -> None:
    ids = Interner()
    same = [(1, 1.0), ([1, {"a": 2}], [1.0, {"a": 2.0}]), ({"a": 1, "b": 2}, {"b": 2, "a": 1})]
    for left, right in same:
        assert ids.id_of(left) == ids.id_of(right)
    different: list[Any] = [
        None,
        True,
        1,
        "1",
        "true",
        False,
        0,
        "",
        [],
        {},
        [1],
        [[1]],
        ["1"],
        1.5,
        [True],
    ]
    assert len({ids.id_of(v) for v in different}) == len(different)
    assert ids.id_of(None) == 0
    assert ids.id_of(float("nan")) == ids.id_of(float("nan"))


def test_a_witness_of_a_stale_read_has_three_operations() -> None:
    noise = " ".join(f"w{i}[{i},{i + 1}] r{i}[{i + 2},{i + 2}]" for i in range(0, 60, 3))
    ops = parse(f"{noise} w100[100,101] r100[101,102] w200[103,104] w300[150,?] r200[105,106]")
    stale = Op(op_id=999, process_id=1, invoke_ts=107, complete_ts=108, op_type="read", output=100)
    windows = [
        FaultWindow(epoch="f1", nemesis="partition", start_ns=50, healed_ns=104),
        FaultWindow(epoch="f2", nemesis="partition", start_ns=1000, healed_ns=2000),
    ]
    history = History(header=Header(windows=windows), ops=[*ops, stale])
    (anomaly,) = CHECKER.check(history, "register", Budget()).anomalies["nonlinearizable"]
    assert [op["op_type"] for op in anomaly.witness] == ["write", "write", "read"]
    assert [op["input"] for op in anomaly.witness] == [100, 200, None]
    assert anomaly.minimal
    assert anomaly.epochs == ["f1"]
    for part in (
        "up to the completion of write 200",
        "can hold: 200",
        "Next completes read 100 (op 999, process 1): it needs the value 100",
    ):
        assert part in anomaly.explanation


def test_a_phantom_is_named() -> None:
    (anomaly,) = check("w1[0,1] r9[2,3] w9[8,9]").anomalies["nonlinearizable"]
    assert anomaly.ops == [1]
    assert "no operation had stored by then" in anomaly.explanation


def test_every_illegal_key_has_its_anomaly() -> None:
    result = check("a:r1[0,1] b:r1[2,3] c:r-[4,5]")
    assert {a.key for a in result.anomalies["nonlinearizable"]} == {"a", "b"}
    assert result.reason == "2 of 3 keys are not linearizable"
    assert result.not_ == ["linearizable"]


def crash_heavy(crashes: int, reads: int) -> str:
    parts = [f"w{i}[{i},?]" for i in range(crashes)]
    parts += [f"c{i % 7}>{i % 5}[{crashes + i},?]" for i in range(crashes)]
    at = 3 * crashes
    parts += [f"r{(i * 37) % crashes}[{at + 2 * i},{at + 2 * i + 1}]" for i in range(reads)]
    return " ".join(parts)


def test_thousands_of_unknown_operations_stay_bounded() -> None:
    result = check(crash_heavy(3000, 300), budget=Budget(time_s=20, memory_mb=64))
    assert result.valid is True
    result = check(crash_heavy(3000, 300) + " r7000[99999,99999]", budget=Budget(time_s=20))
    assert result.valid is False


def hard(writes: int) -> str:
    """Concurrent swaps that no rule simplifies, then a read of the impossible."""
    swaps = [f"c{i % 9}>{(i * 5 + 1) % 9}[0,1000]" for i in range(writes)]
    return " ".join([*swaps, "w3[0,1000]", "r5[1001,1002]", "r6[1003,1004]"])


@pytest.mark.parametrize(
    ("budget", "word"),
    [(Budget(time_s=0.05), "time"), (Budget(time_s=30, memory_mb=1), "memory")],
)
def test_a_spent_budget_is_unknown(budget: Budget, word: str) -> None:
    result = check(hard(40), budget=budget)
    assert result.valid == "unknown"
    assert result.reason and f"{word} budget spent" in result.reason
    assert result.keys.undecided == [None]
    assert result.seconds.check < 25
    assert result.ops.consumed == 0


def test_a_hard_key_does_not_hide_an_easy_violation() -> None:
    easy = " z:w1[0,1] z:r-[2,3]"
    tokens = " ".join(f"a:{t}" for t in hard(40).split())
    result = check(tokens + easy, budget=Budget(time_s=0.5))
    assert result.valid is False
    assert result.keys.undecided == ["a"]


def test_the_stop_flag_ends_the_search() -> None:
    stop = np.zeros(1, np.int32)
    ran = threading.Event()

    def work() -> None:
        ran.set()
        while not stop[0]:
            pass

    def interrupt() -> None:
        ran.wait()
        raise KeyboardInterrupt

    thread_join = threading.Thread.join
    calls = []

    def join(self: threading.Thread, timeout: float | None = None) -> None:
        calls.append(self.name)
        if len(calls) == 1:
            interrupt()
        thread_join(self, timeout)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "join", join)
        with pytest.raises(KeyboardInterrupt):
            columns.interruptible(work, stop)
    assert stop[0] == 1
