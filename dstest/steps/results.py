"""What a command left: its run and session directories, and their verdicts."""

from __future__ import annotations

from pathlib import Path

from dstest.core.verdict import State
from dstest.runner.integrity import finished, verified
from dstest.runner.session_check import reread
from dstest.runner.session_file import SessionDir, is_session
from dstest.store.layout import RunDir


def results_in(folder: Path) -> list[Path]:
    """The run and session directories that lie in the store of one step, oldest first."""
    if not folder.is_dir():
        return []
    found = [p for p in folder.glob("*/*") if is_session(p) or (p / "segments").is_dir()]
    return sorted(found, key=lambda path: (path.name, path.stat().st_ctime_ns))


def over(path: Path) -> bool:
    """Was it judged to its end?"""
    if is_session(path):
        return SessionDir.open(path).read().verdict is not None
    return finished(RunDir.open(path))


def runs_of(path: Path) -> list[Path]:
    """The run directories of a run or a session: of each arm the one that counts."""
    if not is_session(path):
        return [path]
    file = SessionDir.open(path).read()
    return [path / arm.attempts[-1] for arm in file.arms if arm.attempts]


def state_of(path: Path) -> tuple[State, str, str]:
    """The state that the evidence gives, by which rule and why. Raises EvidenceError."""
    if not over(path):
        return State.NOT_RUN, "V01", "it came to no verdict"
    if is_session(path):
        found = reread(path).verdict
        assert found is not None
        rule = next((arm.rule for arm in found.arms if arm.state is found.state), "")
        return found.state, rule, found.reason
    verdict = verified(RunDir.open(path)).verdict
    return verdict.verdict, verdict.rule, verdict.reason
