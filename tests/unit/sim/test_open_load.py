"""An open load through a pause of all servers: when operations were due, what that makes of their
latencies, and how fast what is overdue is sent."""

from __future__ import annotations

import io
import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from checkers import slo
from dstest.core.check import Budget
from dstest.core.errors import HistoryError
from dstest.core.run_record import RunSpec
from dstest.history.jsonl import read_history
from dstest.report.numbers import by_type, lateness_text
from dstest.runner.plugins import resolve
from dstest.runner.screen import Progress
from dstest.runner.session import run_session

pytestmark = pytest.mark.slow

RATE = 100
SECOND = 1_000_000_000


def paused(store: Path, *given: str) -> Path:
    spec = RunSpec(
        system="toykv", workload="register", nemesis="pause", lab="sim", nodes=3, concurrency=6,
        time_limit_s=24.0, seed=1, rate=float(RATE),
    )  # fmt: skip
    pairs = ["scope=all", "fault_s=6", *(given or ["catch_up=false"])]
    return run_session(resolve(spec, pairs), store=store, ui=Progress(io.StringIO())).path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return paused(tmp_path_factory.mktemp("paused"))


def records(run: Path) -> list[dict[str, Any]]:
    lines = (run / "history.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines[1:]]


def sent_a_second(run: Path) -> list[int]:
    """Operations sent in each whole second after the pause, until it had been caught up with."""
    ops = records(run)
    counts = Counter(op["invoke_ts"] // SECOND for op in ops)
    late = [op["invoke_ts"] // SECOND for op in ops if op["invoke_ts"] - op["due_ts"] > SECOND]
    return [counts[second] for second in range(min(late), max(late) + 1)]


def test_latencies_from_when_due_are_those_of_the_history(run: Path) -> None:
    ops = [op for op in records(run) if op["complete_ts"] is not None and op["error"] is None]
    for row in by_type(read_history(run / "history.jsonl")):
        due, sent = (
            sorted(op["complete_ts"] - op[since] for op in ops if op["op_type"] == row.op_type)
            for since in ("due_ts", "invoke_ts")
        )
        at = math.ceil(0.99 * len(due)) - 1
        assert (row.due_p99_ms, row.p99_ms) == (due[at] / 1e6, sent[at] / 1e6)
        assert due[at] > 10 * sent[at], "the pause is not in it"


def test_the_page_says_both(run: Path) -> None:
    text = (run / "report.html").read_text()
    said = lateness_text(read_history(run / "history.jsonl"))
    assert said is not None and said in text
    assert "p99 ms from due" in text


def test_what_is_overdue_is_sent_at_most_at_twice_the_rate(run: Path, tmp_path: Path) -> None:
    assert max(sent_a_second(run)) <= 2 * RATE + RATE // 10 + 1
    assert max(sent_a_second(paused(tmp_path, "catch_up=true"))) > 3 * RATE


def test_service_levels_count_from_when_due(run: Path) -> None:
    history = read_history(run / "history.jsonl")
    history.header.options["slo"] = "p99_ms<=1000"
    result = slo.CHECKER.check(history, "slo", Budget())
    assert result.valid is False
    (missed,) = result.anomalies["slo-missed"]
    assert "from when each was due" in (missed.explanation or "")
    for op in history.ops:
        assert op.due_ns <= op.invoke_ts


def test_what_was_never_sent_was_not_served(run: Path) -> None:
    history = read_history(run / "history.jsonl")
    assert float(slo.measure(history, "p90_ms", stopped=False)) < math.inf
    history.header.counters["unsent"] = len(history.ops) // 5
    assert slo.measure(history, "p90_ms", stopped=False) == math.inf
    assert float(slo.measure(history, "ok_ratio", stopped=False)) < 0.9
    history.header.options["slo_in"] = "faults"
    assert "never sent" in str(slo.measure(history, "p90_ms", stopped=False))


def test_a_load_that_ends_in_a_pause_says_what_it_never_sent(tmp_path: Path) -> None:
    spec = RunSpec(
        system="toykv", workload="register", nemesis="none", lab="sim", nodes=3, concurrency=3,
        time_limit_s=3.0, seed=1, rate=2000.0,
    )  # fmt: skip
    path = run_session(resolve(spec, []), store=tmp_path, ui=Progress(io.StringIO())).path
    history = read_history(path / "history.jsonl")
    unsent = history.header.counters["unsent"]
    assert 0.8 < (len(history.ops) + unsent) / (2000 * 3) < 1.2, (
        "three clients cannot send them all"
    )


def test_a_closed_loop_has_no_times_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(
        '{"schema":"dstest.history/1"}\n'
        '{"op_id":0,"process_id":0,"invoke_ts":5,"complete_ts":9,"op_type":"write","key":"x",'
        '"input":1,"output":null,"error":null,"timeout_marker":false,"node_seen":null,'
        '"fault_epoch":null}\n'
    )
    history = read_history(path)
    assert (history.ops[0].due_ns, lateness_text(history)) == (5, None)
    path.write_text(
        path.read_text().replace('"fault_epoch":null', '"fault_epoch":null,"due_ts":"x"')
    )
    with pytest.raises(HistoryError, match="due_ts"):
        read_history(path)
