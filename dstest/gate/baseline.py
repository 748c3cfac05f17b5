"""Is what is released worse than what was before? Runs of an earlier store against those of now.

Fair only where all but what differs on purpose is equal (RF9, `compare/fair.py`), and worth
something only by intervals over several runs a side (`compare/intervals.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from dstest.compare.fair import differences, same_in, side_of
from dstest.compare.intervals import Difference
from dstest.compare.measured import differences_of
from dstest.core.errors import DstestError
from dstest.gate.claims import Answer, Count
from dstest.gate.fits import same_words
from dstest.gate.judged import Gathered, JudgedRun
from dstest.gate.policy import Baseline, Claim, Policy
from dstest.gate.rules import Finding
from dstest.gate.twice import left_out

_ID = "baseline"


def baseline_answer(policy: Policy, earlier: Gathered, answers: Sequence[Answer]) -> Answer:
    """The comparison of each claim that the policy names; `earlier` is what lies in the stores of
    the baseline, which has to be as honest as the rest."""
    asked = policy.baseline
    assert asked is not None
    findings = [*earlier.findings]
    said = []
    counts = []
    for claim in policy.claim:
        if claim.id not in asked.claims:
            continue
        counted = next(answer.counted for answer in answers if answer.id == claim.id)
        told = list(_of_claim(asked, claim, earlier, counted))
        findings += [finding for finding, _ in told if finding is not None]
        said += [f"{claim.id}: {text}" for _, text in told if text]
        there = (len(_of_size(_before(earlier, claim), claim)), len(_of_size(counted, claim)))
        name = f"{claim.id}: runs before, runs now"
        counts.append(Count(name, f"{asked.runs}, {asked.runs}", f"{there[0]}, {there[1]}"))
    return Answer(
        id=_ID,
        text=f"nothing is worse than before by more than {asked.tolerance:.0%}",
        said="; ".join(said) or "nothing was compared",
        findings=tuple(findings),
        counts=tuple(counts),
    )


Told = tuple[Finding | None, str]


def _of_claim(
    asked: Baseline, claim: Claim, earlier: Gathered, counted: Iterable[JudgedRun]
) -> Iterator[Told]:
    before = _before(earlier, claim)
    sides = (_of_size(before, claim), _of_size(counted, claim))
    fewest = min(map(len, sides))
    if fewest < asked.runs:
        what = (
            f"{len(sides[0])} runs of before and {len(sides[1])} of now on {claim.sizes[0]} nodes,"
            f" {asked.runs} of each are asked for"
        )
        yield Finding(rule="G34", what=f"{claim.id}: {what}", of=_ID), ""
        return
    try:
        pair = (side_of("before", sides[0]), side_of("now", sides[1]))
    except DstestError as error:
        what = f"{claim.id}: a run cannot be compared: {error.message}"
        yield Finding(rule="G34", what=what, of=_ID), ""
        return
    unfair = differences(pair, asked.differing)
    if unfair:
        yield Finding(rule="G34", what=f"{claim.id}: not fair: {'; '.join(unfair[:5])}", of=_ID), ""
        return
    same = same_in(pair, asked.differing)
    if asked.differing and same == [*asked.differing]:
        what = f"nothing differs that is meant to: {', '.join(same)} is the same before and now"
        yield Finding(rule="G34", what=f"{claim.id}: {what}", of=_ID), what
        return
    if same:
        yield None, f"{', '.join(same)} is the same before and now, and was meant to differ"
    rows = differences_of(
        *pair,
        asked.metrics,
        tolerance=asked.tolerance,
        confidence=asked.confidence,
        comparisons=len(asked.metrics) * len(asked.claims),
    )
    for row in rows:
        yield _judged(claim, row)


def _before(earlier: Gathered, claim: Claim) -> list[JudgedRun]:
    found = [
        run
        for unit in earlier.units
        if unit.begun
        for run in unit.runs
        if same_words(run.meta, claim)
    ]
    again = left_out(found, earlier.same)
    return [run for run in found if run.path not in again]


def _of_size(runs: Iterable[JudgedRun], claim: Claim) -> list[Path]:
    return [run.path for run in runs if len(run.meta.members or run.meta.nodes) == claim.sizes[0]]


def _judged(claim: Claim, row: Difference) -> Told:
    low, high = row.ratio_interval
    said = (
        f"{row.metric} {row.baseline:.4g} before, {row.candidate:.4g} now, ratio"
        f" {row.ratio:.3f} ({low:.3f} to {high:.3f}): {row.judgement}"
    )
    if row.judgement == "worse":
        return Finding(rule="G35", what=f"{claim.id}: {said}", of=_ID), said
    if row.judgement == "unknown":
        return Finding(rule="G34", what=f"{claim.id}: {said}; {row.why}", of=_ID), said
    return None, said
