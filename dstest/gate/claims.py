"""Is there enough evidence for a claim, and does any speak against it?

What speaks against a claim counts however old it is, whoever signed it and whatever made it; what
speaks for it has to be all that the policy asks. A run that fits and came to no pass is no luck to
be left out: it keeps the claim open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from dstest.core.evidence import CheckerEvidence
from dstest.core.run_meta import Host
from dstest.core.tiers import TIERS, Tier
from dstest.core.verdict import State
from dstest.gate.anomalies import unproven
from dstest.gate.commands import commands_of_claim
from dstest.gate.fits import about, fit_of, of_test, of_version, same_words
from dstest.gate.judged import Gathered, JudgedRun, Unit
from dstest.gate.policy import Asked, Claim, Control, Policy
from dstest.gate.rules import Finding
from dstest.gate.twice import left_out, once

_WORD: Final = (
    "a [[control]] with these options says that it is a known bug; nights may have a store apart"
)
_GROUPS_MAX: Final = 3
"""Of reasons why runs do not fit; the others are in the table of them."""


class Count(NamedTuple):
    """A number that is asked for, and what is there."""

    name: str
    asked: str
    there: str


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a claim, control or plan. `said` is what there is, in a line; `counted` the
    runs that count; `not_counted` passes that are worth less than was asked. `follows` is what is
    short because of `findings`, and is told where all of those are accepted. `counts` are the
    numbers that are asked for; `near` the runs that nearly fit, each with why it does not (what it
    is); `remark` what a reader should know of a row that is kept; `command` what makes what is
    short; `again` the simulations that others stand for, which are counted."""

    id: str
    text: str
    said: str
    findings: tuple[Finding, ...]
    follows: tuple[Finding, ...] = ()
    counted: tuple[JudgedRun, ...] = ()
    not_counted: tuple[str, ...] = ()
    counts: tuple[Count, ...] = ()
    near: tuple[Finding, ...] = ()
    remark: str = ""
    command: str = ""
    again: frozenset[Path] = frozenset()


class Fitting(NamedTuple):
    """The units that are about a claim or control in all that is asked, without the runs that are
    others of them made `again`, and why those that are nearly so are not."""

    units: list[Unit]
    aside: list[Finding]
    again: frozenset[Path]


def fitting(gathered: Gathered, asked: Asked, policy: Policy, now_ns: int) -> Fitting:
    """What is about this claim or control, and what is nearly so. A unit that another row of the
    policy asks for is no near miss. One that came to no pass, and never came to say whether it
    fits, is none that may be left out; of a bug that has to be found it says nothing. One that
    never began keeps a claim open, and says nothing of a control. Which simulation of those with
    one seed counts is asked among those that fit."""
    red = isinstance(asked, Control) and asked.expect == "red"
    others = [row for row in (*policy.claim, *policy.control) if row.id != asked.id]
    found, aside = [], []
    for unit in gathered.units:
        if not about(unit, asked) or (isinstance(asked, Control) and not unit.begun):
            continue
        fit = fit_of(unit, asked, policy, now_ns)
        if not fit.wrong and (not fit.untold or not (red or unit.passes)):
            found.append(unit)
        elif unit.begun and not any(_of_another(run, asked, others) for run in unit.runs):
            aside += [*fit.wrong, *fit.untold]
    again = left_out((run for unit in found for run in unit.runs), gathered.same)
    return Fitting(once(found, again), aside, again)


def _of_another(run: JudgedRun, asked: Asked, others: Iterable[Asked]) -> bool:
    """Is it another row's, or, of whatever version, one that has the words of another alone?"""
    mine = same_words(run.meta, asked)
    return any(
        of_test(run.meta, other) or (not mine and same_words(run.meta, other)) for other in others
    )


