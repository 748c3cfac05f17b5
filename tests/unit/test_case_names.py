"""What a CI server keeps the history of a test by: the name of its case is the same each night,
whatever was drawn for it, and a session is among the runs of its system and workload."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from gate_store import run_at, session_at
from made_nights import item_of, night_with
from msgspec.structs import replace

from dstest.campaign.nightly.reports import render_junit as night_junit
from dstest.store.export.formats import Result, render_junit, render_summary
from dstest.store.export.gather import gather

pytestmark = pytest.mark.slow


def _cases(text: str) -> list[ElementTree.Element]:
    return [*ElementTree.fromstring(text).iter("testcase")]


def _properties(case: ElementTree.Element) -> dict[str, str]:
    return {p.get("name") or "": p.get("value") or "" for p in case.iter("property")}


@pytest.mark.parametrize("seeds", [(171564482, 5), (9, 8)])
def test_a_case_of_a_night_is_called_as_its_cell(seeds: tuple[int, int]) -> None:
    one, other = (item_of("c-partition", "", [None], seed=seed) for seed in seeds)
    night = night_with(1, [one, item_of("r1", "red", [None], seed=7), other])
    cases = _cases(night_junit(night, "NOT PROVEN", "nothing came"))
    assert [case.get("name") for case in cases] == ["c-partition", "c-partition (2)", "r1"]
    drawn = [_properties(case)["seed"] for case in cases]
    assert drawn == [*map(str, sorted(seeds)), "7"]


def test_a_session_is_one_of_the_tests_of_its_system_and_workload(tmp_path: Path) -> None:
    path = session_at(tmp_path / "store", [7, 8])
    results = gather([path])
    cases = _cases(render_junit(results))
    assert {case.get("classname") for case in cases} == {"etcd-register"}
    names = [str(case.get("name")) for case in cases]
    (whole,) = [case for case in cases if str(case.get("name")).startswith("session ")]
    assert whole.get("name") == f"session {names[1]}"
    times = [float(case.get("time") or 0) for case in cases]
    assert times[0] == pytest.approx(sum(times[1:])) and times[0] > 0
    own = _cases((path / "junit.xml").read_text())
    assert [(case.get("classname"), case.get("name"), case.get("time")) for case in own] == [
        (case.get("classname"), case.get("name"), case.get("time")) for case in cases[1:]
    ] + [("etcd-register", whole.get("name"), whole.get("time"))]
    assert [_properties(case).get("seed") for case in own] == ["7", "8", None]


@pytest.mark.parametrize(
    ("control", "said", "sign"),
    [
        ("found", "FAIL (not re-run yet), found its known bug", "✅"),
        ("missed", "PASS-smoke, missed its known bug", "❌"),
        ("other-bug", "FAIL (not re-run yet), found another bug than its known one", "❌"),
    ],
)
def test_a_red_control_says_that_it_is_one(
    tmp_path: Path, control: str, said: str, sign: str
) -> None:
    run_at(tmp_path / "store", 4, bug=control != "missed")
    (plain,) = gather([tmp_path / "store"])
    made: Result = replace(plain, control=control)
    row = next(line for line in render_summary([made]).splitlines() if "etcd" in line)
    assert row.startswith(f"| {sign} | {said} |")
    (case,) = _cases(render_junit([made]))
    assert _properties(case)["control"] == "red"
    assert "control" not in _properties(_cases(render_junit([plain]))[0])
    assert "known bug" not in render_summary([plain])
