"""Runs against runs: intervals over runs, fairness, and answers to one stream of operations."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from made_runs import made, registers
from typer.testing import CliRunner

from dstest.cli.app import app
from dstest.compare.intervals import compared
from dstest.compare.streams import disagreements, noticed
from dstest.core.errors import DstestError
from dstest.core.history import Header, History
from dstest.core.op import Op


def _judged(baseline: list[float], candidate: list[float], **more: Any) -> str:
    given = {"more_is_better": True, "tolerance": 0.05, **more}
    return compared("ok_per_s", baseline, candidate, **given).judgement


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


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    import numpy as np

    dice = np.random.default_rng(7)
    wrong = 0
    for _ in range(200):
        left, right = dice.normal(100, 5, 12), dice.normal(100, 5, 12)
        low, high = compared(
            "p99_ms", list(left), list(right), more_is_better=False, tolerance=0.0
        ).ratio_interval
        wrong += not low <= 1 <= high
    assert wrong <= 30


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
    assert noticed(_history(STREAM), _history(STREAM))
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
    assert noticed(_history(refused), _history(refused))


def test_nothing_compared_is_no_agreement() -> None:
    left, right = _history(STREAM[:1]), _history([_op(9, "read", "z", 3)])
    assert not noticed(left, right)


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
