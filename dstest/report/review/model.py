"""What a findings report says (discipline 6.3), of one run or of a plan that was executed."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from dstest.core.verdict import State
from dstest.judge.decide import session, session_exit_code

Change = Literal["MORE", "LESS", "UNCHANGED"]

CONFIDENCE: Final[tuple[Change, ...]] = ("MORE", "LESS", "UNCHANGED")

NO_PLAN: Final = "none, a run by itself"


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the scenario results: an arm, or a scenario with several (`arms` of it).

    `ops` are the operations judged, `landed` and `planned` faults. `artifact` is a path relative to
    the report's directory, empty where there is none.
    """

    id: str
    scenario: str
    verdict: State
    oracle: str
    ops: int
    oracle_evidence: str
    planned: int
    landed: int
    landing_evidence: str
    artifact: str
    arms: tuple[str, ...] = ()


class FindingText(msgspec.Struct, frozen=True, kw_only=True):
    """A violation. `blame` is one of the five classes, or unknown with the probes that are still to
    be run; `taxdc` a type, or why it is not known, and `reasons` why so; `probes` are rows of
    `report.blame.PROBE_COLUMNS`; `reduction` says from how many to how many, or why not."""

    id: str
    result: str
    title: str
    hypotheses: str
    happened: str
    counted: tuple[str, ...]
    fault_proven: bool
    blame: str
    taxdc: str
    tags: str
    severity: str
    reasons: tuple[str, ...]
    probes: tuple[tuple[str, ...], ...]
    reduction: str
    reproducer: str
    evidence: tuple[str, ...]
    witness: tuple[str, ...]
    cause: str
    next_action: str


class CoverageRow(msgspec.Struct, frozen=True, kw_only=True):
    """A hypothesis, the scenarios that close it with their verdicts, or why it was not tested."""

    hypothesis: str
    statement: str
    scenarios: str
    result: str


class SurfaceRow(msgspec.Struct, frozen=True, kw_only=True):
    """An arm that was planned: whether it ran, with what, and why it is worth less."""

    arm: str
    surface: str
    executed: bool
    verdict: State
    reason: str


class Disclosure(msgspec.Struct, frozen=True, kw_only=True):
    """What a scenario says in the place of a release budget."""

    scenario: str
    text: str


class AdequacyRow(msgspec.Struct, frozen=True, kw_only=True):
    """A claim: why the plan holds its scenarios for enough, what ran, and what that amounts to."""

    claim: str
    argument: str
    ran: str
    after: str


class Confidence(msgspec.Struct, frozen=True, kw_only=True):
    """A claim: is it believed more than before, or less? And why."""

    claim: str
    change: Change
    why: str


class AuditLine(msgspec.Struct, frozen=True, kw_only=True):
    """RF1 to RF10, WO1 to WO14."""

    id: str
    title: str
    status: str
    evidence: str


class Green(msgspec.Struct, frozen=True, kw_only=True):
    """The audit of one result: could it be green and broken?"""

    result: str
    rows: tuple[AuditLine, ...]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A whole report. `under_test` are the versions or the commit that ran; `place` its directory.
    `pending`: steps that are not done, so that the report is one of a part."""

    name: str
    plan: str
    under_test: tuple[str, ...]
    system: str
    place: str
    headline: str
    results: tuple[Result, ...]
    findings: tuple[FindingText, ...]
    notes: tuple[str, ...]
    coverage: tuple[CoverageRow, ...]
    surfaces: tuple[SurfaceRow, ...]
    disclosures: tuple[Disclosure, ...]
    adequacy: tuple[AdequacyRow, ...]
    confidence: tuple[Confidence, ...]
    greens: tuple[Green, ...]
    facts: tuple[tuple[str, str], ...] = ()
    wanted: str = "smoke"
    pending: tuple[str, ...] = ()
    besides: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Sections of its own, (title, lines) as they are to stand there."""
    never_red: tuple[str, ...] = ()
    """Arms that passed, of a claim that only a history can falsify, and that nobody has seen
    fail."""
    red_results: tuple[str, ...] = ()
    """Runs and sessions that were to fail by a known bug, and did."""

    @property
    def leaves(self) -> tuple[Result, ...]:
        """The results that are not made of others."""
        return tuple(row for row in self.results if not row.arms)

    @property
    def outcome(self) -> str:
        """The session verdict (discipline 2.5). Above smoke a smoke pass is less than was asked;
        and so is, always, a pass of what nobody has seen fail."""
        states = [row.verdict for row in self.leaves]
        word = session(states) if states else "BLOCKED"
        if word == "DONE" and (self.pending or self.never_red or self._less(states)):
            return "DONE_WITH_CONCERNS"
        return word

    def _less(self, states: list[State]) -> bool:
        return self.wanted != "smoke" and State.PASS_SMOKE in states

    @property
    def exit_code(self) -> int:
        word = self.outcome
        return int(session_exit_code(word))  # type: ignore[arg-type]
