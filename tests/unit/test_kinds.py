"""What a violation is called, wherever it is told: by its types, by the anomalies that are kept for
it where a checker names no types, by `violation` where it has neither."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dstest.core.check import Anomaly, CheckResult, Valid, kinds_in, kinds_of
from dstest.judge.checker_answers import merge_answers
from dstest.judge.symptom import fingerprints_of
from dstest.report.moments import _anomaly_pairs

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def a_result(valid: Valid, types: list[str], kept: list[str], checker: str = "mine") -> CheckResult:
    anomalies = {kind: [Anomaly(type=kind)] for kind in kept}
    return CheckResult(
        checker=checker, valid=valid, model="m", anomaly_types=types, anomalies=anomalies
    )


CASES: list[tuple[Valid, list[str], list[str], set[str]]] = [
    (False, ["lost"], ["lost"], {"lost"}),
    (False, [], ["lost"], {"lost"}),
    (False, ["stale"], ["lost"], {"lost", "stale"}),
    (False, [], [], {"violation"}),
    (True, [], [], set()),
    ("unknown", [], [], set()),
]


@pytest.mark.parametrize(("valid", "types", "kept", "wanted"), CASES)
def test_a_result_and_its_plain_data_are_named_alike(
    valid: Valid, types: list[str], kept: list[str], wanted: set[str]
) -> None:
    result = a_result(valid, types, kept)
    plain: Any = msgspec.to_builtins(result)
    assert result.kinds == kinds_of(plain) == kinds_in({"mine": plain}) == wanted
    assert {name.split("/")[1] for name in fingerprints_of(result)} == wanted
    assert {kind for _, kind in _anomaly_pairs({"checkers": {"mine": plain}})} == wanted


def test_what_is_no_result_has_no_kind() -> None:
    assert kinds_of(7) == kinds_of({}) == kinds_in({"a": None}) == set()


def test_answers_that_are_joined_keep_the_names_of_all() -> None:
    joined = merge_answers([a_result(False, [], ["lost"]), a_result(False, ["stale"], [], "other")])
    assert joined.anomaly_types == ["lost", "stale"]


def test_nobody_names_a_violation_by_its_types_alone() -> None:
    """They are read where kinds are made of them; whoever makes a result gives them."""
    reading = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "dstest").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.Attribute) and node.attr == "anomaly_types")
        or (isinstance(node, ast.Constant) and node.value == "anomaly_types")
    }
    assert reading == {
        "dstest/core/check.py",
        "dstest/judge/checker_answers.py",
        "dstest/judge/mutants/families.py",
        "dstest/judge/symptom.py",
        "dstest/testing/run.py",  # a property of that name, which has kinds
    }
