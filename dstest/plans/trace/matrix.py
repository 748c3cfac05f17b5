"""The matrix of a plan: what is required, which claims stand for it, which invariants say so, which
scenarios execute these, and what that has shown. A hole is a place where the chain is not whole.

What the runs of a scenario have executed of an invariant is counted in them, never taken from what
the plan says. The easiest way to keep a requirement is to write a weaker one down, so claims are
held to the words of their requirements, and these to their sources (`stated`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from dstest.core import registry
from dstest.core.errors import ConfigError, DstestError, Exit
from dstest.history.importers import load_history
from dstest.judge.decide import aggregate
from dstest.plans.execution.state import NEVER, ExecutionDir, RunOutcome
from dstest.plans.model import Claim, Invariant, Obligation, Plan, Scenario
from dstest.plans.review.gather import StepResult, step_results
from dstest.plans.trace.wording import hedges, lost_phrases, lost_words
from dstest.spec.compose import load
from dstest.spec.conform import conform_history
from dstest.spec.conformance import ConformResult

NOTHING: Final = "-"


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """How often it was `asked` in these runs, each of them at least once; `broken`: it did not
    hold. `said` is either in words."""

    asked: int
    said: str
    broken: bool = False


Executor = Callable[[Sequence[RunOutcome]], Execution]


class Conformance:
    """Runs held to specifications, each once: several invariants of one are asked at a time."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, Path], ConformResult] = {}

    def of(self, name: str, run: Path) -> ConformResult:
        """Raises DstestError for records that the specification cannot take."""
        if (name, run) not in self._found:
            self._found[name, run] = _conformed(name, run)
        return self._found[name, run]


def executor_of(one: Invariant, held: Conformance) -> Executor:
    """Who executes an invariant. Raises ConfigError where there is nobody of that name.

    `checker NAME` has judged operations of each of the runs; of `spec NAME ID` the specification
    takes the whole history of a run, and its invariant was asked on the way.
    """
    kind, *names = one.by.split()
    if kind == "checker" and len(names) == 1:
        registry.load("checkers", names[0])
        return lambda runs: _by_checker(names[0], runs)
    if kind == "spec" and len(names) == 2:
        known = [inv.id for inv in load(names[0]).invariants]
        if names[1] not in known:
            raise ConfigError(
                f"{one.id}: {names[0]} has no invariant {names[1]}", remedy=", ".join(known)
            )
        return lambda runs: _by_spec(names[0], names[1], runs, held)
    raise ConfigError(
        f"{one.id}: {one.by!r} executes nothing", remedy="`spec NAME ID`, or `checker NAME`"
    )


def _by_checker(name: str, runs: Sequence[RunOutcome]) -> Execution:
    counts = []
    broken = False
    for run in runs:
        checker = None if run.evidence is None else run.evidence.checker
        ran = checker is not None and name in checker.ran
        own = None if checker is None else checker.by_checker.get(name)
        alone = checker.ops_consumed if checker is not None and ran and own is None else 0
        counts.append(own.consumed if ran and own is not None else alone)
        broken = broken or bool(run.kinds.get(name))
    if not counts or not all(counts):
        return Execution(asked=0, said=f"{name} judged nothing in a run", broken=broken)
    said = f"{name} judged {sum(counts):,} operations"
    return Execution(asked=sum(counts), said=said, broken=broken)


def _by_spec(name: str, id: str, runs: Sequence[RunOutcome], held: Conformance) -> Execution:
    total = 0
    for run in runs:
        try:
            found = held.of(name, run.path)
        except DstestError as error:
            return Execution(asked=0, said=f"{name} cannot take its records: {error.message}")
        count = found.counts.get(id)
        failed = count is not None and count.failed > 0
        if found.verdict == "reject" or failed:
            what = f"its records are no behaviour of {name}, at {found.index}: {found.record}"
            return Execution(asked=0, said=f"{id} is false" if failed else what, broken=True)
        if found.verdict != "accept" or count is None or not count.passed:
            return Execution(asked=0, said=f"{name} came to {found.verdict}, {id} never asked")
        total += count.passed
    if not total:
        return Execution(asked=0, said="no run")
    return Execution(asked=total, said=f"{id} of {name} was true {total:,} times")


def _conformed(name: str, run: Path) -> ConformResult:
    weak: list[str] = []
    history = load_history(run / "history.jsonl", weak=weak)
    found = conform_history(load(name), history.ops)
    if weak and found.verdict == "accept":
        found.verdict = "vacuous"
    return found


_WORDS: Final = re.compile(
    r"\b(MUST NOT|MUST|SHALL NOT|SHALL|SHOULD NOT|SHOULD|REQUIRED|NOT RECOMMENDED|RECOMMENDED"
    r"|MAY|OPTIONAL)\b"
)
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
_BYTES_MAX: Final = 4 * 1024 * 1024


