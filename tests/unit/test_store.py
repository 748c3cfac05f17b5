"""history.jsonl and run directories: bad input gets line and column, nothing is half-written."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import pytest

from dstest.core.errors import ConfigError, HarnessError, HistoryError
from dstest.history.jsonl import read_history
from dstest.history.layout import RunDir, link_latest

HEAD = '{"schema":"dstest.history/1"}\n'
OP = '{"op_id":1,"process_id":0,"invoke_ts":5,"op_type":"read"}\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1"),
        ("not json\n", "line 1, column 1"),
        ('{"schema":"other"}\n', "unknown schema"),
        (HEAD + OP + "{broken\n", "line 3, column 2"),
        (HEAD + '{"op_id":1}\n', "line 2, column 1.*process_id"),
        (HEAD + OP.replace("5", '"5"'), "line 2, column 1.*invoke_ts"),
        (HEAD + OP[:-1], "cut off"),
    ],
)
def test_bad_histories_say_where(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(text)
    with pytest.raises(HistoryError, match=message):
        read_history(path)


def test_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(HEAD.encode() + b'{"op_id":"\xff"}\n')
    with pytest.raises(HistoryError, match="line 2"):
        read_history(path)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="No such file"):
        read_history(tmp_path / "none")


def test_run_directory(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path / "store", "etcd-register-none", 7)
    assert run.status() == "running"
    assert not (tmp_path / "store" / "latest").exists()  # nothing has run in it yet
    run.write_json("x/y.json", {"a": 1})
    assert run.read_json("x/y.json") == {"a": 1}
    assert run.read_json("absent.json") is None
    run.write_sums()
    rows = dict(
        line.split("  ")[::-1] for line in (run.path / "sha256sums").read_text().splitlines()
    )
    assert rows["x/y.json"] == hashlib.sha256((run.path / "x/y.json").read_bytes()).hexdigest()
    again = RunDir.create(tmp_path / "store", "etcd-register-none", 7)
    assert again.path != run.path
    link_latest(tmp_path / "store", again.path)
    assert (tmp_path / "store" / "latest").resolve() == again.path


def test_open_refuses_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a run directory"):
        RunDir.open(tmp_path)


def test_store_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HarnessError, match="cannot make a run directory"):
        RunDir.create(tmp_path / "file", "x", 1)


@pytest.mark.parametrize("full_at", ["status", ".ballast"])
def test_a_run_directory_that_cannot_be_made_does_not_stay(
    full_at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    if full_at == "status":
        monkeypatch.setattr(Path, "write_bytes", refuse)
    else:
        monkeypatch.setattr(os, "posix_fallocate", refuse)
    (tmp_path / "store").mkdir()
    with pytest.raises(HarnessError, match=r"cannot make a run directory.*No space left") as told:
        RunDir.create(tmp_path / "store", "x", 1)
    assert "free space" in (told.value.remedy or "")
    assert [*(tmp_path / "store").rglob("*")] == []


def test_what_was_there_before_a_full_disk_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = RunDir.create(tmp_path / "store", "x", 1)

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(HarnessError):
        RunDir.create(tmp_path / "store", "x", 2)
    assert [*(tmp_path / "store" / "x").iterdir()] == [first.path]
