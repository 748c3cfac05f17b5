"""A plan that is executed in simulation: each scenario is red first, and all of its chains are
whole; what is taken out of it is a hole that is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dstest.core.errors import ConfigError, Exit
from dstest.core.verdict import State
from dstest.plans.execution import driver
from dstest.plans.execution.driver import begin
from dstest.plans.execution.state import ExecutionDir
from dstest.plans.lint import lint
from dstest.plans.reader import read_plan
from dstest.plans.review.gather import gather, review_again
from dstest.plans.trace.matrix import TraceMatrix, trace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

Show = Callable[[str, object], None]
PLAN = Path(__file__).resolve().parents[2] / "docs" / "plans" / "toykv.md"


def _never() -> list[object]:
    raise AssertionError("nothing is asked of a host whose nodes are simulated")


def execute(path: Path, store: Path, *only: str) -> tuple[int, ExecutionDir]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "host_rows", _never)
        code = begin(
            path, budget="smoke", only=only, store=store, lab_id=None, allow_missing=False,
            commit="", say=lambda _: None,
        )  # fmt: skip
    return code, ExecutionDir.open(store / "latest")


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> ExecutionDir:
    code, directory = execute(PLAN, tmp_path_factory.mktemp("whole"))
    assert code == Exit.PASS, (directory.path / "findings" / "report.md").read_text()
    return directory


def test_the_plan_is_sound() -> None:
    assert lint(read_plan(PLAN)) == []


def test_each_scenario_was_red_and_then_green(
    executed: ExecutionDir, record_property: Show
) -> None:
    assert [step.side for step in executed.read().steps] == ["red", "green"] * 2
    report = gather(executed)
    assert (report.outcome, report.never_red) == ("DONE", ())
    assert {row.verdict for row in report.results} == {State.PASS_SMOKE}
    ((_, lines),) = report.besides
    rows = [line.split(" | ") for line in lines if line.startswith("| yes |")]
    assert len(rows) == 2 and review_again(executed)[1] == []
    for row in rows:
        record_property("shown", f"{row[1]} was red under {row[2]}: {row[4].strip(' |')}")


@pytest.mark.long
def test_one_whose_red_side_is_green_is_no_evidence(tmp_path: Path, record_property: Show) -> None:
    """The bug that is named is another one, which this test cannot find."""
    text = PLAN.read_text()
    assert 'bug = "stale-follower-read"' in text
    path = tmp_path / "plan.md"
    path.write_text(text.replace('bug = "stale-follower-read"', 'bug = "reorder-in-queue"'))
    code, directory = execute(path, tmp_path / "store", "S1")
    assert code == Exit.NOT_PROVEN
    (row,) = [row for row in gather(directory).results if row.id == "S1"]
    assert row.verdict is State.INCONCLUSIVE_ORACLE
    step = next(step for step in directory.read().steps if step.id == "S1")
    assert "never seen red under bug=reorder-in-queue: it came to PASS-smoke" in step.reason
    record_property("shown", f"S1 with a bug that it cannot find: {row.verdict.value}")


def test_all_chains_are_whole(executed: ExecutionDir, record_property: Show) -> None:
    found = trace(read_plan(PLAN), executed)
    assert (found.exit_code, found.holes, found.violations) == (Exit.PASS, (), ())
    assert len(found.rows) == 4
    for row in found.rows:
        said = f"{row.requirement} -> {row.claim} -> {row.invariant} -> {row.scenario}"
        record_property("shown", f"{said} -> {row.evidence}")


I4 = "| I4 | No payment was made twice, and none that was acknowledged is missing. |"
LINKS = {
    "a claim of a requirement": (
        "[toykv](../toykv.md) | C2 |",
        "[toykv](../toykv.md) | |",
        "R2 is a requirement without a claim",
    ),
    "the scenario of a claim": (
        "- **Falsifies:** C2",
        "- **Falsifies:** C1",
        "C2 is a claim without a scenario",
    ),
    "the invariant of a claim": (
        f"{I4} `checker exactly-once` | C2 |",
        f"{I4} `checker exactly-once` | C1 |",
        "C2 is a claim without an invariant",
    ),
    "the scenario of an invariant": (
        "- **Invariants:** I4\n",
        "",
        "I4 is an invariant that no scenario executes",
    ),
    "who executes an invariant": (
        "`spec register REG2`",
        "`spec register REG9`",
        "I2: register has no invariant REG9: REG1, REG2, REG3",
    ),
    "one that judges something else": (
        "`checker exactly-once` | C2",
        "`checker linearizable` | C2",
        "I4 was not executed in S2: linearizable judged nothing in a run",
    ),
    "the words of a requirement": (
        "a payment that is sent again takes effect once |",
        "a payment that is sent again takes effect at least once |",
        "R2 does not stand in toykv.md in these words",
    ),
    "an invariant that there is": (
        "- **Invariants:** I4",
        "- **Invariants:** I4, I9",
        "S2 names I9, and there is no such invariant",
    ),
}


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.sampled(3)
def test_a_link_that_is_taken_out_is_a_hole(
    name: str, executed: ExecutionDir, tmp_path: Path, record_property: Show
) -> None:
    """In plan and execution alike: only the words are others, so that the runs stand for them."""
    old, new, hole = LINKS[name]
    text = PLAN.read_text()
    assert old in text
    found = traced_as(text.replace(old, new, 1), executed, tmp_path)
    assert hole in found.holes and found.exit_code == Exit.NOT_PROVEN, found.holes
    record_property("shown", f"hole: {hole}")


def traced_as(text: str, executed: ExecutionDir, folder: Path) -> TraceMatrix:
    """The trace of another text of the plan, as if that had been executed."""
    import hashlib
    import shutil

    import msgspec

    place = folder / "docs" / "plans"
    place.mkdir(parents=True)
    shutil.copy(PLAN.parents[1] / "toykv.md", place.parent / "toykv.md")
    (place / "toykv.md").write_text(text)
    directory = ExecutionDir(Path(shutil.copytree(executed.path, folder / "execution")))
    directory.plan.write_text(text)
    facts = directory.read()
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    directory.save(msgspec.structs.replace(facts, plan_sha256=sha256))
    return trace(read_plan(place / "toykv.md"), directory)


def test_a_scenario_that_never_ran_has_no_evidence(
    executed: ExecutionDir, record_property: Show
) -> None:
    found = trace(read_plan(PLAN), None)
    hole = "S1 is a scenario without evidence: never executed"
    assert hole in found.holes and found.exit_code == Exit.NOT_PROVEN
    record_property("shown", f"hole: {hole}")


def test_a_link_of_an_old_plan_is_named_too() -> None:
    etcd = read_plan(PLAN.with_name("etcd.md"))
    holes = trace(etcd, None).holes
    assert any(hole.startswith("the plan states no requirement") for hole in holes)
    assert any(hole.startswith("the plan states no invariant") for hole in holes)


def test_the_execution_of_another_text_is_refused(executed: ExecutionDir, tmp_path: Path) -> None:
    path = tmp_path / "plan.md"
    path.write_text(PLAN.read_text().replace("status: reviewed", "status: draft"))
    with pytest.raises(ConfigError, match="an execution of another plan"):
        trace(read_plan(path), executed)


def test_must_is_not_should(tmp_path: Path, record_property: Show) -> None:
    text = PLAN.read_text()
    claim = "A register is linearizable, whatever"
    (tmp_path / "rfc.txt").write_text("1.2 A read MUST NOT return an old\n   value.")
    given = text.replace(
        "| R1 | registers, sets, counters, logs, transactions are linearizable | "
        "[toykv](../toykv.md) | C1 |",
        "| R1 | A read MUST NOT return an old value. | rfc.txt:1 | C1 |",
    )
    assert given != text

    def holes(stands: str) -> set[str]:
        path = tmp_path / "plan.md"
        path.write_text(given.replace(claim, stands))
        return {hole for hole in trace(read_plan(path), None).holes if hole.startswith("R1")}

    assert holes("A read MUST NOT return an old value, whatever") == set()
    weaker = "R1 says MUST NOT, and C1 does not"
    assert holes("A read SHOULD NOT return an old value, whatever") == {weaker}
    assert holes("A read MUST return a value, whatever") == {weaker}
    record_property("shown", f"hole: {weaker}")
