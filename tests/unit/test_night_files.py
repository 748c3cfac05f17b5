"""What is told of a nightly.toml before anything is touched, and which nights it may begin."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from made_nights import FAILS, PASSES, item_of, night_in, night_with
from night_cells import cell, night_of, ready_offline, run_offline
from touched_runs import dstest

from dstest.campaign.nightly.cells import Cell, cells_of, read_config
from dstest.campaign.nightly.driver import begin, plan_cells
from dstest.campaign.nightly.page import counts_line, headline
from dstest.campaign.nightly.seeds import kept_seeds
from dstest.campaign.nightly.verdict import exit_of
from dstest.core.errors import ConfigError, Exit
from dstest.core.settings import line_of
from dstest.report.meanings import table_meaning

pytestmark = pytest.mark.slow

RED = cell(12, control="red", anomalies=["nonlinearizable"], id="known-bug")
DEB = b"!<arch>\ndebian-binary"


def _begin(folder: Path, text: str, **more: object) -> list[str]:
    said: list[str] = []
    given = {"at": None, "workers": None, "store": folder / "store", "say": said.append, **more}
    begin(night_of(folder, text), **given)  # type: ignore[arg-type]
    return said


def _refused(folder: Path, text: str, **more: object) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        _begin(folder, text, **more)
    assert not (folder / "store").exists(), "nothing was touched"
    return caught.value


@pytest.mark.parametrize("name", ["..", "../n", "/n"])
def test_a_night_lies_below_its_store(name: str, tmp_path: Path) -> None:
    path = night_of(tmp_path, RED + cell(11))
    path.write_text(path.read_text().replace('name = "n"', f'name = "{name}"', 1))
    with pytest.raises(ConfigError, match="would lie outside"):
        begin(path, store=tmp_path / "store", at=None, workers=None, say=print)
    assert not (tmp_path / ".night.lock").exists()


@pytest.mark.parametrize(
    ("change", "at", "why", "hint"),
    [
        (('control = "red"', 'control = "rde"'), "rde", "'rde'", "did you mean 'red'?"),
        (("nodes = 3", "noeds = 3"), "noeds", "no key 'noeds'", "did you mean 'nodes'?"),
        (("nodes = 3", "nodes = 0"), "nodes", "", "keys of [cells]"),
        (('name = "n"', 'name = "n"\nbudget_is = 4'), "budget_is", "no key", "'budget-s'"),
        (("nodes = 3", "rate = -1"), "[[cells]]", "rate", "positive"),
        (('"register"', '"regster"'), "", "no 'regster' among the workloads", "register"),
        (('"nonlinearizable"', '"nonlinear"'), "", "'nonlinear'", "nonlinearizable"),
        (("nodes = 3", 'version = "no.deb"'), "", "no.deb", "did you mean nos.deb?"),
    ],
)
def test_what_is_mistyped_is_told_with_its_line_and_what_was_meant(
    change: tuple[str, str], at: str, why: str, hint: str, tmp_path: Path
) -> None:
    (tmp_path / "nos.deb").write_bytes(DEB)
    path = night_of(tmp_path, RED)
    text = path.read_text().replace(*change, 1)
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        begin(path, store=tmp_path / "store", at=None, workers=None, say=print)
    error = caught.value
    line = text[: text.index(at)].count("\n") + 1
    told = f"nightly.toml:{line}: " if at else "line 3"
    assert told in error.message
    assert why in error.message
    assert hint in (error.remedy or "")
    assert not (tmp_path / "store").exists(), "nothing was touched"


def test_lines_of_tables_and_keys() -> None:
    text = 'a = 1\n[[cells]]\nx = 1\n[[cells.except]]\nx_y = 2\n[[cells]]\n"x" = 3\nx_y = 4\n'
    assert line_of(text, "", "a") == 1
    assert [line_of(text, f"cells[{n}]", "x") for n in (0, 1)] == [3, 7]
    assert line_of(text, "cells[1]", "x-y") == 8
    assert [line_of(text, f"cells[{n}]") for n in (0, 1)] == [2, 6]


def test_no_workers_there_is_told_before_a_night_has_a_directory(tmp_path: Path) -> None:
    assert "no workers at 'foo'" in _refused(tmp_path, RED, at="foo").message


def _cells(folder: Path, text: str) -> list[Cell]:
    return cells_of(read_config(night_of(folder, text)), folder)


def test_builds_of_one_name_are_told_apart_by_what_is_in_them(tmp_path: Path) -> None:
    for name in ("v1", "v2", "v3"):
        (tmp_path / name).mkdir()
        content = DEB + (b"1" if name == "v3" else name[1:].encode())
        (tmp_path / name / "etcd.deb").write_bytes(content)
    cells = _cells(tmp_path, RED + cell(11, version=["v1/etcd.deb", "v2/etcd.deb"]))
    assert len({one.key for one in cells}) == 3
    with pytest.raises(ConfigError, match="are the same"):
        _cells(tmp_path, RED + cell(11, version=["v1/etcd.deb", "v3/etcd.deb"]))
    keys = [one.key for one in cells]
    (tmp_path / "v1" / "etcd.deb").write_bytes(DEB + b"another build")
    again = _cells(tmp_path, RED + cell(11, version=["v1/etcd.deb", "v2/etcd.deb"]))
    assert [one.key for one in again] == keys, "seeds that failed are asked of the next build"


def test_anomalies_of_the_nights_that_are_documented_are_known() -> None:
    path = Path(__file__).parents[2] / "docs" / "nightly.toml"
    named = {a for row in read_config(path).cells for a in (*row.anomalies, *row.beside)}
    assert all(map(table_meaning, named))


def test_anomalies_that_the_tests_of_checkers_find_are_known() -> None:
    from test_checkers_anomalies import CASES

    assert all(table_meaning(row[1]) for row in CASES)


def test_a_control_beside_a_checker_of_ones_own_may_find_anything(tmp_path: Path) -> None:
    path = night_of(tmp_path, RED + cell(11))
    assert [one.id for one in plan_cells(read_config(path), path)] == ["known-bug", "c11"]


def test_a_file_of_controls_alone_is_asked_with_their_names(tmp_path: Path) -> None:
    assert "nothing under test" in _refused(tmp_path, RED).message
    path = night_of(tmp_path, RED)
    assert [one.id for one in plan_cells(read_config(path), path, ["known-bug"])] == ["known-bug"]


def test_one_night_of_a_name_at_a_time(tmp_path: Path) -> None:
    folder = tmp_path / "store" / "n"
    code = (
        "import sys, time, pathlib\nfrom dstest.campaign.nightly.state import alone\n"
        "with alone(pathlib.Path(sys.argv[1])):\n"
        "    print('held', flush=True)\n    time.sleep(600)\n"
    )
    argv = [sys.executable, "-c", code, str(folder)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        with pytest.raises(ConfigError, match="still running"):
            _begin(tmp_path, RED + cell(11))
        assert not list(folder.glob("*/night.json"))
        directory = night_in(tmp_path / "store", 1, [item_of("red", "red", [FAILS])])
        code_, said = dstest("nightly", "resume", directory.path)
        assert code_ == Exit.USAGE and "still running" in said
        other.kill()
    deadline = time.monotonic() + 60.0
    while other.poll() is None:
        assert time.monotonic() < deadline
    code_, said = dstest("nightly", "resume", directory.path)
    assert "is over" in said


def test_a_night_of_chosen_cells_is_never_a_pass() -> None:
    items = [item_of("good", "", [PASSES])]
    assert exit_of(items) == Exit.PASS
    assert exit_of(items, ["good"]) == Exit.NOT_PROVEN
    night = night_with(1, items, int(Exit.NOT_PROVEN))
    night.chosen = ["good"]
    assert headline(night)[0] == "NOT PROVEN"
    assert "only 1 cell of the file" in headline(night)[1]


def test_a_night_of_chosen_cells_says_nothing_of_seeds_that_it_did_not_ask() -> None:
    bad = night_with(1, [item_of("a", "", [FAILS], 1), item_of("b", "", [FAILS], 2)])
    good = night_with(2, [item_of("a", "", [PASSES], 1), item_of("b", "", [PASSES], 2)])
    one = night_with(3, [item_of("a", "", [PASSES], 1)])
    one.chosen = ["a"]
    assert kept_seeds([bad, good, one], 2) == {"b": [2]}
    assert kept_seeds([bad, good, one, good], 2) == {}


def test_the_headline_names_cells_and_does_not_contradict_itself() -> None:
    from made_nights import STRANGE

    items = [item_of(f"c{n}", "", [None]) for n in range(6)] + [item_of("bug", "red", [STRANGE])]
    word, said = headline(night_with(1, items))
    assert word == "NOT PROVEN"
    assert "other bug in bug" in said
    assert "no verdict in c0, c1, c2, c3 and 2 more" in said
    assert "violation:" not in said


def test_a_violation_does_not_hide_what_else_is_not_as_it_must_be() -> None:
    items = [item_of("bad", "", [FAILS]), item_of("bug", "red", [PASSES]), item_of("c", "", [None])]
    said = headline(night_with(1, items, int(Exit.FAIL)))[1]
    assert said.endswith("none: bad. Besides: missed in bug; no verdict in c.")


def test_counts_of_the_page() -> None:
    items = [item_of("a", "", [None, PASSES])]
    items[0].tries[1].result = "cells/x"
    night = night_with(1, items)
    night.spent_s = 61.0
    assert (
        counts_line(night) == "1 cell with its seed, 2 tries, of which 1 left a run, in 61 seconds"
    )


def test_a_word_that_is_nearly_a_command_is_no_file(tmp_path: Path) -> None:
    code, said = dstest("nightly", "statsu", tmp_path)
    assert code == Exit.USAGE
    assert "no such command 'statsu'; did you mean status?" in said


def test_what_a_night_will_ask_is_shown(tmp_path: Path) -> None:
    text = RED + cell(11, id="good", seed=[])
    code, said = dstest("nightly", "show", night_of(tmp_path, text), "--store", tmp_path / "s")
    assert code == 0 and not (tmp_path / "s").exists()
    assert "known-bug (red control, named seed 7): dstest run --system etcd" in said
    assert "good (under test, new seed " in said
    code, said = dstest("nightly", "show", night_of(tmp_path, text), "--cell", "god")
    assert code == Exit.USAGE and "did you mean good" in said


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_night_as_a_command_and_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = RED + cell(11, id="good")
    ready_offline(tmp_path, monkeypatch, cells)
    path, store = night_of(tmp_path, cells), tmp_path / "store"
    words = ("--store", store, "--at", "local", "--workers", "1", "--cell", "good")
    code, said = dstest("nightly", path, *words)
    assert code == Exit.NOT_PROVEN, said
    code, said = dstest("nightly", "status", store / "latest")
    assert code == 0
    assert "good" in said and "known-bug" not in said
    code, said = dstest("nightly", "status", store / "latest", "--json")
    assert code == 0
    assert msgspec.json.decode(said)["chosen"] == ["good"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_file_that_goes_missing_costs_its_cell_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.deb").write_bytes(DEB)
    from dstest.campaign.workers.commands import given_files as given

    def gone(paths: list[str]) -> dict[str, bytes]:
        (tmp_path / "mine.deb").unlink(missing_ok=True)
        return given(paths)

    monkeypatch.setattr("dstest.campaign.nightly.driver.given_files", gone)
    text = RED + cell(11, id="built", version="mine.deb") + cell(11, id="good")
    code, directory, night = run_offline(tmp_path, monkeypatch, text)
    stood = {item.cell: item.standing for item in night.items}
    assert stood == {"known-bug": "as-it-must", "built": "no-verdict", "good": "as-it-must"}
    built = next(item for item in night.items if item.cell == "built")
    assert "mine.deb" in built.why_not and not built.tries
    assert code == Exit.NOT_PROVEN

    junit = (directory.path / "junit.xml").read_text()
    assert 'tests="3" failures="0" errors="1" skipped="0"' in junit
    said: list[str] = []
    shorter = cell(12, control="red", anomalies=["nonlinearizable"], id="known-bug", rate=9.0)
    night.items[0].tries[0].standing = "missed"
    directory.save(night)
    monkeypatch.setattr("dstest.campaign.nightly.driver.Driver.run", lambda _: 0)
    path = night_of(tmp_path, shorter + cell(11, id="good"))
    begin(path, store=tmp_path / "store", at=None, workers=1, say=said.append)
    assert any("1 kept seeds of cells that are no longer" in line for line in said), said
    assert any("known-bug (1)" in line for line in said)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("A/B", 11), ("a_b", 13), ("a-b", 11), ("a-b-2", 13)),  # as written, as shown
        *(("R1", 14), ("r1", 14), ("R/1", None), ("Known Bug", 12)),
    ],
)
def test_a_cell_is_chosen_by_its_id_as_it_is_written(
    tmp_path: Path, name: str, kind: int | None
) -> None:
    text = RED + cell(11, id="A/B") + cell(13, id="a_b") + cell(14, id="R1")
    path = night_of(tmp_path, text)
    code, said = dstest("nightly", "show", path, "--cell", name, "--json")
    if kind is None:
        assert code == Exit.USAGE and f"--cell {name}" in said
        return
    assert code == 0, said
    (item,) = msgspec.json.decode(said)["items"]
    assert f"ops_per_key={kind}" in item["argv"]


@pytest.mark.parametrize(
    ("ids", "name"),
    [
        (("A/B", "a_b"), "A B"),  # the same word as both
        (("a-b", "a-b"), "a-b"),
        (("A/B", "a-b"), "a-b"),  # the one as it is written, the other as it is shown
    ],
)
def test_a_name_of_more_than_one_cell_is_refused(
    tmp_path: Path, ids: tuple[str, str], name: str
) -> None:
    text = RED + cell(11, id=ids[0]) + cell(13, id=ids[1])
    path = night_of(tmp_path, text)
    for command in (["show"], ["run", "--store", str(tmp_path / "s")]):
        code, said = dstest("nightly", command[0], path, *command[1:], "--cell", name)
        assert code == Exit.USAGE and "2 such cells, shown as a-b and a-b-2" in said, said
    assert not (tmp_path / "s").exists()
