"""Would a bug have been found, and does what has none pass? Known bugs and the same without them.

A gate whose tests never fail shows nothing. So a policy names bugs that are known, with the option
that switches each on and the anomaly that it shows, and they must have been found: by the same
version of dstest, on the same host, not long ago. Known bugs come in some runs and not in others:
a control that found its bug in enough of them is not wrong for those in which it did not.
"""

from __future__ import annotations

from collections.abc import Iterator

from dstest.core.known_bug import showing
from dstest.core.shares import Rate, interval
from dstest.gate.anomalies import anomalies_in, unproven
from dstest.gate.claims import Answer, Count, fitting, with_near_misses
from dstest.gate.commands import command_of_control
from dstest.gate.fits import of_test
from dstest.gate.judged import Gathered, JudgedRun
from dstest.gate.policy import Control, Policy
from dstest.gate.rules import Finding


def control_answer(gathered: Gathered, control: Control, policy: Policy, now_ns: int) -> Answer:
    """Everything that stands against a control."""
    units, aside, again = fitting(gathered, control, policy, now_ns)
    runs = [run for unit in units for run in unit.runs]
    red = control.expect == "red"
    good = [run for run in runs if not any(_misses(run, control))]
    seeds = len({run.meta.spec.get("seed") for run in good})
    found = interval(len(good), len(runs))
    wrong = [finding for run in runs for finding in _wrong(run, control)]
    missed = [run for run in runs if red and _missed(run)]
    enough = seeds >= control.seeds and len(good) >= control.share * len(runs)
    remark = ""
    if missed and enough and len(good) + len(missed) == len(runs):
        wrong = []
        remark = f"{control.id}: its bug was missed in {len(missed)} of {len(runs)} runs"
    if not red:
        # An attempt that died has come to no pass, and may have found a violation all the same.
        died = [run for unit in units for run in unit.earlier if run.verdict.verdict.failed]
        wrong += [finding for run in died for finding in _wrong(run, control)]
        wrong += unproven((r for r in gathered.runs if of_test(r.meta, control)), control.id)
    short = []
    if seeds < control.seeds:
        what = f"{seeds} of {control.seeds} seeds"
        short = [Finding(rule="G32", what=what, of=control.id)]
    short = with_near_misses(short, aside, nothing=not good)
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
        command=command_of_control(control) if wrong or short else "",
        again=again,
    )


def _of(found: Rate) -> str:
    """A share with Wilson's interval of 95 %."""
    if not found.total:
        return "no run"
    share = found.hits / found.total
    return (
        f"{found.hits} of {found.total}: {share:.0%} ({found.low:.0%} to {found.high:.0%} at 95 %)"
    )


def _wrong(run: JudgedRun, control: Control) -> Iterator[Finding]:
    rule = "G30" if control.expect == "red" else "G31"
    if rule == "G31" and run.verdict.verdict.failed:
        rule = "G22"
    for what in _misses(run, control):
        yield Finding(rule=rule, what=what, of=control.id, where=str(run.path))


def _missed(run: JudgedRun) -> bool:
    """Did it just not find anything? One that failed by another anomaly is no such run."""
    return not run.verdict.verdict.failed


def _misses(run: JudgedRun, control: Control) -> Iterator[str]:
    """Why a run did not do what this control is there for."""
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
