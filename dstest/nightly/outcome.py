"""What a try of a cell came to: its run directory, held to what it had to come to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from dstest.core.check import kinds_in
from dstest.core.errors import ConfigError, DstestError, EvidenceError, Exit
from dstest.core.evidence import Symptom, Transport
from dstest.core.known_bug import showing
from dstest.core.standing import Standing
from dstest.core.verdict import State
from dstest.nightly.cells import Expected
from dstest.runner.integrity import verified
from dstest.steps.own import differences
from dstest.steps.results import over
from dstest.store.layout import RunDir

Shown = Literal["as-it-must", "failed", "other-bug", "missed", "no-verdict"]
"""The same for people: a red control that shows another violation than is known accuses nothing
that is under test, and is no `failed` there."""

_PARTIAL: Final = "PARTIAL"
IN_PROCESS: Final[Transport] = "in-process"


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """A run, as it was summed up. `exit` is that of its verdict; `found_s` the seconds of load
    until the first violation was there, None where no operation shows one; `planned` and `landed`
    count its faults. Of what it has tested: `lab`, its `nodes`, the `transport` from clients to
    servers, `load_s` seconds of load, `operations` judged by the checker that judged most of them,
    the `model`, the `tier` whose budget was met; empty in what older versions wrote. `holds` is
    False where its evidence is there and is not what it left, or was there and is gone."""

    state: State
    rule: str = ""
    reason: str = ""
    exit: int = Exit.NOT_PROVEN
    anomalies: list[str] = []
    planned: int = 0
    landed: int = 0
    found_s: float | None = None
    version: str = ""
    holds: bool = True
    lab: str = ""
    nodes: int = 0
    transport: Transport | Literal[""] = ""
    load_s: float | None = None
    operations: int = 0
    model: str = ""
    tier: str = ""


def never_run(reason: str) -> Judged:
    """What there is to say where a try left no run."""
    return Judged(state=State.NOT_RUN, rule="V01", reason=reason)


def judge_run(path: Path, argv: Sequence[str], seed: int) -> Judged | None:
    """The run in a directory, as a run of this command with this seed; None where it was not judged
    to its end. Evidence that was changed,
    that cannot be read or that is of another command proves nothing, and the answer says so."""
    try:
        if not over(path):
            return None
        run = RunDir.open(path)
        meta = run.read_meta()
        assert meta is not None
        found = verified(run)
        wrong = differences(meta, argv)
        wrong += ["seed"] if meta.spec.get("seed") != seed else []
        if wrong:
            raise EvidenceError(f"{path} is a run of something else: {', '.join(wrong)}")
    except (EvidenceError, ConfigError) as error:
        return not_held(error.message)
    except DstestError as error:
        return never_run(error.message)
    verdict = found.verdict
    anomalies = sorted(kinds_in(msgspec.to_builtins(verdict.checkers)))
    return Judged(
        state=verdict.verdict,
        rule=verdict.rule,
        reason=verdict.reason,
        exit=found.exit_code,
        anomalies=anomalies,
        planned=verdict.evidence.faults_planned,
        landed=sum(fault.landed == "yes" for fault in verdict.evidence.faults),
        found_s=_found_s(verdict.evidence.symptom) if anomalies else None,
        version=meta.system_version or "",
        lab=meta.lab or str(meta.spec.get("lab", "")),
        nodes=len(meta.nodes),
        transport=meta.transport,
        load_s=meta.load_s,
        operations=verdict.evidence.checker.ops_judged,
        model=meta.model,
        tier=verdict.evidence.budget.met,
    )


def _found_s(symptom: Symptom | None) -> float | None:
    """Seconds of load until the first violation was complete; None where no operation shows it."""
    return None if symptom is None or symptom.end_ns is None else symptom.end_ns / 1e9


def not_held(why: str) -> Judged:
    """What there is to say of evidence that proves nothing."""
    return Judged(
        state=State.INCONCLUSIVE_ORACLE,
        rule="V05",
        reason=f"its evidence does not hold: {why}",
        holds=False,
    )


def standing_of(expected: Expected, judged: Judged) -> tuple[Standing, str]:
    """(how it stands, why it is not as it must be)"""
    if expected.red:
        return _of_red(expected, judged)
    if judged.state.failed:
        return "failed", f"{judged.state.value}: {', '.join(judged.anomalies) or judged.reason}"
    if judged.state.passed and judged.exit == Exit.PASS:
        return "as-it-must", ""
    short = judged.state.value.startswith(_PARTIAL) and judged.reason == expected.short_of
    if expected.short_of and short and not judged.anomalies:
        return "as-it-must", ""
    return "no-verdict", f"{judged.state.value}: {judged.reason}"


def _of_red(expected: Expected, judged: Judged) -> tuple[Standing, str]:
    if not judged.state.failed:
        missed = judged.state.passed
        return "missed" if missed else "no-verdict", f"{judged.state.value}: {judged.reason}"
    wanted = ", ".join(expected.anomalies)
    how = showing(
        judged.anomalies,
        expected.anomalies,
        expected.beside,
        planned=judged.planned > 0,
        landed=judged.landed,
        by_fault=expected.by_fault,
    )
    match how:
        case "other-bug":
            strange = sorted({*judged.anomalies} - {*expected.anomalies, *expected.beside})
            return "failed", f"found {', '.join(strange)}, which is not known of it"
        case "missed":
            return "missed", f"failed without {wanted}: {judged.reason}"
        case "no-fault":
            return "missed", f"found {wanted}, and no fault had landed"
        case "shown":
            return "as-it-must", ""


def shown(standing: Standing, *, red: bool) -> Shown:
    """How something stands, in the words that people and the index get."""
    return "other-bug" if red and standing == "failed" else standing
