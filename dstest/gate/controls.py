"""Would a bug have been found, and does what has none pass? Known bugs and the same without them.

A gate whose tests never fail shows nothing. So a policy names bugs that are known, with the option
that switches each on and the anomaly that it shows, and they must have been found: by the same
version of dstest, on the same host, not long ago.
"""

from __future__ import annotations

from collections.abc import Iterator

from dstest.gate.anomalies import anomalies_in, unproven
from dstest.gate.claims import Answer, fitting, with_near_misses
from dstest.gate.fits import of_test
from dstest.gate.gather import Gathered, JudgedRun, Unit
from dstest.gate.policy import Control, Policy
from dstest.gate.rules import Finding

__all__ = ["control_answer"]


def control_answer(gathered: Gathered, control: Control, policy: Policy, now_ns: int) -> Answer:
    """Everything that stands against a control."""
    units, aside = fitting(gathered, control, policy, now_ns)
    wrong = [finding for unit in units for finding in _wrong(unit, control)]
    if control.expect == "green":
        wrong += unproven((r for r in gathered.runs if of_test(r.meta, control)), control.id)
    good = [run for unit in units for run in unit.runs if not any(_misses(run, control))]
    seeds = len({run.meta.spec.get("seed") for run in good})
    short = []
    if seeds < control.seeds:
        what = f"{seeds} of {control.seeds} seeds"
        short = [Finding(rule="G32", what=what, of=control.id)]
    short = with_near_misses(short, aside, nothing=not good)
    did = "found the bug" if control.expect == "red" else "passed"
    return Answer(
        id=control.id,
        text=control.text,
        said=f"{len(good)} of {sum(len(unit.runs) for unit in units)} runs {did}",
        findings=tuple(wrong or short),
        counted=tuple(good),
    )


def _wrong(unit: Unit, control: Control) -> Iterator[Finding]:
    for run in unit.every:
        rule = "G30" if control.expect == "red" else "G31"
        if rule == "G31" and run.verdict.verdict.failed:
            rule = "G22"
        for what in _misses(run, control):
            yield Finding(rule=rule, what=what, of=control.id, where=str(run.path))


def _misses(run: JudgedRun, control: Control) -> Iterator[str]:
    """Why a run did not do what this control is there for."""
    state, told = run.verdict.verdict, f"{run.verdict.verdict.value}: {run.verdict.reason}"
    if control.expect == "green":
        if not run.passes:
            yield f"it has to pass, and came to {told}"
        return
    if not state.failed:
        yield f"its bug was not found; it came to {told}"
        return
    seen = anomalies_in(run.verdict)
    if not seen & {*control.anomalies}:
        named = ", ".join(sorted(seen)) or "none"
        yield f"it failed by {named}, and its bug shows as {', '.join(control.anomalies)}"
    evidence = run.evidence
    if evidence.fault_planned and not any(f.landed == "yes" for f in evidence.faults):
        yield "it failed, and none of its faults is proven to have landed"
