"""Is a session what it left behind: its own runs, each once, none missing, and their verdict?"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgspec

from dstest import __version__
from dstest.core import registry
from dstest.core.errors import ConfigError, EvidenceError
from dstest.core.evidence import Evidence
from dstest.core.run_record import Host, RunMeta
from dstest.core.verdict import State
from dstest.history.layout import VERDICT, RunDir, read_verdict
from dstest.judge.decide import decide
from dstest.judge.session import BASELINE, ArmEvidence, SessionVerdict, judge_session
from dstest.report.model import read_baseline
from dstest.runner.integrity import Verify, intact, is_finished, verify_run
from dstest.runner.plugins import rate_of
from dstest.runner.session_file import ArmState, SessionDir, SessionFile


class SessionFinished(msgspec.Struct, frozen=True, kw_only=True):
    """How a session ended. `verdict` is None where it was stopped before its last arm."""

    path: Path
    exit_code: int
    verdict: SessionVerdict | None = None
    failure: Any = None


def reread(path: Path, judged: Verify | None = None) -> SessionFinished:
    """A session that is over, judged again from what its runs came to, each read by `judged`
    (`integrity.verify_run` without one).

    Raises EvidenceError where a file of it is not what the session left, or gives another verdict.
    """
    directory = SessionDir.open(path)
    file = directory.read()
    if file.verdict is None:
        raise ConfigError(f"{path} is not over", remedy=f"`dstest resume {path}` goes on")
    directory.intact()
    for arm in file.arms:
        verify(directory, file, arm, judged)
    once(directory, file)
    listed = {(directory.path / name).resolve() for arm in file.arms for name in arm.attempts}
    for segments in directory.path.glob("**/segments"):
        if segments.parent.resolve() not in listed:
            raise contradicts(directory, f"session.json does not know {segments.parent}")
    verdict = judge_session([arm_evidence(directory, arm) for arm in file.arms], file.tier)
    ours = all(map(_made_here, listed))
    there, kept = msgspec.to_builtins(verdict), file.verdict
    if there != kept if ours else there["state"] != kept.get("state"):
        message = (
            f"session.json says {file.verdict.get('state')}, its arms give {verdict.state.value}"
        )
        raise contradicts(directory, message)
    if ours:
        _reports_agree(directory, file, verdict)
    return SessionFinished(path=directory.path, exit_code=verdict.exit_code, verdict=verdict)


def _made_here(run: Path) -> bool:
    """By this version of dstest? Another one may say the same in other words."""
    meta = RunDir.open(run).read_meta()
    return meta is None or meta.made_by(__version__)


def once(directory: SessionDir, file: SessionFile) -> None:
    """Raises EvidenceError where an arm or a run stands for more than one, or for none."""
    ids = [arm.id for arm in file.arms]
    runs = [(directory.path / name).resolve() for arm in file.arms for name in arm.attempts]
    if not ids or len({*ids}) < len(ids) or len({*runs}) < len(runs):
        raise contradicts(directory, "session.json names no arm, or an arm or a run twice")
    if strange := sorted({path.name for path in directory.arms.iterdir()} - {*ids}):
        raise contradicts(directory, f"session.json does not know arm {strange[0]}")


def unlisted(directory: SessionDir, arm: ArmState) -> Iterable[Path]:
    """Run directories of this arm that session.json does not know."""
    known = {(directory.path / name).resolve() for name in arm.attempts}
    found = sorted((directory.arms / arm.id).glob("*/segments"))
    return [path.parent for path in found if path.parent.resolve() not in known]


_OF_THE_SESSION: Final = (
    *("system", "workload", "nemesis", "lab", "time_limit_s", "rate", "concurrency", "model"),
    *("schedule", "stop_on_violation"),
)


def _belongs(directory: SessionDir, file: SessionFile, arm: ArmState, run: RunDir) -> None:
    """Raises EvidenceError where a run is not one of this arm of this session."""
    if run.path.parent != (directory.arms / arm.id).resolve():
        raise contradicts(directory, f"{run.path} is no run of {arm.id}")
    meta = run.read_meta()
    spec = {} if meta is None else meta.spec
    wanted = {name: getattr(file.spec, name) for name in _OF_THE_SESSION}
    wanted |= {"nodes": arm.nodes, "seed": arm.seed}
    wanted["rate"] = rate_of(file.spec, registry.load("labs", file.spec.lab))
    wrong = [name for name, value in wanted.items() if spec.get(name) != value]
    if list(spec.get("builds", ())) != list(file.spec.builds):
        wrong.append("builds")
    if meta is None or meta.options_given != file.options_given:
        wrong.append("options")
    if wrong or arm.id != f"n{arm.nodes}-s{arm.seed}":
        message = ", ".join(wrong) or "id"
        raise contradicts(directory, f"{run.path} is a run of another arm or session: {message}")


def verify(
    directory: SessionDir, file: SessionFile, arm: ArmState, judged: Verify | None = None
) -> None:
    """Raises EvidenceError where a run of the arm is not what it left. One that was never judged
    has no evidence, or it is nobody's."""
    for attempt in arm.attempts:
        run = RunDir.open(directory.path / attempt)
        _belongs(directory, file, arm, run)
        if is_finished(run):
            (judged or verify_run)(run)
        elif any((run.path / name).exists() for name in ("evidence.json", VERDICT)):
            raise contradicts(directory, f"{attempt} was not judged to its end, and has evidence")


