"""Sessions and executed plans at the gate: whole, their own, and worth what their runs give."""

from __future__ import annotations

import datetime
import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from executed_plan import executed
from gate_store import (
    GIVEN,
    POLICY,
    broken,
    decided,
    now,
    recorded_at,
    resealed,
    run_at,
    sealed,
    session_at,
)

from dstest.core.errors import Exit
from dstest.core.run_record import RunSpec
from dstest.gate.decision import Decision
from dstest.gate.gather import gather
from dstest.gate.policy import read_policy
from dstest.history.layout import RunDir
from dstest.plans.execution.state import ExecutionDir
from dstest.plans.review.gather import write_report
from dstest.runner.plugins import resolve
from dstest.runner.session_file import SessionDir, SessionFile

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("judged_once")]


@pytest.fixture(scope="session")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("sessions") / "store"
    session_at(store, (1, 2, 3))
    run_at(store, 4, bug=True)
    run_at(store, 5, given=[*GIVEN, "reads=linearizable"])
    return store


@pytest.fixture
def store(_made: Path, tmp_path: Path) -> Path:
    """The claim's three seeds are one session."""
    return Path(shutil.copytree(_made, tmp_path / "store"))


def session_in(store: Path) -> SessionDir:
    (path,) = store.glob("*-session/*")
    return SessionDir.open(path)


def arm(directory: SessionDir, number: int) -> RunDir:
    return RunDir.open(directory.path / directory.read().arms[number].attempts[-1])


def failing(directory: SessionDir, number: int) -> None:
    """An arm of the session has found a violation."""
    run = arm(directory, number)
    at, file = now(), directory.read()
    seed = file.arms[number].seed
    made = recorded_at(directory.path.parent / "made", seed, bug=True, at=at)
    spec = resolve(RunSpec(workload="register", nodes=3, time_limit_s=28.0, concurrency=8,
                           seed=seed), GIVEN).spec  # fmt: skip
    facts = {**made.read_json("run.json"), "spec": msgspec.to_builtins(spec)}
    made.write_json("run.json", {**facts, "options_given": GIVEN})
    shutil.rmtree(run.path)
    place = directory.arms / file.arms[number].id / made.path.name
    shutil.move(made.path, place)
    shutil.rmtree(directory.path.parent / "made")
    sealed(RunDir(place))
    file.arms[number].attempts = [str(place.relative_to(directory.path))]
    resealed(directory, file)


def test_a_session_counts_as_all_of_its_runs(store: Path) -> None:
    decision = decided(store)
    assert decision.findings == ()
    row = next(row for row in decision.rows if row.id == "C1")
    assert len(row.runs) == 3 and "3 seeds" in row.said


def test_a_violation_in_an_arm_stops_the_release(store: Path) -> None:
    failing(session_in(store), 1)
    decision = decided(store)
    assert broken(decision) == {"G22"}
    assert decision.exit == Exit.FAIL


def left_out(directory: SessionDir, file: SessionFile) -> None:
    """The arm is there, and session.json no longer knows it."""
    del file.arms[1]


def thrown_away(directory: SessionDir, file: SessionFile) -> None:
    shutil.rmtree(directory.arms / file.arms[1].id)
    del file.arms[1]


def the_first_thrown_away(directory: SessionDir, file: SessionFile) -> None:
    shutil.rmtree(directory.arms / file.arms[0].id)
    del file.arms[0]


def exchanged(directory: SessionDir, file: SessionFile) -> None:
    """A run of another seed stands in the place of the failing one."""
    good, bad = (directory.path / file.arms[n].attempts[-1] for n in (0, 1))
    shutil.rmtree(bad)
    shutil.copytree(good, bad)


def not_over(directory: SessionDir, file: SessionFile) -> None:
    file.verdict = None


REMOVALS = [
    (left_out, "G08"),
    (thrown_away, "G26"),
    (the_first_thrown_away, "G08"),
    (exchanged, "G08"),
    (not_over, "G03"),
]


@pytest.mark.parametrize(("trick", "rule"), REMOVALS, ids=[t.__name__ for t, _ in REMOVALS])
def test_an_arm_that_failed_is_not_taken_out(
    trick: Callable[[SessionDir, SessionFile], None], rule: str, store: Path
) -> None:
    directory = session_in(store)
    failing(directory, 0 if trick is the_first_thrown_away else 1)
    file = directory.read()
    trick(directory, file)
    if file.verdict is None:
        directory.write(file)
    else:
        resealed(directory, file)
    decision = decided(store)
    assert broken(decision) == {rule}, decision.findings
    assert decision.exit == Exit.NOT_PROVEN


