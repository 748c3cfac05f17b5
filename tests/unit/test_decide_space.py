"""The decision table over its whole input space, against a second statement of itself."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from made_evidence import (
    BUDGETS,
    but,
    checker,
    fault,
    flags,
    short,
)

from dstest.core.evidence import Evidence, Lint, Rerun, Tier
from dstest.core.verdict import State
from dstest.judge.decide import RED_FLAGS, RULES, WEAK_ITEMS, Rule, View, decide, match, view

pytestmark = pytest.mark.slow

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
        never = msgspec.structs.replace(RULES[index], when=lambda v: False)
        rules = [*RULES[:index], never, *RULES[index + 1 :]]
        evidence = msgspec.structs.replace(short("RF2"), checker=checker(canary_killed=0))
        assert rules[match(view(evidence), rules)].state is not State.PARTIAL_SURFACE
        return
    rules = [*RULES[:index], *RULES[index + 1 :]]
    assert noticed(rules)
