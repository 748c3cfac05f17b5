"""Rates of a run that a violation has ended are those of the time that it ran."""

from __future__ import annotations

import json
from pathlib import Path

from made_runs import made, registers
from real_run import change_facts

from dstest.core.summary import Figures
from dstest.store.compare.measured import METRICS
from dstest.store.index import measure


def test_a_load_that_was_ended_is_measured_as_long_as_it_was(tmp_path: Path) -> None:
    run, _ = made(tmp_path / "run", registers(count=200), "register")
    head, *rows = run.history.read_text().splitlines()
    header = json.loads(head)
    header["time_limit_s"] = 10 * header["time_limit_s"]
    run.history.write_text("\n".join([json.dumps(header), *rows]) + "\n")
    whole = measure(run.path)
    change_facts(run, stopped_by="linearizable: nonlinearizable on key 0-1")
    ended = measure(run.path)
    assert whole.ok_per_s is not None
    assert ended.ok_per_s is not None
    assert ended.ok_per_s > 2 * whole.ok_per_s
    assert ended.ok_ratio == whole.ok_ratio


def test_every_metric_that_is_compared_has_its_figure() -> None:
    assert {*METRICS} == {*Figures.__struct_fields__} - {"why", "whys", "unbounded"}
