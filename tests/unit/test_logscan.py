"""Alarms in logs: which lines, and when."""

from __future__ import annotations

from pathlib import Path

from dstest.runner.logscan import scan_logs
from dstest.store.layout import RunDir

STAMPED = '{"level":"panic","ts":"1970-01-01T00:00:05.500Z","msg":"tocommit is out of range"}'


def test_a_line_without_a_stamp_is_of_the_time_of_the_one_before(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    log = run.nodes / "n1" / "etcd.log"
    log.parent.mkdir(parents=True)
    text = f"panic: before any stamp\n{STAMPED}\npanic: tocommit\n\ngoroutine 1 [running]:\n"
    log.write_text(text)
    counts, alarms = scan_logs(run, ("panic:", '"panic"'), {"origin_ns": 1, "clock_start_ns": 2})
    assert counts == {"n1": 5}
    assert [alarm.ts for alarm in alarms] == [None, 5_499_999_997, 5_499_999_997]
    assert alarms[2].line == "panic: tocommit"


def test_no_log_is_none(tmp_path: Path) -> None:
    assert scan_logs(RunDir(tmp_path), ("panic:",), {}) == (None, [])
