"""What a try of a cell came to: its run directory, held to what it had to come to.

A violation is sticky: no later try takes it back. A red control needs the anomaly that is known and
no other. `Try.standing` has four words, which readers of night.json know; people and the index get
a fifth, `other-bug`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from dstest.campaign.nightly.cells import Expectation
from dstest.campaign.steps.commands import differences, over
from dstest.core.errors import ConfigError, DstestError, EvidenceError, Exit
from dstest.core.evidence import Transport
from dstest.core.fingerprint import showing
from dstest.core.standing import Standing
from dstest.core.verdict import State
from dstest.history.layout import RunDir
from dstest.report.summarize import stored_summary
from dstest.runner.integrity import Verify, verify_run

Shade = Literal["as-it-must", "failed", "other-bug", "missed", "no-verdict"]
"""The same for people: a red control that shows another violation than is known accuses nothing
that is under test, and is no `failed` there."""

_PARTIAL: Final = "PARTIAL"
IN_PROCESS: Final[Transport] = "in-process"


class TryResult(msgspec.Struct, frozen=True, kw_only=True):
    """A run, as it was summed up. `exit` is that of its verdict; `found_s` the seconds of load
    until the first violation was there, None where no operation shows one; `planned` and `landed`
    count its faults. Of what it has tested: `lab`, its `nodes`, the `transport` from clients to
    servers, `load_s` seconds of load, `operations` judged by the checker that judged most of them,
    the `model`, the `tier` whose budget was met, and its state as it is `shown` to people; empty in
    what older versions wrote. `holds` is False where its evidence is there and is not what it left,
    or was there and is gone."""

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
    shown: str = ""

    @property
    def told(self) -> str:
        """Its state as people are told it."""
        return self.shown or self.state.value


def never_run(reason: str) -> TryResult:
    """What there is to say where a try left no run."""
    return TryResult(state=State.NOT_RUN, rule="V01", reason=reason)


def judge_run(
    path: Path, argv: Sequence[str], seed: int, judged: Verify = verify_run
) -> TryResult | None:
    """The run in a directory, as a run of this command with this seed; None where it was not judged
    to its end. Evidence that was changed, that cannot be read or that is of another command proves
    nothing, and the answer says so."""
    try:
        if not over(path):
            return None
        run = RunDir.open(path)
        meta = run.read_meta()
        assert meta is not None
        found = judged(run)
        wrong = differences(meta, argv)
        wrong += ["seed"] if meta.spec.get("seed") != seed else []
        if wrong:
            raise EvidenceError(f"{path} is a run of something else: {', '.join(wrong)}")
    except (EvidenceError, ConfigError) as error:
        return not_held(error.message)
    except DstestError as error:
        return never_run(error.message)
    verdict = found.verdict
    told = stored_summary(path.name, meta, verdict)
    return TryResult(
        state=verdict.verdict,
        rule=verdict.rule,
        reason=verdict.reason,
        exit=found.exit_code,
        anomalies=list(told.kinds),
        planned=told.faults_planned,
        landed=told.faults_landed,
        found_s=told.found_s,
        version=told.test.version,
        lab=told.lab,
        nodes=told.test.nodes,
        transport=meta.transport,
        load_s=meta.load_s,
        operations=told.operations,
        model=told.test.model,
        tier=told.tier_met,
        shown=verdict.shown,
    )


def not_held(why: str) -> TryResult:
    """What there is to say of evidence that proves nothing."""
    return TryResult(
        state=State.INCONCLUSIVE_ORACLE,
        rule="V05",
        reason=f"its evidence does not hold: {why}",
        holds=False,
    )


def standing_of(expected: Expectation, judged: TryResult) -> tuple[Standing, str]:
    """(how it stands, why it is not as it must be)"""
    if not judged.holds:  # which is no weakness of a checker, whatever its state is called
        return "no-verdict", judged.reason
    if expected.red:
        return _of_red(expected, judged)
    if judged.state.failed:
        return "failed", f"{judged.told}: {', '.join(judged.anomalies) or judged.reason}"
    if judged.state.passed and judged.exit == Exit.PASS:
        return "as-it-must", ""
    short = judged.state.value.startswith(_PARTIAL) and judged.reason == expected.short_of
    if expected.short_of and short and not judged.anomalies:
        return "as-it-must", ""
    return "no-verdict", f"{judged.state.value}: {judged.reason}"


def _of_red(expected: Expectation, judged: TryResult) -> tuple[Standing, str]:
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
            named = ", ".join(f'"{name}"' for name in strange)
            return "failed", (
                f"found {', '.join(strange)}, which is not known of it; where this bug shows it "
                f"too, name it: `beside = [{named}]`"
            )
        case "missed":
            return "missed", f"failed without {wanted}: {judged.reason}"
        case "no-fault":
            return "missed", f"found {wanted}, and no fault had landed"
        case "shown":
            return "as-it-must", ""


def shade_of(standing: Standing, *, red: bool) -> Shade:
    """How something stands, in the words that people and the index get."""
    return "other-bug" if red and standing == "failed" else standing
