"""A scenario is red first: where what it was to fail under was never red, its pass is none."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from red_plan import BUILD, CANARY, ONE, directory_of, with_red

from dstest.core.verdict import State
from dstest.gate.gather import gather as gathered_at_the_gate
from dstest.plans.execution.state import (
    ExecutionDir,
    Outcome,
    RedSide,
    RunOutcome,
    held_to_red,
    select_steps,
    steps_of,
)
from dstest.plans.reader import read_text
from dstest.plans.review.gather import REPORT, gather, review_again, write_report
from dstest.report.review.model import Report

pytestmark = pytest.mark.slow


def report_of(folder: Path, red: str, *, fails: bool = False, green: bool = False) -> Report:
    text = with_red(red)
    return gather(ExecutionDir.open(directory_of(folder, text, fails=fails, fails_green=green)))


def rows_of(report: Report) -> dict[str, str]:
    return {row.id: row.verdict.value for row in report.results}


def section(report: Report) -> str:
    ((title, lines),) = report.besides
    assert title == "Red first"
    return "\n".join(lines)


def test_the_red_side_runs_first_with_the_bug_and_nothing_else() -> None:
    plan = read_text(with_red(BUILD + "seeds = 3\n").encode(), "plan.md")
    red, green = steps_of(plan, "hardening")
    assert (red.id, red.of, red.side) == ("S1.red", "S1", "red")
    assert (green.id, green.side) == ("S1", "green")
    assert red.argv[-2:] == ["-o", "shape=one"]
    assert red.argv[red.argv.index("--seeds") + 1] == "3"
    assert red.argv[red.argv.index("--tier") + 1] == "smoke", "that it can be red is the question"
    assert green.argv[green.argv.index("--tier") + 1] == "hardening"
    assert [step.side for step in select_steps(plan, "smoke", ["S1"])] == ["red", "green"]
    old = read_text(ONE.encode(), "plan.md")
    assert [step.id for step in steps_of(old, "smoke")] == ["S1"]


def test_an_arm_has_a_red_side_of_its_own() -> None:
    arms = '\n[[arms]]\nname = "a"\n\n[arms.red]\noptions = { shape = "majority" }\n'
    arms += 'anomalies = ["nonlinearizable"]\n\n[[arms]]\nname = "b"\n'
    plan = read_text(with_red(BUILD + arms).encode(), "plan.md")
    reds = {step.id: step.argv[-1] for step in steps_of(plan, "smoke") if step.side == "red"}
    assert reds == {"S1/a.red": "shape=majority", "S1/b.red": "shape=one"}


def test_red_and_then_green_is_a_pass_and_both_are_kept(tmp_path: Path) -> None:
    report = report_of(tmp_path, BUILD, fails=True)
    assert rows_of(report) == {"S1": "PASS-smoke"}
    said = section(report)
    assert "| yes | S1 | shape=one | FAIL-nondeterministic | nonlinearizable in 1 of 1" in said
    assert (report.outcome, report.never_red, report.findings) == ("DONE", (), ())
    assert len(report.red_results) == 1 and "artifacts/S1.red" in report.red_results[0]


def test_one_that_never_was_red_is_no_evidence(tmp_path: Path) -> None:
    report = report_of(tmp_path, BUILD, fails=False)
    assert rows_of(report) == {"S1": "INCONCLUSIVE-oracle-too-weak"}
    assert "| never seen red | S1 | shape=one | PASS-smoke | it came to PASS-smoke |" in section(
        report
    )
    assert (report.outcome, report.exit_code, report.red_results) == ("INCONCLUSIVE", 3, ())


def test_a_violation_stays_one_whatever_its_red_side_was(tmp_path: Path) -> None:
    report = report_of(tmp_path, BUILD, green=True)
    assert rows_of(report) == {"S1": "FAIL-nondeterministic"}
    assert (report.outcome, report.exit_code) == ("FAIL", 1)


def test_another_bug_is_not_the_one_that_is_known(tmp_path: Path) -> None:
    report = report_of(tmp_path, BUILD.replace("nonlinearizable", "lost"), fails=True)
    assert rows_of(report) == {"S1": "INCONCLUSIVE-oracle-too-weak"}
    assert "it failed by nonlinearizable, and its bug shows as lost" in section(report)


def test_a_run_of_something_else_is_no_red_side(tmp_path: Path) -> None:
    text = with_red(BUILD.replace('"one"', '"majority"'))
    report = gather(ExecutionDir.open(directory_of(tmp_path, text, fails=True)))
    assert rows_of(report) == {"S1": "INCONCLUSIVE-oracle-too-weak"}
    assert "is a run of something else: options" in section(report)


def test_broken_copies_are_a_red_side(tmp_path: Path) -> None:
    path = directory_of(tmp_path, with_red(CANARY), fails=False)
    report = gather(ExecutionDir.open(path))
    assert rows_of(report) == {"S1": "PASS-smoke"}
    assert "8 of 8 broken copies were rejected" in section(report)
    assert (report.outcome, report.never_red) == ("DONE", ())


def test_no_broken_copy_is_no_red_side() -> None:
    from dstest.core.evidence import CheckerEvidence, Evidence
    from dstest.plans.execution.state import _canary

    def done(killed: int, total: int) -> Outcome:
        checker = CheckerEvidence(canary_killed=killed, canary_total=total)
        evidence = Evidence(attempted=True, checker=checker)
        state = State.PASS_SMOKE
        run = RunOutcome(path=Path(), state=state, rule="V14", reason="-", evidence=evidence)
        return Outcome(state=state, rule="V14", reason="-", runs=[run], missed=[])

    assert _canary("S1", done(8, 8)).answer == "red"
    for killed, total in ((0, 0), (7, 8)):
        side = _canary("S1", done(killed, total))
        assert side.answer == "never"
        assert held_to_red(done(killed, total), side).state is State.INCONCLUSIVE_ORACLE
    none = msgspec.structs.replace(done(8, 8), runs=[])
    assert _canary("S1", none).answer == "never"


def test_of_an_old_plan_it_is_said_and_its_verdict_stays_with_a_concern(tmp_path: Path) -> None:
    path = directory_of(tmp_path, ONE, fails=False)
    directory = ExecutionDir.open(path)
    report = gather(directory)
    assert rows_of(report) == {"S1": "PASS-smoke"}
    assert "| never seen red | S1 | - | - | the plan names no red side |" in section(report)
    assert (report.outcome, report.never_red) == ("DONE_WITH_CONCERNS", ("S1",))
    assert "Never seen red, so no evidence yet: S1." in report.headline
    write_report(directory)
    assert review_again(directory)[1] == []
    page = directory.path / REPORT
    page.write_text(page.read_text().replace("| never seen red | S1 |", "| yes | S1 |"))
    assert [broken.rule for broken in review_again(directory)[1]] == ["R19"]


def test_of_a_claim_that_needs_no_history_nothing_is_held_back(tmp_path: Path) -> None:
    text = ONE.replace("| safety |", "| liveness |")
    report = gather(ExecutionDir.open(directory_of(tmp_path, text, fails=False)))
    assert (report.outcome, report.never_red) == ("DONE", ())


def test_what_execution_json_says_of_the_red_side_is_not_believed(tmp_path: Path) -> None:
    path = directory_of(tmp_path, with_red(BUILD), fails=False)
    file = path / "execution.json"
    facts = json.loads(file.read_bytes())
    facts["steps"][0]["state"] = "FAIL-reproducible"
    file.write_text(json.dumps(facts))
    assert rows_of(gather(ExecutionDir.open(path))) == {"S1": "INCONCLUSIVE-oracle-too-weak"}
    facts["steps"][0]["result"] = ""
    file.write_text(json.dumps(facts))
    assert rows_of(gather(ExecutionDir.open(path))) == {"S1": "INCONCLUSIVE-oracle-too-weak"}


@pytest.mark.parametrize("answer", ["red", "unnamed"])
def test_nothing_else_is_taken_from_a_pass(answer: str) -> None:
    side = RedSide(of="S1", under="-", answer=answer, said="-")  # type: ignore[arg-type]
    done = Outcome(state=State.PASS_SMOKE, rule="V14", reason="-", runs=[], missed=[])
    assert held_to_red(done, side) is done


def test_at_the_gate_the_red_side_is_none_of_its_results(tmp_path: Path) -> None:
    path = directory_of(tmp_path, with_red(BUILD), fails=True)
    directory = ExecutionDir.open(path)
    report = write_report(directory)
    execution = directory.read()
    execution.outcome = report.outcome
    directory.save(execution)
    (plan,) = gathered_at_the_gate([tmp_path / "store"], "checkers").plans
    assert [p.parts[-3] for p in plan.results] == ["S1"]
    assert [p.parts[-3] for p in plan.reds] == ["S1.red"]
