"""The decision table: one piece of evidence per rule, with the verdict that it must give."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from made_evidence import (
    BUDGETS,
    GOOD,
    but,
    checker,
    fault,
    flags,
    short,
    without,
)
from msgspec.structs import replace

from dstest.core.evidence import (
    AuditRow,
    Evidence,
    Lint,
    Rerun,
)
from dstest.core.verdict import State, Verdict
from dstest.judge.decide import BREADTH, RED_FLAGS, STRENGTH, WEAK_ITEMS, decide

GOLDEN: list[tuple[str, Evidence, str, State]] = [
    ("all good", GOOD, "V15", State.PASS_HARDENING),
    ("release", but(budget=BUDGETS["release"]), "V15", State.PASS_HARDENING),
    ("never attempted", but(attempted=False, violation=True), "V01", State.NOT_RUN),
    ("no nft", but(missing_capability=["nft"], violation=True), "V02", State.INCONCLUSIVE_ENV),
    (
        "violation twice",
        but(violation=True, rerun=Rerun(same_seed_runs=3, reproduced=1)),
        "V03",
        State.FAIL_REPRODUCIBLE,
    ),
    ("violation once", but(violation=True), "V04", State.FAIL_NONDETERMINISTIC),
    (
        "checker says violation, flag forgotten",
        but(checker=checker(result="violation")),
        "V04",
        State.FAIL_NONDETERMINISTIC,
    ),
    (
        "violation in a fault that is not proven",
        but(violation=True, faults=[fault("no")]),
        "V04",
        State.FAIL_NONDETERMINISTIC,
    ),
    (
        "violation in a corrupt history",
        but(violation=True, history_lint=Lint(corrupt={"H02": "op 7 twice"})),
        "V05",
        State.INCONCLUSIVE_ORACLE,
    ),
    ("fault ambiguous", but(faults=[fault("ambiguous")]), "V06", State.INCONCLUSIVE_FAULT),
    ("fault without a record", but(faults=[]), "V06", State.INCONCLUSIVE_FAULT),
    ("one record too few", but(faults_planned=2), "V06", State.INCONCLUSIVE_FAULT),
    (
        "one record counted twice",
        but(faults_planned=2, faults=[fault(), fault()]),
        "V06",
        State.INCONCLUSIVE_FAULT,
    ),
    ("records but no plan", but(fault_planned=False), "V06", State.INCONCLUSIVE_FAULT),
    ("RF3 short", short("RF3"), "V06", State.INCONCLUSIVE_FAULT),
    ("RF4 short", short("RF4"), "V06", State.INCONCLUSIVE_FAULT),
    ("RF1 short", short("RF1"), "V10", State.INCONCLUSIVE_ORACLE),
    ("RF5 short", short("RF5"), "V10", State.INCONCLUSIVE_ORACLE),
    ("RF9 short", short("RF9"), "V10", State.INCONCLUSIVE_ORACLE),
    ("RF2 short", short("RF2"), "V10", State.PARTIAL_MODEL),
    (
        "canary killed none",
        msgspec.structs.replace(short("RF2"), checker=checker(canary_killed=0)),
        "V10",
        State.PARTIAL_SURFACE,
    ),
    ("RF7 short", short("RF7"), "V10", State.PARTIAL_MODEL),
    ("RF8 short", short("RF8"), "V10", State.PARTIAL_MODEL),
    ("heal not verified", but(faults=[fault(healed=False)]), "V10", State.PARTIAL_MODEL),
    ("RF6 short", short("RF6"), "V14", State.PASS_SMOKE),
    ("RF10 short", short("RF10"), "V12b", State.PASS_SMOKE),
    ("checker absent", but(checker=checker(ran=[])), "V07", State.PARTIAL_SURFACE),
    ("checker read nothing", but(checker=checker(ops_consumed=0)), "V07", State.PARTIAL_SURFACE),
    ("checker not run", but(checker=checker(result="not-run")), "V07", State.PARTIAL_SURFACE),
    (
        "weak history",
        but(history_lint=Lint(weak={"H18": "12 ops"})),
        "V08",
        State.INCONCLUSIVE_ORACLE,
    ),
    ("undecided", but(checker=checker(result="unknown")), "V08", State.INCONCLUSIVE_ORACLE),
    (
        "undecided, not serious",
        but(serious=False, checker=checker(result="unknown")),
        "V08",
        State.INCONCLUSIVE_ORACLE,
    ),
    ("a key left out", but(checker=checker(keys_decided=3)), "V09", State.PARTIAL_MODEL),
    ("an op left out", but(checker=checker(ops_consumed=99)), "V09", State.PARTIAL_MODEL),
    ("no fault", but(fault_planned=False, faults=[], faults_planned=0), "V11", State.PASS_SMOKE),
    ("budget none", but(budget=BUDGETS["none"]), "V13", State.PARTIAL_MODEL),
    (
        "neither a fault nor the smoke budget",
        but(fault_planned=False, faults=[], faults_planned=0, budget=BUDGETS["none"]),
        "V13",
        State.PARTIAL_MODEL,
    ),
    ("budget smoke", but(budget=BUDGETS["smoke"]), "V14", State.PASS_SMOKE),
    *((f"{n} short", short(n), "V12", State.PARTIAL_MODEL) for n in STRENGTH),
    *((f"{n} short", short(n), "V12b", State.PASS_SMOKE) for n in BREADTH),
    (
        "logs only",
        msgspec.structs.replace(short("WO2"), oracle_kinds=["logs"]),
        "V12",
        State.PARTIAL_SURFACE,
    ),
]


@pytest.mark.parametrize(("name", "evidence", "rule", "state"), GOLDEN, ids=lambda x: str(x)[:40])
def test_golden(name: str, evidence: Evidence, rule: str, state: State) -> None:
    verdict = decide(evidence)
    assert (verdict.rule, verdict.verdict) == (rule, state), verdict.reason
    assert verdict.reason
    complete = verdict.verdict is State.PASS_HARDENING and evidence.budget.met == "release"
    assert bool(verdict.why_not_better) is not complete


@pytest.mark.parametrize("name", [*RED_FLAGS, *WEAK_ITEMS])
def test_an_absent_audit_row_never_passes(name: str) -> None:
    assert not decide(without(name)).verdict.passed
    no_fault = msgspec.structs.replace(
        without(name), fault_planned=False, faults=[], faults_planned=0
    )
    assert not decide(no_fault).verdict.passed


def test_why_not_better_names_everything_up_to_the_next_state() -> None:
    weak_and_narrow = but(
        checker=checker(keys_decided=3),
        redflags=flags(("RF7",)),
        weak_audit=flags(("WO1", "WO11"), WEAK_ITEMS),
    )
    said = " ".join(decide(weak_and_narrow).why_not_better)
    assert "3 of 4 keys" in said
    assert "RF7" in said
    assert "WO1:" in said
    assert "WO11" not in said  # that one stands before PASS-hardening only

    smoke = but(budget=BUDGETS["smoke"], weak_audit=flags(("WO6", "WO11"), WEAK_ITEMS))
    said = " ".join(decide(smoke).why_not_better)
    for expected in ("WO6", "WO11", "20,000 operations; this run had 6,000", "10 landed faults"):
        assert expected in said
    assert "300 seconds" not in said  # WO6 says it
    assert "agreeing seeds" not in said

    weak = but(violation=True, history_lint=Lint(weak={"H14": "301 issued, 300 in the file"}))
    assert "301 issued" in " ".join(decide(weak).why_not_better)


def test_checkers_and_blame_travel_along() -> None:
    verdict = decide(GOOD, {"linearizable": {"valid": True}}, blame="unknown")
    assert verdict.checkers == {"linearizable": {"valid": True}}
    assert verdict.blame == "unknown"


def test_a_pass_cannot_be_built_by_hand() -> None:
    with pytest.raises(ValueError, match="landing record"):
        Verdict(verdict=State.PASS_SMOKE, rule="V14", reason="trust me", evidence=but(faults=[]))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"violation": True}, "it has not been re-run yet"),
        (
            {"violation": True, "rerun": Rerun(same_seed_runs=2)},
            "none of 2 re-runs showed it again",
        ),
        ({"checker": replace(GOOD.checker, ran=[], why="no room")}, "run (linearizable): no room"),
        ({"checker": replace(GOOD.checker, ran=[])}, "did not run (linearizable)."),
        ({"checker": replace(GOOD.checker, ops_consumed=0)}, "judged by linearizable."),
        (
            {"checker": replace(GOOD.checker, ops_consumed=0, why="no room")},
            "linearizable: no room",
        ),
    ],
)
def test_the_reason_says_what_is_so(changes: dict[str, Any], said: str) -> None:
    assert said in decide(replace(GOOD, **changes)).reason


@pytest.mark.parametrize(("table", "row"), [("redflags", "RF11"), ("weak_audit", "WO15")])
def test_a_row_that_no_rule_asks_for_is_no_pass_where_it_is_short(table: str, row: str) -> None:
    short = AuditRow(status="short", evidence="something new is lacking")
    verdict = decide(replace(GOOD, **{table: {**getattr(GOOD, table), row: short}}), {})
    assert (verdict.verdict, verdict.rule) == (State.PARTIAL_MODEL, "V10")
    assert f"{row}: something new is lacking" in verdict.reason
    fine = AuditRow(status="ok", evidence="")
    verdict = decide(replace(GOOD, **{table: {**getattr(GOOD, table), row: fine}}), {})
    assert verdict.verdict is State.PASS_HARDENING


def test_faults_that_stood_while_hardly_anybody_asked_are_told_together() -> None:
    """And first what happened; that RF3 misses the same faults is nothing more."""
    idle = "idle: only {} operations began in its window, 30 are needed"
    why = f"by its signals it had landed, but {idle}"
    faults = [
        replace(fault(), id=f"f{n + 1}", landed="ambiguous", why=why.format(few))
        for n, few in enumerate((27, 8, 21))
    ]
    made = replace(short("RF3"), faults=faults, faults_planned=3)
    found = decide(made)
    assert found.rule == "V06"
    said = (
        "f1, f2 and f3 stood, but too few operations ran inside to count: "
        "27, 8 and 21 began, 30 are needed"
    )
    assert found.reason == said
    assert [line[:8] for line in found.why_not_better[:3]] == ["Fault f1", "Fault f2", "Fault f3"]
    other = replace(fault(), id="f4", landed="no")
    assert decide(replace(made, faults=[*faults, other], faults_planned=4)).reason == (
        f"{said} (and 2 more)"
    )
