"""How long a load lasted is one number, and a rate is the same whoever asks."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from made_meta import meta
from made_moments import op
from made_report import S, report
from made_runs import made, registers
from real_run import change_facts

from dstest.history.jsonl import read_history
from dstest.history.layout import RunDir
from dstest.report.model import RunReport, load_report
from dstest.report.numbers import load_of
from dstest.report.terminal import summary_text
from dstest.store.compare.measured import RunOnSide, Side, differences_of
from dstest.store.index import measure


def with_final_reads(load_end_ns: int | None) -> RunReport:
    """A thousand operations in ten seconds, and after a pause forty reads of the final state."""
    ops = [op(i, i / 100) for i in range(1000)] + [op(2000 + i, 30 + i / 10) for i in range(40)]
    history = msgspec.structs.replace(report().history, ops=ops)
    return msgspec.structs.replace(report(), history=history, meta=meta(load_end_ns=load_end_ns))


def test_final_reads_are_no_load() -> None:
    found = with_final_reads(10 * S)
    assert (found.load_s, found.per_s) == (10.0, 100.0)
    assert "1,000 in 10.0 s (100/s) and 40 after that: " in summary_text(found)


def test_a_load_without_a_known_end_lasts_to_its_last_invocation() -> None:
    found = with_final_reads(None)
    assert found.load_s == pytest.approx(33.9)
    assert found.per_s == pytest.approx(1040 / 33.9)
    assert "after that" not in summary_text(found)
    assert load_of([], None) == load_of([], S) == (0.0, 0)


def test_a_load_that_waits_for_its_last_answers_lasts_as_long() -> None:
    assert load_of([op(1, 1.0), op(2, 2.0)], 5 * S) == (4.0, 2)


def test_a_load_that_was_ended_is_measured_as_long_as_it_was_by_all(tmp_path: Path) -> None:
    run, _ = made(tmp_path / "run", registers(count=200), "register")
    head, *rows = run.history.read_text().splitlines()
    header = json.loads(head)
    header["time_limit_s"] = 10 * header["time_limit_s"]
    run.history.write_text("\n".join([json.dumps(header), *rows]) + "\n")
    assert _compared(run) == measure(run.path).ok_per_s
    whole = _compared(run)
    change_facts(run, stopped_by="linearizable: nonlinearizable on key 0-1")
    assert _compared(run) == measure(run.path).ok_per_s
    assert _compared(run) > 2 * whole


def _compared(run: RunDir) -> float:
    """Operations served per second, as `dstest compare` has it."""
    found, history = run.read_meta(), read_history(run.history)
    assert found is not None
    one = RunOnSide(
        path=run.path, meta=found, verdict=load_report(run.path).verdict, digest="", history=history
    )
    a, b = (Side(name=name, runs=(one,)) for name in ("a", "b"))
    (row,) = differences_of(a, b, ["ok_per_s"], tolerance=0.0, confidence=0.95)
    return row.baseline