def contradicts(directory: SessionDir, what: str) -> EvidenceError:
    return EvidenceError(
        f"{directory.path}: {what}",
        remedy="do not believe this copy; take the session from where it was made",
    )


def _reports_agree(directory: SessionDir, file: SessionFile, verdict: SessionVerdict) -> None:
    """Raises EvidenceError where a report is not what the verdict gives."""
    from dstest.report.session import session_reports

    made = session_reports(directory.path, file.spec, file.options_given, verdict)
    for name, text in made.items():
        path = directory.path / name
        if not path.is_file() or path.read_text(errors="replace") != text:
            raise contradicts(directory, f"{name} is not what the verdict gives")


def arm_evidence(directory: SessionDir, arm: ArmState) -> ArmEvidence:
    """What is on disk of an arm. Its state is computed from its evidence, never read. Raises
    EvidenceError where a file of a finished attempt was touched."""
    states: list[State] = []
    evidence: Evidence | None = None
    conditions: dict[str, Any] = {}
    members = arm.nodes
    for attempt in arm.attempts:
        run = RunDir.open(directory.path / attempt)
        if not is_finished(run):
            evidence = None
            states.append(State.NOT_RUN)
            continue
        intact(run)
        evidence = read_verdict(run.path).evidence
        states.append(decide(evidence).verdict)
        meta = run.read_meta()
        if meta is not None:
            conditions = {**_conditions(meta), **_baseline(run)}
            members = len(meta.members or ()) or arm.nodes
    return ArmEvidence(
        id=arm.id,
        seed=arm.seed,
        nodes=members,
        alone=states[-1] if states else State.NOT_RUN,
        evidence=evidence,
        earlier=states[:-1],
        conditions=conditions,
        why=arm.why,
    )


def _conditions(meta: RunMeta) -> dict[str, Any]:
    host = meta.host or Host()
    return {
        "dstest": host.dstest,
        "python": host.python,
        "kernel": host.kernel,
        "cpus": host.cpus,
        "system_version": meta.system_version,
        "options": meta.spec.get("options"),
        "plugin_files": sorted((meta.plugin_files or {}).values()),
    }


def _baseline(run: RunDir) -> dict[str, str]:
    """What was measured of the run before its first fault; nothing of one that was not sampled."""
    found = read_baseline(run.path)
    if found is None or found.baseline.status == "none":
        return {}
    base = found.baseline
    return {BASELINE: f"{base.throughput:,.0f}/s and p99 {base.p99_ms:,.0f} ms ({base.status})"}
