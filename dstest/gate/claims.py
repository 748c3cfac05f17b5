"""Is there enough evidence for a claim, does any speak against it, and which commands make what is
short?

What speaks against a claim counts however old it is, whoever signed it and whatever made it; what
speaks for it has to be all that the policy asks. A run that fits and came to no pass is no luck to
be left out: it keeps the claim open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from dstest.core.errors import Exit
from dstest.core.evidence import TIERS, CheckerEvidence, Tier
from dstest.core.run_record import Host
from dstest.core.verdict import State
from dstest.gate.gather import JudgedRun, StoreEvidence, Unit, unproven
from dstest.gate.policy import Claim, Control, Finding, Policy, RequiredTest, Rule
from dstest.gate.provenance import left_out, once
from dstest.gate.relevance import about, fit_of, of_test, of_version, same_words
from dstest.gate.supply import Lacking, Like, Supply, for_claim, like_of, runs_for

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
    is); `remark` what a reader should know of a row that is kept; `supply` what makes what is
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
    supply: Supply = Supply("")
    again: frozenset[Path] = frozenset()


class Fitting(NamedTuple):
    """The units that are about a claim or control in all that is asked, without the runs that are
    others of them made `again`, and why those that are nearly so are not."""

    units: list[Unit]
    aside: list[Finding]
    again: frozenset[Path]


def fitting(gathered: StoreEvidence, asked: RequiredTest, policy: Policy, now_ns: int) -> Fitting:
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


def _of_another(run: JudgedRun, asked: RequiredTest, others: Iterable[RequiredTest]) -> bool:
    """Is it another row's, or, of whatever version, one that has the words of another alone?"""
    mine = same_words(run.meta, asked)
    return any(
        of_test(run.meta, other) or (not mine and same_words(run.meta, other)) for other in others
    )


def claim_answer(gathered: StoreEvidence, claim: Claim, policy: Policy, now_ns: int) -> Answer:
    """Everything that stands against a claim."""
    mine = [run for run in gathered.runs if of_test(run.meta, claim)]
    against = [f for run in mine for f in VIOLATED.findings(run, claim.id, run.path)]
    against += unproven(mine, claim.id)
    units, aside, again = fitting(gathered, claim, policy, now_ns)
    open_ = [f for unit in units for f in PASSED.findings(unit, claim.id, unit.path)]
    passed = [unit for unit in units if unit.runs and unit.passes and not unit.failed]
    enough = [unit for unit in passed if _reaches(unit.state, unit.met, claim.tier)]
    counted = [run for unit in enough or passed for run in unit.runs]
    tally = _Tally(claim, passed, enough, counted)
    few = [f for by in (SHORT if passed else SHORT[:1]) for f in by.findings(tally, claim.id)]
    few += _hosts(claim, counted) if passed else []
    short = with_near_misses(few, aside, nothing=not passed)
    first = [*against, *open_]
    return Answer(
        id=claim.id,
        text=claim.text,
        said=_passed_text(claim, counted),
        findings=tuple(first or short),
        follows=tuple(short if first else ()),
        counted=tuple(counted),
        not_counted=tuple(_left_out(unit) for unit in passed if enough and unit not in enough),
        counts=tuple(_counts(claim, passed, counted)),
        near=tuple(aside),
        supply=_supply(claim, gathered, counted, enough) if short else Supply(""),
        again=again,
    )


def _supply(
    claim: Claim, gathered: StoreEvidence, counted: Sequence[JudgedRun], enough: Sequence[Unit]
) -> Supply:
    """What makes what is short: counted over the runs that reach the tier."""
    runs = counted if enough else ()
    landed = landed_by_kind(runs)
    judged = operations_judged(claim.checkers, runs)
    more = [runs_for(wanted, landed[kind], len(runs)) for kind, wanted in claim.faults.items()]
    more.append(runs_for(claim.operations, judged, len(runs)))
    lacking = Lacking(
        seeds=max(0, claim.seeds - len(seeds_of(runs))),
        sizes=tuple(size for size in claim.sizes if size not in sizes_of(runs)),
        runs=max(more),
        whole=not enough,
    )
    return for_claim(claim, lacking, like_of(alike(claim, gathered, counted)))


def alike(asked: RequiredTest, gathered: StoreEvidence, counted: Sequence[JudgedRun]) -> list[Like]:
    """Runs whose load is that of more: those that count, else those of the same words."""
    runs = counted or [run for run in gathered.runs if same_words(run.meta, asked)]
    return [Like(run.path, run.meta.spec) for run in runs]


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
    return f"{run.verdict.shown}: {run.verdict.reason}"


def _violation(run: JudgedRun) -> Iterator[str]:
    if run.verdict.verdict.failed:
        yield violation_of(run)


VIOLATED: Final = Rule(
    "G22",
    "No run of a claim, of a green control or of a plan found a violation",
    _violation,
    exit=Exit.FAIL,
)


def _open(unit: Unit) -> Iterator[str]:
    if not unit.passes and not unit.failed:
        ended = [str(run.meta.ended_by) for run in unit.runs if run.meta.ended_by]
        yield f"it ended early: {ended[0]}" if ended else f"{unit.state.value}: {unit.reason}"


PASSED: Final = Rule("G24", "Each run of a claim came to a pass", _open, acceptable=True)


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


def seeds_of(runs: Iterable[JudgedRun]) -> set[int]:
    """Their seeds."""
    return {int(run.meta.spec.get("seed", -1)) for run in runs}


