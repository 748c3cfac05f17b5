"""Were known bugs found, by the same version, on the same host, not long ago; and is what is
released worse than what was before?

A known bug comes in some runs and not in others: a control that found it in enough of them holds. A
comparison with a baseline is fair only where all but what differs on purpose is equal (RF9), and
worth something only by intervals over several runs a side (`store/compare`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from dstest.core.errors import DstestError, Exit
from dstest.core.fingerprint import showing
from dstest.core.rates import Rate, interval
from dstest.gate.claims import (
    VIOLATED,
    Answer,
    Count,
    alike,
    fitting,
    with_near_misses,
)
from dstest.gate.gather import JudgedRun, StoreEvidence, anomalies_in, unproven
from dstest.gate.policy import Baseline, Claim, Control, Finding, Policy, Rule
from dstest.gate.provenance import left_out
from dstest.gate.relevance import of_test, same_words
from dstest.gate.supply import Supply, for_control, like_of
from dstest.store.compare.intervals import Difference
from dstest.store.compare.measured import differences, differences_of, same_in, side_of

_ID = "baseline"
Comparison = tuple[Finding | None, str]


def control_answer(
    gathered: StoreEvidence, control: Control, policy: Policy, now_ns: int
) -> Answer:
    """Everything that stands against a control."""
    units, aside, again = fitting(gathered, control, policy, now_ns)
    runs = [run for unit in units for run in unit.runs]
    red = control.expect == "red"
    good = [run for run in runs if not any(_misses((run, control)))]
    seeds = len({run.meta.spec.get("seed") for run in good})
    found = interval(len(good), len(runs))
    wrong = [finding for run in runs for finding in _wrong(run, control)]
    missed = [run for run in runs if red and _missed(run)]
    enough = seeds >= control.seeds and len(good) >= control.share * len(runs)
    remark = ""
    only_missed = len(good) + len(missed) == len(runs)
    if missed and enough and only_missed:
        wrong = []
        remark = f"{control.id}: its bug was missed in {len(missed)} of {len(runs)} runs"
    if not red:
        # An attempt that died has come to no pass, and may have found a violation all the same.
        died = [run for unit in units for run in unit.earlier if run.verdict.verdict.failed]
        wrong += [finding for run in died for finding in _wrong(run, control)]
        wrong += unproven((r for r in gathered.runs if of_test(r.meta, control)), control.id)
    few = MANY.findings((seeds, control), control.id)
    more = _more(control, seeds, len(good), len(runs)) if only_missed else 0
    short = with_near_misses(few, aside, nothing=not good)
    share = f" ({len(good) / len(runs):.0%}, {found.low:.0%} to {found.high:.0%})" if missed else ""
    counts = [Count("seeds", str(control.seeds), str(seeds))]
    if red:
        counts.append(Count("runs that find it", f"{control.share:.0%}", _of(found)))
    return Answer(
        id=control.id,
        text=control.text,
        said=f"{len(good)} of {len(runs)} runs {'found the bug' if red else 'passed'}{share}",
        findings=tuple(wrong or short),
        counted=tuple(good),
        counts=tuple(counts),
        near=tuple(aside),
        remark=remark,
        supply=for_control(control, more, like_of(alike(control, gathered, runs)))
        if more
        else Supply(""),
        again=again,
    )


def _more(control: Control, seeds: int, good: int, runs: int) -> int:
    """How many more runs that do as they must supply what a control lacks; 0 where none can: a bug
    that has to be found by all runs was missed by one."""
    short = control.share * runs - good
    if short > 0 and control.share >= 1:
        return 0
    for_share = math.ceil(short / (1 - control.share)) if short > 0 else 0
    return max(control.seeds - seeds, for_share, 0)


def _of(found: Rate) -> str:
    """A share with Wilson's interval of 95 %."""
    if not found.total:
        return "no run"
    share = found.hits / found.total
    return (
        f"{found.hits} of {found.total}: {share:.0%} ({found.low:.0%} to {found.high:.0%} at 95 %)"
    )


def _wrong(run: JudgedRun, control: Control) -> list[Finding]:
    by = SHOWN if control.expect == "red" else PASSED
    wrong = by.findings((run, control), control.id, run.path)
    if by is PASSED and run.verdict.verdict.failed:
        return [replace(finding, rule=VIOLATED.id) for finding in wrong]
    return wrong


def _few(seen: tuple[int, Control]) -> Iterator[str]:
    seeds, control = seen
    if seeds < control.seeds:
        yield f"{seeds} of {control.seeds} seeds"


def _missed(run: JudgedRun) -> bool:
    """Did it just not find anything? One that failed by another anomaly is no such run."""
    return not run.verdict.verdict.failed


def _misses(seen: tuple[JudgedRun, Control]) -> Iterator[str]:
    """Why a run did not do what this control is there for."""
    run, control = seen
    told = f"{run.verdict.verdict.value}: {run.verdict.reason}"
    if control.expect == "green":
        if not run.passes:
            yield f"it has to pass, and came to {told}"
        return
    if _missed(run):
        yield f"its bug was not found; it came to {told}"
        return
    found, evidence = anomalies_in(run.verdict), run.evidence
    how = showing(
        found,
        control.anomalies,
        control.beside,
        planned=evidence.fault_planned,
        landed=sum(fault.landed == "yes" for fault in evidence.faults),
        by_fault=control.by_fault,
    )
    match how:
        case "missed":
            named = ", ".join(sorted(found)) or "none"
            yield f"it failed by {named}, and its bug shows as {', '.join(control.anomalies)}"
        case "other-bug":
            strange = sorted(found - {*control.anomalies, *control.beside})
            yield f"it failed by {', '.join(strange)}, which is not known of its bug"
        case "no-fault":
            yield "it failed, and none of its faults is proven to have landed"
        case "shown":
            return


SHOWN: Final = Rule("G30", "Each known bug was found, by the anomaly that it shows", _misses)
PASSED: Final = Rule("G31", "Each control without a bug passed", _misses)
MANY: Final = Rule("G32", "There are so many runs of each control", _few)


def baseline_answer(policy: Policy, earlier: StoreEvidence, answers: Sequence[Answer]) -> Answer:
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


def _of_claim(
    asked: Baseline, claim: Claim, earlier: StoreEvidence, counted: Iterable[JudgedRun]
) -> Iterator[Comparison]:
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
        yield _comparison(claim, row)


def _before(earlier: StoreEvidence, claim: Claim) -> list[JudgedRun]:
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


def _difference_text(row: Difference) -> str:
    low, high = row.ratio_interval
    return (
        f"{row.metric} {row.baseline:.4g} before, {row.candidate:.4g} now, ratio"
        f" {row.ratio:.3f} ({low:.3f} to {high:.3f}): {row.judgement}"
    )


def _untold(row: Difference) -> list[str]:
    return [f"{_difference_text(row)}; {row.why}"] if row.judgement == "unknown" else []


def _worse(row: Difference) -> list[str]:
    return [_difference_text(row)] if row.judgement == "worse" else []


FAIR: Final = Rule(
    "G34", "The comparison with the baseline is fair, and tells something", _untold, acceptable=True
)
NOT_WORSE: Final = Rule(
    "G35", "Nothing is worse than in the baseline", _worse, exit=Exit.FAIL, acceptable=True
)


def _comparison(claim: Claim, row: Difference) -> Comparison:
    found = [*NOT_WORSE.findings(row, _ID), *FAIR.findings(row, _ID)]
    told = [msgspec.structs.replace(f, what=f"{claim.id}: {f.what}") for f in found]
    return next(iter(told), None), _difference_text(row)
