"""The decision table over its whole input space, against a second statement of itself."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from dstest.core.evidence import (
    AuditRow,
    CheckerEvidence,
    Evidence,
    FaultEvidence,
    Lint,
    Rerun,
    Tier,
)
from dstest.core.verdict import State, Verdict
from dstest.judge.budgets import budgets
from dstest.judge.decide import aggregate, decide, match, session, session_exit_code
from dstest.judge.rules import RULES, Rule
from dstest.judge.view import BREADTH, RED_FLAGS, STRENGTH, WEAK_ITEMS, View, view

OK = AuditRow(status="ok", evidence="as it should be")
SHORT = AuditRow(status="short", evidence="3 of 5")

MEASURED: dict[str, dict[str, float]] = {
    "none": {"duration_s": 5.0},
    "smoke": {"duration_s": 60, "nodes": 5, "faults": 2, "seeds": 1, "ops": 6000},
    "hardening": {"duration_s": 600, "nodes": 5, "faults": 20, "seeds": 3, "ops": 60_000},
    "release": {"duration_s": 7200, "nodes": 5, "faults": 200, "seeds": 10, "ops": 2_000_000},
}
BUDGETS = {tier: budgets(numbers, nemesis=True) for tier, numbers in MEASURED.items()}


def flags(short: tuple[str, ...] = (), names: tuple[str, ...] = RED_FLAGS) -> dict[str, AuditRow]:
    return {name: SHORT if name in short else OK for name in names}


def fault(landed: str = "yes", *, id_: str = "f1", healed: bool = True) -> FaultEvidence:
    return FaultEvidence(id=id_, nemesis="partition", landed=landed, heal_verified=healed)  # type: ignore[arg-type]


CHECKER = CheckerEvidence(
    declared=["linearizable"],
    ran=["linearizable"],
    result="clean",
    ops_eligible=100,
    ops_consumed=100,
    keys_total=4,
    keys_decided=4,
    canary_killed=6,
    canary_total=6,
)
GOOD = Evidence(
    attempted=True,
    fault_planned=True,
    faults=[fault()],
    faults_planned=1,
    checker=CHECKER,
    redflags=flags(),
    weak_audit=flags((), WEAK_ITEMS),
    budget=BUDGETS["hardening"],
)


def but(**changes: Any) -> Evidence:
    return msgspec.structs.replace(GOOD, **changes)


def checker(**changes: Any) -> CheckerEvidence:
    return msgspec.structs.replace(CHECKER, **changes)


def short(*names: str) -> Evidence:
    return but(redflags=flags(names), weak_audit=flags(names, WEAK_ITEMS))


def without(name: str) -> Evidence:
    return but(
        redflags={k: r for k, r in GOOD.redflags.items() if k != name},
        weak_audit={k: r for k, r in GOOD.weak_audit.items() if k != name},
    )


# --- golden cases -----------------------------------------------------------------------------

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


# --- the whole space --------------------------------------------------------------------------

BOOLS = (False, True)
TIERS: tuple[Tier, ...] = ("none", "smoke", "hardening", "release")
ROWS = [
    (flags(red), flags(weak, WEAK_ITEMS), frozenset(red + weak))
    for red in ((), ("RF1",), ("RF2",), ("RF4",), ("RF6",), ("RF8",), ("RF10",), ("RF5", "RF7"))
    for weak in ((), ("WO1",), ("WO11",), ("WO8", "WO6"))
]
LANDED: dict[tuple[bool, bool], dict[str, Any]] = {
    (False, False): {"fault_planned": False, "faults": [], "faults_planned": 0},
    (True, True): {"fault_planned": True, "faults": [fault()], "faults_planned": 1},
    (True, False): {"fault_planned": True, "faults": [fault("no")], "faults_planned": 1},
}
CHECKERS = {
    (ran, result, complete): checker(
        ran=["linearizable"] if ran else [],
        result=result,
        ops_consumed=100 if complete else 99,
    )
    for ran in BOOLS
    for result in ("clean", "unknown")
    for complete in BOOLS
}
LINTS = {
    (weak, corrupt): Lint(
        weak={"H14": "x"} if weak else {}, corrupt={"H02": "x"} if corrupt else {}
    )
    for weak in BOOLS
    for corrupt in BOOLS
}
RERUNS = {False: Rerun(), True: Rerun(same_seed_runs=1, reproduced=1)}
KINDS = {False: ["history"], True: ["logs", "health"]}


def restated(
    attempted: bool,
    missing: bool,
    violation: bool,
    reproduced: bool,
    lint: tuple[bool, bool],
    fault_state: tuple[bool, bool],
    check: tuple[bool, str, bool],
    serious: bool,
    short_rows: frozenset[str],
    tier: Tier,
    surface: bool,
) -> State:
    """The table again, as nested ifs that share nothing with the rules."""
    weak, corrupt = lint
    planned, landed = fault_state
    ran, result, complete = check
    if not attempted:
        return State.NOT_RUN
    if missing:
        return State.INCONCLUSIVE_ENV
    if violation:
        if not corrupt:
            return State.FAIL_REPRODUCIBLE if reproduced else State.FAIL_NONDETERMINISTIC
        return State.INCONCLUSIVE_ORACLE
    if corrupt:
        return State.INCONCLUSIVE_ORACLE
    if planned and (not landed or "RF3" in short_rows or "RF4" in short_rows):
        return State.INCONCLUSIVE_FAULT
    if short_rows & {"RF1", "RF5", "RF9"}:
        return State.INCONCLUSIVE_ORACLE
    if not ran:
        return State.PARTIAL_SURFACE
    if result != "clean" or (serious and weak):
        return State.INCONCLUSIVE_ORACLE
    if serious and not complete:
        return State.PARTIAL_MODEL
    if short_rows & {"RF2", "RF3", "RF4", "RF7", "RF8"}:
        return State.PARTIAL_MODEL
    if short_rows & {f"WO{n}" for n in (1, 2, 3, 4, 5, 8, 9, 12, 13, 14)}:
        return State.PARTIAL_SURFACE if surface else State.PARTIAL_MODEL
    if tier == "none":
        return State.PARTIAL_MODEL
    if not planned:
        return State.PASS_SMOKE
    if short_rows & {"WO6", "WO7", "WO10", "WO11", "RF10"}:
        return State.PASS_SMOKE
    if tier == "smoke" or "RF6" in short_rows:
        return State.PASS_SMOKE
    return State.PASS_HARDENING


def space(rows: list[Any]) -> Iterator[tuple[Any, ...]]:
    return itertools.product(
        BOOLS,  # attempted
        BOOLS,  # missing capability
        ((False, False), (True, False), (True, True)),  # violation, reproduced
        LINTS,
        LANDED,
        CHECKERS,
        BOOLS,  # serious
        rows,
        TIERS,
        BOOLS,  # surface only
    )


def build(point: tuple[Any, ...]) -> tuple[Evidence, State]:
    attempted, missing, (violation, again), lint, faults, check, serious, row, tier, surface = point
    redflags, weak_audit, short_rows = row
    evidence = Evidence(
        attempted=attempted,
        missing_capability=["nft"] if missing else [],
        serious=serious,
        **LANDED[faults],
        checker=CHECKERS[check],
        oracle_kinds=KINDS[surface],
        history_lint=LINTS[lint],
        violation=violation,
        rerun=RERUNS[again],
        redflags=redflags,
        weak_audit=weak_audit,
        budget=BUDGETS[tier],
    )
    expected = restated(
        attempted,
        missing,
        violation,
        again,
        lint,
        faults,
        check,
        serious,
        short_rows,
        tier,
        surface,
    )
    return evidence, expected


def assert_sound(state: State, evidence: Evidence) -> None:
    if not state.passed:
        return
    e = evidence
    bad = {name for name, row in (e.redflags | e.weak_audit).items() if row.status == "short"}
    assert e.attempted
    assert not e.violation
    assert e.checker_ran
    assert e.checker.result == "clean"
    assert not bad & set(RED_FLAGS) - {"RF6", "RF10"}
    assert e.fault_landed or not e.fault_planned
    if state is State.PASS_HARDENING:
        assert not bad
        assert e.budget.met in ("hardening", "release")
        assert e.fault_landed


def test_the_table_over_its_whole_space_with_red_flags() -> None:
    seen: Counter[State] = Counter()
    for point in space(ROWS):
        evidence, expected = build(point)
        state = RULES[match(view(evidence))].state
        if state is not expected:
            raise AssertionError((state, expected, point))
        assert_sound(state, evidence)
        seen[state] += 1
    assert sum(seen.values()) >= 262_144
    assert set(seen) == set(State)


def test_verdicts_over_the_space_that_reaches_the_checker() -> None:
    points = itertools.islice(
        (p for p in space(ROWS[::3]) if p[0] and not p[1] and not p[3][1]), 0, None, 7
    )
    rules = set()
    for point in points:
        evidence, expected = build(point)
        verdict = decide(evidence)
        assert verdict.verdict is expected
        assert verdict == decide(evidence)
        assert verdict.why_not_better or verdict.verdict is State.PASS_HARDENING
        rules.add(verdict.rule)
    assert {"V03", "V04", "V06", "V07", "V08", "V09", "V10", "V11", "V12", "V12b"} <= rules


def test_booleans_alone_65536() -> None:
    """Every red flag and weak item on and off, for the run that is good otherwise."""
    names = ("RF1", "RF2", "RF3", "RF5", "RF6", "RF7", "RF8", "RF9", "RF10")
    weak_names = ("WO1", "WO5", "WO6", "WO7", "WO8", "WO11", "WO12")
    reds = [n for k in range(len(names) + 1) for n in itertools.combinations(names, k)]
    weaks = [n for k in range(len(weak_names) + 1) for n in itertools.combinations(weak_names, k)]
    red_rows = {red: flags(red) for red in reds}
    weak_rows = {weak: flags(weak, WEAK_ITEMS) for weak in weaks}
    good = (False, False), (True, True), (True, "clean", True)
    total = 0
    for red, weak in itertools.product(reds, weaks):
        evidence = but(redflags=red_rows[red], weak_audit=weak_rows[weak])
        state = RULES[match(view(evidence))].state
        expected = restated(
            True, False, False, False, *good, True, frozenset(red + weak), "hardening", False
        )
        assert state is expected, (red, weak)
        total += 1
    assert total == 65_536


@functools.cache
def sample() -> list[tuple[View, State]]:
    points = map(build, itertools.islice(space(ROWS), 0, None, 11))
    return [(view(evidence), expected) for evidence, expected in points]


def noticed(rules: list[Rule]) -> bool:
    return any(rules[match(v, rules)].state is not expected for v, expected in sample())


@pytest.mark.parametrize(
    ("one", "other"),
    [("V03", "V06"), ("V06", "V07"), ("V08", "V09"), ("V11", "V12"), ("V11", "V13"),
     ("V13", "V12b"), ("V12", "V12b"), ("V01", "V02"), ("V13", "V14")],
)  # fmt: skip
def test_another_order_would_be_noticed(one: str, other: str) -> None:
    ids = [rule.id for rule in RULES]
    i, j = ids.index(one), ids.index(other)
    rules = list(RULES)
    rules[i], rules[j] = rules[j], rules[i]
    assert noticed(rules)


@pytest.mark.parametrize("index", range(len(RULES) - 1))
def test_a_rule_left_out_would_be_noticed(index: int) -> None:
    if RULES[index].id == "V10" and RULES[index].state is State.PARTIAL_SURFACE:
        never = replace(RULES[index], when=lambda v: False)
        rules = [*RULES[:index], never, *RULES[index + 1 :]]
        evidence = msgspec.structs.replace(short("RF2"), checker=checker(canary_killed=0))
        assert rules[match(view(evidence), rules)].state is not State.PARTIAL_SURFACE
        return
    rules = [*RULES[:index], *RULES[index + 1 :]]
    assert noticed(rules)


# --- arms and sessions ------------------------------------------------------------------------

MULTISETS = [m for k in (1, 2, 3) for m in itertools.combinations_with_replacement(State, k)]


@pytest.mark.parametrize("states", MULTISETS, ids=lambda m: "+".join(m))
def test_arms(states: tuple[State, ...]) -> None:
    total = aggregate(states)
    assert total.passed == all(s.passed for s in states)
    assert total.failed == any(s.failed for s in states)
    assert (total is State.PASS_HARDENING) == all(s is State.PASS_HARDENING for s in states)
    assert (total is State.NOT_RUN) == all(s is State.NOT_RUN for s in states)
    assert all(aggregate(order) is total for order in itertools.permutations(states))
    if State.FAIL_REPRODUCIBLE in states:
        assert total is State.FAIL_REPRODUCIBLE
    if not total.passed and any(s.passed for s in states) and not total.failed:
        assert total is State.PARTIAL_SURFACE


@pytest.mark.parametrize("states", [(), *MULTISETS], ids=lambda m: "+".join(m) or "none")
def test_sessions(states: tuple[State, ...]) -> None:
    outcome = session(states)
    ran = [s for s in states if s not in (State.NOT_RUN, State.INCONCLUSIVE_ENV)]
    passes = [s for s in states if s.passed]
    if any(s.failed for s in states):
        assert outcome == "FAIL"
    elif not ran:
        assert outcome == "BLOCKED"
    elif not passes:
        assert outcome == "INCONCLUSIVE"
    else:
        assert outcome == ("DONE" if len(passes) == len(states) else "DONE_WITH_CONCERNS")
    assert (session_exit_code(outcome) == 0) == (outcome == "DONE")


def test_the_first_inconclusive_names_the_scenario() -> None:
    fault_, oracle, env = (
        State.INCONCLUSIVE_FAULT,
        State.INCONCLUSIVE_ORACLE,
        State.INCONCLUSIVE_ENV,
    )
    assert aggregate([env, oracle, fault_]) is fault_
    assert aggregate([env, oracle, State.NOT_RUN]) is oracle
    assert aggregate([env, State.NOT_RUN]) is env


def test_no_arms_is_an_error() -> None:
    with pytest.raises(ValueError, match="no arm"):
        aggregate([])


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        (("kill",), True),
        (("partition", "rolling"), True),
        (("partition", "pause"), False),
        (("kill", "power"), False),
    ],
)
def test_a_pass_after_kills_says_that_durability_was_not_tested(
    kinds: tuple[str, ...], said: bool
) -> None:
    faults = [
        FaultEvidence(id=f"f{i}", nemesis=kind, landed="yes", heal_verified=True)
        for i, kind in enumerate(kinds)
    ]
    verdict = decide(but(faults=faults, faults_planned=len(faults)))
    assert verdict.verdict.value.startswith("PASS")
    assert any("Durability" in text for text in verdict.why_not_better) is said
