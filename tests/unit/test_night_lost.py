"""What a lost worker has left: a violation counts, although its cell was run again."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_nights import PASSES
from night_cells import cell, leave_one, night_of, run_offline
from real_run import change_facts

from dstest.campaign.nightly.cells import read_config
from dstest.campaign.nightly.driver import Driver, night_after, plan_cells
from dstest.campaign.nightly.seeds import kept_seeds
from dstest.campaign.nightly.state import NightDir, Nights, Try
from dstest.campaign.nightly.verdict import settle, take_up
from dstest.core.errors import Exit
from dstest.history.layout import RunDir
from dstest.runner.judgement import judge

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

RED = cell(12, control="red", anomalies=["nonlinearizable"], id="known-bug")


def test_a_violation_is_not_lost_with_its_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = RED + cell(21, id="violated") + cell(22, id="passed")
    code, directory, night = run_offline(tmp_path, monkeypatch, cells)
    by_cell = {item.cell: item for item in night.items}
    violated = by_cell["violated"]
    assert [(one.standing, one.lost, one.left) for one in violated.tries] == [
        ("as-it-must", 1, False),
        ("failed", 0, True),
    ]
    assert violated.standing == "failed" and code == night.exit == Exit.FAIL
    assert (directory.path / violated.tries[1].result / "verdict.json").is_file()
    assert kept_seeds([night], 3) == {violated.key: [7]}
    assert [one.standing for one in by_cell["passed"].tries] == ["as-it-must"]
    assert (directory.cells / "passed.7.1.died-1").is_dir(), "it stands aside"
    assert not (directory.cells / ".work").exists()
    page = (directory.path / "report.html").read_text()
    assert "left by a lost worker" in page


def test_what_is_left_in_the_folder_of_a_fan_becomes_a_try(tmp_path: Path) -> None:
    path = night_of(tmp_path, RED + cell(12, id="bad"))
    config = read_config(path)
    folder = tmp_path / "store" / "n"
    night = night_after(Nights([], []), config, plan_cells(config, path), folder)
    directory = NightDir.create(tmp_path / "store", night, path.read_bytes())
    bad = next(item for item in night.items if item.cell == "bad")
    first = Try(number=1, started="20260101T000000Z", lost=1)
    settle(bad, first, PASSES, "")
    bad.tries.append(first)
    left = directory.cells / ".work" / f"{bad.id}.1.x_y" / "folder"
    leave_one(left / "store" / "etcd-register-partition" / "run-12", 12)
    Driver(directory, night, print)._take_up_lost()
    assert [(one.number, one.standing, one.left) for one in bad.tries] == [
        (1, "as-it-must", False),
        (2, "failed", True),
    ]
    assert (directory.path / bad.tries[1].result / "verdict.json").is_file()
    assert not left.exists()
    kept = next(item for item in directory.read().items if item.cell == "bad")
    assert kept.tries == bad.tries and kept.made == 1
    judged = bad.tries[1].judged
    assert judged is not None and judged.found_s is not None
    assert 0.0 < judged.found_s < 28.0


@pytest.mark.parametrize(
    ("ended_by", "kind", "counts"),
    [(None, 11, True), ("stopped by SIGTERM", 11, False), ("stopped by SIGTERM", 12, True)],
)
def test_a_run_that_ended_with_its_night_is_run_again(
    tmp_path: Path, ended_by: str | None, kind: int, counts: bool
) -> None:
    path = night_of(tmp_path, RED + cell(kind, id="this"))
    config = read_config(path)
    folder = tmp_path / "store" / "n"
    night = night_after(Nights([], []), config, plan_cells(config, path), folder)
    directory = NightDir.create(tmp_path / "store", night, path.read_bytes())
    this = next(item for item in night.items if item.cell == "this")
    this.running = Try(number=1, started="20260101T000000Z")
    name = f"{this.id}.1"
    left = directory.cells / ".work" / f"{name}.x_y" / "folder"
    run = left / "store" / "etcd-register-partition" / f"run-{kind}"
    leave_one(run, kind, old=kind == 12)
    if ended_by is not None:
        change_facts(RunDir(run), ended_by=ended_by)
        judge(RunDir(run))
        RunDir(run).write_sums()
    assert take_up(directory, this) == (directory.cells / name if counts else None)
    assert (directory.cells / f"{name}.died-1").is_dir() is not counts
