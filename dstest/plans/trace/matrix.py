"""The matrix of a plan: what is required, which claims stand for it, which invariants say so, which
scenarios execute these, and what that has shown. A hole is a place where the chain is not whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from dstest.core.errors import ConfigError, Exit
from dstest.judge.decide import aggregate
from dstest.plans.execution.red import NEVER
from dstest.plans.execution.state import ExecutionDir
from dstest.plans.model import Claim, Invariant, Plan, Scenario
from dstest.plans.review.gather import Judged, judged_in
from dstest.plans.trace.executed import Conformance, Executed, Executor, executor_of
from dstest.plans.trace.stated import stated

NOTHING: Final = "-"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A chain, by ids; `-` where a part of it is not there. `evidence` is the scenario's verdict,
    and how often the invariant was asked in its runs."""

    requirement: str
    claim: str
    invariant: str
    scenario: str
    evidence: str


class Traced(msgspec.Struct, frozen=True, kw_only=True):
    """`holes` name each place where something is missing, `violations` what was shown false."""

    rows: tuple[Row, ...]
    holes: tuple[str, ...]
    violations: tuple[str, ...]

    @property
    def exit_code(self) -> Exit:
        if self.violations:
            return Exit.FAIL
        return Exit.NOT_PROVEN if self.holes else Exit.PASS


def trace(plan: Plan, directory: ExecutionDir | None) -> Traced:
    """The matrix of a plan and one execution of it; without one, no scenario has evidence.

    Raises ConfigError where the execution is one of another plan, EvidenceError as `judged_in`.
    """
    judged: dict[str, list[Judged]] = {}
    if directory is not None:
        _, executed, arms = judged_in(directory)
        if executed.sha256 != plan.sha256:
            raise ConfigError(
                f"{directory.path} is an execution of another plan, or of an earlier text of this",
                remedy="dstest plan run executes the plan as it is",
            )
        for arm in arms:
            judged.setdefault(arm.scenario.id, []).append(arm)
    return _Matrix(plan, judged).traced()


