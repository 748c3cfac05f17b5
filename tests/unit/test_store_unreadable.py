"""What cannot be read, or is no file, costs a store that one thing and no more."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from dstest.core.errors import EvidenceError
from dstest.history.layout import RunDir
from dstest.history.sums import compare_sums, sums_of
from dstest.store.inventory import walk
from dstest.store.verify import check_sums, wrong_sums


def made(store: Path, name: str) -> Path:
    run = store / "etcd-set-kill" / name
    (run / "segments").mkdir(parents=True)
    (run / "run.json").write_text("{}")
    (run / "sha256sums").write_text(sums_of(run))
    return run


def test_a_folder_that_may_not_be_read_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, closed = made(tmp_path, "1"), tmp_path / "closed"
    closed.mkdir()
    real = os.scandir

    def scandir(path: Any = ".") -> Any:
        if str(path) == str(closed):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    walked = walk(tmp_path)
    assert [place.path for place in walked.places] == [good]
    assert [(odd.path, odd.why) for odd in walked.odd] == [(closed, "unreadable")]
    assert any("cannot be looked at" in row.what for row in check_sums(walked))


def test_a_run_that_may_not_be_read_is_no_bug_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = made(tmp_path, "1")

    def closed(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_bytes", closed)
    with pytest.raises(EvidenceError, match=r"run\.json cannot be read: Permission denied"):
        RunDir(run).read_meta()


def test_a_pipe_beside_the_files_is_not_passed_over(tmp_path: Path) -> None:
    run = made(tmp_path, "1")
    os.mkfifo(run / "findings.md")
    assert compare_sums(run).added == ["findings.md"]
    (run / "sha256sums").unlink()
    os.mkfifo(run / "sha256sums")
    assert "no file" in wrong_sums(run), "and nobody waits for a writer"
