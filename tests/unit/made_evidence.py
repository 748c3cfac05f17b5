"""Evidence that earns the best verdict, and ways to change it."""

from __future__ import annotations

from typing import Any

import msgspec

from dstest.core.evidence import (
    AuditRow,
    CheckerEvidence,
    Evidence,
    FaultEvidence,
)
from dstest.judge.decide import RED_FLAGS, WEAK_ITEMS
from dstest.judge.facts import budgets

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
