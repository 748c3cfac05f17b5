"""From evidence to verdict: one pass over the decision table, and how verdicts add up, of arms and
seeds of a scenario and of a session.

`decide` is pure and total: the same evidence gives the same verdict, and every evidence gives one.
The first rule of V01-V15 that holds decides. A few ids stand on several rows because their state
depends on more than one fact: V10 per red flag, V12 by kind of oracle.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from dstest.core import rules
from dstest.core.errors import Exit
from dstest.core.evidence import AuditRow, CheckerEvidence, Evidence
from dstest.core.verdict import State, Verdict
from dstest.judge.audit_rows import ENDED_EARLY
from dstest.judge.facts import gaps

RED_FLAGS: Final = tuple(f"RF{n}" for n in range(1, 11))
WEAK_ITEMS: Final = tuple(f"WO{n}" for n in range(1, 15))
ALL_ROWS: Final = frozenset(RED_FLAGS + WEAK_ITEMS)

BREADTH: Final = ("WO6", "WO7", "WO10", "WO11")
"""Items that only more runs, other shapes or longer runs can fill: they cap at PASS-smoke."""

STRENGTH: Final = tuple(item for item in WEAK_ITEMS if item not in BREADTH)
"""Items about how strong the oracle is: a gap here is no pass at all."""

SURFACE_KINDS: Final = frozenset({"final-state", "logs", "health", "no-error"})
"""Kinds of oracle that never look at single operations."""

_FINE: Final = ("ok", "n/a")

_ORACLE_FLAGS: Final = ("RF1", "RF5", "RF9")
_FAULT_FLAGS: Final = ("RF3", "RF4")
_CAPS: Final = ("RF10", *BREADTH)

_IN_PROCESS: Final = "all in one process, which is smoke at most"

_NO_PRODUCTION_PATH: Final = (
    "Servers and clients ran in one process: PASS-hardening needs the path that they have in"
    " production."
)

_OTHER_FLAGS: Final = ("RF2", *_FAULT_FLAGS, "RF7", "RF8")

Session = Literal["FAIL", "DONE", "DONE_WITH_CONCERNS", "INCONCLUSIVE", "BLOCKED"]

_INCONCLUSIVE: Final = (
    State.INCONCLUSIVE_FAULT,
    State.INCONCLUSIVE_ORACLE,
    State.INCONCLUSIVE_ENV,
)

_WORST_FIRST: Final = (
    State.FAIL_REPRODUCIBLE,
    State.FAIL_NONDETERMINISTIC,
    State.NOT_RUN,
    *_INCONCLUSIVE,
    State.PARTIAL_SURFACE,
    State.PARTIAL_MODEL,
    State.PASS_SMOKE,
    State.PASS_HARDENING,
)


def judged_text(c: CheckerEvidence) -> str:
    """`set, order judged 40 operations`; `set judged 40 and order 38 operations`."""
    counts = {name: row.consumed for name, row in c.by_checker.items()}
    if len({*counts.values()}) < 2:
        count = next(iter(counts.values()), c.ops_consumed)
        return f"{', '.join(c.ran)} judged {count:,} operations"
    (first, most), *rest = counts.items()
    others = " and ".join(f"{name} {count:,}" for name, count in rest)
    return f"{first} judged {most:,} and {others} operations"


def share(c: CheckerEvidence) -> str:
    """`38 of 40`; `40 of 40 by set, 38 of 40 by order`."""
    shares = {
        name: f"{row.consumed:,} of {row.eligible:,}" for name, row in c.by_checker.items()
    } or {"": f"{c.ops_consumed:,} of {c.ops_eligible:,}"}
    if len({*shares.values()}) == 1:
        return next(iter(shares.values()))
    return ", ".join(f"{text} by {name}" for name, text in shares.items())


@dataclass(frozen=True, slots=True)
class View:
    """Booleans of the decision table. `short` holds the ids of short rows, absent ones included."""

    e: Evidence
    violation: bool
    reproduced: bool
    corrupt: bool
    planned: bool
    landed: bool
    ran: bool
    clean: bool
    surface_only: bool
    heals_verified: bool
    in_process: bool
    short: frozenset[str]
    missing: frozenset[str]

    def any_short(self, *rows: str) -> bool:
        """Is one of these rows short?"""
        return not self.short.isdisjoint(rows)


def view(e: Evidence) -> View:
    """The booleans of `e`. Total: every Evidence has a view.

    It derives, once, every boolean that the rules ask for, and errs to the strict side wherever two
    parts of the evidence contradict each other. A row that is absent counts as short.
    """
    rows = e.redflags | e.weak_audit
    missing = ALL_ROWS - rows.keys()
    short = {name for name, row in rows.items() if row.status not in _FINE} | missing
    heals_verified = all(fault.heal_verified for fault in e.faults)
    if not heals_verified:
        short.add("RF8")
    planned = e.fault_planned or e.faults_planned > 0 or bool(e.faults)
    distinct = len({fault.id for fault in e.faults})
    return View(
        e=e,
        violation=e.violation or e.checker.result == "violation",
        reproduced=0 < e.rerun.reproduced <= e.rerun.same_seed_runs,
        corrupt=bool(e.history_lint.corrupt),
        planned=planned,
        landed=e.fault_landed and distinct >= max(1, e.faults_planned),
        ran=e.checker_ran and e.checker.result != "not-run",
        clean=e.checker.result == "clean",
        surface_only=bool(e.oracle_kinds) and SURFACE_KINDS.issuperset(e.oracle_kinds),
        heals_verified=heals_verified,
        in_process=e.transport != "network",
        short=frozenset(short),
        missing=missing,
    )


class Rule(rules.Rule[View, list[str]], frozen=True):
    """`title` says when it holds, `find` what keeps a run at it, one sentence each; `reason` is the
    headline, the first of these sentences where there is none."""

    state: State
    when: Callable[[View], bool]
    reason: Callable[[View], str] | None = None


def _row(e: Evidence, name: str) -> str:
    row: AuditRow | None = e.redflags.get(name) or e.weak_audit.get(name)
    if row is None:
        return f"{name}: the audit has no such row, so it counts as short"
    if row.status == "short":
        return f"{name}: {row.evidence}"
    return f"{name}: a heal was not verified"


def _rows(*names: str) -> Callable[[View], list[str]]:
    return lambda v: [_row(v.e, name) for name in names if name in v.short]


def _not_attempted(v: View) -> list[str]:
    return ["The run was declared but never attempted."]


def _missing_capability(v: View) -> list[str]:
    names = ", ".join(v.e.missing_capability)
    return [f"The environment lacks what the run needs: {names}."]


def _violation(v: View) -> list[str]:
    problems = [
        f"A violation stands ({v.e.violation_fingerprint or 'no fingerprint'}): no run passes."
    ]
    if not v.reproduced:
        runs = v.e.rerun.same_seed_runs
        problems.append(
            f"None of {runs} re-runs of the same seed showed it again: one is needed to call it "
            "reproducible."
            if runs
            else "It has not been re-run with the same seed: a re-run that shows it again is "
            "needed to call it reproducible."
        )
    if v.planned and not v.landed:
        problems.append("Not every planned fault is proven, so the fault may not be its cause.")
    problems += [
        f"The history has a weakness that can look like a violation: {name}: {seen}"
        for name, seen in v.e.history_lint.weak.items()
    ]
    return problems


def _reproducible(v: View) -> str:
    name = v.e.violation_fingerprint or "no fingerprint"
    return f"The checker found a violation ({name}), and {v.e.rerun.said}."


def _nondeterministic(v: View) -> str:
    runs = v.e.rerun.same_seed_runs
    again = f"none of {runs} re-runs showed it again" if runs else "it has not been re-run yet"
    if runs and v.in_process:
        again = v.e.rerun.said
    name = v.e.violation_fingerprint or "no fingerprint"
    return f"The checker found a violation ({name}); {again}."


def _corrupt(v: View) -> list[str]:
    return [
        f"The history contradicts itself, so no answer about it counts: {name}: {seen}"
        for name, seen in v.e.history_lint.corrupt.items()
    ]


def _ended_early(e: Evidence) -> list[str]:
    """What the audit of the load says of it: all else that is lacking comes of that."""
    row = e.redflags.get("RF1")
    if row is None or row.status != "short" or not row.evidence.startswith(ENDED_EARLY):
        return []
    return [f"{row.evidence[:1].upper()}{row.evidence[1:]}."]


def _fault(v: View) -> list[str]:
    e = v.e
    problems = _ended_early(e)
    wanted = max(1, e.faults_planned)
    recorded = len({fault.id for fault in e.faults})
    if recorded < wanted:
        problems.append(f"{recorded} of {wanted} planned faults have a landing record.")
    if not e.fault_planned:
        problems.append("There are landing records, yet no fault is said to have been planned.")
    for fault in e.faults:
        if fault.landed != "yes":
            why = f": {fault.why}" if fault.why else ""
            problems.append(
                f"Fault {fault.id} ({fault.nemesis}) is not proven to have landed "
                f"({fault.landed}){why}"
            )
    return problems + _rows(*_FAULT_FLAGS)(v)


_IDLE: Final = re.compile(
    r"by its signals it had landed, but "
    r"idle: only (?P<began>[\d,]+) operations? began in its window, (?P<needed>[\d,]+) are needed"
)
"""As `dstest.judge.evidence` says of a fault that stood while hardly anybody asked."""


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _missed(v: View) -> str:
    """What keeps the faults from being proven; those that stood while hardly anybody asked are told
    together, and that RF3 misses them as well is nothing more."""
    problems = _fault(v)
    found = [(fault, _IDLE.fullmatch(fault.why)) for fault in v.e.faults if fault.landed != "yes"]
    idle = [(fault.id, told) for fault, told in found if told]
    first = problems[0] if problems else "a planned fault is not proven to have landed"
    if not idle or not first.startswith("Fault "):
        said, rest = first, len(problems) - 1
    else:
        names, began = [name for name, _ in idle], [told["began"] for _, told in idle]
        said = (
            f"{_listed(names)} stood, but too few operations ran inside to count: "
            f"{_listed(began)} began, {idle[0][1]['needed']} are needed"
        )
        rest = len(problems) - len(idle)
        if len(idle) == len(found) and v.any_short("RF3"):
            rest -= 1
    return f"{said} (and {rest} more)" if rest > 0 else said


def _not_ran(v: View) -> list[str]:
    c = v.e.checker
    if not c.declared:
        return ["No checker was declared, so nothing was judged."]
    absent = [name for name in c.declared if name not in c.ran]
    if absent or c.result == "not-run":
        why = f": {c.why}" if c.why else "."
        return [f"Declared checkers did not run ({', '.join(absent or c.declared)}){why}"]
    idle = [name for name, row in c.by_checker.items() if not row.consumed] or c.ran
    why = f": {c.why}" if c.why else "."
    return [f"No operation was judged by {', '.join(idle)}{why}"]


def _weak(v: View) -> list[str]:
    said = [f"{name}: {seen}" for name, seen in v.e.history_lint.weak.items() if v.e.serious]
    if not v.clean:
        why = v.e.checker.why or "it gave no reason"
        said.append(f"The checker could not decide: {why}")
    return said


def _incomplete(v: View) -> list[str]:
    c = v.e.checker
    keys = f"{c.keys_decided} of {c.keys_total} keys"
    return [f"Operations judged: {share(c)}; keys: {keys}."]


def _no_fault(v: View) -> list[str]:
    return ["No fault was planned: PASS-hardening needs faults that are proven to have landed."]


def _undurable(v: View) -> list[str]:
    """A pass after kills is easily read as a pass of durability."""
    killed = sorted({fault.nemesis for fault in v.e.faults if fault.page_cache == "kept"})
    if not killed or any(fault.page_cache == "lost" for fault in v.e.faults):
        return []
    said = (
        f"Durability was not tested: {', '.join(killed)} loses nothing that reached the page cache"
    )
    return [f"{said}; --nemesis power takes what was not synced."]


def _clean(e: Evidence) -> str:
    return f"{judged_text(e.checker)} and found no violation"


def _smoke_no_fault(v: View) -> str:
    where = f"; {_IN_PROCESS}" if v.in_process else ""
    return f"{_clean(v.e)}; no fault was planned, so this says nothing about robustness{where}."


def _path(v: View) -> list[str]:
    return [_NO_PRODUCTION_PATH] if v.in_process else []


def _narrow(v: View) -> list[str]:
    said = _rows(*BREADTH)(v)
    # WO11 says the same as RF10 in better words.
    rows = said if "WO11" in v.short else _rows("RF10")(v) + said
    return _path(v) + rows + _undurable(v)


def _smoke_breadth(v: View) -> str:
    landed = f"{len(v.e.faults)} of {max(1, v.e.faults_planned)} planned faults landed"
    if v.in_process:
        return f"{_clean(v.e)} while {landed}; {_IN_PROCESS}."
    return f"{_clean(v.e)} while {landed}; the run is too narrow to count as hardening."


def _budget_smoke(v: View) -> list[str]:
    rows = {"WO6": "duration_s", "WO11": "seeds"}
    named = [key for row, key in rows.items() if row in v.short]
    said = gaps(v.e.budget, "hardening", already_named=named) if v.e.budget.met == "smoke" else []
    return said + _rows("RF6")(v) + _undurable(v)


def _smoke_budget(v: View) -> str:
    landed = f"{len(v.e.faults)} of {max(1, v.e.faults_planned)} planned faults landed"
    return f"{_clean(v.e)} while {landed}; only the smoke budget was met."


def _hardening(v: View) -> str:
    release = "; the release budget was met as well" if v.e.budget.met == "release" else ""
    return (
        f"{_clean(v.e)} while all {len(v.e.faults)} planned faults landed, the hardening budget "
        f"was met and no audit row is short{release}."
    )


def _release_gap(v: View) -> list[str]:
    said = [] if v.e.budget.met == "release" else gaps(v.e.budget, "release")
    return said + _undurable(v)


def _rf2_killed_none(v: View) -> bool:
    return "RF2" in v.short and 0 in (v.e.checker.canary_killed, v.e.checker.ops_consumed)


def _unnamed(v: View) -> frozenset[str]:
    """Short rows that no rule asks for by their id, as those of another version: none of them is
    passed over."""
    return v.short - ALL_ROWS


def _other_flag(v: View) -> bool:
    return bool(v.missing or _unnamed(v)) or v.any_short(*_OTHER_FLAGS)


def _other_flags(v: View) -> list[str]:
    rest = v.missing.difference(_OTHER_FLAGS) & ALL_ROWS | _unnamed(v)
    return _rows(*_OTHER_FLAGS, *sorted(rest))(v)


RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "V01",
        "the run was never attempted",
        _not_attempted,
        State.NOT_RUN,
        lambda v: not v.e.attempted,
    ),
    Rule(
        "V02",
        "the environment lacks a capability that the run needs",
        _missing_capability,
        State.INCONCLUSIVE_ENV,
        lambda v: bool(v.e.missing_capability),
    ),
    Rule(
        "V03",
        "a violation in a sound history, seen again by a re-run",
        _violation,
        State.FAIL_REPRODUCIBLE,
        lambda v: v.violation and not v.corrupt and v.reproduced,
        _reproducible,
    ),
    Rule(
        "V04",
        "a violation in a sound history",
        _violation,
        State.FAIL_NONDETERMINISTIC,
        lambda v: v.violation and not v.corrupt,
        _nondeterministic,
    ),
    Rule(
        "V05",
        "the history contradicts itself (a corrupt lint)",
        _corrupt,
        State.INCONCLUSIVE_ORACLE,
        lambda v: v.corrupt,
    ),
    Rule(
        "V06",
        "a planned fault did not land for certain, or RF3 or RF4 is short",
        _fault,
        State.INCONCLUSIVE_FAULT,
        lambda v: v.planned and (not v.landed or v.any_short(*_FAULT_FLAGS)),
        _missed,
    ),
    Rule(
        "V10",
        "RF1, RF5 or RF9 is short",
        _rows(*_ORACLE_FLAGS),
        State.INCONCLUSIVE_ORACLE,
        lambda v: v.any_short(*_ORACLE_FLAGS),
    ),
    Rule(
        "V07",
        "a declared checker did not run, or read no operation",
        _not_ran,
        State.PARTIAL_SURFACE,
        lambda v: not v.ran,
    ),
    # A result that is not clean never passes, serious or not; weak lints count for serious claims.
    Rule(
        "V08",
        "a checker could not decide, or a lint says weak",
        _weak,
        State.INCONCLUSIVE_ORACLE,
        lambda v: not v.clean or (v.e.serious and bool(v.e.history_lint.weak)),
    ),
    Rule(
        "V09",
        "not every operation and key was judged",
        _incomplete,
        State.PARTIAL_MODEL,
        lambda v: v.e.serious and not v.e.checker_complete,
    ),
    Rule(
        "V10",
        "RF2 is short: no broken copy was rejected, or nothing judged",
        _rows("RF2"),
        State.PARTIAL_SURFACE,
        _rf2_killed_none,
    ),
    Rule(
        "V10",
        "another red flag is short, or the audit lacks a row",
        _other_flags,
        State.PARTIAL_MODEL,
        _other_flag,
    ),
    Rule(
        "V12",
        "a WO row about the oracle is short, and only the surface was judged",
        _rows(*STRENGTH),
        State.PARTIAL_SURFACE,
        lambda v: v.any_short(*STRENGTH) and v.surface_only,
    ),
    Rule(
        "V12",
        "a WO row about the oracle is short",
        _rows(*STRENGTH),
        State.PARTIAL_MODEL,
        lambda v: v.any_short(*STRENGTH),
    ),
    # V12 and V13 before V11 and V12b: a run that is too short, or was judged by logs alone, is no
    # pass of any kind, with faults or without.
    Rule(
        "V13",
        "not even the smoke budget was met",
        lambda v: gaps(v.e.budget, "smoke"),
        State.PARTIAL_MODEL,
        lambda v: v.e.budget.met == "none",
    ),
    Rule(
        "V11",
        "clean, and no fault was planned",
        _no_fault,
        State.PASS_SMOKE,
        lambda v: not v.planned,
        _smoke_no_fault,
    ),
    Rule(
        "V12b",
        "clean, and RF10, WO6, WO7, WO10 or WO11 is short: too narrow; or servers and clients ran"
        " in one process",
        _narrow,
        State.PASS_SMOKE,
        lambda v: v.in_process or v.any_short(*_CAPS),
        _smoke_breadth,
    ),
    Rule(
        "V14",
        "clean, and only the smoke budget was met, or RF6 is short",
        _budget_smoke,
        State.PASS_SMOKE,
        lambda v: v.e.budget.met == "smoke" or v.any_short("RF6"),
        _smoke_budget,
    ),
    Rule(
        "V15", "none of the above", _release_gap, State.PASS_HARDENING, lambda v: True, _hardening
    ),
)
"""In order. V15 holds always, so the table is total."""


def match(v: View, rules: Sequence[Rule] = RULES) -> int:
    """Index of the first rule that holds; a table without an answer is a mistake of ours."""
    for index, rule in enumerate(rules):
        if rule.when(v):
            return index
    raise AssertionError("the decision table is not total")


def _obstacles(v: View, index: int, rules: Sequence[Rule]) -> list[str]:
    """What stands before the next better state: removing these lets a later rule decide."""
    state = rules[index].state
    message = rules[index].find(v)
    if state.failed or state is State.PASS_HARDENING:
        return message
    for rule in rules[index + 1 :]:
        if rule.state is State.PASS_HARDENING or (rule.state.passed and not state.passed):
            if rule.when(v):
                break
        elif rule.when(v):
            message.extend(line for line in rule.find(v) if line not in message)
    return message


def decide(
    evidence: Evidence,
    checkers: dict[str, Any] | None = None,
    *,
    blame: str | None = None,
    rules: Sequence[Rule] = RULES,
) -> Verdict:
    """The verdict that `evidence` carries.

    `checkers` (results by name, as data) and `blame` travel along unread. `rules` exists for tests
    that show that another order would be noticed.
    """
    v = view(evidence)
    index = match(v, rules)
    rule = rules[index]
    message = _obstacles(v, index, rules)
    if rule.reason is not None:
        reason = rule.reason(v)
    else:
        first = rule.find(v)
        more = f" (and {len(first) - 1} more)" if len(first) > 1 else ""
        reason = (first[0] if first else f"rule {rule.id} holds") + more
    return Verdict(
        verdict=rule.state,
        rule=rule.id,
        reason=reason,
        why_not_better=message,
        evidence=evidence,
        checkers=checkers or {},
        blame=blame,
    )


def aggregate(states: Collection[State]) -> State:
    """One state for a scenario with several arms or seeds.

    Raises ValueError without any state: an empty scenario has no verdict to fold.
    """
    seen = set(states)
    if not seen:
        raise ValueError("no arm to aggregate: a scenario that never ran is NOT-RUN, say so")
    for state in (State.FAIL_REPRODUCIBLE, State.FAIL_NONDETERMINISTIC):
        if state in seen:
            return state
    if seen == {State.NOT_RUN}:
        return State.NOT_RUN
    if seen <= {*_INCONCLUSIVE, State.NOT_RUN}:
        return next(state for state in _INCONCLUSIVE if state in seen)
    if all(state.passed for state in seen):
        return State.PASS_SMOKE if State.PASS_SMOKE in seen else State.PASS_HARDENING
    return State.PARTIAL_SURFACE


def aggregate_seeds(states: Collection[State]) -> State:
    """One state for the same scenario over several seeds and sizes: the worst.

    Raises ValueError without any state.
    """
    if not states:
        raise ValueError("no arm to aggregate: a scenario that never ran is NOT-RUN, say so")
    return min(states, key=_WORST_FIRST.index)


def session(states: Iterable[State]) -> Session:
    """What a session of scenarios amounts to."""
    seen = set(states)
    if any(state.failed for state in seen):
        return "FAIL"
    # Without a workload nothing was learned about the system: a missing capability is no run.
    if seen <= {State.NOT_RUN, State.INCONCLUSIVE_ENV}:
        return "BLOCKED"
    if any(state.passed for state in seen):
        return "DONE" if all(state.passed for state in seen) else "DONE_WITH_CONCERNS"
    return "INCONCLUSIVE"


def session_exit_code(outcome: Session) -> Exit:
    """The exit code of a session."""
    return {
        "FAIL": Exit.FAIL,
        "DONE": Exit.PASS,
        "DONE_WITH_CONCERNS": Exit.NOT_PROVEN,
        "INCONCLUSIVE": Exit.NOT_PROVEN,
        "BLOCKED": Exit.HARNESS,
    }[outcome]
