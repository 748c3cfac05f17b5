"""A night whose files were touched after it was over: what it had seen does not become better."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from night_cells import cell, run_offline
from touched_runs import dstest

from dstest.campaign.nightly.outcome import TryResult
from dstest.campaign.nightly.page import facts_of
from dstest.campaign.nightly.seeds import kept_seeds
from dstest.campaign.nightly.state import Item, Night, NightDir
from dstest.core.errors import Exit

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

RED = cell(12, control="red", anomalies=["nonlinearizable"], id="known-bug")
UNSTABLE = cell(19, id="unstable")
FLAKY = cell(20, control="red", anomalies=["nonlinearizable"], id="seldom")
Damage = Callable[[Path], object]


def _night(folder: Path, cells: str) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        return run_offline(folder, patch, cells)[1].path


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _night(tmp_path_factory.mktemp("failed"), RED + UNSTABLE)


@pytest.fixture(scope="module")
def missed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _night(tmp_path_factory.mktemp("missed"), RED + FLAKY + cell(11, id="good"))


def _copy(night: Path, folder: Path) -> NightDir:
    return NightDir(Path(shutil.copytree(night, folder / "n" / night.name)))


def _item(night: Night, name: str) -> Item:
    return next(item for item in night.items if item.cell == name)


def _append(run: Path) -> None:
    with (run / "history.jsonl").open("ab") as file:
        file.write(b"x")


def _move(run: Path) -> None:
    run.rename(run.with_name("moved"))


def _move_the_try(run: Path) -> None:
    cell = run.parents[2]
    cell.rename(cell.with_name("moved"))


def _cut(run: Path) -> None:
    (run / "sha256sums").unlink()
    (run / "status").write_text("running")


def _put_the_pass_there(run: Path) -> None:
    (passed,) = run.parents[3].glob("*unstable.7.2/store/*/*")
    shutil.rmtree(run)
    shutil.copytree(passed, run)


DAMAGES = (_append, _move, _move_the_try, _cut, _put_the_pass_there)


def _reported(directory: NightDir) -> tuple[int, Night]:
    """By `nightly report`, twice: what the first one wrote is what the second one reads."""
    codes = [dstest("nightly", "report", directory.path, "--json") for _ in range(2)]
    told = [json.loads(said)["exit"] for _, said in codes]
    assert codes[0][0] == codes[1][0] == told[0] == told[1]
    return codes[0][0], directory.read()


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.sampled(2)
def test_a_violation_that_was_seen_stays_whatever_becomes_of_its_run(
    damage: Damage, failed: Path, tmp_path: Path
) -> None:
    directory = _copy(failed, tmp_path)
    before = _item(directory.read(), "unstable")
    assert [one.standing for one in before.tries] == ["failed", "as-it-must"]
    damage(directory.path / before.tries[0].result)
    code, night = _reported(directory)
    after = _item(night, "unstable")
    assert code == night.exit == Exit.FAIL
    assert after.standing == "failed"
    assert after.tries[0].judged == before.tries[0].judged, "what was seen is kept"
    assert "nonlinearizable" in after.why_not and "judged again" in after.why_not
    assert kept_seeds([night], 3) == {after.key: [7]}
    assert ">FAIL<" in (directory.path / "report.html").read_text()


@pytest.mark.parametrize("damage", DAMAGES[:-1])
@pytest.mark.sampled(2)
def test_a_night_that_goes_on_to_its_end_does_not_forget_it_either(
    damage: Damage, failed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = _copy(failed, tmp_path / "store")
    night = directory.read()
    night.ended, night.exit = "", None
    directory.save(night)
    damage(directory.path / _item(night, "unstable").tries[0].result)
    assert dstest("nightly", "resume", directory.path)[0] == Exit.FAIL


@pytest.mark.parametrize("damage", DAMAGES[:-1])
@pytest.mark.sampled(1)
def test_no_later_try_speaks_for_one_whose_evidence_is_damaged_or_gone(
    damage: Damage, missed: Path, tmp_path: Path
) -> None:
    directory = _copy(missed, tmp_path)
    assert _reported(directory)[0] == Exit.PASS, "found with the second try"
    before = _item(directory.read(), "seldom")
    assert [one.standing for one in before.tries] == ["missed", "as-it-must"]
    damage(directory.path / before.tries[0].result)
    code, night = _reported(directory)
    assert code == night.exit == Exit.NOT_PROVEN
    assert "does not hold" in _item(night, "seldom").why_not


@pytest.mark.parametrize("damage", [_append, _move])
def test_what_does_not_hold_is_counted_nowhere(
    damage: Damage, missed: Path, tmp_path: Path
) -> None:
    directory = _copy(missed, tmp_path)
    before = dict(facts_of(directory.read()))
    assert "operations judged" in before["How much"] and "Lost" not in before
    damage(directory.path / _item(directory.read(), "good").tries[0].result)
    code, said = dstest("nightly", "report", directory.path)
    assert code == Exit.NOT_PROVEN and "oracle-too-weak" not in said, said
    assert "its evidence does not hold" in said and "operations judged" not in said
    assert "of good does not hold, and is counted nowhere" in said
    page = (directory.path / "report.html").read_text()
    assert "evidence does not hold" in page and "operations judged" not in _row(page, "good")


def _row(page: str, name: str) -> str:
    return page.partition(f"<tr><td>{name}<")[2].partition("</tr>")[0]


def test_evidence_that_is_put_back_counts_again(missed: Path, tmp_path: Path) -> None:
    directory = _copy(missed, tmp_path)
    run = directory.path / _item(directory.read(), "known-bug").tries[0].result
    _move(run)
    assert _reported(directory)[0] == Exit.NOT_PROVEN
    run.with_name("moved").rename(run)
    assert _reported(directory)[0] == Exit.PASS


def test_what_left_no_run_was_no_evidence(missed: Path, tmp_path: Path) -> None:
    """A try without a run may be outvoted, however often it is judged."""
    directory = _copy(missed, tmp_path)
    night = directory.read()
    first = _item(night, "seldom").tries[0]
    assert isinstance(first.judged, TryResult)
    first.result, first.judged = "", None
    directory.save(night)
    assert _reported(directory)[0] == Exit.PASS
