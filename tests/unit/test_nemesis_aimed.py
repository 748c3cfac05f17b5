"""What of an aimed fault is proof, and what is not: the point, the process, the effect."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from dstest.core.errors import ConfigError
from dstest.core.evidence import LandingRecord, PointCount, Signal
from nemeses.process.aimed import NEMESIS, Aimed
from nemeses.process.aimed_effects import (
    _logged,
    _refusals,
    error_number,
    naming,
    refused_standing,
)
from nemeses.process.aimed_points import (
    AimedDetails,
    others_reached,
    own_hits,
    problems,
    reached_signal,
    sampled,
    unmet_note,
)
from nemeses.tools import aim

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
    "refused": 0,
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
    signal = reached_signal(record(n1={}), GONE)
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
    signal = reached_signal(record(n1=row), GONE)
    assert not signal.moved and why in signal.detail


def test_it_was_done_and_has_no_effect() -> None:
    signal = reached_signal(record(n1={}), THERE)
    assert not signal.moved and "still there" in signal.detail


def test_each_that_is_aimed_at_has_to_come_there_but_for_kill_all() -> None:
    both = {"aimed_at": ("n1", "n2"), "n1": {}, "n2": {"fired": 0, "hits": 0}}
    assert problems(record(**both)) == ["n2: function:work: never reached in 5 s"]  # type: ignore[arg-type]
    assert problems(record(then="kill-all", **both)) == []  # type: ignore[arg-type]


def test_nothing_is_told_of_a_member() -> None:
    assert problems(record(aimed_at=("n1",))) == ["n1: function:work: never reached in 5 s"]


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


def unmet(at: str, *fitting: str) -> AimedDetails:
    """Of a fault that waited in vain for a point, at which these functions fit."""
    made = record(n1={"fired": 0, "hits": 0})
    sights = {"n1": {"points": [dict.fromkeys(fitting, "1")]}}
    return AimedDetails.of(
        msgspec.structs.replace(made, facts={**made.facts, "at": at, "sights": sights})
    )


PUT, READ = "go.x/mvcc.(*store).Put", "go.x/mvcc.(*store).Read"
COUNTS = {
    "n1": PointCount(armed=9, seconds=3.0, reached={READ: 7, "go.x/mvcc.open": 90}),
    "n2": PointCount(armed=9, seconds=3.0, reached={READ: 5, "go.x/mvcc.open": 1, PUT: 2}),
}


def test_what_was_reached_instead_is_told_nearest_and_most_widely_reached_first() -> None:
    put = unmet("mvcc.(*store).Put", PUT)
    assert own_hits(put, COUNTS) == {"n1": 0, "n2": 2}
    found = others_reached(put, COUNTS)
    assert found == [("function:mvcc.(*store).Read", 12), ("function:mvcc.open", 91)]


def test_of_a_glob_all_that_fit_are_the_point_itself() -> None:
    either = unmet("mvcc.(*store).[PR]*", PUT, READ)
    assert own_hits(either, COUNTS) == {"n1": 7, "n2": 7}
    assert others_reached(either, COUNTS) == [("function:mvcc.open", 91)]


def test_nobody_knows_on_which_files_a_system_call_was_made() -> None:
    made = {"write": 4, "fsync": 2}
    calls = {
        "n1": PointCount(armed=20, seconds=3.0, reached=made),
        "n2": PointCount(armed=20, seconds=3.0, reached={"write": 4}),
    }
    call = unmet("syscall:fsync:*.wal")
    assert own_hits(call, calls) == {"n2": 0}
    assert others_reached(call, calls)[:1] == [("syscall:write", 8)]
    assert own_hits(unmet("syscall:fsync"), calls) == {"n1": 2, "n2": 0}


def test_a_try_that_was_not_reached_says_so() -> None:
    made = unmet("mvcc.(*store).Put", PUT)
    told = unmet_note(made, COUNTS)
    assert "it was reached on n2 (2 times)" in told
    assert "reached there: function:mvcc.(*store).Read (12 times)" in told
    assert "nor was anything near it" in unmet_note(made, {})


def test_it_is_not_waited_for_again_where_it_was_not_reached() -> None:
    one = Aimed()
    one._remember(record(), ["n1", "n3"])
    assert "never reached on n1 in f1" in one._known_unmet(["n1", "n2"], "function:work", "kill")
    assert not one._known_unmet(["n2"], "function:work", "kill")
    assert not one._known_unmet(["n1"], "function:rest", "kill")
    assert not one._known_unmet(["n1", "n2"], "function:work", "kill-all")
    assert one._known_unmet(["n1", "n3"], "function:work", "kill-all")
    assert not Aimed()._known_unmet(["n1"], "function:work", "kill")


@pytest.mark.parametrize(
    ("at", "then", "why"),
    [
        ("function:a", "errno:ENOSPC", "only a system call"),
        ("syscall:fsync > function:a", "errno:ENOSPC", "only a system call"),
        ("syscall:fsync", "errno:ENONESUCH", "nothing that is done"),
        ("syscall:fsync", "errno:", "nothing that is done"),
        ("syscall:fsync", "partition", "nothing that is done"),
    ],
)
def test_what_cannot_be_done_there(at: str, then: str, why: str) -> None:
    options = {"at": at, "then": then}
    with pytest.raises(ConfigError, match=why):
        Aimed().check_options(options, ["n1"])


def test_an_error_is_one_of_a_system_call() -> None:
    Aimed().check_options({"at": "function:a > syscall:fsync:*.wal", "then": "errno:EIO"}, ["n1"])
    assert (error_number("errno:ENOSPC"), error_number("kill")) == (28, 0)


def errors(row: dict[str, Any], **facts: Any) -> LandingRecord:
    made = record(then="errno:ENOSPC", n1={"refused": 2, **row})
    return msgspec.structs.replace(made, facts={**made.facts, "at": "syscall:fsync", **facts})


@pytest.mark.parametrize(
    ("row", "shown"),
    [({}, True), ({"refused": 0}, False), ({"root": 8}, False), ({"fired": 0, "hits": 0}, False)],
)
def test_a_call_was_refused_to_the_server_itself(row: dict[str, Any], shown: bool) -> None:
    assert _refusals(errors(row)).moved is shown


def test_a_server_that_runs_has_to_name_the_error() -> None:
    assert _logged("ENOSPC", {"n1": 1, "n2": 3}).moved
    silent = _logged("ENOSPC", {"n1": 1, "n2": 0})
    assert not silent.moved and "n2 runs, and its log does not name ENOSPC" in silent.detail


def test_an_error_stands_as_long_as_calls_are_refused_or_the_server_is_gone() -> None:
    def standing(earlier: int, now: int, **facts: Any) -> bool:
        before = AimedDetails.of(errors({"refused": earlier}))
        return refused_standing(before, AimedDetails.of(errors({"refused": now}, **facts))).present

    assert standing(2, 3) and not standing(2, 2)
    assert standing(2, 2, fates={"n1": "gone"}) and standing(2, 2, times=2)
    assert standing(2, 2, tracers={"n1": 1}) and not standing(2, 2, tracers={"n1": 0})


def test_faults_of_a_run_walk_through_what_any_may_draw() -> None:
    options = {
        "at": "any:mvcc.*", "hit": 0, "then": "kill", "times": 0, "delay_ms": 500.0, "reach_s": 5.0,
        "scope": "one", "targets": "", "service": "", "fault_s": 5.0, "quiet_s": 5.0,
    }  # fmt: skip
    plans = Aimed().plan(random.Random(3), ["n1", "n2", "n3"], 60.0, options)
    walks = [plan.facts["walk"] for plan in plans]
    assert len({seed for seed, _ in walks}) == 1
    assert [place for _, place in walks] == list(range(len(plans)))
    plain = Aimed().plan(random.Random(3), ["n1"], 60.0, {**options, "at": "function:a"})
    assert not any("walk" in plan.facts for plan in plain)


def test_a_sample_of_many_functions_is_by_seed() -> None:
    points = {f"f{i}": f"{i:x}" for i in range(999)}
    seen = aim.Sight(exe="/x", go=True, functions=999, points=[points], biases={"7": "0"})
    one, same, other = (sampled(seen, seed).points[0] for seed in (1, 1, 2))
    assert one == same != other and len(one) == aim.POINTS_MAX and one.items() <= points.items()


@pytest.mark.parametrize(
    ("then", "line", "names"),
    [
        ("errno:EFAULT", "using default settings", False),
        ("errno:ETIME", "lifetime 3s", False),
        ("errno:ENOSPC", "wal: no space left on device", True),
        ("errno:ENOSPC", "write failed (ENOSPC)", True),
        ("errno:EIO", "fsync: Input/output error.", True),
        ("errno:EIO", "EIOU", False),
    ],
)
def test_a_line_names_an_error_by_its_words(then: str, line: str, names: bool) -> None:
    assert (naming(then).search(line) is not None) == names
