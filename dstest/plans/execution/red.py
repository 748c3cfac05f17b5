"""Was a scenario seen red? Before a pass is worth anything, its test must have failed where there
is something to be found.

What it must fail under the plan names (`launch.Red`): a build with a known bug, whose step runs
first, or broken copies of its own histories. Both verdicts are read out of the runs, as any other.
A scenario that never failed there is no evidence: its pass is none, since nothing shows that its
oracle would have told. Of an arm of which the plan names nothing it is only known that nobody has
seen it fail. Source: Beck, "Test-Driven Development: By Example" (2002).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec

from dstest.core.known_bug import showing
from dstest.core.verdict import State
from dstest.plans.execution.outcome import Outcome, RunOutcome, judges_of, outcome_of
from dstest.plans.execution.state import ExecutionDir, Step, not_its_own
from dstest.plans.launch import Arm, Red
from dstest.plans.model import Scenario

NEVER: Final = "never seen red"

Answer = Literal["red", "never", "unnamed"]


class RedSide(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the red side of an arm (`of`: its id). `answer` is `red` where it failed as
    the plan says, `never` where it did not, `unnamed` where the plan names none; `said` is why.
    `under` is what it was to be red under. Of a build `state` is what its `result`, a run or a
    session, came to."""

    of: str
    under: str
    answer: Answer
    said: str
    state: State | None = None
    result: Path | None = None


def red_side_of(
    directory: ExecutionDir, scenario: Scenario, green: Step, steps: Iterable[Step], done: Outcome
) -> RedSide:
    """Of the arm of `green`, which came to `done`; `steps` are all of the execution."""
    arm = next((arm for arm in scenario.arms if arm.name == green.arm), None)
    red = None if arm is None else scenario.red_of(arm)
    if arm is None or red is None:
        return RedSide(of=green.id, under="-", answer="unnamed", said="the plan names no red side")
    if not red.builds:
        return _canary(green.id, done)
    step = next((one for one in steps if one.side == "red" and one.of == green.id), None)
    if step is None or not step.result:
        why = "" if step is None else step.reason
        return RedSide(of=green.id, under=_under(red), answer="never", said=why or "it never ran")
    found = red_outcome(directory, scenario, arm, step)
    seen, said = _failed_as_it_should(found, red, judges_of(scenario))
    return RedSide(
        of=green.id,
        under=_under(red),
        answer="red" if seen else "never",
        said=said,
        state=found.state,
        result=directory.result_of(step),
    )


def red_outcome(directory: ExecutionDir, scenario: Scenario, arm: Arm, step: Step) -> Outcome:
    """What the step of a red side came to by the words of the plan."""
    if wrong := not_its_own(directory, step):
        return Outcome(
            state=State.INCONCLUSIVE_ORACLE, rule="V05", reason=wrong, runs=[], missed=[]
        )
    return outcome_of(
        directory.result_of(step), None, judges_of(scenario), wanted=scenario.red_arguments(arm)
    )


def held_to_red(done: Outcome, side: RedSide) -> Outcome:
    """What an arm came to: a pass is none where its red side was named and never red."""
    if not done.state.passed or side.answer != "never":
        return done
    reason = f"{NEVER} under {side.under}: {side.said}; so nothing shows that it could have failed"
    return msgspec.structs.replace(done, state=State.INCONCLUSIVE_ORACLE, rule="V10", reason=reason)


def _under(red: Red) -> str:
    """The build, in words."""
    parts = [
        *([] if red.system is None else [f"system {red.system}"]),
        *(f"plug-in {path}" for path in red.plugin),
        *(f"build {path}" for path in red.system_version),
        *(f"{key}={value}" for key, value in red.options.items()),
    ]
    return ", ".join(parts)


def _canary(of: str, done: Outcome) -> RedSide:
    """Each run had broken copies of its history, and its checkers rejected all of them."""
    counts = [
        (run.evidence.checker.canary_killed, run.evidence.checker.canary_total)
        for run in done.runs
        if run.evidence is not None
    ]
    killed, total = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0)
    seen = bool(counts) and all(0 < some == each for some, each in counts)
    said = f"{killed} of {total} broken copies were rejected"
    return RedSide(
        of=of, under="broken copies of its histories", answer="red" if seen else "never", said=said
    )


def _failed_as_it_should(done: Outcome, red: Red, judges: tuple[str, ...]) -> tuple[bool, str]:
    """Did one of the runs fail by an anomaly of the known bug, told by a checker that the plan
    counts on, while a fault had landed if any was planned? And what is to be said of it."""
    if not done.runs:
        return False, done.reason
    misses = [_miss(run, red, judges) for run in done.runs]
    seen = misses.count("")
    if not seen:
        return False, "; ".join(dict.fromkeys(misses))
    kinds = {kind for run in done.runs for kind in _kinds(run, judges)} & {*red.anomalies}
    return True, f"{', '.join(sorted(kinds))} in {seen} of {len(done.runs)} runs"


def _miss(run: RunOutcome, red: Red, judges: tuple[str, ...]) -> str:
    """Why a run does not show the known bug; empty where it does."""
    if not run.state.failed or run.evidence is None:
        return f"it came to {run.state.value}"
    found, evidence = {*_kinds(run, judges)}, run.evidence
    how = showing(
        found,
        red.anomalies,
        None,
        planned=evidence.fault_planned,
        landed=sum(fault.landed == "yes" for fault in evidence.faults),
    )
    if how == "missed":
        named = ", ".join(sorted(found)) or "nothing that its judges name"
        return f"it failed by {named}, and its bug shows as {', '.join(red.anomalies)}"
    return "it failed, and none of its faults is proven to have landed" if how != "shown" else ""


def _kinds(run: RunOutcome, judges: tuple[str, ...]) -> Iterator[str]:
    for name, kinds in run.kinds.items():
        if not judges or name in judges:
            yield from kinds
