"""From a policy and stores to a decision. Pure but for what it reads: the time is given to it."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from dstest import __version__
from dstest.core.errors import ConfigError, Exit
from dstest.gate.asides import hidden, plan_answer
from dstest.gate.claims import Answer, Count, claim_answer, strangers
from dstest.gate.controls import baseline_answer, control_answer
from dstest.gate.gather import StoreEvidence, gather, stores_of
from dstest.gate.policy import Finding, Policy, ReadPolicy, Risk
from dstest.gate.provenance import Doubles, doubles, provenance_findings
from dstest.gate.relevance import of_test
from dstest.gate.soundness import too_far
from dstest.gate.table import RULES, UNEXPIRED
from dstest.runner.integrity import Again

_NEVER_MAX: Final = 3
SCHEMA = "dstest.gate-decision/1"

_OUTCOMES: dict[
    Exit, Literal["let through", "stopped by a violation", "stopped for want of evidence"]
] = {
    Exit.PASS: "let through",
    Exit.FAIL: "stopped by a violation",
    Exit.NOT_PROVEN: "stopped for want of evidence",
}


class DecisionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A claim, control, plan or the baseline: `kept` where nothing stands against it. `counts` are
    the numbers that are asked for and those that are there, `near` the runs that nearly fit and
    what each is instead, `command` what makes what is missing, `in_night` how a night makes it,
    where its runs are one's. `missing` is what stands against it
    and is not told of it by itself: it is short because evidence is not what it was left as."""

    id: str
    text: str
    said: str
    kept: bool
    runs: tuple[str, ...] = ()
    not_counted: tuple[str, ...] = ()
    counts: tuple[Count, ...] = ()
    near: tuple[Finding, ...] = ()
    missing: tuple[Finding, ...] = ()
    command: str = ""
    in_night: str = ""


class AcceptedFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A finding that a risk accepts."""

    finding: Finding
    risk: Risk


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """`evidence` are the runs that the decision rests on, each with the sha256 of its check sums,
    so that whoever has them can tell that they are the same. `believed`: none was judged again."""

    schema: str = SCHEMA
    outcome: Literal["let through", "stopped by a violation", "stopped for want of evidence"]
    exit: int
    policy: str
    policy_file: str
    policy_sha256: str
    dstest: str
    decided: str
    stores: tuple[str, ...]
    findings: tuple[Finding, ...]
    accepted: tuple[AcceptedFinding, ...]
    rows: tuple[DecisionRow, ...]
    notes: tuple[str, ...]
    evidence: dict[str, str]
    believed: bool = False


def decide(
    read: ReadPolicy,
    stores: Sequence[Path],
    baseline: Sequence[Path],
    now_ns: int,
    tell: Callable[[str], None] = lambda what: None,
) -> Decision:
    """The decision; `tell` is told what is looked at now. Raises ConfigError where it cannot be
    asked for like this."""
    policy, now = read.policy, datetime.datetime.fromtimestamp(now_ns / 1e9, datetime.UTC)
    _require(read, stores, baseline, now.date())
    signers = policy.evidence.signers
    allowed = None if signers is None else read.path.parent / signers
    gathered = gather(stores, policy.evidence.again, tell)
    wrong = [*gathered.findings]
    wrong += provenance_findings(gathered.units, now_ns, allowed)
    same = _doubles(gathered)
    wrong += same.findings
    beside = [*hidden(gathered, policy)]
    wrong += [finding for finding in beside if not finding.of]
    gathered = msgspec.structs.replace(_without(gathered, wrong), same=same.same)
    answers = [claim_answer(gathered, claim, policy, now_ns) for claim in policy.claim]
    answers += [control_answer(gathered, control, policy, now_ns) for control in policy.control]
    answers += [plan_answer(gathered, plan, policy, now_ns) for plan in policy.plan]
    if policy.baseline is not None:
        earlier = _earlier(baseline, now_ns, allowed, policy.evidence.again_beside)
        answers.append(baseline_answer(policy, earlier, answers))
    answers = [_with(answer, beside) for answer in answers]
    findings = [*wrong, *strangers(gathered, policy), *_unless_known(answers, wrong)]
    for risk in policy.risk:
        findings += UNEXPIRED.findings((risk, now.date()), risk.id)
    left, accepted = _accepted(findings, policy, now.date())
    for answer in answers:
        if not any(finding in left for finding in answer.findings) and not wrong:
            more = _accepted(answer.follows, policy, now.date())
            left, accepted = [*left, *more[0]], [*accepted, *more[1]]
    code = max((RULES[f.rule].exit for f in left), key=_worst, default=Exit.PASS)
    return Decision(
        outcome=_OUTCOMES[code],
        exit=int(code),
        policy=policy.name,
        policy_file=str(read.path),
        policy_sha256=read.sha256,
        dstest=__version__,
        decided=now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        stores=tuple(map(str, stores_of(stores))),
        findings=tuple(left),
        accepted=tuple(accepted),
        rows=tuple(_row(answer, left, policy, now.date()) for answer in answers),
        notes=(*read.unsaid, *_notes(gathered, answers, accepted, policy)),
        evidence={str(run.path): run.digest for answer in answers for run in answer.counted},
        believed=policy.evidence.again == "no",
    )


def _doubles(gathered: StoreEvidence) -> Doubles:
    return doubles([run for run in gathered.runs if run.over])


def _earlier(
    baseline: Sequence[Path], now_ns: int, allowed: Path | None, again: Again
) -> StoreEvidence:
    """What lies in the stores of the baseline, with what is wrong with it."""
    earlier = gather(baseline, again)
    same = _doubles(earlier)
    odd = (*provenance_findings(earlier.units, now_ns, allowed), *same.findings)
    findings = (*earlier.findings, *odd)
    return msgspec.structs.replace(earlier, findings=findings, same=same.same)


def _with(answer: Answer, beside: Sequence[Finding]) -> Answer:
    more = [finding for finding in beside if finding.of == answer.id]
    return msgspec.structs.replace(answer, findings=(*more, *answer.findings))


def _worst(code: Exit) -> int:
    return (Exit.PASS, Exit.NOT_PROVEN, Exit.FAIL).index(code)


def _require(
    read: ReadPolicy, stores: Sequence[Path], baseline: Sequence[Path], today: datetime.date
) -> None:
    far = next(too_far(read.policy, today), None)
    if far is not None:
        where = f"{read.path}:{read.line_of(far.id)}: {far.id}: {far.what}"
        raise ConfigError(where, remedy=far.remedy)
    if bool(baseline) != (read.policy.baseline is not None):
        said = "the policy asks for no baseline" if baseline else "the policy asks for a baseline"
        raise ConfigError(said, remedy="--baseline STORE where the policy has [baseline]")
    stores_of([*stores, *baseline])
    signers = read.policy.evidence.signers
    if signers is not None and not (read.path.parent / signers).is_file():
        raise ConfigError(
            f"{read.path}: evidence.signers: {read.path.parent / signers} is no file",
            remedy="a file beside the policy with a name and a public key in each line",
        )


def _without(gathered: StoreEvidence, findings: Sequence[Finding]) -> StoreEvidence:
    """What is left when all that is dishonest counts for nothing. A violation stays one."""
    bad = {finding.where for finding in findings}
    kept = [
        unit
        for unit in gathered.units
        if unit.failed or not bad & {str(unit.path), *(str(run.path) for run in unit.every)}
    ]
    return msgspec.structs.replace(gathered, units=tuple(kept))


def _unless_known(answers: Sequence[Answer], found: Sequence[Finding]) -> list[Finding]:
    """Where evidence is not honest, that a claim is short without it says nothing more: it only
    follows. A violation always stands."""
    told = [finding for answer in answers for finding in answer.findings]
    return [f for f in told if RULES[f.rule].exit is Exit.FAIL] if found else told


def _accepted(
    findings: Sequence[Finding], policy: Policy, today: datetime.date
) -> tuple[list[Finding], list[AcceptedFinding]]:
    left, accepted = [], []
    for finding in dict.fromkeys(findings):
        risk = next(
            (
                risk
                for risk in policy.risk
                if (risk.of, risk.rule) == (finding.of, finding.rule) and risk.expires >= today
            ),
            None,
        )
        if risk is None or not RULES[finding.rule].acceptable:
            left.append(finding)
        else:
            accepted.append(AcceptedFinding(finding=finding, risk=risk))
    return left, accepted


def _row(
    answer: Answer, told: Sequence[Finding], policy: Policy, today: datetime.date
) -> DecisionRow:
    """Kept only where nothing stands against it, whether that is `told` or goes without saying."""
    against = _accepted(answer.findings, policy, today)[0]
    against = against or _accepted(answer.follows, policy, today)[0]
    return DecisionRow(
        id=answer.id,
        text=answer.text,
        said=answer.said,
        kept=not against,
        runs=tuple(str(run.path) for run in answer.counted),
        not_counted=answer.not_counted,
        counts=answer.counts,
        near=answer.near,
        missing=tuple(f for f in against if f.of != answer.id or f not in told),
        command=answer.supply.command,
        in_night=answer.supply.night,
    )


def _of_other_versions(gathered: StoreEvidence, policy: Policy) -> list[str]:
    """Versions of the released systems, others than the released, of which a run failed."""
    released = {(claim.system, claim.system_version) for claim in policy.claim}
    named = {system for system, _ in released}
    red = [control for control in policy.control if control.expect == "red"]
    return sorted(
        {
            f"{run.meta.spec.get('system')} {run.meta.system_version}"
            for run in gathered.runs
            if run.verdict.verdict.failed
            and run.meta.system_version is not None
            and run.meta.spec.get("system") in named
            and (run.meta.spec.get("system"), run.meta.system_version) not in released
            and not any(of_test(run.meta, control) for control in red)
        }
    )


def _notes(
    gathered: StoreEvidence,
    answers: Sequence[Answer],
    accepted: Sequence[AcceptedFinding],
    policy: Policy,
) -> list[str]:
    """What a reader should know, and what decides nothing."""
    used = {run.path for answer in answers for run in answer.counted}
    rest = [run for run in gathered.runs if run.path not in used]
    notes = [f"{len(used)} runs count, {len(rest)} others lie in the stores"]
    if again := {path for answer in answers for path in answer.again} - used:
        few = ", ".join(map(str, sorted(again)[:_NEVER_MAX])) + (", .." * (len(again) > _NEVER_MAX))
        notes.append(
            f"{len(again)} are simulations that were made again, and one seed is one sample: {few}"
        )
    if policy.evidence.signers is None:
        notes.append(
            "no signature was asked for: whoever edits a record and all that follows from it alike"
            " is not found (evidence.signers)"
        )
    notes += [*gathered.notes, *(answer.remark for answer in answers if answer.remark)]
    if never := gathered.never_started:
        few = ", ".join(map(str, never[:_NEVER_MAX])) + (", .." if len(never) > _NEVER_MAX else "")
        notes.append(f"{len(never)} never began to ask for anything: {few}")
    elsewhere = _of_other_versions(gathered, policy)
    if elsewhere:
        notes.append(f"violations of versions that are not released: {', '.join(elsewhere)}")
    idle = [r.id for r in policy.risk if r.id not in {one.risk.id for one in accepted}]
    if idle:
        notes.append(f"accepted risks that nothing needs: {', '.join(idle)}")
    return notes
