"""Numbers, cells and tags that no exporter writes, and damaged notes: told or left out."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from dstest.cli.kb import notes_like
from dstest.core.errors import ConfigError, HistoryError
from dstest.debug.logs.formats import plain_record
from dstest.debug.monitor.exposition import read_metrics, read_sizes
from dstest.debug.monitor.scale import fit
from dstest.debug.traces.formats import of_jaeger
from dstest.store.known_issues.book import Book
from dstest.store.known_issues.notes import Note, Notes

NINES = "9" * 400


@pytest.mark.parametrize("number", [NINES, "1e300", "1e308", "-1e308"])
def test_numbers_beyond_measure_are_left_out(number: str, tmp_path: Path) -> None:
    path = tmp_path / "m.prom"
    path.write_text(f"rss {number} 1795867200000\nrss 7 1795867200000\nrss 8 {NINES}\n")
    assert [one.value for one in read_metrics(path)] == [7.0, 8.0]
    path.write_text(f"time,node,name,value\n2026-11-28T12:00:00Z,n1,rss,{number}\n")
    assert list(read_metrics(path)) == []
    with pytest.raises(ConfigError, match="a value"):
        fit([(n, float(number)) for n in (3, 5, 9)])
    with pytest.raises(ConfigError, match="a value"):
        fit([(3, 1.0), (5, 1e-300), (9, 2.0)])


def test_a_duration_beyond_measure_is_none() -> None:
    for line in (f"request served in {NINES}ms", f'{{"msg":"x","duration":"{NINES}"}}'):
        assert plain_record(line)[0].duration_ms is None


def test_a_cell_that_is_too_long_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text(f"time,node,name,value\n2026-11-28T12:00:00Z,n1,{'x' * 200_000},1\n")
    with pytest.raises(HistoryError, match="field larger"):
        list(read_metrics(path))
    path.write_text(f"3,1\n{'x' * 200_000},1\n")
    with pytest.raises(HistoryError, match="field larger"):
        read_sizes(path)


@pytest.mark.parametrize("key", [[1], {"a": 1}, None, 1, NINES])
def test_any_tag_of_a_span_is_read(key: object) -> None:
    tags = [{"key": key, "value": 1}]
    span = {"traceID": "a", "spanID": "b", "processID": "p", "tags": tags}
    assert list(of_jaeger({"processes": {"p": {"tags": tags}}, "spans": [span]}))


def damaged(path: Path, content: object) -> None:
    with Book.opened(path, make=True) as book:
        notes = Notes(book)
        notes.add(Note(seen="leader elections storm after compaction"))
        notes.add(Note(seen="other words altogether"))
    with sqlite3.connect(path) as db:
        db.execute("update note set content = ? where number = 2", (content,))


@pytest.mark.parametrize("content", ["{", b"\xff\xfe", 7, '{"seen": 1}', "[" * 100_000])
def test_a_damaged_note_is_told_and_left_out(
    content: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kb.sqlite"
    damaged(path, content)
    monkeypatch.setenv("DSTEST_KB", str(path))
    found = notes_like("leader elections storm")
    assert found[0].startswith("N1 ") and "left out: N2" in found[-1]
    with Book.opened(path) as book, pytest.raises(ConfigError, match="damaged"):
        Notes(book).note("N2")


def test_words_that_are_no_utf8_are_written_down(tmp_path: Path) -> None:
    env = {**os.environ, "DSTEST_KB": str(tmp_path / "kb.sqlite")}
    commands: list[list[str | bytes]] = [
        ["note", b"caf\xe9 broke", "--tried", b"\xff"],
        ["notes", b"caf\xe9 broke"],
    ]
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-m", "dstest", "kb", *command],
            env=env,
            capture_output=True,
        )
        assert done.returncode == 0, done.stderr
        assert b"broke" in done.stdout