class _Matrix:
    """Of a plan whose arms were read again, by the ids of their scenarios."""

    def __init__(self, plan: Plan, judged: Mapping[str, Sequence[Judged]]) -> None:
        self._plan = plan
        self._judged = judged
        self._holes: list[str] = []
        self._violations: list[str] = []
        self._executors: dict[str, Executor] = {}
        self._held = Conformance()
        self._shown: dict[tuple[str, str], Executed] = {}

    def traced(self) -> Traced:
        plan = self._plan
        self._holes += [hole for one in plan.obligations for hole in stated(plan, one)]
        if not plan.obligations:
            self._holes.append("the plan states no requirement: section 1b has no table of them")
        if not plan.invariants:
            self._holes.append("the plan states no invariant: section 1b has no table of them")
        for invariant in plan.invariants:
            self._invariant(invariant)
        for scenario in plan.scenarios:
            self._scenario(scenario)
        for claim in plan.claims:
            self._holes += self._of_claim(claim)
        self._holes += self._unexecuted()
        return Traced(
            rows=tuple(self._rows()),
            holes=tuple(dict.fromkeys(self._holes)),
            violations=tuple(dict.fromkeys(self._violations)),
        )

    def _invariant(self, one: Invariant) -> None:
        try:
            self._executors[one.id] = executor_of(one, self._held)
        except ConfigError as error:
            self._holes.append(f"{error.message}: {error.remedy}")
        if not one.claims:
            self._holes.append(f"{one.id} is an invariant of no claim")
        for id in one.claims:
            if self._plan.claim(id) is None:
                self._holes.append(f"{one.id} cites {id}, and there is no such claim")

    def _scenario(self, one: Scenario) -> None:
        known = {invariant.id for invariant in self._plan.invariants}
        for id in one.falsifies:
            if self._plan.claim(id) is None:
                self._holes.append(f"{one.id} cites {id}, and there is no such claim")
        for id in one.invariants:
            if id not in known:
                self._holes.append(f"{one.id} names {id}, and there is no such invariant")
        arms = self._judged.get(one.id, ())
        runs = [run for arm in arms for run in arm.outcome.runs]
        for id, executor in self._executors.items():
            if id in one.invariants and runs:
                shown = self._shown[one.id, id] = executor(runs)
                if shown.broken:
                    self._violations.append(f"{id} is violated in {one.id}: {shown.said}")
        self._holes += self._without_evidence(one, arms)

    def _without_evidence(self, one: Scenario, arms: Sequence[Judged]) -> Iterator[str]:
        if not arms:
            yield f"{one.id} is a scenario without evidence: never executed"
            return
        state = aggregate([arm.outcome.state for arm in arms])
        if state.failed:
            self._violations.append(f"{one.id} came to {state.value}")
        elif not state.passed:
            why = next((a.outcome.reason for a in arms if not a.outcome.state.passed), "")
            yield f"{one.id} is a scenario without evidence: {state.value}: {why}"
        elif self._plan.serious(one) and any(arm.red.answer != "red" for arm in arms):
            yield f"{one.id} is a scenario without evidence: {NEVER}"

    def _of_claim(self, claim: Claim) -> Iterator[str]:
        plan = self._plan
        scenarios = [one for one in plan.scenarios if claim.id in one.falsifies]
        invariants = {one.id for one in plan.invariants if claim.id in one.claims}
        if not scenarios:
            yield f"{claim.id} is a claim without a scenario"
        if plan.invariants and not invariants:
            yield f"{claim.id} is a claim without an invariant"
        elif invariants and scenarios and not any({*s.invariants} & invariants for s in scenarios):
            named = ", ".join(one.id for one in scenarios)
            yield f"{claim.id}: {named} executes no invariant of it"
        asked = any(claim.id in one.claims for one in plan.obligations)
        if plan.obligations and not asked and not claim.inferred:
            yield f"{claim.id} is a claim that no requirement asks for"

    def _unexecuted(self) -> Iterator[str]:
        for one in self._plan.invariants:
            by = [s for s in self._plan.scenarios if one.id in s.invariants]
            if not by:
                yield f"{one.id} is an invariant that no scenario executes"
            for scenario in by:
                shown = self._shown.get((scenario.id, one.id))
                if shown is not None and not shown.asked and not shown.broken:
                    yield f"{one.id} was not executed in {scenario.id}: {shown.said}"

    def _rows(self) -> Iterator[Row]:
        plan = self._plan
        asked = {id for one in plan.obligations for id in one.claims}
        chains = [(one.id, id) for one in plan.obligations for id in one.claims or (NOTHING,)]
        chains += [(NOTHING, claim.id) for claim in plan.claims if claim.id not in asked]
        for requirement, claim in chains:
            for invariant, scenario in self._links(claim):
                yield Row(
                    requirement=requirement,
                    claim=claim,
                    invariant=invariant,
                    scenario=scenario,
                    evidence=self._evidence(scenario, invariant),
                )

    def _links(self, claim: str) -> list[tuple[str, str]]:
        """(invariant, scenario) of a claim; what is joined to nothing stands there all the same."""
        scenarios = [one for one in self._plan.scenarios if claim in one.falsifies]
        invariants = [one.id for one in self._plan.invariants if claim in one.claims]
        pairs = [(id, one.id) for one in scenarios for id in invariants if id in one.invariants]
        lone = [id for id in invariants if id not in {pair[0] for pair in pairs}]
        rest = [one.id for one in scenarios if one.id not in {pair[1] for pair in pairs}]
        pairs += [(id, NOTHING) for id in lone] + [(NOTHING, id) for id in rest]
        return pairs or [(NOTHING, NOTHING)]

    def _evidence(self, scenario: str, invariant: str) -> str:
        arms = self._judged.get(scenario, ())
        if not arms:
            return NOTHING
        shown = self._shown.get((scenario, invariant))
        said = "" if shown is None else f", {shown.said}"
        red = "" if all(arm.red.answer == "red" for arm in arms) else f", {NEVER}"
        return f"{aggregate([arm.outcome.state for arm in arms]).value}{red}{said}"
