"""Nights from their file to their exit code, without nodes: tries, controls, kept seeds, losses."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from night_cells import cell, leave_one, run_offline
from touched_runs import dstest

from dstest.campaign.nightly.index import Trends, open_index, trends_of
from dstest.campaign.nightly.outcome import judge_run
from dstest.campaign.nightly.page import headline
from dstest.campaign.nightly.reports import render_junit
from dstest.campaign.nightly.state import Item, Night, NightDir
from dstest.campaign.nightly.verdict import exit_now, exit_of, judge_night
from dstest.campaign.workers.commands import STORE
from dstest.campaign.workers.task import FOLDER, WORK
from dstest.core.errors import Exit
from dstest.core.verdict import State
from dstest.history.layout import RunDir

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

Offline = Callable[..., tuple[int, NightDir, Night]]
RED = cell(12, control="red", anomalies=["nonlinearizable"], id="known-bug")
GREEN = cell(11, control="green", id="known-good")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Offline:
    return lambda *given, **more: run_offline(tmp_path, monkeypatch, *given, **more)


@pytest.fixture(scope="module")
def mixed(
    tmp_path_factory: pytest.TempPathFactory, place: pytest.MonkeyPatch
) -> tuple[int, NightDir, Night]:
    """A night in which most that can be is not as it must be."""
    cells = [
        *(RED, GREEN, cell(11, id="good"), cell(12, id="bad"), cell(13, id="no-run")),
        cell(12, control="green", id="accused"),
        cell(11, control="red", anomalies=["lost"], id="missed"),
        cell(18, control="red", anomalies=["lost"], id="otherwise"),
        *(cell(14, id="flaky"), cell(15, id="worker-lost")),
    ]
    return run_offline(tmp_path_factory.mktemp("mixed"), place, "".join(cells), workers=2)


def _item(night: Night, cell: str) -> Item:
    return next(item for item in night.items if item.cell == cell)


def _trends(directory: NightDir) -> Trends:
    with open_index(directory.path.parent) as db:
        return trends_of(db)


def test_how_cells_stand(mixed: tuple[int, NightDir, Night]) -> None:
    code, _, night = mixed
    assert {item.cell: (item.standing, len(item.tries)) for item in night.items} == {
        "known-bug": ("as-it-must", 1),
        "known-good": ("as-it-must", 1),
        "good": ("as-it-must", 1),
        "bad": ("failed", 2),
        "no-run": ("no-verdict", 2),
        "accused": ("failed", 2),
        "missed": ("missed", 2),
        "otherwise": ("failed", 2),
        "flaky": ("as-it-must", 2),
        "worker-lost": ("as-it-must", 1),
    }
    assert code == Exit.FAIL
    assert all(item.expected.control for item in night.items[:5]), "controls come first"


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ((), Exit.PASS),
        (("bad",), Exit.FAIL),
        (("accused",), Exit.FAIL),
        (("no-run",), Exit.NOT_PROVEN),
        (("missed",), Exit.NOT_PROVEN),
        (("otherwise",), Exit.NOT_PROVEN),
        (("no-run", "bad"), Exit.FAIL),
        (("flaky", "worker-lost"), Exit.PASS),
    ],
)
def test_what_a_night_exits_with(
    mixed: tuple[int, NightDir, Night], wrong: tuple[str, ...], code: Exit
) -> None:
    items = [_item(mixed[2], name) for name in ("known-bug", "known-good", "good", *wrong)]
    assert exit_of(items) == code


def test_a_worker_killed_in_mid_cell_costs_that_cell_another_start(
    mixed: tuple[int, NightDir, Night],
) -> None:
    lost = _item(mixed[2], "worker-lost")
    assert [(one.lost, one.standing) for one in lost.tries] == [(1, "as-it-must")]


def test_what_passes_with_the_second_try_is_flaky(mixed: tuple[int, NightDir, Night]) -> None:
    _, directory, night = mixed
    assert [item.cell for item in night.items if item.flaky] == ["flaky"]
    assert "no nodes" in _item(night, "flaky").tries[0].why_not
    flaky = [cell.cell for cell in _trends(directory).cells if cell.flaky_nights]
    assert flaky == ["flaky"]


def test_rates_over_tries(mixed: tuple[int, NightDir, Night]) -> None:
    """Each seed is one that the file names: none is a trial."""
    trends = _trends(mixed[1])
    assert (trends.found.total, trends.alarms.total, trends.flaky.total) == (0, 0, 0)
    bug = next(row for row in trends.cells if row.cell == "known-bug")
    assert bug.nights == [(1, "as-it-must")]


def test_a_bug_is_known_from_the_end_of_the_operation_that_shows_it(
    mixed: tuple[int, NightDir, Night],
) -> None:
    _, directory, night = mixed
    one = _item(night, "known-bug").tries[0]
    assert one.judged is not None and one.judged.found_s is not None
    run = RunDir.open(directory.path / one.result)
    rows = run.read_json("verdict.json")["checkers"].values()
    found = [anomaly for row in rows for kind in row["anomalies"].values() for anomaly in kind]
    named = {op for anomaly in found for op in anomaly["ops"]}
    history = [json.loads(line) for line in run.history.read_text().splitlines()]
    ends = [op["complete_ts"] for op in history if op.get("op_id") in named]
    assert one.judged.found_s == max(ends) / 1e9
    meta = run.read_meta()
    assert meta is not None and meta.load_s is not None
    assert one.judged.found_s < meta.load_s


def test_the_page_says_it(mixed: tuple[int, NightDir, Night]) -> None:
    _, directory, night = mixed
    page = (directory.path / "report.html").read_text()
    assert ">FAIL<" in page
    assert "http" not in page
    assert "violation was seen where there must be none: accused, bad." in page
    result = _item(night, "bad").tries[0].result
    assert f'href="{result}/report.html"' in page
    assert (directory.path / result / "report.html").is_file()
    night.exit = int(Exit.PASS)
    assert headline(night)[0] == "PASS"


def test_what_was_written_over_is_found_by_judging_again(
    mixed: tuple[int, NightDir, Night],
) -> None:
    _, directory, night = mixed
    lied: Any = directory.read()
    lied.items = [item for item in lied.items if item.cell in ("bad", "known-good", "good")]
    for item in lied.items:
        item.tries = item.tries[:1]
        item.tries[0].standing = "as-it-must"
    result = directory.path / _item(night, "good").tries[0].result
    directory.save(lied)
    try:
        again = judge_night(directory)
        assert _item(again, "bad").standing == "failed"
        kept = (result / "verdict.json").read_bytes()
        (result / "verdict.json").write_text("{}")
        assert "does not hold" in _item(judge_night(directory), "good").why_not
        (result / "verdict.json").write_bytes(kept)
    finally:
        directory.save(night)


def test_a_run_of_another_command_or_seed_proves_nothing(
    mixed: tuple[int, NightDir, Night],
) -> None:
    _, directory, night = mixed
    item = _item(night, "good")
    path = directory.path / item.tries[0].result
    for argv, seed, wrong in [
        (item.argv, 8, "seed"),
        ([*item.argv, "-o", "a=b"], 7, "options"),
        ([word.replace("register", "set") for word in item.argv], 7, "workload"),
    ]:
        judged = judge_run(path, argv, seed)
        assert judged is not None
        assert judged.state is State.INCONCLUSIVE_ORACLE
        assert f"something else: {wrong}" in judged.reason


def test_a_night_that_has_no_time_left_says_so(offline: Offline) -> None:
    code, directory, night = offline(RED + GREEN + cell(11), head="budget-s = 0.001\n")
    assert code == Exit.NOT_PROVEN
    assert all("time of the night" in item.why_not for item in night.items)
    assert ">NOT PROVEN<" in (directory.path / "report.html").read_text()


@pytest.fixture
def cut_off(mixed: tuple[int, NightDir, Night], tmp_path: Path) -> NightDir:
    """A night as it stands behind its last try, before its end was written."""
    store = shutil.copytree(mixed[1].path.parent, tmp_path / "n", symlinks=True)
    directory = NightDir.open(store / mixed[1].path.name)
    night = directory.read()
    night.items = [_item(night, name) for name in ("known-bug", "known-good", "good")]
    night.ended, night.exit, night.pid, night.pid_start_time = "", None, 0, None
    directory.save(night)
    return directory


def test_a_night_that_is_not_over_is_no_pass(cut_off: NightDir) -> None:
    code, said = dstest("nightly", "report", cut_off.path)
    assert code == Exit.NOT_PROVEN, said
    assert 'errors="1"' in (cut_off.path / "junit.xml").read_text()
    assert ">NOT OVER<" in (cut_off.path / "report.html").read_text()
    assert all(item.standing == "as-it-must" for item in cut_off.read().items)


def test_what_a_lost_worker_left_is_seen_before_the_night_is_over(cut_off: NightDir) -> None:
    run = cut_off.cells / WORK / "good.7.1.1" / FOLDER / STORE / "etcd-register-partition" / "run"
    leave_one(run, 11)
    code, said = dstest("nightly", "report", cut_off.path)
    assert code == Exit.FAIL, said
    assert "A violation was seen where there must be none: good." in said
    assert 'failures="1"' in (cut_off.path / "junit.xml").read_text()
    assert run.is_dir() and all(len(item.tries) == 1 for item in cut_off.read().items)


def test_a_night_of_controls_alone_is_no_pass(mixed: tuple[int, NightDir, Night]) -> None:
    night = mixed[2]
    controls = [_item(night, name) for name in ("known-bug", "known-good")]
    assert exit_of(controls) == Exit.NOT_PROVEN
    short = msgspec.structs.replace(night, items=controls, exit=int(exit_of(controls)))
    word, said = headline(short)
    assert (word, "nothing was under test" in said) == ("NOT PROVEN", True)
    assert 'errors="1"' in render_junit(short, word, said)


def test_a_night_is_what_its_cells_say(mixed: tuple[int, NightDir, Night]) -> None:
    """By one line of its list less, or more, it does not become better."""
    _, directory, night = mixed
    assert not judge_night(directory).wrong
    good: Any = directory.read()
    good.items = [item for item in good.items if item.cell in ("known-bug", "known-good", "good")]
    config = directory.config.read_bytes()
    other = directory.cells / "good.999.1" / "store"
    try:
        directory.save(good)
        wrong = judge_night(directory).wrong
        assert any("asks for 1 of bad" in said for said in wrong)
        assert any("cells/bad." in said for said in wrong)
        assert any("what this night was begun with" in said for said in wrong)
        assert exit_now(judge_night(directory)) == Exit.NOT_PROVEN
        lied: Any = msgspec.json.decode(msgspec.json.encode(night), type=Night)
        _item(lied, "bad").expected = _item(lied, "known-bug").expected
        directory.save(lied)
        assert any("begun with" in said for said in judge_night(directory).wrong)
        good.items = [*night.items, night.items[0]]
        directory.save(good)
        assert any("more than once" in said for said in judge_night(directory).wrong)
        directory.save(night)
        directory.config.write_bytes(config + b"# another\n")
        assert any("is not the one" in said for said in judge_night(directory).wrong)
        directory.config.unlink()
        assert any("is gone" in said for said in judge_night(directory).wrong)
        directory.config.write_bytes(config)
        other.mkdir(parents=True)
        assert any("cells/good.999.1" in said for said in judge_night(directory).wrong)
    finally:
        directory.config.write_bytes(config)
        directory.save(night)
        if other.is_dir():
            other.rmdir()
            other.parent.rmdir()
