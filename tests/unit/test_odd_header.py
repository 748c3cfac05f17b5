"""A header with something that JSON cannot mean is refused with its line, wherever it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from dstest.core.errors import HistoryError
from dstest.history.jsonl import read_history
from dstest.store.inventory import kind_of


@pytest.mark.parametrize(
    "odd", [b"1e999", b"-1e999", b"[1e400]", b'"\xff"', b'{"a": 1, "a": 2}', b"9" * 5000]
)
def test_a_value_of_an_unknown_field(odd: bytes, tmp_path: Path) -> None:
    file = tmp_path / "h.jsonl"
    file.write_bytes(b'{"schema": "dstest.history/1", "zzz": ' + odd + b"}\n")
    with pytest.raises(HistoryError) as refused:
        read_history(file)
    assert refused.value.line == 1


@pytest.mark.parametrize("name", ["night.json", "session.json", "execution.json"])
def test_what_has_segments_is_a_run_whatever_else_lies_there(name: str, tmp_path: Path) -> None:
    (tmp_path / "segments").mkdir()
    (tmp_path / name).write_text('{"outcome": "ok"}')
    assert kind_of(tmp_path) == "run"
