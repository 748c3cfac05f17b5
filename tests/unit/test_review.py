"""Findings reports against the evidence: a true one breaks no rule, one that was changed breaks its
own; and what a plan's execution amounts to is made from its runs alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from executed_plan import executed, stale
from made_runs import made, registers
from passing_runs import RUNS

from dstest.campaign.launch import Budget
from dstest.campaign.steps.commands import differences
from dstest.core.errors import EvidenceError
from dstest.core.history import ClockSource
from dstest.core.registry import digests
from dstest.core.run_record import RunMeta, RunSpec
from dstest.core.verdict import State
from dstest.plans.execution.state import ExecutionDir, outcome_of
from dstest.plans.reader import read_plan
from dstest.plans.review.gather import REPORT, gather, review_again, write_report
from dstest.report.findings import review_of
from dstest.report.model import load_report
from dstest.report.review.model import render
from dstest.report.review.rules import RULES, review

pytestmark = pytest.mark.slow

BUDGET = Budget(nodes=(3,), duration_s=20.0, faults=1, seeds=1)


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> ExecutionDir:
    directory = executed(tmp_path_factory.mktemp("failed"), fail=True)
    write_report(directory)
    return directory


@pytest.fixture(scope="module")
def passed(tmp_path_factory: pytest.TempPathFactory) -> ExecutionDir:
    directory = executed(tmp_path_factory.mktemp("passed"))
    write_report(directory)
    return directory


def test_a_true_report_breaks_no_rule(failed: ExecutionDir, passed: ExecutionDir) -> None:
    for directory, outcome, code in ((failed, "FAIL", 1), (passed, "DONE_WITH_CONCERNS", 3)):
        truth, broken = review_again(directory)
        assert broken == []
        assert (truth.outcome, truth.exit_code) == (outcome, code)
    assert [rule.id for rule in RULES] == [f"R{n:02}" for n in range(1, 20)]


def test_what_ran_is_folded_as_it_must_be(failed: ExecutionDir, passed: ExecutionDir) -> None:
    rows = {row.id: row for row in gather(passed).results}
    assert list(rows) == ["S1", "S2/near", "S2/far", "S2"]
    assert rows["S1"].verdict is State.PASS_SMOKE
    assert rows["S2/far"].verdict is State.NOT_RUN
    assert rows["S2"].verdict is State.PARTIAL_SURFACE
    truth = gather(failed)
    assert [f.result for f in truth.findings] == ["S1"]
    assert {row.claim: row.change for row in truth.confidence} == {"C1": "LESS", "C2": "LESS"}
    assert [row.result.partition(":")[0] for row in truth.coverage] == [
        "falsified",
        "not exercised to the end",
        "not exercised",
    ]
    after = {row.claim: row.after.partition(":")[0] for row in truth.adequacy}
    assert after == {"C1": "answered", "C2": "not enough"}
    smoke = {row.claim: row.after for row in gather(passed).adequacy}
    assert smoke["C1"].startswith("not enough: S2 did not deliver")


def _swap(old: str, new: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        assert old in text, old
        return text.replace(old, new, 1)

    return change


def _without(start: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        lines = text.splitlines(keepends=True)
        kept = [line for line in lines if not line.startswith(start)]
        assert len(kept) == len(lines) - 1, start
        return "".join(kept)

    return change


def _line(start: str, old: str, new: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        lines = text.splitlines(keepends=True)
        (at,) = [n for n, line in enumerate(lines) if line.startswith(start)]
        assert old in lines[at], lines[at]
        lines[at] = lines[at].replace(old, new, 1)
        return "".join(lines)

    return change


MUTATIONS: list[tuple[str, str, Callable[[str], str]]] = [
    ("R01", "failed", _line("- Under test:", "3.4.23", "3.5.0")),
    ("R01", "failed", _without("- Under test:")),
    ("R02", "failed", _swap("Session FAIL: ", "Session DONE: ")),
    ("R02", "failed", _swap("Session FAIL: ", "All is well. Session FAIL: ")),
    ("R03", "failed", _line("| S1 |", "FAIL-nondeterministic", "PASS-smoke")),
    ("R03", "passed", _line("| S1 |", "PASS-smoke", "PASS-hardening")),
    ("R03", "passed", _line("| S1 |", "PASS-smoke", "PASS")),
    ("R03", "passed", _without("| S2/far | writes")),
    ("R04", "passed", _line("| S1 |", "1 of 1 landed", "the faults landed")),
    ("R04", "passed", _line("| S1 |", "operations judged: ", "operations judged: all, 9")),
    ("R05", "passed", _line("| S2 |", "PARTIAL-surface", "PASS-smoke")),
    ("R06", "failed", _line("| S1 |", "artifacts/S1", "artifacts/S9")),
    ("R07", "failed", _line("- Scenario: ", "S1", "S2/near")),
    ("R08", "failed", _line("- Blame: ", "unknown", "SUT")),
    ("R08", "failed", _line("- Blame: ", "unknown", "nobody")),
    ("R08", "failed", _without("- Blame: ")),
    ("R09", "failed", _without("- TaxDC type: ")),
    ("R09", "failed", _line("- TaxDC type: ", "- TaxDC type: ", "- TaxDC type: network, ")),
    ("R10", "failed", _line("- Reduction: ", "not reduced: ", "small enough, ")),
    ("R11", "failed", _without("| H3 |")),
    ("R11", "failed", _line("| H1 |", "falsified: a violation was observed", "not falsified")),
    ("R12", "failed", _line("Missing surfaces: ", "clients of a proxy", "none")),
    ("R12", "failed", _line("| S2/far | clients", "| no |", "| yes |")),
    ("R13", "failed", _line("- S1: ", "no machine for a day", "it is long")),
    ("R14", "passed", _line("| C1 |", "not enough: S2 did not deliver", "adequate")),
    ("R15", "failed", _line("- MORE: ", "none", "C1")),
    ("R15", "failed", _line("- LESS: ", "C1, C2", "C2")),
    ("R16", "failed", _line("- Root cause: ", "not known", "this proves a race; not known")),
    ("R17", "passed", _swap("| RF3 |", "| RF0 |")),
    ("R17", "passed", _swap("| WO11 | ", "| WO12b | ")),
    ("R18", "failed", _swap("## Session verdict\n\nFAIL", "## Session verdict\n\nDONE")),
    ("R19", "failed", _swap("End of the report.\n", "")),
]


@pytest.mark.parametrize(("rule", "which", "change"), MUTATIONS)
def test_what_was_changed_breaks_its_rule(
    rule: str,
    which: str,
    change: Callable[[str], str],
    failed: ExecutionDir,
    passed: ExecutionDir,
) -> None:
    directory = failed if which == "failed" else passed
    text = (directory.path / REPORT).read_text()
    broken = review(change(text), gather(directory), directory.findings)
    assert {one.rule for one in broken} >= {rule}
    # A verdict that reads better also contradicts what is made of it.
    assert {one.rule for one in broken} <= {rule, "R05"} | ({"R04"} if rule == "R03" else set())


def test_a_run_by_itself_has_such_a_report(failed: ExecutionDir) -> None:
    step = failed.read().steps[0]
    path = failed.path / step.result
    report = load_report(path)
    text = (path / "findings.md").read_text()
    assert review(text, review_of(report), path) == []
    better = text.replace("FAIL-nondeterministic", "PASS-smoke", 1)
    assert {b.rule for b in review(better, review_of(report), path)} == {"R03"}
    assert render(review_of(report)) == text


def test_each_claim_of_a_run_is_in_a_list_of_its_own(tmp_path: Path) -> None:
    run, _ = made(tmp_path / "run", **RUNS["set-full"]())
    report = load_report(run.path)
    assert len(report.meta.claims or ()) > 1
    assert review((run.path / "findings.md").read_text(), review_of(report), run.path) == []


def test_nothing_that_was_said_of_a_run_is_believed(tmp_path: Path) -> None:
    directory = executed(tmp_path, fail=True)
    execution = directory.read()
    execution.steps[0].state = "PASS-hardening"
    directory.save(execution)
    assert gather(directory).results[0].verdict is State.FAIL_NONDETERMINISTIC
    run = directory.path / execution.steps[0].result
    verdict = (run / "verdict.json").read_text()
    (run / "verdict.json").write_text(verdict.replace("FAIL-nondeterministic", "PASS-smoke", 1))
    changed = gather(directory).results[0]
    assert changed.verdict is State.INCONCLUSIVE_ORACLE
    assert "its evidence does not hold" in changed.oracle_evidence


def test_a_run_that_is_gone_was_never_run(tmp_path: Path) -> None:
    directory = executed(tmp_path)
    execution = directory.read()
    shutil.rmtree(directory.path / execution.steps[0].result)
    truth = gather(directory)
    assert truth.results[0].verdict is State.INCONCLUSIVE_ORACLE
    assert truth.outcome == "DONE_WITH_CONCERNS"


@pytest.mark.parametrize(
    ("more", "checkers", "state", "said"),
    [
        ({}, ["linearizable"], State.PASS_SMOKE, ""),
        ({"nodes": (5,)}, [], State.PARTIAL_MODEL, "no run had 5 nodes"),
        ({"duration_s": 99.0}, [], State.PARTIAL_MODEL, "less than 99 s"),
        ({"faults": 2}, [], State.PARTIAL_MODEL, "1 landed faults of 2"),
        ({"seeds": 3}, [], State.PARTIAL_MODEL, "1 seeds of 3"),
        ({}, ["linearizable", "slo"], State.PARTIAL_SURFACE, "slo"),
    ],
)
def test_a_pass_is_worth_what_the_plan_had_declared(
    more: dict[str, Any], checkers: list[str], state: State, said: str, passed: ExecutionDir
) -> None:
    step = passed.read().steps[0]
    budget = msgspec.structs.replace(BUDGET, **more)
    found = outcome_of(passed.result_of(step), budget, checkers)
    assert found.state is state
    assert said in found.reason


def test_a_report_of_a_part_is_not_done(tmp_path: Path) -> None:
    directory = executed(tmp_path)
    execution = directory.read()
    execution.steps = execution.steps[:1]
    directory.save(execution)
    truth = gather(directory)
    assert truth.outcome == "DONE_WITH_CONCERNS"
    near = next(row for row in truth.results if row.id == "S2/near")
    assert near.verdict is State.INCONCLUSIVE_ORACLE  # its run lies there
    assert review_again(directory)[1]


def test_a_run_of_something_else_is_none(tmp_path: Path) -> None:
    directory = executed(tmp_path)
    execution = directory.read()
    first, second = execution.steps[:2]
    plan = directory.plan.read_text()
    changed = plan.replace('workload = "register"', 'workload = "cas-register"', 1)
    directory.plan.write_text(changed)
    with pytest.raises(EvidenceError, match="is not the plan that was executed"):
        gather(directory)
    execution.plan_sha256 = read_plan(directory.plan).sha256
    directory.save(execution)
    row = gather(directory).results[0]
    assert row.verdict is State.INCONCLUSIVE_ORACLE
    assert "is a run of something else: workload" in row.oracle_evidence
    assert second.state == "PASS-smoke"
    first.result = second.result
    directory.save(execution)
    assert "lies outside of artifacts/S1" in gather(directory).results[0].oracle_evidence


RUN_BLOCK = 'nemesis = "partition"\nconcurrency = 8\n'


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ('nemesis = "partition"\n', "concurrency"),
        (RUN_BLOCK + "rate = 50.0\n", "rate"),
        (RUN_BLOCK + 'lab = "vm"\n', "lab"),
        (RUN_BLOCK + 'checker = ["slo"]\n', "checkers"),
        (RUN_BLOCK + "options = { shape = 'one' }\n", "options"),
        (RUN_BLOCK + 'system-version = ["/nowhere.deb"]\n', "system-version"),
        (RUN_BLOCK + 'model = "sequential"\n', "model"),
    ],
)
def test_a_run_that_was_made_otherwise_is_none(tmp_path: Path, asked: str, said: str) -> None:
    directory = executed(tmp_path)
    changed = directory.plan.read_text().replace(RUN_BLOCK, asked, 1)
    directory.plan.write_text(changed)
    execution = directory.read()
    execution.plan_sha256 = read_plan(directory.plan).sha256
    directory.save(execution)
    row = gather(directory).results[0]
    assert row.verdict is State.INCONCLUSIVE_ORACLE
    assert f"is a run of something else: {said}" in row.oracle_evidence


@pytest.mark.parametrize(
    ("spec", "given", "said"),
    [
        ({}, ["without=cas"], ["options"]),
        ({"stop_on_violation": True}, [], ["stop-on-violation"]),
        ({"schedule": "faults.json"}, [], ["schedule"]),
        ({"builds": ["/b@0123456789abcdef"]}, [], ["system-version"]),
        ({"rate": 5.0}, [], ["rate"]),
        ({}, [], []),
    ],
)
def test_what_nobody_asked_for(spec: dict[str, Any], given: list[str], said: list[str]) -> None:
    meta = meta_of(spec, options_given=given)
    command = ["run", "--system", "etcd", "--workload", "register", "--nemesis", "partition"]
    assert differences(meta, command) == said


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--nodes", "9"], ["nodes"]),
        (["--nodes", "3,5"], []),
        (["--time-limit", "3600"], ["time_limit_s"]),
        (["--time-limit", "60"], []),
        (["--seed", "7"], ["seed"]),
        (["--seed", "0,1"], []),
        (["--seed", "7", "--seeds", "3"], []),
        (["--seed", "7", "--seeds", "1"], ["seed"]),
        (["--plugin", "/x/strict.py"], ["files (strict.py)"]),
    ],
)
def test_sizes_times_seeds_and_files_are_those_of_the_command(
    more: list[str], said: list[str]
) -> None:
    assert differences(meta_of({}), ["run", "--system", "etcd", *more]) == said


def test_a_file_is_known_by_what_is_in_it(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("one")
    kept = digests([file])
    command = ["run", "--system", str(file)]
    assert differences(meta_of({}, plugin_files=kept), command) == []
    file.write_text("two")
    assert differences(meta_of({}, plugin_files=kept), command) == ["files (mine.py)"]


def meta_of(spec: dict[str, Any], **fields: Any) -> RunMeta:
    return RunMeta(
        **{
            "spec": {**msgspec.to_builtins(RunSpec()), **spec},
            "options_given": [],
            "model": "linearizable",
            "checkers": [],
            "nodes": [],
            "faults_planned": 0,
            "clock": ClockSource(),
            **fields,
        }
    )


def test_a_run_that_nobody_speaks_of_is_no_pass(tmp_path: Path) -> None:
    directory = executed(tmp_path)
    execution = directory.read()
    step = execution.steps[0]
    folder = directory.artifacts_of(step) / "etcd-register-partition"
    made(folder / "another", stale(registers(seed=9)), "register")
    row = gather(directory).results[0]
    assert row.verdict is State.INCONCLUSIVE_ORACLE
    assert "execution.json does not name it" in row.oracle_evidence
    step.earlier.append(directory.relative(folder / "another"))
    directory.save(execution)
    assert gather(directory).results[0].verdict is State.FAIL_NONDETERMINISTIC


@pytest.mark.parametrize(
    "change",
    [
        lambda text: f"# Fine\n\nSession DONE\n\n<!--\n{text}\n-->\nEnd of the report.\n",
        lambda text: text.replace("## Findings", "## Verdict\n\nRelease it.\n\n## Findings", 1),
        lambda text: text.replace("- Budget: smoke", "- Budget: release", 1),
        lambda text: text.replace("1 of 3 arms", "0 of 3 arms", 1),
    ],
)
def test_what_no_rule_looks_at_is_seen_all_the_same(
    change: Callable[[str], str], failed: ExecutionDir
) -> None:
    text = (failed.path / REPORT).read_text()
    assert change(text) != text
    assert review(change(text), gather(failed), failed.findings)
    cause = text.replace("- Root cause: not known", "- Root cause: a race in the log", 1)
    assert review(cause, gather(failed), failed.findings) == []


def test_an_arm_that_the_plan_does_not_run_has_no_run(tmp_path: Path) -> None:
    directory = executed(tmp_path)
    execution = directory.read()
    near, far = execution.steps[1:]
    place = directory.artifacts_of(far) / "x" / "run"
    shutil.copytree(directory.path / near.result, place)
    far.result, far.reason = directory.relative(place), ""
    directory.save(execution)
    rows = {row.id: row.verdict for row in gather(directory).results}
    assert rows["S2/far"] is State.INCONCLUSIVE_ORACLE
    execution.steps.append(execution.steps[0])
    directory.save(execution)
    with pytest.raises(EvidenceError, match="names a step twice"):
        gather(directory)
