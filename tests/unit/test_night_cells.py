"""nightly.toml and the cells and seeds that are made of it; nothing is run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from night_cells import cell, night_of

from dstest.campaign.nightly.cells import Cell, Expectation, cells_of, read_config, require_fitting
from dstest.campaign.nightly.driver import night_after, plan_cells
from dstest.campaign.nightly.outcome import TryResult, standing_of
from dstest.campaign.nightly.seeds import digest_of, drawn_seed, items_of, kept_seeds
from dstest.campaign.nightly.state import Item, Night, Nights, Try
from dstest.core.errors import ConfigError
from dstest.core.standing import Standing, of_tries
from dstest.core.verdict import State

SIMULATED = {"lab": "sim", "system": "toykv", "workload": "set", "options": {}}
RED = cell(12, control="red", anomalies=["nonlinearizable"], id="known-bug")


def _cells(folder: Path, text: str) -> list[Cell]:
    return cells_of(read_config(night_of(folder, text)), folder)


def _matrix(**more: object) -> str:
    names = {"system": ["etcd", "zookeeper"], "nemesis": ["partition", "kill", "none"]}
    return RED + cell(11, **names, id="", **more)


def test_every_combination_is_a_cell(tmp_path: Path) -> None:
    cells = _cells(tmp_path, _matrix())[1:]
    assert len(cells) == 6
    assert cells[0].argv[:7] == (
        *("run", "--system", "etcd", "--workload", "register", "--nemesis", "partition"),
    )
    assert cells[0].id == "etcd-register-partition"
    assert len({one.key for one in cells}) == 6


def test_combinations_that_are_left_out(tmp_path: Path) -> None:
    text = _matrix() + '[[cells.except]]\nsystem = "etcd"\nnemesis = "kill"\n'
    ids = [one.id for one in _cells(tmp_path, text)[1:]]
    assert len(ids) == 5
    assert "etcd-register-kill" not in ids


BAD = {
    "no red control": (cell(11), "has to fail"),
    "a red control that may fail anyhow": (cell(12, control="red"), "without anomalies"),
    "anomalies of what must pass": (RED + cell(11, anomalies=["lost"]), "has to pass"),
    "the same twice": (RED + cell(11) + cell(11, id="again"), "are the same"),
    "an exception of nothing": (
        RED + cell(11) + '[[cells.except]]\nsystem = "nothing"\n',
        "leaves out nothing",
    ),
    "an exception by what is no axis": (
        RED + cell(11) + '[[cells.except]]\nnodes = "3"\n',
        "except by nodes",
    ),
    **{
        f"an empty list of {axis}s": (
            RED + cell(11, **{axis: []}),
            rf"line \d+: {axis} = \[\]: it makes no cell",
        )
        for axis in ("system", "version", "workload", "nemesis")
    },
    "an exception of everything": (
        RED + cell(11) + '[[cells.except]]\nsystem = "etcd"\n',
        r"line \d+: except leaves out every combination",
    ),
    "a seed twice": (RED + cell(11, seed=[3, 4, 3]), r":\d+: cells: seed 3 stands twice"),
    "a seed below 0": (RED + cell(11, seed=[-1]), r":\d+: cells: seed -1"),
    "a seed that no file holds": (RED + cell(11, seed=[2**63]), r":\d+: cells: seed 9223"),
    **{
        f"{key} = {value}": (RED + cell(11, **{key: float(value)}), key.partition("-")[0])
        for key in ("rate", "limit-s")
        for value in ("nan", "inf")
    },
    **{
        f"a budget of {value}": (f"budget-s = {value}\n" + RED + cell(11), "budget")
        for value in ("nan", "inf")
    },
    "an unknown key": (RED + cell(11, sytem="x"), "sytem"),
    "no cells": ("", "cells"),
    "no TOML": ("[[cells", "no TOML"),
}


@pytest.mark.parametrize("name", BAD)
def test_files_that_make_no_sense(tmp_path: Path, name: str) -> None:
    text, why = BAD[name]
    with pytest.raises(ConfigError, match=why):
        _cells(tmp_path, text)


@pytest.mark.parametrize(
    "more",
    [
        {"system": "no-such-system"},
        {"nemesis": "upgrade", "system": "memcached"},
        {"model": "no-such-model"},
        {"checker": ["bank"]},
        {"options": {"fault_s": float("nan")}},
        {"options": {"write_ratio": float("inf")}},
        {**SIMULATED, "version": "mine.deb"},
        {**SIMULATED, "stop-on-violation": True},
    ],
)
def test_what_dstest_run_would_refuse_is_refused_before(
    tmp_path: Path, more: dict[str, object]
) -> None:
    (tmp_path / "mine.deb").write_bytes(b"!<arch>\ndebian-binary")
    with pytest.raises(ConfigError, match="cannot be run"):
        require_fitting(_cells(tmp_path, RED + cell(11, **more)))


@pytest.mark.parametrize(
    ("more", "remedy"),
    [
        ({"concurrency": 2}, "--concurrency 3 or more"),
        ({"options": {"fault_s": 0}}, "fault_s is from 0.1 to 86,400: how long each fault stands"),
        (
            {"system": ["etcd", "zookeeper"], "nemesis": ["partition", "membership"], "nodes": 5},
            'except = [{ system = "zookeeper", workload = "register", nemesis = "membership" }]',
        ),
    ],
)
def test_what_can_be_done_about_it_is_what_the_run_says(
    tmp_path: Path, more: dict[str, object], remedy: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        require_fitting(_cells(tmp_path, RED + cell(11, **more)))
    assert remedy in (caught.value.remedy or "")
    assert ("except" in (caught.value.remedy or "")) == ("except" in remedy)


def test_an_id_is_written_as_a_path_and_found_as_the_file_has_it(tmp_path: Path) -> None:
    path = night_of(tmp_path, RED + cell(11, id="K1"))
    assert [one.id for one in plan_cells(read_config(path), path, ["K1"])] == ["k1"]
    assert [one.id for one in plan_cells(read_config(path), path, ["k1"])] == ["k1"]


def test_options_as_a_list_are_told_how_they_are_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        _cells(tmp_path, RED + cell(11, options=["fault_s=3"]))
    assert "options = { fault_s = 10" in (caught.value.remedy or "")


def test_a_file_of_the_users_own_is_named_by_its_whole_path(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("")
    found = _cells(tmp_path, RED + cell(11, nemesis="mine.py", plugin=["mine.py"]))[1]
    assert found.files == (str(tmp_path / "mine.py"),)
    assert str(tmp_path / "mine.py") in found.argv


def test_seeds_rotate_and_are_the_same_for_whoever_asks() -> None:
    seeds = [drawn_seed("n", night, key, at) for night in (1, 2) for key in "ab" for at in (0, 1)]
    assert len(set(seeds)) == 8
    assert seeds[0] == drawn_seed("n", 1, "a", 0)
    assert all(0 <= seed < 2**31 for seed in seeds)


def _night(number: int, stood: Sequence[tuple[str, int, Standing]]) -> Night:
    items = [
        Item(
            id=f"{key}.{seed}", cell=key, key=key, system="", version="", workload="", nemesis="",
            argv=[], files=[], expected=Expectation(), limit_s=1, seed=seed, why="new",
            tries=[Try(number=1, started="", standing=standing)],
        )
        for key, seed, standing in stood
    ]  # fmt: skip
    return Night(
        name="n", number=number, config_sha256="", at="local", workers=1, budget_s=1, reruns=0,
        passes=2, dstest="", started="", items=items,
    )  # fmt: skip


def test_a_seed_is_kept_until_it_passed_often_enough() -> None:
    bad = _night(1, [("a", 1, "failed"), ("a", 2, "as-it-must"), ("b", 3, "no-verdict")])
    good = _night(2, [("a", 1, "as-it-must")])
    assert kept_seeds([bad], 2) == {"a": [1]}
    assert kept_seeds([bad, good], 2) == {"a": [1]}
    assert kept_seeds([bad, good, good], 2) == {}
    assert kept_seeds([bad, good, bad, good], 2) == {"a": [1]}, "it counts anew"
    assert kept_seeds([bad, _night(2, [("a", 9, "as-it-must")])] * 3, 2) == {"a": [1]}


@pytest.mark.parametrize("between", [[("a", 1, "no-verdict")], []])
def test_a_night_without_a_verdict_breaks_the_row(between: list[tuple[str, int, Standing]]) -> None:
    bad = _night(1, [("a", 1, "failed")])
    good = _night(2, [("a", 1, "as-it-must")])
    none = _night(3, between)
    assert kept_seeds([bad, good, none, good], 2) == {"a": [1]}
    assert kept_seeds([bad, good, none, good, good], 2) == {}
    assert kept_seeds([bad, good, good, none], 2) == {}, "it had passed often enough"
    assert kept_seeds([none, good], 2) == {}, "it never failed"


def test_kept_seeds_come_first_and_then_controls(tmp_path: Path) -> None:
    cells = _cells(tmp_path, cell(11, seed=[]) + RED)
    items = items_of("n", 3, cells, {cells[0].key: [77]})
    assert [(i.cell, i.why) for i in items] == [
        ("c11", "kept"),
        ("known-bug", "named"),
        ("c11", "new"),
    ]
    assert items[0].argv[-2:] == ["--seed", "77"]
    assert items[2].seed == drawn_seed("n", 3, cells[0].key, 0)


def test_a_first_night_has_other_seeds_each_time_but_where_they_are_fixed(tmp_path: Path) -> None:
    """On a runner that keeps nothing each night is the first one."""

    def seeds(head: str = "", night_seed: int | None = None) -> list[int]:
        path = night_of(tmp_path, RED + cell(11, seed=[], seeds=3, id="new"), head)
        config = read_config(path)
        cells = plan_cells(config, path)
        night = night_after(Nights([], []), config, cells, tmp_path, night_seed=night_seed)
        assert night.number == 1 and night.asked_sha256 == digest_of(night.items)
        drawn = items_of(config.name, night.night_seed or 0, cells, {})
        assert [one.id for one in drawn] == [one.id for one in night.items]
        return [item.seed for item in night.items if item.why == "new"]

    assert len({seed for _ in range(5) for seed in seeds()}) == 15
    fixed = seeds(night_seed=7)
    assert len({*fixed}) == 3 and fixed == seeds(night_seed=7) == seeds("night-seed = 7\n")
    assert seeds("night-seed = 7\n", 8) == seeds(night_seed=8) != fixed


PASS = TryResult(state=State.PASS_SMOKE, exit=0, planned=1, landed=1)
FAIL = TryResult(state=State.FAIL_REPRODUCIBLE, exit=1, planned=1, landed=1, anomalies=["lost"])
UNLANDED = TryResult(state=State.FAIL_NONDETERMINISTIC, exit=1, planned=1, anomalies=["lost"])
SHORT = TryResult(state=State.PARTIAL_SURFACE, reason="one node")
EARLY = TryResult(state=State.PASS_SMOKE, exit=3)
STRANGE = TryResult(state=State.FAIL_REPRODUCIBLE, exit=1, landed=1, anomalies=["lost", "stale"])
HAS_TO_PASS = Expectation()
HAS_TO_FAIL = Expectation(control="red", anomalies=("lost",))


@pytest.mark.parametrize(
    ("expected", "judged", "standing"),
    [
        (HAS_TO_PASS, PASS, "as-it-must"),
        (HAS_TO_PASS, FAIL, "failed"),
        (HAS_TO_PASS, UNLANDED, "failed"),
        (HAS_TO_PASS, SHORT, "no-verdict"),
        (HAS_TO_PASS, EARLY, "no-verdict"),
        (Expectation(short_of="one node"), SHORT, "as-it-must"),
        (Expectation(short_of="two nodes"), SHORT, "no-verdict"),
        (Expectation(short_of="one node"), FAIL, "failed"),
        (HAS_TO_FAIL, FAIL, "as-it-must"),
        (HAS_TO_FAIL, PASS, "missed"),
        (HAS_TO_FAIL, SHORT, "no-verdict"),
        (HAS_TO_FAIL, UNLANDED, "missed"),
        (Expectation(control="red", anomalies=("lost",), by_fault=False), UNLANDED, "as-it-must"),
        (HAS_TO_FAIL, STRANGE, "failed"),
        (Expectation(control="red", anomalies=("lost",), beside=("stale",)), STRANGE, "as-it-must"),
        (Expectation(control="red", anomalies=("torn",), beside=("lost",)), FAIL, "missed"),
    ],
)
def test_how_a_run_stands(expected: Expectation, judged: TryResult, standing: Standing) -> None:
    found, why = standing_of(expected, judged)
    assert found == standing
    assert bool(why) == (standing != "as-it-must")


@pytest.mark.parametrize(
    ("tries", "standing"),
    [
        ([], "no-verdict"),
        (["no-verdict", "as-it-must"], "as-it-must"),
        (["failed", "as-it-must"], "failed"),
        (["as-it-must", "failed"], "failed"),
        (["missed", "no-verdict"], "missed"),
        (["no-verdict", "missed"], "missed"),
    ],
)
def test_a_violation_stays_one(tries: list[Standing], standing: Standing) -> None:
    assert of_tries([(one, True) for one in tries]) == standing


@pytest.mark.parametrize(
    ("tries", "standing"),
    [
        ([("no-verdict", False), ("as-it-must", True)], "no-verdict"),
        ([("as-it-must", True), ("no-verdict", False)], "no-verdict"),
        ([("missed", False), ("as-it-must", True)], "missed"),
        ([("failed", False), ("as-it-must", True)], "failed"),
        ([("no-verdict", False), ("failed", True)], "failed"),
    ],
)
def test_no_other_try_speaks_for_one_whose_evidence_does_not_hold(
    tries: list[tuple[Standing, bool]], standing: Standing
) -> None:
    assert of_tries(tries) == standing