def claim_answer(gathered: Gathered, claim: Claim, policy: Policy, now_ns: int) -> Answer:
    """Everything that stands against a claim."""
    against = [
        Finding(rule="G22", what=violation_of(run), of=claim.id, where=str(run.path))
        for run in gathered.runs
        if run.verdict.verdict.failed and of_test(run.meta, claim)
    ]
    against += unproven((run for run in gathered.runs if of_test(run.meta, claim)), claim.id)
    units, aside, again = fitting(gathered, claim, policy, now_ns)
    open_ = [
        Finding(rule="G24", what=_open(unit), of=claim.id, where=str(unit.path))
        for unit in units
        if not unit.passes and not unit.failed
    ]
    passed = [unit for unit in units if unit.runs and unit.passes and not unit.failed]
    enough = [unit for unit in passed if _reaches(unit.state, unit.met, claim.tier)]
    counted = [run for unit in enough or passed for run in unit.runs]
    short = _short(claim, passed, enough, counted)
    short = with_near_misses(short, aside, nothing=not passed)
    first = [*against, *open_]
    return Answer(
        id=claim.id,
        text=claim.text,
        said=_said(claim, counted),
        findings=tuple(first or short),
        follows=tuple(short if first else ()),
        counted=tuple(counted),
        not_counted=tuple(_left_out(unit) for unit in passed if enough and unit not in enough),
        counts=tuple(_counts(claim, passed, counted)),
        near=tuple(aside),
        command="; ".join(commands_of_claim(claim)) if short or open_ else "",
        again=again,
    )


def with_near_misses(
    short: Sequence[Finding], aside: Sequence[Finding], *, nothing: bool
) -> list[Finding]:
    """What is short, with how many runs nearly fit and why they do not. Where nothing counts, that
    is the finding, and what is short without it goes without saying."""
    groups: Counter[tuple[str, str]] = Counter((f.rule, f.what) for f in aside)
    first = groups.most_common(_GROUPS_MAX)
    told = [(rule, f"{n} run{' is' if n == 1 else 's are'} {what}") for (rule, what), n in first]
    if len(groups) > len(first):
        more = f"and for {len(groups) - len(first)} other reasons, below"
        told.append((first[-1][0][0], more))
    if nothing and short and told:
        what = f"no run fits; {'; '.join(text for _, text in told)}"
        return [Finding(rule=told[0][0], what=what, of=short[0].of)]
    said = "; ".join(f"{rule} {text}" for rule, text in told)
    said = f"; not counted: {said}" if said else ""
    return [msgspec.structs.replace(f, what=f.what + said) for f in short]


def _left_out(unit: Unit) -> str:
    name = f"{unit.path.parent.name}/{unit.path.name}"
    return f"{name}: {unit.state.value} with the {unit.met} budget"


def violation_of(run: JudgedRun) -> str:
    """What a run that failed found, in a line."""
    return f"{run.verdict.verdict.value}: {run.verdict.reason}"


def _open(unit: Unit) -> str:
    ended = [str(run.meta.ended_by) for run in unit.runs if run.meta.ended_by]
    return f"it ended early: {ended[0]}" if ended else f"{unit.state.value}: {unit.reason}"


def _reaches(state: State, met: Tier, wanted: Tier) -> bool:
    if wanted == "smoke":
        return state.passed
    return state is State.PASS_HARDENING and TIERS.index(met) >= TIERS.index(wanted)


def landed_by_kind(runs: Iterable[JudgedRun]) -> Counter[str]:
    """Faults that landed and whose heal is proven."""
    return Counter(
        fault.nemesis
        for run in runs
        for fault in run.evidence.faults
        if fault.landed == "yes" and fault.heal_verified
    )


def _seeds(runs: Iterable[JudgedRun]) -> set[int]:
    return {int(run.meta.spec.get("seed", -1)) for run in runs}


def _sizes(runs: Iterable[JudgedRun]) -> set[int]:
    return {len(run.meta.members or run.meta.nodes) for run in runs}


def _operations(claim: Claim, runs: Iterable[JudgedRun]) -> int:
    """Those that each checker of the claim has judged: an operation counts once."""
    return sum(_judged_by_all(claim, run.evidence.checker) for run in runs)


def _judged_by_all(claim: Claim, found: CheckerEvidence) -> int:
    if not found.by_checker:  # there was one
        return found.ops_consumed
    judged = (ops.consumed for name, ops in found.by_checker.items() if name in claim.checkers)
    return min(judged, default=0)


def _said(claim: Claim, runs: Sequence[JudgedRun]) -> str:
    if not runs:
        return "nothing that counts"
    landed = ", ".join(f"{n} {kind}" for kind, n in sorted(landed_by_kind(runs).items()))
    sizes = ", ".join(map(str, sorted(_sizes(runs), reverse=True)))
    return (
        f"{len(runs)} runs passed, {len(_seeds(runs))} seeds, on {sizes} nodes; faults landed: "
        f"{landed or 'none'}; operations judged: {_operations(claim, runs):,}"
    )


