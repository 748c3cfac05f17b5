"""How many operations were judged: each counts once, however many checkers judged it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from gate_store import run_at
from touched_runs import dstest

from dstest.core.evidence import CheckerEvidence, CheckerOps
from dstest.history.layout import RunDir
from dstest.report.findings import result_of
from dstest.report.model import load_report
from dstest.store.contents import contents_of
from dstest.store.inventory import walk
from dstest.store.rows import row_of

SOURCES = Path(__file__).resolve().parents[2] / "dstest"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunDir, RunDir]:
    """The same operations judged by one checker, and by two."""
    home = tmp_path_factory.mktemp("once")
    return run_at(home / "one", 1), run_at(home / "two", 1, checkers=("slo",))


def test_two_judges_make_no_more_operations(runs: tuple[RunDir, RunDir]) -> None:
    shown = [contents_of(run.path).rows["operations"] for run in runs]
    recorded = runs[1].history.read_bytes().count(b"\n") - 1
    assert 600 < shown[0] <= shown[1] <= recorded, "what both judged counts once"
    said = [dstest("store", "show", run.path, "--json")[1] for run in runs]
    assert [json.loads(text)["rows"]["operations"] for text in said] == shown
    assert [result_of(load_report(run.path), "r", "", "").ops for run in runs] == shown
    rows = [row_of(run.path, walk(run.path).places[0], "key") for run in runs]
    assert [row.operations for row in rows] == shown


def test_a_checker_that_judged_nothing_is_not_hidden_by_another() -> None:
    both = {
        "set": CheckerOps(eligible=40, consumed=38),
        "order": CheckerOps(eligible=30, consumed=30),
    }
    found = CheckerEvidence(ops_eligible=70, ops_consumed=68, by_checker=both)
    assert (found.ops_judged, found.ops_to_judge) == (38, 40)
    assert CheckerEvidence(ops_eligible=70, ops_consumed=0, by_checker=both).ops_judged == 0
    assert CheckerEvidence(ops_eligible=7, ops_consumed=5).ops_judged == 5


def test_nobody_else_sums_over_checkers() -> None:
    """`ops_consumed` is for whoever compares it with `ops_eligible`, or looks whether it is 0."""
    of_one_checker = {"gate/claims.py", "plans/trace/matrix.py"}
    using = {
        str(path.relative_to(SOURCES))
        for path in SOURCES.rglob("*.py")
        if re.search(r"\bops_consumed\b", path.read_text())
    }
    rest = {name for name in using if name.partition("/")[0] not in ("core", "judge")}
    assert rest == {*of_one_checker, "runner/integrity.py"}
