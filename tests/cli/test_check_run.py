"""What is asked about a finished run is answered about its history, with the run's verdict beside
it: a run that failed otherwise is no violation of what was asked, and no pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import failing_runs
import pytest
from made_once import Once
from touched_runs import dstest

from dstest.core import processes
from dstest.core.check import CheckResult, OpCount
from dstest.core.errors import Exit, HistoryError
from dstest.notebook import History
from dstest.testing import checks
from dstest.testing.checks import Checks

pytestmark = pytest.mark.slow

WEAKER = ("--model", "read-uncommitted")


@pytest.fixture(scope="module")
def skewed(once: Once) -> Path:
    """A run that is not serializable, and nothing worse."""
    made = once("skewed", lambda folder: failing_runs.failing(folder / "run", "list-append"))
    return made / "run"


@pytest.fixture(scope="module")
def unproven(once: Once) -> Path:
    """A run with nothing wrong in its history, whose fault is not proven."""
    made = once("unproven", lambda folder: failing_runs.inconclusive(folder / "run"))
    return made / "run"


def answer(run: Path, *words: str) -> tuple[int, dict[str, Any]]:
    code, said = dstest("check", run, "--json", *words)
    return code, json.loads(said)


def test_a_model_that_holds_is_no_violation_of_a_failed_run(skewed: Path) -> None:
    code, told = answer(skewed, *WEAKER)
    assert (code, told["valid"], told["model"]) == (Exit.NOT_PROVEN, True, "read-uncommitted")
    assert told["run"]["verdict"].startswith("FAIL-") and told["run"]["exit"] == Exit.FAIL
    code, said = dstest("check", skewed, *WEAKER)
    assert code == Exit.NOT_PROVEN and "VIOLATION" not in said
    assert "valid under read-uncommitted\n  the run itself is FAIL-" in said


def test_a_model_that_does_not_hold_is_a_violation(skewed: Path) -> None:
    code, told = answer(skewed, "--model", "serializable")
    assert (code, told["valid"]) == (Exit.FAIL, False)
    assert told["anomaly_types"] and told["run"]["exit"] == Exit.FAIL


def test_another_workload_that_judges_nothing_finds_nothing(skewed: Path) -> None:
    code, told = answer(skewed, "--workload", "set")
    assert (code, told["valid"], told["ops"]["consumed"]) == (Exit.NOT_PROVEN, "unknown", 0)
    assert "VIOLATION" not in dstest("check", skewed, "--workload", "set")[1]


@pytest.mark.parametrize("words", [(), ("--workload", "register"), ("--checker", "linearizable")])
def test_a_run_that_proved_nothing_is_no_pass(words: tuple[str, ...], unproven: Path) -> None:
    code, told = answer(unproven, *words)
    assert code == Exit.NOT_PROVEN
    assert told["run"]["verdict"].startswith("INCONCLUSIVE-") and told["run"]["exit"] == code
    assert told["valid"] == "unknown", "nobody who reads this alone takes it for a pass"


def test_a_pass_says_so_beside_the_answer(passed: Path) -> None:
    code, told = answer(passed)
    assert (code, told["valid"], told["reason"]) == (Exit.PASS, True, None)
    assert told["run"]["verdict"] == "PASS-smoke"
    assert "run" not in answer(passed / "history.jsonl")[1]


def test_a_violation_is_expected_of_what_was_asked(skewed: Path, tmp_path: Path) -> None:
    check = Checks(tmp_path, tmp_path)
    weaker: dict[str, Any] = {"models": ["read-uncommitted"]}
    for asked in ({**weaker, "expect": "violation"}, weaker, {"workload": "set"}):
        with pytest.raises(pytest.fail.Exception, match="the run itself is FAIL-"):
            check(skewed, **asked)
    check(skewed, expect="violation")
    check(skewed, models=["serializable"], expect="violation")
    check(skewed / "history.jsonl", models=["read-uncommitted"])
    (found,) = History.from_run(skewed).check(models=["read-uncommitted"])
    assert found.valid is True and found.of_a_run_without_a_pass


def test_a_run_without_a_pass_is_not_valid(unproven: Path, tmp_path: Path) -> None:
    for expect in ("violation", "valid"):
        with pytest.raises(pytest.fail.Exception, match="the run itself is INCONCLUSIVE-"):
            Checks(tmp_path, tmp_path)(unproven, expect=expect)


@pytest.mark.parametrize(
    ("consumed", "types", "meant"), [(7, ["lost"], True), (0, ["lost"], False), (7, [], False)]
)
def test_a_violation_names_an_anomaly_in_what_was_judged(
    consumed: int, types: list[str], meant: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = CheckResult(
        checker="x", valid=False, anomaly_types=types, ops=OpCount(total=7, consumed=consumed)
    )
    monkeypatch.setattr(checks, "check_answer", lambda *_: result)
    if meant:
        assert Checks(tmp_path, tmp_path)("h.jsonl", expect="violation") == [result]
        return
    with pytest.raises(pytest.fail.Exception, match=f"names no anomaly in the {consumed} oper"):
        Checks(tmp_path, tmp_path)("h.jsonl", expect="violation")


@pytest.mark.parametrize("kind", ["counter", "kafka", "lock"])
def test_what_any_checker_finds_is_a_violation(kind: str, tmp_path: Path) -> None:
    run = failing_runs.failing(tmp_path / "run", kind)
    code, told = answer(run.path)
    assert (code, told["valid"]) == (Exit.FAIL, False)
    assert told["anomaly_types"] or told["anomalies"]
    assert told["ops"]["consumed"] > 0


def test_an_answer_and_its_exit_code_agree(passed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = processes.dstest(["check", str(passed), "--json"], passed)
    done.returncode = Exit.NOT_PROVEN
    monkeypatch.setattr(processes, "dstest", lambda *_: done)
    with pytest.raises(HistoryError, match="said True and ended with 3"):
        processes.check_answer(passed, (), passed)
