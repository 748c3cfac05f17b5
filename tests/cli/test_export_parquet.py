"""`dstest export --to parquet`: all of a history, or nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from forked import Ended, dstest

from dstest.history.jsonl import read_history
from dstest.notebook import History

pytestmark = pytest.mark.slow


def export(*words: str | Path) -> Ended:
    return dstest("export", *words)


def test_a_run_and_its_history(passed: Path, tmp_path: Path) -> None:
    sealed = read_history(passed / "history.jsonl")
    for source in (passed, passed / "history.jsonl"):
        done = export(source, "--to", "parquet", "-o", tmp_path / "h.parquet")
        assert done.returncode == 0, done.stderr
        again = History.from_parquet(tmp_path / "h.parquet")
        assert again.ops == sealed.ops and again.header == sealed.header


def test_nothing_is_written_of_what_is_not_whole(passed: Path, tmp_path: Path) -> None:
    lines = (passed / "history.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "short.jsonl").write_bytes(b"".join(lines[:-1]))
    (tmp_path / "cut.jsonl").write_bytes(b"".join(lines)[:-9])
    for name, said in (("short", "the recorder counted"), ("cut", "line 701")):
        done = export(tmp_path / f"{name}.jsonl", "--to", "parquet", "-o", tmp_path / "x.parquet")
        assert done.returncode == 2 and said in done.stderr
    assert not (tmp_path / "x.parquet").exists()


def test_a_file_has_to_be_named(passed: Path) -> None:
    done = export(passed, "--to", "parquet")
    assert done.returncode == 2 and "-o FILE.parquet" in done.stderr
