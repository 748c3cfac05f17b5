"""A run of a night that is gone, or has become another one: night.json names it, so that whoever
looks at the store finds out."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from night_cells import cell, run_offline
from touched_runs import dstest

from dstest.campaign.nightly.seeds import digest_of
from dstest.campaign.nightly.state import NightDir
from dstest.core.errors import Exit
from dstest.gate.draft import draft
from dstest.gate.gather import gather
from dstest.store.entries import entries
from dstest.store.export.gather import gather as results_of
from dstest.store.export.gather import worst
from dstest.store.inventory import walk
from dstest.store.prune import delete, plan

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

CELLS = cell(12, control="red", anomalies=["nonlinearizable"], id="known-bug")
CELLS += cell(18, id="bad") + cell(11, id="good")


@pytest.fixture(scope="module")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gone")
    with pytest.MonkeyPatch.context() as patch:
        _, directory, night = run_offline(folder, patch, CELLS, "reruns = 0\n")
    night.pid = 0  # it was that of this process, which is still there
    directory.save(night)
    return folder / "store"


@pytest.fixture
def store(_made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(_made, tmp_path / "store", symlinks=True))


def _run_of(store: Path, name: str) -> Path:
    night = NightDir.open(store / "latest")
    (one,) = next(item for item in night.read().items if item.cell == name).tries
    return night.path / one.result


def _delete_the_cell(run: Path) -> None:
    shutil.rmtree(run.parents[2])


def _delete_the_run(run: Path) -> None:
    shutil.rmtree(run)


def _empty_it(run: Path) -> None:
    shutil.rmtree(run)
    run.mkdir()


def _put_a_pass_there(run: Path) -> None:
    (passed,) = run.parents[3].glob("good.*/store/*/*")
    shutil.rmtree(run)
    shutil.copytree(passed, run)


def _take_the_verdict(run: Path) -> None:
    for name in ("verdict.json", "sha256sums"):
        (run / name).unlink()


ALL = (_delete_the_cell, _delete_the_run, _empty_it, _take_the_verdict)


def test_a_whole_night_has_nothing_of_the_kind(store: Path) -> None:
    assert [odd for odd in walk(store).odd if odd.why == "night"] == []
    code, said = dstest("store", "verify", store, "--verdicts")
    assert code == Exit.PASS and "0 wrong" in said, said


@pytest.mark.parametrize("how", [*ALL, _put_a_pass_there])
@pytest.mark.parametrize("name", ["bad", "known-bug", "good"])
def test_a_run_that_is_gone_is_found(how: Callable[[Path], None], name: str, store: Path) -> None:
    if (how, name) == (_put_a_pass_there, "good"):
        return
    others = {"bad": "good", "known-bug": "good", "good": "known-bug"}
    gone, kept = _run_of(store, name), _run_of(store, others[name])
    if name != "bad":
        shutil.rmtree(_run_of(store, "bad").parents[2])  # no violation but what is looked for
        _forget(store, "bad")
    how(gone)
    (odd,) = [odd for odd in walk(store).odd if odd.why == "night"]
    assert (odd.path, odd.failed) == (gone, name == "bad")
    assert "night.json" in odd.told
    for words in (("store", "verify", store), ("store", "verify", store, "--verdicts")):
        code, said = dstest(*words)
        assert code == Exit.NOT_PROVEN and str(gone) in said, said
    results = results_of([store])
    (row,) = [one for one in results if one.path == gone]
    assert row.state is None and not row.green
    assert worst(results) == (Exit.FAIL if name == "bad" else Exit.NOT_PROVEN)
    found = [f for f in gather([store], "no").findings if f.where == str(gone)]
    assert "G03" in {f.rule for f in found} and kept.is_dir()


def _forget(store: Path, name: str) -> None:
    """As if the night had never asked it."""
    directory = NightDir(store / "latest")
    night = directory.read()
    night.items = [item for item in night.items if item.cell != name]
    night.chosen, night.exit = [item.cell for item in night.items], 0
    night.asked_sha256 = digest_of(night.items)
    directory.save(night)


def test_report_of_a_store_exits_with_it(store: Path) -> None:
    _delete_the_cell(_run_of(store, "bad"))
    code, said = dstest("report", store)
    assert code == Exit.FAIL and "not-believed" in said and "the run is gone" in said, said


def test_the_night_says_so_itself(store: Path) -> None:
    _delete_the_cell(_run_of(store, "good"))
    said = dstest("nightly", "status", store / "latest")[1]
    assert "the run is gone" in said, said


def test_a_night_that_cannot_be_read_is_found(store: Path) -> None:
    (store / "latest" / "night.json").write_text('{"items": [')
    code, said = dstest("store", "verify", store, "--verdicts")
    assert code == Exit.NOT_PROVEN and "night.json" in said, said
    assert "G03" in {f.rule for f in gather([store], "no").findings}


def test_a_night_that_lacks_a_run_is_not_thrown_away(store: Path) -> None:
    bad = _run_of(store, "bad")
    shutil.rmtree(bad.parents[2])
    _forget(store, "bad")
    shutil.rmtree(_run_of(store, "good").parents[2])
    shutil.copytree(store / "latest", store / "n" / "20990101T000000Z-2")
    now_ns = 4_200_000_000 * 10**9
    (old, _) = entries(store)[0]
    found = plan(store, now_ns=now_ns, keep_days=0)
    assert [one.path for one in found.going] == [] and delete(found) == 0
    assert "gone" in next(kept.why for kept in found.staying if kept.entry.path == old.path)


def _believe_the_list(night: dict[str, Any]) -> None:
    (item,) = (one for one in night["items"] if one["cell"] == "bad")
    item["expected"] |= {"control": "red", "anomalies": ["nonlinearizable"]}
    item["tries"][0]["standing"] = "as-it-must"


def _not_over(night: dict[str, Any]) -> None:
    night["ended"] = ""


@pytest.mark.parametrize("how", [_believe_the_list, _not_over])
def test_a_violation_is_none_of_a_control_because_the_night_says_so(
    how: Callable[[dict[str, Any]], None], store: Path
) -> None:
    """What may be deleted, and what a policy calls a known bug, follows from the runs."""
    shutil.rmtree(_run_of(store, "good" if how is _believe_the_list else "bad").parents[2])
    _forget(store, "good" if how is _believe_the_list else "bad")
    night = store / "latest" / "night.json"
    told = json.loads(night.read_text())
    how(told)
    night.write_text(json.dumps(told))
    (entry, *_) = entries(store)[0]
    assert entry.failed
    drafted = draft([store])
    assert "\n[[control]]" not in drafted and "FAILED by nonlinearizable" in drafted