def _short(
    claim: Claim, passed: Sequence[Unit], enough: Sequence[Unit], counted: Sequence[JudgedRun]
) -> list[Finding]:
    """What there is too little of. Where no run reaches the tier, the rest is counted over those
    that passed: whoever accepts a lower tier has not accepted that there are fewer seeds."""

    def finding(rule: str, what: str) -> Finding:
        return Finding(rule=rule, what=what, of=claim.id)

    if not passed:
        return [finding("G21", "there is no run that fits and passed")]
    short = []
    if not enough:
        best = max(passed, key=lambda unit: TIERS.index(unit.met))
        said = f"the tier {claim.tier} is asked for; the best came to {best.state.value} and met"
        short.append(finding("G25", f"{said} {best.met} ({best.reason})"))
    if (seeds := len(_seeds(counted))) < claim.seeds:
        short.append(finding("G26", f"{seeds} of {claim.seeds} seeds"))
    if absent := sorted({*claim.sizes} - _sizes(counted)):
        short.append(finding("G27", f"no run with {', '.join(map(str, absent))} nodes"))
    landed = landed_by_kind(counted)
    short += [
        finding("G28", f"{landed[kind]} of {wanted} landed faults of kind {kind}")
        for kind, wanted in claim.faults.items()
        if landed[kind] < wanted
    ]
    if (judged := _operations(claim, counted)) < claim.operations:
        short.append(finding("G29", f"{judged:,} of {claim.operations:,} operations judged"))
    return short + _hosts(claim, counted)


def _counts(claim: Claim, passed: Sequence[Unit], runs: Sequence[JudgedRun]) -> Iterator[Count]:
    """Each number that the claim asks for, and what there is of it."""

    def sizes(found: Iterable[int]) -> str:
        return ", ".join(map(str, sorted(found, reverse=True))) or "none"

    best = max((unit.met for unit in passed), key=TIERS.index, default="none")
    yield Count("tier", claim.tier, best)
    yield Count("seeds", str(claim.seeds), str(len(_seeds(runs))))
    yield Count("sizes", sizes(claim.sizes), sizes(_sizes(runs)))
    yield Count("operations", f"{claim.operations:,}", f"{_operations(claim, runs):,}")
    landed = landed_by_kind(runs)
    for kind, wanted in claim.faults.items():
        yield Count(f"faults: {kind}", str(wanted), str(landed[kind]))


def _hosts(claim: Claim, runs: Sequence[JudgedRun]) -> list[Finding]:
    """Were all runs of the claim made on one kind of host, in one kind of lab?"""

    def facts(run: JudgedRun) -> dict[str, object]:
        host = run.meta.host or Host()
        lab = run.meta.lab
        return {"python": host.python, "kernel": host.kernel, "cpus": host.cpus, "lab": lab}

    first = facts(runs[0])
    for run in runs[1:]:
        mine = facts(run)
        wrong = [
            f"{name} {first[name]} and {mine[name]}" for name in first if mine[name] != first[name]
        ]
        if wrong:
            what = f"its runs are of several hosts: {', '.join(wrong)}"
            return [Finding(rule="G14", what=what, of=claim.id, where=str(run.path))]
    return []


def strangers(gathered: Gathered, policy: Policy) -> list[Finding]:
    """Violations of the versions that are released, and anomalies in runs without a verdict, in
    tests that the policy does not name, nor a plan of the policy as its red side."""
    rows: list[Asked] = [*policy.claim, *policy.control]
    asked = {(plan.sha256, plan.budget) for plan in policy.plan}
    reds = [
        path for plan in gathered.plans if (plan.sha256, plan.budget) in asked for path in plan.reds
    ]
    runs = [
        run
        for run in gathered.runs
        if any(_released(run, claim) for claim in policy.claim)
        and not any(of_test(run.meta, row) for row in rows)
        and not any(run.path.is_relative_to(path) for path in reds)
    ]
    found = unproven(runs)
    for run in runs:
        if run.verdict.verdict.failed:
            given = " ".join(run.meta.options_given or ()) or "none"
            what = f"{violation_of(run)} (options: {given}); {_WORD}"
            found.append(Finding(rule="G23", what=what, where=str(run.path)))
    return found


def _released(run: JudgedRun, claim: Claim) -> bool:
    return run.meta.spec.get("system") == claim.system and of_version(run.meta, claim)
