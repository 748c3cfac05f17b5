"""Runs against runs: intervals over runs, fairness, and answers to one stream of operations."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from made_runs import made, registers
from typer.testing import CliRunner

from dstest.cli.app import app
from dstest.core.errors import DstestError
from dstest.core.history import Header, History
from dstest.core.op import Op
from dstest.store.compare.intervals import compare, t_quantile
from dstest.store.compare.measured import FACTORS, RunOnSide, Side, same_in
from dstest.store.compare.streams import disagreements, would_notice

pytestmark = pytest.mark.slow


def _judged(baseline: list[float], candidate: list[float], **more: Any) -> str:
    given = {"more_is_better": True, "tolerance": 0.05, **more}
    return compare("ok_per_s", baseline, candidate, **given).judgement


def test_a_difference_counts_where_its_whole_interval_does() -> None:
    base = [100.0, 101.0, 99.0, 100.5]
    assert _judged(base, [80.0, 81.0, 79.0]) == "worse"
    assert _judged(base, [97.0, 97.2, 97.1]) == "within tolerance"
    assert _judged(base, [97.0, 97.2, 97.1], tolerance=0.0) == "worse"
    assert _judged(base, [120.0, 121.0, 122.0]) == "better"
    assert _judged(base, [101.0, 99.0, 100.0]) == "no difference seen"
    # What may be far worse is not shown to be as good.
    assert _judged(base, [120.0, 80.0, 100.0]) == "unknown"
    assert _judged([100.0, 101.0, 99.0], [30.0, 100.0, 110.0]) == "unknown"
    assert _judged(base, [120.0, 121.0, 122.0], more_is_better=False) == "worse"


def test_what_cannot_be_compared_is_unknown() -> None:
    assert _judged([100.0, 101.0], [80.0, 81.0, 79.0]) == "unknown"
    assert _judged([100.0, 101.0, 99.0], [80.0, math.inf, 79.0]) == "unknown"
    assert _judged([100.0, 101.0, 99.0], [80.0, math.nan, 79.0]) == "unknown"


def test_zeros_have_no_ratio() -> None:
    zero, some = [0.0, 0.0, 0.0], [0.2, 0.3, 0.25]
    assert _judged(zero, zero, more_is_better=False) == "no difference seen"
    assert _judged(zero, some, more_is_better=False) == "worse"
    assert _judged(zero, some) == "better"
    assert _judged(some, zero, more_is_better=False) == "better"
    assert _judged(some, zero) == "worse"
    assert _judged([0.0, 0.3, 0.2], some, more_is_better=False) == "unknown"


@pytest.mark.parametrize("runs", [3, 5, 10])
def test_the_interval_holds_the_true_ratio_as_often_as_it_says(runs: int) -> None:
    """Also of three runs a side, of which a bootstrap held it in four of five cases."""
    dice, held, times = random.Random(runs), 0, 300
    for _ in range(times):
        left, right = ([dice.lognormvariate(4.6, 0.1) for _ in range(runs)] for _ in range(2))
        row = compare("p99_ms", left, right, more_is_better=False, tolerance=0.05)
        held += row.ratio_interval[0] <= 1 <= row.ratio_interval[1]
    assert 0.93 <= held / times <= 0.99


def test_many_comparisons_of_one_decision_are_asked_for_more() -> None:
    base, other = [100.0, 101.0, 99.0, 100.5], [103.0, 104.0, 102.5]
    one = compare("p99_ms", base, other, more_is_better=False, tolerance=0.0)
    many = compare("p99_ms", base, other, more_is_better=False, tolerance=0.0, comparisons=6)
    assert one.judgement == "worse"
    assert many.ratio_interval[0] < one.ratio_interval[0]
    assert many.ratio_interval[1] > one.ratio_interval[1]


QUANTILES = [
    (0.975, 1, 12.7062047),
    (0.975, 2, 4.30265273),
    (0.995, 3, 5.84090931),
    (0.9, 5, 1.47588405),
    (0.975, 30, 2.04227246),
    (0.5, 3, 0.0),
]
"""Abramowitz and Stegun 1964, table 26.10, with more digits."""


@pytest.mark.parametrize(("probability", "freedom", "value"), QUANTILES)
def test_quantiles_are_those_of_the_tables(
    probability: float, freedom: float, value: float
) -> None:
    assert t_quantile(probability, freedom) == pytest.approx(value, abs=1e-7)


def test_zeros_may_differ_by_a_share_of_the_baseline() -> None:
    few, none = [10.0, 10.1, 9.9, 0.0], [0.0, 0.0, 0.0]
    assert _judged([10.0, 10.1, 9.9], none) == "worse"
    assert _judged(few, few) == "unknown"


def _meta_facts(**facts: Any) -> RunOnSide:
    spec: dict[str, Any] = {
        "builds": facts.pop("builds", []),
        "nemesis": facts.pop("nemesis", "kill"),
    }
    plain: dict[str, Any] = {
        "spec": spec,
        "model": "register",
        "checkers": ["linearizable"],
        "nodes": [],
    }
    plain |= {"faults_planned": 0, "clock": {}, **facts}
    from dstest.core.run_record import RunMeta

    return RunOnSide(
        path=Path("x"),
        meta=msgspec.convert(plain, RunMeta),
        history=_history([]),
        verdict=None,  # type: ignore[arg-type]
        digest="",
    )


def test_builds_models_and_judges_are_facts_that_have_to_be_the_same() -> None:
    sides = [Side(name=name, runs=(run,)) for name, run in (
        ("a", _meta_facts(builds=[f"/a/x.deb@{'0' * 16}"], nemesis="kill,partition")),
        ("b", _meta_facts(builds=[f"/b/y.deb@{'0' * 16}"], nemesis="partition,kill")),
        ("c", _meta_facts(builds=[f"/a/x.deb@{'1' * 16}"], model="cas-register")),
    )]  # fmt: skip
    names = ["builds", "nemesis", "model", "checkers"]
    assert {*names} <= {*FACTORS}
    assert same_in(sides[:2], names) == names, "one build at two places, two orders of faults"
    assert same_in([sides[0], sides[2]], names) == ["checkers"]


def _op(number: int, kind: str, key: str, value: Any, **more: Any) -> Op:
    fields: dict[str, Any] = {
        "op_id": number,
        "process_id": 0,
        "invoke_ts": number * 10,
        "complete_ts": number * 10 + 5,
        "op_type": kind,
        "key": key,
        "input": value if kind == "write" else None,
        "output": None if kind == "write" else value,
        "error": None,
        "timeout_marker": False,
        "node_seen": "n1",
        "fault_epoch": None,
    }
    return Op(**{**fields, **more})


STREAM = [
    _op(0, "write", "x", 1),
    _op(1, "read", "x", 1),
    _op(2, "write", "y", 2),
    _op(3, "read", "y", 2),
    _op(4, "read", "x", 1),
]


def _history(ops: list[Op]) -> History:
    return History(header=Header(), ops=ops)


def _with(at: int, **changes: Any) -> History:
    ops = list(STREAM)
    ops[at] = msgspec.structs.replace(ops[at], **changes)
    return _history(ops)


def test_answers_that_agree_and_one_that_does_not() -> None:
    same = disagreements(_history(STREAM), _history(STREAM))
    assert (same.compared, same.disagreeing, same.left_off) == (5, 0, {})
    assert would_notice(_history(STREAM), _history(STREAM))
    other = disagreements(_history(STREAM), _with(3, output=None))
    assert (other.disagreeing, other.shown[0].op_id) == (1, 3)
    assert (other.shown[0].left, other.shown[0].right) == (2, None)


@pytest.mark.parametrize(
    ("at", "changes", "why", "compared_"),
    [
        (1, {"complete_ts": 41}, "operations on the key overlap", 3),
        (0, {"timeout_marker": True, "complete_ts": None}, "an outcome is unknown", 2),
        (0, {"error": "busy"}, "one side refused what the other did", 2),
        (0, {"input": 9}, "the order of operations differs", 2),
    ],
)
def test_a_key_is_left_where_it_cannot_be_known(
    at: int, changes: dict[str, Any], why: str, compared_: int
) -> None:
    found = disagreements(_history(STREAM), _with(at, **changes))
    assert (found.left_off, found.disagreeing) == ({why: 1}, 0)
    assert found.compared == compared_


def test_what_both_refused_is_no_answer_to_change() -> None:
    refused = [msgspec.structs.replace(STREAM[0], error="busy", output=None), *STREAM[1:]]
    assert would_notice(_history(refused), _history(refused))


def test_nothing_compared_is_no_agreement() -> None:
    left, right = _history(STREAM[:1]), _history([_op(9, "read", "z", 3)])
    assert not would_notice(left, right)


def _run(*argv: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["compare", *argv])
    if isinstance(done.exception, DstestError):
        return int(done.exception.exit_code), str(done.exception)
    return done.exit_code, done.output


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("runs")
    return [
        str(made(Path(folder / str(n)), registers(seed=n, count=1300), "register")[0].path)
        for n in range(6)
    ]


def test_on_the_command_line(runs: list[str]) -> None:
    a, b = runs[:2]
    code, said = _run("--baseline", a, "--candidate", b)
    assert code == 3
    assert "3 runs at least on each side, not 1 and 1" in said
    sides = [word for n in range(6) for word in (("--baseline", "--candidate")[n % 2], runs[n])]
    code, said = _run(*sides, "--metric", "ok_ratio", "--tolerance", "0.2")
    assert code == 0
    assert "3 and 3 runs" in said
    code, said = _run(*(["--baseline", a] * 3), *(["--candidate", b] * 3), "--metric", "ok_ratio")
    assert code == 3
    assert "a run of baseline is counted twice" in said
    code, said = _run("--baseline", a, "--candidate", a, "--answers", "--least", "0")
    assert (code, "a run stands on both sides" in said) == (3, True)
    code, said = _run("--baseline", a, "--candidate", b, "--answers")
    assert (code, "without which nothing is shown" in said) == (3, True)
    code, said = _run("--baseline", a, "--candidate", b, "--metric", "speed")
    assert (code, "no such metric" in said) == (2, True)
    code, said = _run("--baseline", a, "--candidate", b, "--differing", "luck")
    assert (code, "no such thing" in said) == (2, True)
