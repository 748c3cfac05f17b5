"""Runs that are signed: what a signature says, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from touched_runs import dstest, text

from dstest.core.errors import Exit
from dstest.history.layout import RunDir

pytestmark = pytest.mark.slow


def test_a_signature_is_verified(keys: Path, passed: Path, copy: Callable[[Path], Path]) -> None:
    run = copy(passed)
    allowed = ("--verify-key", keys / "allowed")
    code, said = dstest("report", run, *allowed)
    assert code == Exit.NOT_PROVEN, "it is not signed"
    RunDir(run).write_sums(keys / "ours")
    code, said = dstest("report", run, *allowed)
    assert code == Exit.PASS, said
    assert "lab@example" in said
    code, said = dstest("report", run, *allowed, "--sign-key", keys / "ours")
    assert code == Exit.PASS, said
    assert dstest("report", run, *allowed)[0] == Exit.PASS, "signed again as it was"


def test_what_became_of_a_signature_is_said(
    keys: Path, passed: Path, copy: Callable[[Path], Path]
) -> None:
    run, key = copy(passed), keys / "ours"
    assert "was not signed, and is not now" in dstest("report", run, "--sign-key", key)[1]
    run.joinpath("report.html").unlink()
    RunDir.open(run).write_sums(key)
    assert "left as signed" in dstest("report", run)[1]
    assert not (run / "report.html").exists()
    code, said = dstest("report", run, "--sign-key", keys / "nothing")
    assert (code, "cannot sign" in said) == (Exit.USAGE, True)
    assert (run / "sha256sums.sig").exists(), "a key that cannot sign costs no signature"
    code, said = dstest("report", run, "--sign-key", key)
    assert f"report.html: drawn anew; the run is now signed with {key} alone" in said
    assert "the signature stays as it was" in dstest("report", run, "--sign-key", key)[1]


def test_sums_that_were_written_anew_are_not_signed(
    keys: Path, passed: Path, copy: Callable[[Path], Path]
) -> None:
    run = copy(passed)
    RunDir(run).write_sums(keys / "ours")
    signature = (run / "sha256sums.sig").read_bytes()
    text("schedule.json", "partition", "partitions")(run)
    RunDir(run).write_sums()
    assert not (run / "sha256sums.sig").exists()
    (run / "sha256sums.sig").write_bytes(signature)
    code, said = dstest("report", run, "--verify-key", keys / "allowed")
    assert code == Exit.NOT_PROVEN, said
    RunDir(run).write_sums(keys / "theirs")
    code, said = dstest("report", run, "--verify-key", keys / "allowed")
    assert code == Exit.NOT_PROVEN, said


def test_a_key_that_cannot_sign_is_refused_before_anything_runs(tmp_path: Path) -> None:
    code, said = dstest("run", "--sign-key", tmp_path / "nothing")
    assert code == Exit.USAGE, said
    assert "cannot sign" in said
