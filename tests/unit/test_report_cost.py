"""A report does its work once, however much of it there is."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from failing_runs import failing
from made_moments import fault, op
from served_store import sealed
from typer.testing import CliRunner

from dstest.cli.app import app
from dstest.cli.run import printed
from dstest.core.op import Op
from dstest.history.layout import RunDir
from dstest.report import columns, html, model
from dstest.report.columns import packed
from dstest.report.model import load_report
from dstest.report.service import stretches
from dstest.runner.judgement import judge_reported
from dstest.runner.session import Finished
from dstest.store import index
from dstest.store.export.gather import result_of_run
from dstest.store.inventory import walk
from dstest.store.rows import key_of, row_of

pytestmark = pytest.mark.slow


def counted(monkeypatch: pytest.MonkeyPatch, calls: list[str], *places: tuple[Any, str]) -> None:
    """Each call of these functions of modules is noted."""

    def noting(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*given: Any, **named: Any) -> Any:
            calls.append(name)
            return real(*given, **named)

        return noted

    for module, name in places:
        monkeypatch.setattr(module, name, noting(name, getattr(module, name)))


def with_outages(count: int, outages: int, lasts_s: int = 3000) -> list[Op]:
    """Operations of two types and five nodes, none of which succeeds in the outages."""
    period, ops = lasts_s / outages, []
    for i in range(count):
        at = i * lasts_s / count
        down: dict[str, Any] = {"complete_ts": None, "timeout_marker": True, "node_seen": None}
        given = down if at % period < 1.6 else {"node_seen": f"n{i % 5 + 1}"}
        ops.append(op(i, at, ("read", "write")[i % 2], process_id=i % 20, **given))
    return ops


def test_outages_cost_no_look_at_the_whole_history_each() -> None:
    def spent_s(outages: int) -> float:
        ops = with_outages(20_000, outages)
        period = 3000 / outages
        windows = [fault(f"f{k}", k * period, k * period + 1.6) for k in range(outages)]
        begin = time.process_time()
        rows = stretches(ops, windows)
        assert len(rows) == outages
        return time.process_time() - begin

    few, many = spent_s(5), spent_s(300)
    assert many < 4 * few + 0.2, (few, many)


def test_columns_are_packed_once_however_often_texts_are_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ops = [op(i, i / 100, input=i * 2654435761 % (1 << 40)) for i in range(4000)]
    room = packed(ops, 10**7).size // 2
    calls: list[str] = []
    counted(monkeypatch, calls, (columns, "_ids"), (columns, "_line"))
    found = packed(ops, room)
    assert found.kept == 4000
    assert 0 < found.told < 4000
    times = Counter(calls)
    assert times["_ids"] == 1
    assert times["_line"] <= 2 * 4000


def test_a_report_that_has_changed_is_drawn_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = sealed(failing(tmp_path / "run").path)
    whole = (run / "report.html").read_bytes()
    (run / "report.html").write_bytes(b"older")
    RunDir(run).write_sums()
    calls: list[str] = []
    counted(monkeypatch, calls, (html, "render_html"))
    done = CliRunner().invoke(app, ["report", str(run)])
    assert done.exit_code == 1, done.output
    assert (run / "report.html").read_bytes() == whole
    assert calls == ["render_html"]


def test_what_a_run_came_to_is_told_from_the_report_that_was_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = failing(tmp_path / "run").path
    drawn = judge_reported(RunDir(run))[2]
    told = []
    for report in (drawn, load_report(run)):
        assert report is not None
        calls: list[str] = []
        with monkeypatch.context() as patch:
            counted(patch, calls, (model, "read_history"))
            for as_json in (False, True):
                done = Finished(path=run, exit_code=1, verdict=report.verdict, report=report)
                printed(done, as_json)
        assert calls == []
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]


def test_a_list_of_runs_takes_no_look_at_their_histories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = sealed(failing(tmp_path / "run").path)
    calls: list[str] = []
    counted(monkeypatch, calls, (model, "read_history"), (index, "read_history"))
    place = walk(run).places[0]
    row = row_of(run, place, key_of(place))
    assert row.headline.startswith("etcd")
    assert row.figures is not None and row.figures.ok_per_s is not None
    assert result_of_run(run).run is not None
    assert calls == []
