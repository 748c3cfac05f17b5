"""`Result`: what a run, a session, or something that should be one, came to.

All formats are made of it, so that none of them can show a better verdict than another. It holds
numbers and texts, and no history: a store has more of these than fit into memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from dstest.ci.junit import Kind
from dstest.core.errors import Exit
from dstest.core.verdict import State
from dstest.judge.session import SessionVerdict
from dstest.report.junit import ENDED_EARLY
from dstest.report.numbers import TypeRow

__all__ = [
    "ENDED_EARLY",
    "NOT_BELIEVED",
    "FaultSpan",
    "Result",
    "RunFacts",
    "Violation",
    "passed_of",
]

NOT_BELIEVED: Final = "not-believed"
"""Instead of a verdict: the run is not over, cut off, edited, or cannot be judged."""


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """An anomaly. `told_ns` is when it showed, in run time; `lines` are those of history.jsonl that
    hold its witness, the telling one first, of a long one not all."""

    checker: str
    type: str
    key: str
    explanation: str
    did: str
    means: str
    where: str
    fingerprint: str
    start_ns: int | None = None
    told_ns: int | None = None
    lines: tuple[int, ...] = ()


class FaultSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A fault window, in run time."""

    id: str
    nemesis: str
    kind: str
    targets: str
    landed: str
    heal_verified: bool
    start_ns: int | None
    landed_ns: int | None
    end_ns: int | None


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a run that can be believed says of itself.

    `origin_ns` is when its clock began, in nanoseconds since 1970, None where it did not write that
    down; `end_ns` is the last moment of its history, `load_end_ns` when its load was told to end.
    `counted` are the kinds of anomalies, as (checker, kind, how many), with a witness or not;
    `anomalies` is how many there are in all, those that several checkers found once.
    `settled` are pairs of a heal and when the load went well again, None for never. `steps` are the
    commands to give after a failure.
    """

    run: str
    system: str
    system_version: str
    workload: str
    nemesis: str
    seed: int | None
    nodes: int
    model: str
    dstest: str
    tier_met: str
    tier_wanted: str
    rule: str
    command: str
    headline: str
    exactly: str
    why_not_better: tuple[str, ...]
    fingerprints: tuple[str, ...]
    faults_planned: int
    faults_landed: int
    load_s: float
    origin_ns: int | None
    started: str
    end_ns: int
    load_end_ns: int | None
    types: tuple[TypeRow, ...]
    faults: tuple[FaultSpan, ...]
    violations: tuple[Violation, ...]
    counted: tuple[tuple[str, str, int], ...]
    anomalies: int
    settled: tuple[tuple[int, int | None], ...]
    steps: tuple[str, ...] = ()


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """`state` is None where there is no verdict to believe, and `reason` says why; `exit` is what
    a command that shows it ends with. `arm_of` is the session that the run is an arm of; `same_as`
    the run whose simulation it made again, so that the two are one sample."""

    path: Path
    kind: Literal["run", "session", "other"]
    state: State | None
    reason: str
    exit: int
    run: RunFacts | None = None
    session: SessionVerdict | None = None
    command: str = ""
    arm_of: Path | None = None
    same_as: Path | None = None

    @property
    def green(self) -> bool:
        """A pass, that the judge gave and the files still give, of what was asked for."""
        return self.state is not None and self.state.passed and self.exit == Exit.PASS

    @property
    def word(self) -> str:
        """The verdict, or what stands in its place."""
        if self.state is None:
            return NOT_BELIEVED
        if self.kind == "run" and self.state.passed and not self.green:
            return ENDED_EARLY
        return self.state.value

    @property
    def red(self) -> Kind:
        """As an element of JUnit."""
        if self.green:
            return None
        return "failure" if self.state is not None and self.state.failed else "error"

    @property
    def headline(self) -> str:
        """What the database did wrong, or the reason of the verdict."""
        return (self.run.headline if self.run is not None else "") or self.reason

    @property
    def sentence(self) -> str:
        """What happened, in a sentence."""
        if self.run is not None and self.run.headline:
            again = f"It is {self.same_as} made again." if self.same_as is not None else ""
            return " ".join(filter(None, (self.run.headline, self.run.exactly, again)))
        return self.reason


def passed_of(results: Sequence[Result]) -> str:
    """How many passed, in words; a simulation that was made again counts once."""
    samples = [one for one in results if one.same_as is None]
    said = f"{sum(one.green for one in samples)} of {len(samples)} passed"
    more = len(results) - len(samples)
    if more:
        said += f"; {more} more {'is' if more == 1 else 'are'} a simulation made again"
    return said
