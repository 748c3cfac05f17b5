"""What of an aimed fault is proof, and what is not: the point, the process, the effect."""

from __future__ import annotations

from typing import Any

import pytest

from dstest.core.evidence import LandingRecord, Signal
from nemeses.process.aimed import NEMESIS, _aimed, _problems

GONE = Signal(signal="gone", moved=True, detail="the server is gone on n1")
THERE = Signal(signal="gone", moved=False, detail="n1: process 7 is still there")
ROW = {
    "hits": 3,
    "fired": 1,
    "step": 0,
    "pid": 9,
    "tid": 10,
    "root": 7,
    "file": "",
    "lost": 0,
    "stops": 3,
    "stop_ns": 9,
    "stop_ns_max": 4,
    "delayed": 0,
    "acted_after_s": 0.1,
    "callers": ["work"],
}


def record(
    *, then: str = "kill", aimed_at: tuple[str, ...] = ("n1",), **rows: dict[str, Any]
) -> LandingRecord:
    facts = {
        "at": "function:work", "hit": 3, "then": then, "reach_s": 5.0, "aimed_at": [*aimed_at],
        "reached": {name: {**ROW, **row} for name, row in rows.items()},
        "processes": {name: [["etcd", 7, 100, True]] for name in ("n1", "n2")},
    }  # fmt: skip
    return LandingRecord(
        fault_id="f1", nemesis="aimed", targets=[*aimed_at], scheduled_at=0, epoch="f1", facts=facts
    )


def test_it_was_done_there() -> None:
    signal = _aimed(record(n1={}), GONE)
    assert signal.moved and signal.during == {"n1": 3}
    assert "thread 10 of process 9 came there 0.1 s after it was armed (hit 3)" in signal.detail


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"fired": 0, "hits": 0}, "never reached in 5 s"),
        ({"fired": 0, "hits": 2}, "2 of 3 hits in 5 s"),
        ({"root": 8}, "process 9 came there, which is none of its server"),
        ({"lost": 1}, "somebody else has changed the code"),
    ],
)
def test_it_was_not(row: dict[str, Any], why: str) -> None:
    signal = _aimed(record(n1=row), GONE)
    assert not signal.moved and why in signal.detail


def test_it_was_done_and_has_no_effect() -> None:
    signal = _aimed(record(n1={}), THERE)
    assert not signal.moved and "still there" in signal.detail


def test_each_that_is_aimed_at_has_to_come_there_but_for_kill_all() -> None:
    both = {"aimed_at": ("n1", "n2"), "n1": {}, "n2": {"fired": 0, "hits": 0}}
    assert _problems(record(**both)) == ["n2: function:work: never reached in 5 s"]  # type: ignore[arg-type]
    assert _problems(record(then="kill-all", **both)) == []  # type: ignore[arg-type]


def test_nothing_is_told_of_a_member() -> None:
    assert _problems(record(aimed_at=("n1",))) == ["n1: function:work: never reached in 5 s"]


def test_a_delay_that_is_over_stands_no_more() -> None:
    def delayed(count: int, **more: Any) -> LandingRecord:
        made = record(then="delay", n1={})
        facts = {**made.facts, "asleep": {"n1": count}, **more}
        return LandingRecord(
            fault_id="f1", nemesis="aimed", targets=["n1"], scheduled_at=0, epoch="f1",
            landed_at=1, facts=facts,
        )  # fmt: skip

    assert NEMESIS.stands(delayed(4), delayed(9)).present
    over = NEMESIS.stands(delayed(9), delayed(9))
    assert not over.present and "n1" in over.doubts[0]
    assert NEMESIS.stands(delayed(9, times=1), delayed(9, times=1)).present
