"""What ran, claim by claim and hypothesis by hypothesis: coverage, adequacy, confidence."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from dstest.core.verdict import State
from dstest.plans.model import Adequacy, Plan, Scenario, Threat
from dstest.report.review.confidence import confidence_of
from dstest.report.review.model import AdequacyRow, Confidence, CoverageRow

States = Mapping[str, State]
"""The verdict of each scenario that was asked for; arms are folded."""


def _said(scenarios: Sequence[str], states: States) -> str:
    return ", ".join(
        f"{id} {states[id].value if id in states else 'not asked for'}" for id in scenarios
    )


def _of(scenarios: Collection[Scenario], states: States) -> list[State]:
    return [states.get(one.id, State.NOT_RUN) for one in scenarios]


def coverage(plan: Plan, states: States) -> tuple[CoverageRow, ...]:
    """Each hypothesis: what became of the scenarios that close it, or why there is none."""
    rows = []
    for hypothesis in plan.hypotheses:
        closing = [one for one in plan.scenarios if hypothesis.id in one.closes]
        found = _of(closing, states)
        if not closing:
            result = "not exercised: no scenario closes it"
        elif any(state.failed for state in found):
            result = "falsified: a violation was observed"
        elif all(state.passed for state in found):
            result = "not falsified by what ran"
        else:
            lacking = [one.id for one in closing if not states.get(one.id, State.NOT_RUN).passed]
            result = f"not exercised to the end: {', '.join(lacking)}"
        rows.append(
            CoverageRow(
                hypothesis=hypothesis.id,
                statement=hypothesis.statement,
                scenarios=_said([one.id for one in closing], states) or "no scenario",
                result=result,
            )
        )
    return tuple(rows)


def adequacy(plan: Plan, states: States) -> tuple[AdequacyRow, ...]:
    """Each claim of section 7b after the run. A threat is covered where one of its scenarios ended
    as PASS-hardening or with a violation; a claim of which a scenario did not deliver is not
    adequately tested, whatever the others say."""
    return tuple(_adequate(plan, row, states) for row in plan.adequacy)


def _adequate(plan: Plan, row: Adequacy, states: States) -> AdequacyRow:
    mine = [one for one in plan.scenarios if row.claim in one.falsifies]
    open_ = [t for t in row.threats if not _covered(t, states)]
    undelivered = [
        one.id
        for one in mine
        if not (state := states.get(one.id, State.NOT_RUN)).passed and not state.failed
    ]
    if any(state.failed for state in _of(mine, states)):
        after = "answered: a violation was observed"
    elif undelivered:
        after = f"not enough: {', '.join(undelivered)} did not deliver"
    elif open_ or not row.threats:
        named = ", ".join(f"{t.letter} ({t.text})" for t in open_) or "none is named"
        after = f"not enough: threats without a hardening pass: {named}"
    else:
        after = "adequate for the threats that are named"
    return AdequacyRow(
        claim=row.claim,
        argument=row.why,
        ran=_said([one.id for one in mine], states) or "nothing",
        after=after,
    )


def _covered(threat: Threat, states: States) -> bool:
    found = [states[id] for id in threat.scenarios if id in states]
    return any(state is State.PASS_HARDENING or state.failed for state in found)


def confidence(plan: Plan, states: States) -> tuple[Confidence, ...]:
    """Each claim in one of the three lists."""
    rows = []
    for claim in plan.claims:
        mine = [one for one in plan.scenarios if claim.id in one.falsifies]
        asked = [states[one.id] for one in mine if one.id in states]
        change, why = confidence_of(asked)
        rows.append(Confidence(claim=claim.id, change=change, why=why))
    return tuple(rows)