def sizes_of(runs: Iterable[JudgedRun]) -> set[int]:
    """How many members their clusters had."""
    return {len(run.meta.members or run.meta.nodes) for run in runs}


def operations_judged(checkers: Collection[str], runs: Iterable[JudgedRun]) -> int:
    """Those that each of these checkers has judged: an operation counts once."""
    return sum(_judged_by_all(checkers, run.evidence.checker) for run in runs)


def _judged_by_all(checkers: Collection[str], found: CheckerEvidence) -> int:
    if not found.by_checker:  # there was one
        return found.ops_consumed
    judged = (ops.consumed for name, ops in found.by_checker.items() if name in checkers)
    return min(judged, default=0)


def _some(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def _passed_text(claim: Claim, runs: Sequence[JudgedRun]) -> str:
    if not runs:
        return "nothing that counts"
    landed = ", ".join(f"{n} {kind}" for kind, n in sorted(landed_by_kind(runs).items()))
    sizes = ", ".join(map(str, sorted(sizes_of(runs), reverse=True)))
    there = f"{_some(len(runs), 'run')} passed, {_some(len(seeds_of(runs)), 'seed')}"
    return (
        f"{there}, on {sizes} nodes; faults landed: "
        f"{landed or 'none'}; operations judged: {operations_judged(claim.checkers, runs):,}"
    )


class _Tally(NamedTuple):
    """What there is for a claim: units that passed, those of them that reach its tier, and the runs
    that count. Where no run reaches the tier these are of all that passed: whoever accepts a lower
    tier has not accepted that there are fewer seeds."""

    claim: Claim
    passed: Sequence[Unit]
    enough: Sequence[Unit]
    counted: Sequence[JudgedRun]


def _nothing(there: _Tally) -> Iterator[str]:
    if not there.passed:
        yield "there is no run that fits and passed"


def _below_tier(there: _Tally) -> Iterator[str]:
    if not there.enough:
        best = max(there.passed, key=lambda unit: TIERS.index(unit.met))
        said = f"the tier {there.claim.tier} is asked for; the best came to {best.state.value}"
        yield f"{said} and met {best.met} ({best.reason})"


def _few_seeds(there: _Tally) -> Iterator[str]:
    if (seeds := len(seeds_of(there.counted))) < there.claim.seeds:
        yield f"{seeds} of {there.claim.seeds} seeds"


def _no_size(there: _Tally) -> Iterator[str]:
    if absent := sorted({*there.claim.sizes} - sizes_of(there.counted)):
        yield f"no run with {', '.join(map(str, absent))} nodes"


def _few_faults(there: _Tally) -> Iterator[str]:
    landed = landed_by_kind(there.counted)
    for kind, wanted in there.claim.faults.items():
        if landed[kind] < wanted:
            yield f"{landed[kind]} of {wanted} landed faults of kind {kind}"


def _few_operations(there: _Tally) -> Iterator[str]:
    wanted = there.claim.operations
    if (judged := operations_judged(there.claim.checkers, there.counted)) < wanted:
        yield f"{judged:,} of {wanted:,} operations judged"


SHORT: Final = (
    Rule("G21", "There is evidence for each claim and plan", _nothing),
    Rule("G25", "The tier was met", _below_tier, acceptable=True),
    Rule("G26", "So many seeds agree", _few_seeds, acceptable=True),
    Rule("G27", "It passed at these cluster sizes", _no_size, acceptable=True),
    Rule("G28", "Faults of these kinds landed, so many", _few_faults, acceptable=True),
    Rule("G29", "So many operations were judged", _few_operations, acceptable=True),
)
"""What there may be too little of; where nothing passed, the first says all."""


def _counts(claim: Claim, passed: Sequence[Unit], runs: Sequence[JudgedRun]) -> Iterator[Count]:
    """Each number that the claim asks for, and what there is of it."""

    def sizes(found: Iterable[int]) -> str:
        return ", ".join(map(str, sorted(found, reverse=True))) or "none"

    best = max((unit.met for unit in passed), key=TIERS.index, default="none")
    yield Count("tier", claim.tier, best)
    yield Count("seeds", str(claim.seeds), str(len(seeds_of(runs))))
    yield Count("sizes", sizes(claim.sizes), sizes(sizes_of(runs)))
    yield Count(
        "operations", f"{claim.operations:,}", f"{operations_judged(claim.checkers, runs):,}"
    )
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


def strangers(gathered: StoreEvidence, policy: Policy) -> list[Finding]:
    """Violations of the versions that are released, and anomalies in runs without a verdict, in
    tests that the policy does not name, nor a plan of the policy as its red side."""
    rows: list[RequiredTest] = [*policy.claim, *policy.control]
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
    strange = [f for run in runs for f in KNOWN.findings(run, where=run.path)]
    return [*unproven(runs), *strange]


def _unknown(run: JudgedRun) -> Iterator[str]:
    if run.verdict.verdict.failed:
        given = " ".join(run.meta.options_given or ()) or "none"
        yield f"{violation_of(run)} (options: {given}); {_WORD}"


KNOWN: Final = Rule(
    "G23", "No run found a violation that the policy has no word for", _unknown, exit=Exit.FAIL
)


def _released(run: JudgedRun, claim: Claim) -> bool:
    return run.meta.spec.get("system") == claim.system and of_version(run.meta, claim)
