"""What a step came to: read out of the runs that it left, never from what was said about them.

Every run is held to its sums (`runner/integrity.py`), so whoever has the
directory comes to the same verdict. A plan asks for a budget of its own, which may be more than the
tier's: where a run has done less of it, its pass is worth less (discipline 2.3, V13 and V14).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from dstest.core import registry
from dstest.core.check import kinds_of
from dstest.core.errors import ConfigError, EvidenceError
from dstest.core.evidence import Evidence
from dstest.core.run_meta import RunMeta
from dstest.core.verdict import State, Verdict
from dstest.judge.session import evidence_among
from dstest.plans.launch import Budget
from dstest.plans.model import Scenario
from dstest.runner.integrity import finished
from dstest.runner.session_check import arm_evidence
from dstest.runner.session_file import SessionDir, is_session
from dstest.steps.own import differences
from dstest.steps.results import state_of
from dstest.store.layout import RunDir

_CODE: Final = re.compile(r"`([a-z0-9-]+)`")
_LESS: Final = {State.PASS_HARDENING: State.PASS_SMOKE, State.PASS_SMOKE: State.PARTIAL_MODEL}


class RunOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a step. `evidence` is None where it has no verdict; `kinds` are the
    anomalies that each checker found."""

    path: Path
    state: State
    rule: str
    reason: str
    meta: RunMeta | None = None
    evidence: Evidence | None = None
    kinds: dict[str, frozenset[str]] = {}


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A step: its state, the rule that gave it, why it is no better, and its runs.

    `missed` says which numbers of the declared budget were not reached.
    """

    state: State
    rule: str
    reason: str
    runs: list[RunOutcome]
    missed: list[str]


def outcome_of(
    path: Path | None,
    budget: Budget | None,
    checkers: Iterable[str],
    *,
    wanted: Sequence[str] = (),
) -> Outcome:
    """What a run or session directory is worth against what the plan declared.

    `checkers` are those that the plan expects to judge it, `wanted` the words of the command that
    it has to be a run of. Evidence that was changed, that cannot be read, or that is of another
    command, is worth nothing: the answer is inconclusive and says why.
    """
    if path is None:
        return Outcome(state=State.NOT_RUN, rule="V01", reason="never run", runs=[], missed=[])
    try:
        state, rule, reason = state_of(path)
        runs = _runs(path)
        _require_own(runs, wanted)
    except (EvidenceError, ConfigError) as error:
        return Outcome(
            state=State.INCONCLUSIVE_ORACLE,
            rule="V05",
            reason=f"its evidence does not hold: {error.message}",
            runs=[],
            missed=[],
        )
    lacking = sorted({*checkers} - {name for run in runs for name in _judges(run)})
    if lacking and not state.failed and state is not State.NOT_RUN:
        state, rule = State.PARTIAL_SURFACE, "V07"
        reason = f"the plan names {', '.join(lacking)}, which judged none of its runs"
    missed = [] if budget is None else _missed(runs, budget)
    if missed and (less := _LESS.get(state)) is not None:
        state, rule = less, "V13" if less is State.PARTIAL_MODEL else "V14"
        reason = f"the budget that the plan declares was not met: {'; '.join(missed)}"
    return Outcome(state=state, rule=rule, reason=reason, runs=runs, missed=missed)


def _require_own(runs: Iterable[RunOutcome], wanted: Sequence[str]) -> None:
    """Raises EvidenceError where a run is not one of this command."""
    for run in runs:
        wrong = [] if run.meta is None else differences(run.meta, wanted)
        if wrong:
            raise EvidenceError(f"{run.path} is a run of something else: {', '.join(wrong)}")


def judges_of(scenario: Scenario) -> tuple[str, ...]:
    """The checkers that the plan counts on: those that its oracle names as code, and those of its
    run block."""
    named = _CODE.findall(scenario.field("oracle"))
    known = [name for name in named if name in registry.names("checkers")]
    run = scenario.run
    asked = [] if run is None else [*run.checker, *run.checkers]
    asked = [name for name in asked if not name.endswith(".py")]
    return tuple(dict.fromkeys([*known, *asked]))


def _runs(path: Path) -> list[RunOutcome]:
    """The runs; those of a session with the evidence that they have among each other."""
    if not is_session(path):
        return [_run(path)]
    directory = SessionDir.open(path)
    file = directory.read()
    among = evidence_among([arm_evidence(directory, arm) for arm in file.arms], file.tier)
    runs = {arm.id: _run(path / arm.attempts[-1]) for arm in file.arms if arm.attempts}
    return [msgspec.structs.replace(run, evidence=among.get(id)) for id, run in runs.items()]


def _run(path: Path) -> RunOutcome:
    """A run that has just been read, or that never was."""
    run = RunDir.open(path)
    meta = run.read_meta()
    if not finished(run):
        return RunOutcome(
            path=path, state=State.NOT_RUN, rule="V01", reason="it was not judged", meta=meta
        )
    verdict = msgspec.convert(run.read_json("verdict.json"), Verdict)
    return RunOutcome(
        path=path,
        state=verdict.verdict,
        rule=verdict.rule,
        reason=verdict.reason,
        meta=meta,
        evidence=verdict.evidence,
        kinds={name: frozenset(kinds_of(plain)) for name, plain in verdict.checkers.items()},
    )


def _judges(run: RunOutcome) -> list[str]:
    return [] if run.evidence is None else list(run.evidence.checker.ran)


def _missed(runs: list[RunOutcome], budget: Budget) -> list[str]:
    """Numbers of the declared budget that these runs have not reached, in words."""
    said = []
    with_nodes = {run.meta.spec.get("nodes") for run in runs if run.meta is not None}
    said += [f"no run had {size} nodes" for size in sorted({*budget.nodes} - with_nodes)]
    short = [
        run
        for run in runs
        if run.meta is not None
        and (run.meta.ended_by or float(run.meta.spec.get("time_limit_s", 0)) < budget.duration_s)
    ]
    if short:
        said.append(f"{len(short)} of {len(runs)} runs had less than {budget.duration_s:g} s")
    landed = [
        sum(fault.landed == "yes" for fault in run.evidence.faults)
        for run in runs
        if run.evidence is not None
    ]
    if landed and min(landed) < budget.faults:
        said.append(f"a run had {min(landed)} landed faults of {budget.faults}")
    seeds = {run.meta.spec.get("seed") for run in runs if run.meta is not None}
    if len(seeds) < budget.seeds:
        said.append(f"{len(seeds)} seeds of {budget.seeds}")
    return said
