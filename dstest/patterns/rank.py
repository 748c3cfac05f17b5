"""Hypotheses: what was found of each pattern, the likeliest cause first.

A hypothesis has four scores from 0 to 1, each with its reason in words, and stands by their
weighted sum. Source of the four: discipline 7.2, Hypothesise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from dstest.logs.findings import Severity
from dstest.patterns.model import AT_STAKE, STRENGTHS, Answer, Detection, Family, Pattern, Strength

WEIGHTS: Final[Mapping[str, float]] = {
    "evidence": 0.5,
    "likelihood": 0.25,
    "impact": 0.15,
    "testability": 0.1,
}
"""What is there weighs as much as all else: a grave cause without evidence is a worry. Whether it
fits comes next, then how bad it would be, then how soon one would know."""

EVIDENCE: Final[Mapping[Strength, float]] = {
    "proven": 1.0,
    "strong": 0.7,
    "indicated": 0.4,
    "weak": 0.15,
}
"""Of the strongest sign. Several of a lesser strength do not reach the next one: each further sign
closes a quarter of what is missing to it."""

_STEP: Final = 0.25

LINES: Final = frozenset({"log", "journal", "anomaly", "operation", "span"})
"""Sources of rows that are lines of files, or stand for one."""

IMPACT: Final[Mapping[Severity, float]] = {"critical": 1.0, "high": 0.7, "medium": 0.4, "low": 0.1}


class Score(msgspec.Struct, frozen=True):
    """From 0 to 1, and why."""

    value: float
    why: str


class Hypothesis(msgspec.Struct, frozen=True, kw_only=True):
    """`expected`: faults explain all of it. `total` is the weighted sum of the scores."""

    rank: int
    pattern: str
    number: int
    name: str
    severity: Severity
    expected: bool
    total: float
    scores: dict[str, Score]
    detections: list[Detection]

    @property
    def alarm(self) -> bool:
        return any(one.alarm for one in self.detections)


def ranked(answers: Sequence[Answer], patterns: Sequence[Pattern]) -> list[Hypothesis]:
    """Those that nothing explains first. Of those that stand alike the one is first that shows the
    effect: that what is gone had been acknowledged."""
    by = {pattern.id: pattern for pattern in patterns}
    found = [answer for answer in answers if answer.detections]
    rows = [_hypothesis(by[one.pattern], one, found) for one in found]
    rows.sort(key=lambda h: (h.expected, -h.total, not _acknowledged(h), h.number))
    return [msgspec.structs.replace(one, rank=at) for at, one in enumerate(rows, 1)]


def _acknowledged(one: Hypothesis) -> bool:
    return any(detection.acknowledged for detection in one.detections)


def _hypothesis(pattern: Pattern, answer: Answer, others: Sequence[Answer]) -> Hypothesis:
    expected = all(one.expected for one in answer.detections)
    counted = [one for one in answer.detections if expected or not one.expected]
    worst = min((one.severity for one in counted), key=list(IMPACT).index)
    scores = {
        "evidence": evidence(counted),
        "likelihood": likelihood(counted, others),
        "impact": impact(worst, pattern.family),
        "testability": testability(counted),
    }
    total = sum(WEIGHTS[name] * score.value for name, score in scores.items())
    return Hypothesis(
        rank=0,
        pattern=pattern.id,
        number=pattern.number,
        name=pattern.name,
        severity=worst,
        expected=expected,
        total=round(total, 3),
        scores=scores,
        detections=sorted(counted, key=lambda one: STRENGTHS.index(one.strength)),
    )


def evidence(found: Sequence[Detection]) -> Score:
    """By the strongest sign, and by how many others agree that were read from other records."""
    signs: dict[str, Strength] = {}
    for one in found:
        best = signs.get(one.basis, one.strength)
        signs[one.basis] = min(best, one.strength, key=STRENGTHS.index)
    strengths = sorted(signs.values(), key=STRENGTHS.index)
    best = strengths[0]
    at = STRENGTHS.index(best)
    room = (EVIDENCE[STRENGTHS[at - 1]] if at else 1.0) - EVIDENCE[best]
    more = sum(room * _STEP * (1 - _STEP) ** n for n in range(len(strengths) - 1))
    others = f", with {len(strengths) - 1} more" if len(strengths) > 1 else ""
    return Score(round(EVIDENCE[best] + more, 3), f"the strongest sign is {best}{others}")


def likelihood(found: Sequence[Detection], others: Sequence[Answer]) -> Score:
    """Does it explain the rest? Causes come before what follows from them: what began first, what
    servers wrote themselves (a mechanism, and not a symptom), and what many signs share."""
    firsts = [one.at_ns for one in found if one.at_ns is not None]
    mechanism = any(row.source in ("journal", "state", "log") for one in found for row in one.rows)
    strongest = min((one.strength for one in found), key=STRENGTHS.index)
    every = [
        one.at_ns
        for answer in others
        for one in answer.detections
        if one.at_ns is not None and not one.expected
    ]
    value, why = 0.3, []
    if mechanism and strongest in ("proven", "strong"):
        value += 0.4
        why.append("servers wrote down the step that went wrong")
    if firsts and every and min(firsts) <= min(every):
        value += 0.15
        why.append("nothing else began before it")
    if sum(one.count for one in found) > 1:
        value += 0.15
        why.append("it came more than once")
    return Score(round(value, 3), ", ".join(why) or "it came once, and shows as a symptom alone")


def impact(severity: Severity, family: Family) -> Score:
    """By severity alone; the words are those of the pattern."""
    return Score(IMPACT[severity], f"{severity} for {AT_STAKE[family]}")


def testability(found: Sequence[Detection]) -> Score:
    """Is there something to run again for: operations, a window, a node?"""
    if any(row.ops for one in found for row in one.rows):
        return Score(1.0, "operations show it: replay and shrink ask whether it comes again")
    if any(row.source in LINES for one in found for row in one.rows):
        return Score(0.7, "lines show it: the same seed tells whether they come again")
    if any(one.in_window for one in found):
        return Score(0.5, "it has a window: the same fault by itself is a test")
    return Score(0.3, "figures alone: a longer run, measured more often")