def test_a_session_s_word_is_not_believed(store: Path) -> None:
    directory = session_in(store)
    failing(directory, 1)
    file = directory.read()
    file.verdict = {**file.verdict, "state": "PASS-hardening", "tier_met": "hardening"}
    directory.write(file)
    directory.write_sums()
    assert "G08" in broken(decided(store))


def test_a_file_of_an_arm_is_not_edited(store: Path) -> None:
    run = arm(session_in(store), 1)
    (run.path / "run.log").write_text("all is well\n")
    decision = decided(store)
    assert broken(decision) == {"G01"}
    assert "n3-s2" in decision.findings[0].where


def test_an_attempt_that_died_is_judged_as_well(store: Path) -> None:
    """A violation does not become a run that died by taking its verdict away."""
    directory = session_in(store)
    failing(directory, 1)
    file = directory.read()
    dead = arm(directory, 1)
    for name in ("verdict.json", "sha256sums", "history.jsonl", "faults.jsonl"):
        (dead.path / name).unlink()
    dead.write_status("running")
    later = now() + datetime.timedelta(seconds=5)
    good = run_at(directory.arms, 2, name="n3-s2", at=later, count=701)
    file.arms[1].attempts.append(str(good.path.relative_to(directory.path)))
    resealed(directory, file)
    decision = decided(store)
    assert broken(decision) == {"G22"}, decision.findings
    assert str(dead.path) in decision.findings[0].where


PLAN = """
[[plan]]
id = "P1"
slug = "small-register-plan"
sha256 = "{sha256}"
budget = "smoke"
"""


def planned(store: Path, *, fail: bool = False) -> tuple[ExecutionDir, str]:
    (store / "of-a-plan").mkdir()
    directory = executed(store / "of-a-plan", fail=fail)
    write_report(directory)
    execution = directory.read()
    execution.outcome = "DONE_WITH_CONCERNS"
    directory.save(execution)
    return directory, hashlib.sha256(directory.plan.read_bytes()).hexdigest()


def about_plans(decision: Decision) -> set[str]:
    """The small plan's runs are of no name and date that a real one has."""
    return broken(decision) - {"G05", "G07"}


def test_a_plan_is_asked_for_by_its_file_and_its_budget(store: Path) -> None:
    _, sha256 = planned(store)
    with_plan = POLICY + PLAN.format(sha256=sha256)
    found = gather([store], "checkers")
    assert found.findings == () and found.plans[0].sha256 == sha256
    assert found.plans[0].report.outcome == "DONE_WITH_CONCERNS"
    answers = plan_answers(found, with_plan, store)
    assert answers == {"G33"}, "an arm was planned and not run"
    assert plan_answers(found, POLICY + PLAN.format(sha256="0" * 64), store) == {"G21"}
    other = with_plan.replace('budget = "smoke"', 'budget = "release"')
    assert plan_answers(found, other, store) == {"G21"}


OF_NO_RELEASE = {"G12", "G13", "G16"}
"""The small plan's runs are of no dstest, version and date (test_gate_left_out has those)."""


def plan_answers(found: object, policy: str, store: Path) -> set[str]:
    from dstest.gate.asides import plan_answer
    from dstest.gate.gather import StoreEvidence

    assert isinstance(found, StoreEvidence)
    path = store.parent / "release.toml"
    path.write_text(policy)
    policy_ = read_policy(path).policy
    (asked,) = policy_.plan
    answer = plan_answer(found, asked, policy_, int(now().timestamp() * 1e9))
    return {finding.rule for finding in answer.findings} - OF_NO_RELEASE


def test_a_plan_that_failed_is_a_violation(store: Path) -> None:
    _, sha256 = planned(store, fail=True)
    found = gather([store], "checkers")
    assert plan_answers(found, POLICY + PLAN.format(sha256=sha256), store) == {"G22"}


def test_a_report_of_a_plan_that_says_more_is_refused(store: Path) -> None:
    directory, _ = planned(store)
    report = directory.path / "findings" / "report.md"
    report.write_text(report.read_text().replace("PASS-smoke", "PASS-hardening"))
    assert "G09" in about_plans(decided(store))


def test_a_plan_that_is_not_over_is_none(store: Path) -> None:
    directory, _ = planned(store)
    execution = directory.read()
    execution.outcome = ""
    directory.save(execution)
    assert "G03" in about_plans(decided(store))


def test_a_session_without_any_run_is_not_left_out(store: Path) -> None:
    directory = session_in(store)
    file = directory.read()
    for one in file.arms:
        for attempt in one.attempts:
            shutil.rmtree(directory.path / attempt)
        one.attempts = []
    resealed(directory, file)
    assert "G03" in broken(decided(store))
