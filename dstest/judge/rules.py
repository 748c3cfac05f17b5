"""The decision table V01-V15 as data (discipline 2.3): the first rule that holds decides.

Each rule names its state, when it holds, and what it says. A few ids stand on several rows because
their state depends on more than one fact: V10 per red flag, V12 by kind of oracle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from dstest.core.evidence import AuditRow, Evidence
from dstest.core.verdict import State
from dstest.judge.beyond_runs import ENDED_EARLY
from dstest.judge.budgets import gaps
from dstest.judge.judged import judged, share
from dstest.judge.view import ALL_ROWS, BREADTH, STRENGTH, View

_ORACLE_FLAGS: Final = ("RF1", "RF5", "RF9")
_FAULT_FLAGS: Final = ("RF3", "RF4")
_CAPS: Final = ("RF10", *BREADTH)


@dataclass(frozen=True, slots=True)
class Rule:
    """`blocks` says, one sentence each, what keeps a run at this rule; `reason` is the headline.

    Without a `reason` the first blocking sentence is the headline.
    """

    id: str
    state: State
    when: Callable[[View], bool]
    blocks: Callable[[View], list[str]]
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
    return f"{judged(e.checker)} and found no violation"


_IN_PROCESS: Final = "all in one process, which is smoke at most"


def _smoke_no_fault(v: View) -> str:
    where = f"; {_IN_PROCESS}" if v.in_process else ""
    return f"{_clean(v.e)}; no fault was planned, so this says nothing about robustness{where}."


_NO_PRODUCTION_PATH: Final = (
    "Servers and clients ran in one process: PASS-hardening needs the path that they have in"
    " production."
)


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


def _other_flag(v: View) -> bool:
    return bool(v.missing) or v.any_short("RF2", "RF7", "RF8", *_FAULT_FLAGS)


def _other_flags(v: View) -> list[str]:
    known = ("RF2", *_FAULT_FLAGS, "RF7", "RF8")
    rest = sorted(v.missing.difference(known) & ALL_ROWS)
    return _rows(*known, *rest)(v)


RULES: Final[tuple[Rule, ...]] = (
    Rule("V01", State.NOT_RUN, lambda v: not v.e.attempted, _not_attempted),
    Rule(
        "V02", State.INCONCLUSIVE_ENV, lambda v: bool(v.e.missing_capability), _missing_capability
    ),
    Rule(
        "V03",
        State.FAIL_REPRODUCIBLE,
        lambda v: v.violation and not v.corrupt and v.reproduced,
        _violation,
        _reproducible,
    ),
    Rule(
        "V04",
        State.FAIL_NONDETERMINISTIC,
        lambda v: v.violation and not v.corrupt,
        _violation,
        _nondeterministic,
    ),
    Rule("V05", State.INCONCLUSIVE_ORACLE, lambda v: v.corrupt, _corrupt),
    Rule(
        "V06",
        State.INCONCLUSIVE_FAULT,
        lambda v: v.planned and (not v.landed or v.any_short(*_FAULT_FLAGS)),
        _fault,
    ),
    Rule(
        "V10",
        State.INCONCLUSIVE_ORACLE,
        lambda v: v.any_short(*_ORACLE_FLAGS),
        _rows(*_ORACLE_FLAGS),
    ),
    Rule("V07", State.PARTIAL_SURFACE, lambda v: not v.ran, _not_ran),
    # A result that is not clean never passes, serious or not; weak lints count for serious claims.
    Rule(
        "V08",
        State.INCONCLUSIVE_ORACLE,
        lambda v: not v.clean or (v.e.serious and bool(v.e.history_lint.weak)),
        _weak,
    ),
    Rule(
        "V09",
        State.PARTIAL_MODEL,
        lambda v: v.e.serious and not v.e.checker_complete,
        _incomplete,
    ),
    Rule("V10", State.PARTIAL_SURFACE, _rf2_killed_none, _rows("RF2")),
    Rule("V10", State.PARTIAL_MODEL, _other_flag, _other_flags),
    Rule(
        "V12",
        State.PARTIAL_SURFACE,
        lambda v: v.any_short(*STRENGTH) and v.surface_only,
        _rows(*STRENGTH),
    ),
    Rule("V12", State.PARTIAL_MODEL, lambda v: v.any_short(*STRENGTH), _rows(*STRENGTH)),
    # Before V11 and V12b: a run that is too short is no pass of any kind, with faults or without.
    Rule(
        "V13",
        State.PARTIAL_MODEL,
        lambda v: v.e.budget.met == "none",
        lambda v: gaps(v.e.budget, "smoke"),
    ),
    Rule("V11", State.PASS_SMOKE, lambda v: not v.planned, _no_fault, _smoke_no_fault),
    Rule(
        "V12b",
        State.PASS_SMOKE,
        lambda v: v.in_process or v.any_short(*_CAPS),
        _narrow,
        _smoke_breadth,
    ),
    Rule(
        "V14",
        State.PASS_SMOKE,
        lambda v: v.e.budget.met == "smoke" or v.any_short("RF6"),
        _budget_smoke,
        _smoke_budget,
    ),
    Rule("V15", State.PASS_HARDENING, lambda v: True, _release_gap, _hardening),
)
"""In order. V15 holds always, so the table is total."""
