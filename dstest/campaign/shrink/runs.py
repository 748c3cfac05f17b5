"""Runs of candidates on a cluster, and the history made small without a run.

A candidate changes parts of the run in question; seed, system, workload and checkers stay. A part
of the history is taken only where the checker finds the same violation in it alone: the witness,
the operations on its key, those that had begun before its last one ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from dstest.campaign.shrink.candidate import RUNS, Attempt, Candidate
from dstest.core import registry
from dstest.core.check import Anomaly, Budget, CheckResult
from dstest.core.errors import ConfigError, DstestError, Interrupted
from dstest.core.fingerprint import parts_of
from dstest.core.history import History
from dstest.core.op import Op, Outcome
from dstest.core.run_record import RunMeta, RunSpec
from dstest.core.verdict import Verdict
from dstest.history.layout import RunDir, read_records
from dstest.judge.checker_answers import ask_checker
from dstest.judge.symptom import all_fingerprints, fingerprints_of
from dstest.runner.fault_plans import Schedule
from dstest.runner.plugins import Plugins, resolve
from dstest.runner.replay import spec_of, still_there
from dstest.runner.screen import Progress as Ui
from dstest.runner.session import run_session
from nemeses.mix import Mix

_LANDED_LEAST: Final = 0.9
"""Of its faults a run without the violation must have so many, to say that it does not come."""


class Runs(Protocol):
    """Makes runs of candidates."""

    @property
    def width(self) -> int:
        """So many side by side."""
        ...

    def refused(self, candidate: Candidate) -> str:
        """Why there can be no run of it; empty where there can."""
        ...

    def make(self, candidates: Sequence[Candidate]) -> list[Attempt]:
        """One run of each, in this order, of no more than `width`. Raises Interrupted where the
        user ends it."""
        ...


class ClusterRuns:
    """Runs below `aside` of what was run in `original`, for the violation `fingerprint`, one after
    the other and in this process."""

    width = 1

    def __init__(
        self, original: RunMeta, fingerprint: str, aside: Path, lab_id: str | None, ui: Ui
    ) -> None:
        self._meta, self._fingerprint, self._aside = original, fingerprint, aside
        self._lab_id, self._ui = lab_id, ui

    def refused(self, candidate: Candidate) -> str:
        """See `Runs.refused`."""
        return refusal(self._meta, candidate)

    def make(self, candidates: Sequence[Candidate]) -> list[Attempt]:
        """See `Runs.make`."""
        return [self._made(candidate) for candidate in candidates]

    def _made(self, candidate: Candidate) -> Attempt:
        """In the lab of the original where that stands, else in a lab of its own."""
        plugins = plugins_of(self._meta, candidate)
        there = self._lab_id or still_there(plugins, self._meta.lab_id)
        try:
            done = run_session(plugins, store=self._aside / RUNS, lab_id=there, ui=self._ui)
        except Interrupted:
            raise
        except DstestError as error:
            return Attempt(why_not=error.message)
        if isinstance(done.failure, Interrupted):
            raise done.failure
        if done.verdict is None or done.failure is not None:
            path = done.path.relative_to(self._aside.resolve()).as_posix()
            why = str(done.failure or "it came to no verdict").splitlines()[0]
            return Attempt(path=path, why_not=why)
        return attempt_of(done.path, self._aside, self._fingerprint, done.verdict)


def plugins_of(original: RunMeta, candidate: Candidate) -> Plugins:
    """The parts of a run of it. Raises ConfigError where there can be none."""
    spec = spec_for(spec_of(original), candidate)
    return resolve(spec, candidate.pairs, schedule=schedule_of(candidate))


def refusal(original: RunMeta, candidate: Candidate) -> str:
    """Why the command line would refuse it; empty where it would not."""
    try:
        plugins_of(original, candidate)
    except ConfigError as error:
        return error.message
    return ""


def attempt_of(run: Path, aside: Path, fingerprint: str, verdict: Verdict) -> Attempt:
    """What a run below `aside` that came to this verdict says of the violation `fingerprint`."""
    path = run.resolve().relative_to(aside.resolve()).as_posix()
    evidence, digest = verdict.evidence, _simulation(RunDir(run))
    if not evidence.checker_ran and not evidence.violation:
        return Attempt(path=path, why_not="no checker judged it", digest=digest)
    came = fingerprint in all_fingerprints(verdict)
    faults = len(evidence.faults)
    landed = sum(fault.landed == "yes" for fault in evidence.faults)
    if not came and landed < _LANDED_LEAST * faults:
        why_not = f"{faults - landed} of its {faults} faults did not land"
        return Attempt(path=path, why_not=why_not, digest=digest)
    return Attempt(
        path=path,
        judged=True,
        came=came,
        landed=landed,
        targets=_targets(RunDir(run)),
        digest=digest,
        ops=evidence.checker.ops_eligible,
    )


def _simulation(run: RunDir) -> str | msgspec.UnsetType:
    """Which one it was, by its digest."""
    meta = run.read_meta()
    return msgspec.UNSET if meta is None or meta.digest is None else meta.digest


def _targets(run: RunDir) -> int:
    """Nodes that its faults hit, one that was hit twice counted twice."""
    return sum(len(row.targets) for row in read_records(run.path))


def candidate_of(plugins: Plugins) -> Candidate:
    """What the run that these are the parts of was made of."""
    spec = plugins.spec
    faults = plugins.nemesis.options
    pairs = [pair for pair in plugins.given if pair.split("=", 1)[0].strip() not in faults]
    return Candidate(
        nodes=spec.nodes,
        time_limit_s=spec.time_limit_s,
        concurrency=spec.concurrency,
        rate=spec.rate,
        options=tuple(pairs),
        fault_options={key: spec.options[key] for key in faults},
        plans=tuple(plugins.plans),
    )


def spec_for(original: RunSpec, candidate: Candidate) -> RunSpec:
    """The original with what the candidate has made smaller."""
    return msgspec.structs.replace(
        original,
        nemesis=candidate.nemesis,
        nodes=candidate.nodes,
        time_limit_s=candidate.time_limit_s,
        concurrency=candidate.concurrency,
        rate=candidate.rate,
        stop_on_violation=False,
        schedule=None,
    )


def schedule_of(candidate: Candidate) -> Schedule:
    """The faults of a candidate as a file of its own would plan them."""
    return Schedule(
        nemesis=candidate.nemesis,
        nodes=candidate.nodes,
        time_limit_s=candidate.time_limit_s,
        options=dict(_options(candidate)),
        plans=list(candidate.plans),
    )


def _options(candidate: Candidate) -> Iterator[tuple[str, Any]]:
    """The options of the nemeses that are left, under the names that they have without the others.

    Those by which a mix plans say nothing to a schedule that is planned.
    """
    given: Mapping[str, Any] = candidate.fault_options
    parts = [registry.load("nemeses", name) for name in candidate.kinds]
    declared = {} if not parts else (parts[0] if len(parts) == 1 else Mix(parts)).options
    for key in declared:
        names = [key, *(f"{part.name}.{key}" for part in parts)]
        found = next((name for name in names if name in given), None)
        if found is not None and not _plans_alone(key, parts):
            yield key, given[found]


def _plans_alone(key: str, parts: list[Any]) -> bool:
    """Is this an option of the mix itself?"""
    plain = key.rsplit(".", 1)[-1]
    return not any(plain in part.options for part in parts)


def smallest_history(
    history: History, checker: Any, model: str, result: CheckResult, fingerprint: str
) -> History | None:
    """The smallest of these parts that shows the violation, None where none of them does.

    `result` is the checker's answer about the whole.
    """
    kind = parts_of(fingerprint).kind
    shown = next(iter(result.anomalies.get(kind, [])), None)
    if shown is None:
        return None
    for ops in _parts(history.ops, shown, keyed=checker.keyed):
        part = msgspec.structs.replace(history, ops=ops)
        if shows_alone(part, checker, model, fingerprint):
            return _counted(part)
    return None


def _counted(part: History) -> History:
    """With counters of its own: those of the recorder are of the whole, and a part that is held to
    them would have lost operations."""
    outcomes = Counter(op.outcome.value for op in part.ops)
    counters = {outcome.value: outcomes[outcome.value] for outcome in Outcome}
    counters |= {"issued": len(part.ops), "invokes": len(part.ops)}
    return msgspec.structs.replace(
        part, header=msgspec.structs.replace(part.header, counters=counters)
    )


def shows_alone(part: History, checker: Any, model: str, fingerprint: str) -> bool:
    """Does the checker find the violation in this part of a history?"""
    return fingerprint in fingerprints_of(ask_checker(checker, part, model, Budget()))


def _parts(every: list[Op], shown: Anomaly, *, keyed: bool) -> Iterator[list[Op]]:
    """Smallest first."""
    held = {*shown.ops}
    witness = [op for op in every if op.op_id in held]
    if not witness:
        return
    yield witness
    end_ns = max(op.last_ns for op in witness)
    begun = [op for op in every if op.invoke_ts <= end_ns]
    keys = {repr(op.key) for op in witness}
    if keyed:
        yield [op for op in begun if repr(op.key) in keys]
        yield [op for op in every if repr(op.key) in keys]
    yield begun
