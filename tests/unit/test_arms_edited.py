"""A session that somebody edited is not believed, and makes nothing better."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from made_arms import (
    CLEAN,
    UNPROVEN,
    VIOLATED,
    Runs,
    plugins_of,
    start,
    without_a_lab,
)

from dstest.campaign import session as arms
from dstest.campaign import session_check
from dstest.campaign.session_check import SessionFinished
from dstest.core.errors import (
    EvidenceError,
    Exit,
    Interrupted,
)
from dstest.history.layout import RunDir
from dstest.judge.session import judge_session
from dstest.report.session import write_session
from dstest.runner.screen import Quiet
from dstest.runner.session_file import SessionDir, SessionFile


@pytest.fixture(autouse=True)
def _no_real_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    without_a_lab(monkeypatch)


def test_a_session_is_read_again_and_an_edited_one_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = start(tmp_path, Runs(), monkeypatch)
    assert session_check.reread(done.path).verdict == done.verdict
    for name in ("session.json", "junit.xml", "arms/n5-s2/" + "*/verdict.json"):
        (file,) = done.path.glob(name)
        kept = file.read_bytes()
        file.write_bytes(kept.replace(b"PASS", b"pass", 1).replace(b"true", b"false", 1) + b" ")
        with pytest.raises(EvidenceError, match="changed"):
            session_check.reread(done.path)
        file.write_bytes(kept)


def laundered(done: SessionFinished, change: Callable[[SessionDir, SessionFile], None]) -> None:
    """Change a session, then put its verdict, reports and sums right again."""
    directory = SessionDir.open(done.path)
    file = directory.read()
    change(directory, file)
    found = [session_check.arm_evidence(directory, arm) for arm in file.arms]
    verdict = judge_session(found, file.tier)
    file.verdict = msgspec.to_builtins(verdict)
    directory.write(file)
    write_session(directory.path, file.spec, file.options_given, verdict)
    directory.write_sums()


def leave_out(_: SessionDir, file: SessionFile) -> None:
    del file.arms[1]


def forget_an_attempt(_: SessionDir, file: SessionFile) -> None:
    del file.arms[1].attempts[0]


def unfinish(directory: SessionDir, file: SessionFile) -> None:
    """The failing run counts as one that died, and holds clean evidence."""
    run = RunDir.open(directory.path / file.arms[1].attempts[-1])
    (run.path / "sha256sums").unlink()
    run.write_status("running")


def one_run_for_all(_: SessionDir, file: SessionFile) -> None:
    for arm in file.arms[1:]:
        arm.attempts = list(file.arms[0].attempts)


def of_outside(directory: SessionDir, file: SessionFile) -> None:
    """A run that lies beside the session counts as one of it."""
    good = directory.path / file.arms[0].attempts[0]
    shutil.copytree(good, directory.path.parent / "elsewhere" / good.name)
    file.arms[1].attempts = [f"../elsewhere/{good.name}"]


def of_another_seed(directory: SessionDir, file: SessionFile) -> None:
    good, bad = (directory.path / file.arms[i].attempts[-1] for i in (0, 1))
    shutil.rmtree(bad)
    shutil.copytree(good, bad)


def of_another_test(_: SessionDir, file: SessionFile) -> None:
    file.spec = msgspec.structs.replace(file.spec, workload="bank")


def no_arms(_: SessionDir, file: SessionFile) -> None:
    file.arms = []


CHANGES = [
    leave_out,
    forget_an_attempt,
    unfinish,
    one_run_for_all,
    of_outside,
    of_another_seed,
    of_another_test,
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_failed_session_is_not_laundered(
    change: Callable[[SessionDir, SessionFile], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = Runs(CLEAN, VIOLATED)
    if change is forget_an_attempt:
        # A violation, then an attempt that is clean: made by hand, no session runs it.
        runs = Runs(CLEAN, UNPROVEN, CLEAN)
    done = start(tmp_path, runs, monkeypatch)
    laundered(done, change)
    for look in (session_check.reread, arms.resume):
        with pytest.raises(EvidenceError):
            look(done.path)


@pytest.mark.parametrize("change", [*CHANGES, no_arms])
def test_a_stopped_session_that_was_changed_does_not_go_on(
    change: Callable[[SessionDir, SessionFile], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = Runs(CLEAN, VIOLATED, Interrupted("stopped"))
    if change is forget_an_attempt:
        runs = Runs(CLEAN, UNPROVEN, CLEAN, Interrupted("stopped"))
    done = start(tmp_path, runs, monkeypatch)
    directory = SessionDir.open(done.path)
    file = directory.read()
    change(directory, file)
    directory.write(file)
    monkeypatch.setattr(arms, "run_session", Runs())
    with pytest.raises(EvidenceError):
        arms.resume(done.path, ui=Quiet(), plugins_of=plugins_of)


def test_reports_that_tell_another_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = start(tmp_path, Runs(CLEAN, VIOLATED), monkeypatch)
    monkeypatch.setattr(session_check, "_made_here", lambda run: True)
    directory = SessionDir.open(done.path)
    for name in ("junit.xml", "session.md", "report.html"):
        file = done.path / name
        kept = file.read_text()
        file.write_text(kept.replace("FAIL", "PASS").replace('failures="2"', 'failures="0"'))
        directory.write_sums()
        with pytest.raises(EvidenceError, match=name):
            session_check.reread(done.path)
        file.write_text(kept)
    directory.write_sums()
    assert session_check.reread(done.path).exit_code == Exit.FAIL
