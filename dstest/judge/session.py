"""What an arm's evidence is worth among the other arms of its session.

An arm is one run: a seed at a cluster size. Alone it can be no more than a smoke pass, since one
seed, one size and perhaps one direction of partition say little. Among its session's arms these
rows are asked again, with all of them in view; everything else stays as the arm's own judge saw it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from dstest.core.evidence import TIERS, AuditRow, Evidence, Tier
from dstest.core.verdict import State, Verdict
from dstest.judge.audit import agreeing_row, alike_row, budget_row, seeds_row, sizes_row
from dstest.judge.audit_rows import ok
from dstest.judge.decide import Session, aggregate_seeds, decide, session, session_exit_code
from dstest.judge.facts import budgets

BASELINE: Final = "baseline"
"""Key of `ArmEvidence.conditions`: what was measured before the first fault, in words."""

_ALIKE: Final = (
    "dstest", "python", "kernel", "cpus", "system_version", "options", "plugin_files",
)  # fmt: skip
"""Keys of `ArmEvidence.conditions`, in the words of the report."""


class ArmEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """One arm. `evidence` is None where it never ran or nothing could be judged; `why` says why.

    `alone` is the state that its own verdict has. `earlier` are the states of attempts at this arm
    before the one that counts; a violation among them is never forgotten. `conditions` are the
    facts that must be the same in all arms for them to be counted together.
    """

    id: str
    seed: int
    nodes: int
    alone: State
    evidence: Evidence | None = None
    earlier: list[State] = msgspec.field(default_factory=list)
    conditions: dict[str, Any] = msgspec.field(default_factory=dict)
    why: str = ""


class ArmVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """An arm's state among the others, and why it is no better."""

    id: str
    seed: int
    nodes: int
    state: State
    rule: str
    reason: str
    why_not_better: list[str] = msgspec.field(default_factory=list)
    earlier: list[State] = msgspec.field(default_factory=list)


class SessionVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The session as a whole: `outcome` as people act on it, `state` over all arms."""

    outcome: Literal["FAIL", "DONE", "DONE_WITH_CONCERNS", "INCONCLUSIVE", "BLOCKED"]
    state: State
    reason: str
    tier_wanted: Tier
    tier_met: Tier
    seeds_agreeing: int
    sizes: list[int]
    arms: list[ArmVerdict]
    exit_code: int


def judge_session(arms: Sequence[ArmEvidence], tier: Tier) -> SessionVerdict:
    """The verdict over all arms, those that were planned and never ran included."""
    among = evidence_among(arms, tier)
    rows, met = [], []
    for arm in arms:
        evidence = among.get(arm.id)
        if evidence is None:
            rows.append(
                ArmVerdict(
                    id=arm.id,
                    seed=arm.seed,
                    nodes=arm.nodes,
                    state=arm.alone,
                    rule="",
                    reason=arm.why or "It was planned and never run.",
                    earlier=arm.earlier,
                )
            )
            continue
        met.append(evidence.budget.met)
        rows.append(_row(arm, decide(evidence)))
    states = [row.state for row in rows] + [s for arm in arms for s in arm.earlier if s.failed]
    state = aggregate_seeds(states)
    lowest = min(met, key=TIERS.index) if len(met) == len(arms) and met else "none"
    outcome = session(states)
    if outcome == "DONE" and not _reaches(state, lowest, tier):
        outcome = "DONE_WITH_CONCERNS"
    return SessionVerdict(
        outcome=outcome,
        state=state,
        reason=_reason(outcome, state, rows, tier, lowest),
        tier_wanted=tier,
        tier_met=lowest,
        seeds_agreeing=_agreeing(arms),
        sizes=_sizes(arms),
        arms=rows,
        exit_code=session_exit_code(outcome),
    )


def evidence_among(arms: Sequence[ArmEvidence], tier: Tier) -> dict[str, Evidence]:
    """By arm its evidence, with the rows that look at more than one run asked again."""
    seeds, sizes = _agreeing(arms), _sizes(arms)
    differences, one_way = _differences(arms), _one_way(arms)
    measured = _measured(arms)
    return {
        arm.id: _among(arm.evidence, tier, seeds, sizes, differences, one_way, measured)
        for arm in arms
        if arm.evidence is not None
    }


def _sizes(arms: Sequence[ArmEvidence]) -> list[int]:
    return sorted({arm.nodes for arm in arms if arm.evidence is not None})


def _reaches(state: State, met: Tier, wanted: Tier) -> bool:
    enough = state is State.PASS_HARDENING or (wanted == "smoke" and state.passed)
    return enough and TIERS.index(met) >= TIERS.index(wanted)


def _row(arm: ArmEvidence, verdict: Verdict) -> ArmVerdict:
    return ArmVerdict(
        id=arm.id,
        seed=arm.seed,
        nodes=arm.nodes,
        state=verdict.verdict,
        rule=verdict.rule,
        reason=verdict.reason,
        why_not_better=verdict.why_not_better,
        earlier=arm.earlier,
    )


def _agreeing(arms: Sequence[ArmEvidence]) -> int:
    """Seeds that ran at the largest size, and of which no arm did anything but pass."""
    largest = max((arm.nodes for arm in arms), default=0)
    by_seed: dict[int, list[State]] = {}
    for arm in arms:
        by_seed.setdefault(arm.seed, []).append(arm.alone)
        by_seed[arm.seed] += [state for state in arm.earlier if state.failed]
    wanted = {arm.seed for arm in arms if arm.nodes == largest}
    return sum(1 for seed in wanted if all(state.passed for state in by_seed[seed]))


def _differences(arms: Sequence[ArmEvidence]) -> list[str] | None:
    ran = [arm for arm in arms if arm.evidence is not None]
    if len(ran) < 2:
        return None
    first = ran[0].conditions
    return [
        f"{key} ({ran[0].id}: {first.get(key)}, {arm.id}: {arm.conditions.get(key)})"
        for key in _ALIKE
        for arm in ran[1:]
        if arm.conditions.get(key) != first.get(key) or first.get(key) is None
    ]


def _measured(arms: Sequence[ArmEvidence]) -> str:
    """The baselines that were measured, of arms that were sampled."""
    told = [
        f"{arm.id} {said}"
        for arm in arms
        if arm.evidence is not None and (said := arm.conditions.get(BASELINE))
    ]
    return f"; measured baselines: {', '.join(told)}" if told else ""


def _one_way(arms: Sequence[ArmEvidence]) -> str | None:
    """An arm in which a partition of one direction has landed."""
    return next(
        (arm.id for arm in arms if arm.evidence and _status(arm.evidence, "WO7") == "ok"), None
    )


def _status(evidence: Evidence, row: str) -> str | None:
    found = evidence.weak_audit.get(row)
    return None if found is None else found.status


def _among(
    evidence: Evidence,
    tier: Tier,
    seeds: int,
    sizes: Sequence[int],
    differences: list[str] | None,
    one_way: str | None,
    baselines: str,
) -> Evidence:
    """`evidence` with the rows that look at more than one run asked again."""
    measured = {**evidence.budget.measured, "seeds": float(seeds), "nodes": float(max(sizes))}
    budget = budgets(measured, nemesis=evidence.fault_planned)
    red: Mapping[str, AuditRow] = {
        "RF6": budget_row(budget, tier),
        "RF9": alike_row(differences, baselines),
        "RF10": seeds_row(seeds),
    }
    weak = {"WO10": sizes_row(sizes), "WO11": agreeing_row(seeds)}
    if one_way is not None and _status(evidence, "WO7") == "short":
        weak["WO7"] = ok(f"partitions of one direction landed in {one_way}")
    return msgspec.structs.replace(
        evidence,
        redflags={**evidence.redflags, **red},
        weak_audit={**evidence.weak_audit, **weak},
        budget=budget,
    )


def _reason(
    outcome: Session, state: State, arms: Sequence[ArmVerdict], tier: Tier, met: Tier
) -> str:
    count = f"{len(arms)} arms" if len(arms) > 1 else "1 arm"
    failed = [arm for arm in arms if any(s.failed for s in arm.earlier)]
    if state.failed and failed and not any(arm.state.failed for arm in arms):
        return f"{failed[0].id} of {count}: an earlier attempt at it ended {state.value}."
    worst = [arm for arm in arms if arm.state is state] or list(arms)
    if outcome == "DONE":
        tail = "; the release budget was met as well" if met == "release" else ""
        return f"All of {count} ended {state.value}{tail}."
    if state.passed:
        return f"All of {count} passed, but the {tier} budget was asked for and {met} was met."
    return f"{worst[0].id} of {count}: {worst[0].reason}"