def statement_errors(plan: Plan, one: Obligation) -> Iterator[str]:
    """What is wrong with a requirement and its claims, in words.

    MUST becomes SHOULD, or is left out: the words of RFC 2119 (Bradner, 1997; in capitals alone,
    RFC 8174) that a requirement has must stand in its claims as well, and so must what it says of
    quantities and circumstances (`wording.py`); a requirement whose source is a file must stand
    there.
    """
    claims = [claim for id in one.claims if (claim := plan.claim(id)) is not None]
    if not one.claims:
        yield f"{one.id} is a requirement without a claim"
    for id in one.claims:
        if plan.claim(id) is None:
            yield f"{one.id} cites {id}, and there is no such claim"
    said = Counter(word for claim in claims for word in _WORDS.findall(claim.text))
    lost = Counter(_WORDS.findall(one.text)) - said
    if claims and lost:
        named = ", ".join(claim.id for claim in claims)
        yield f"{one.id} says {', '.join(sorted(lost))}, and {named} does not"
    if claims:
        yield from _weaker(one, claims)
    if (file := _file(plan, one.source)) is not None and not _stands(one.text, file):
        yield f"{one.id} does not stand in {file.name} in these words"


def _weaker(one: Obligation, claims: Sequence[Claim]) -> Iterator[str]:
    named = ", ".join(claim.id for claim in claims)
    for phrase in dict.fromkeys(lost_phrases(one.text, [claim.text for claim in claims])):
        yield f"{one.id} says {phrase!r}, and {named} does not"
    for claim in claims:
        for hedge in dict.fromkeys(hedges(one.text, claim.text)):
            yield f"{claim.id} says {hedge!r}, and {one.id} does not"


def _unsaid(plan: Plan) -> Iterator[str]:
    for one in plan.obligations:
        claims = [claim.text for id in one.claims if (claim := plan.claim(id)) is not None]
        words = lost_words(one.text, claims) if claims else []
        if words:
            yield f"{one.id}: {', '.join(words)}"


def _file(plan: Plan, source: str) -> Path | None:
    """The file that a source names, None where it is none that is there: then nobody can tell."""
    link = _LINK.search(source)
    name = (link[1] if link else source.strip("` ")).partition("#")[0]
    name = re.sub(r":\d+$", "", name)
    if not name or "://" in name:
        return None
    for folder in (Path(plan.path).absolute().parent, Path.cwd()):
        path = folder / name
        if path.is_file() and path.stat().st_size <= _BYTES_MAX:
            return path
    return None


def _stands(text: str, file: Path) -> bool:
    """Word for word, wherever its lines end."""
    return " ".join(text.split()) in " ".join(file.read_text(errors="replace").split())


class MatrixRow(msgspec.Struct, frozen=True, kw_only=True):
    """A chain, by ids; `-` where a part of it is not there. `evidence` is the scenario's verdict,
    and how often the invariant was asked in its runs."""

    requirement: str
    claim: str
    invariant: str
    scenario: str
    evidence: str


class TraceMatrix(msgspec.Struct, frozen=True, kw_only=True):
    """`holes` name each place where something is missing, `violations` what was shown false.
    `unsaid` are words of requirements that no claim of them has: to be read, and no hole."""

    rows: tuple[MatrixRow, ...]
    holes: tuple[str, ...]
    violations: tuple[str, ...]
    unsaid: tuple[str, ...] = ()

    @property
    def exit_code(self) -> Exit:
        if self.violations:
            return Exit.FAIL
        return Exit.NOT_PROVEN if self.holes else Exit.PASS


def trace(plan: Plan, directory: ExecutionDir | None) -> TraceMatrix:
    """The matrix of a plan and one execution of it; without one, no scenario has evidence.

    Raises ConfigError where the execution is one of another plan, EvidenceError as `judged_in`.
    """
    judged: dict[str, list[StepResult]] = {}
    if directory is not None:
        _, executed, arms = step_results(directory)
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

    def __init__(self, plan: Plan, judged: Mapping[str, Sequence[StepResult]]) -> None:
        self._plan = plan
        self._judged = judged
        self._holes: list[str] = []
        self._violations: list[str] = []
        self._executors: dict[str, Executor] = {}
        self._held = Conformance()
        self._shown: dict[tuple[str, str], Execution] = {}

    def traced(self) -> TraceMatrix:
        plan = self._plan
        self._holes += [hole for one in plan.obligations for hole in statement_errors(plan, one)]
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
        return TraceMatrix(
            rows=tuple(self._rows()),
            holes=tuple(dict.fromkeys(self._holes)),
            violations=tuple(dict.fromkeys(self._violations)),
            unsaid=tuple(_unsaid(plan)),
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

    def _without_evidence(self, one: Scenario, arms: Sequence[StepResult]) -> Iterator[str]:
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

    def _rows(self) -> Iterator[MatrixRow]:
        plan = self._plan
        asked = {id for one in plan.obligations for id in one.claims}
        chains = [(one.id, id) for one in plan.obligations for id in one.claims or (NOTHING,)]
        chains += [(NOTHING, claim.id) for claim in plan.claims if claim.id not in asked]
        for requirement, claim in chains:
            for invariant, scenario in self._links(claim):
                yield MatrixRow(
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
