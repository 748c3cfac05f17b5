"""history.jsonl and run directories: bad input gets line and column, nothing is half-written."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from dstest.core.errors import ConfigError, HarnessError, HistoryError
from dstest.store.jsonl import read_history
from dstest.store.layout import RunDir, link_latest

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
