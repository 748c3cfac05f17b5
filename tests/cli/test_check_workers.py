"""`dstest check --batch --workers`: what is said here, in the same order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dstest.cli import check_batch
from dstest.cli.commands import app_of

pytestmark = pytest.mark.slow

APP = app_of("check", "models")


def _line(number: int) -> dict[str, Any]:
    """A history of two transactions; of each third one reads what was never written."""
    read = [7] if number % 3 == 0 else [1]
    values: list[list[list[Any]]] = [[["append", "x", 1]], [["r", "x", read]]]
    history = [
        {"index": 2 * i + (kind == "ok"), "type": kind, "process": i, "f": "txn",
         "value": [[f, k, None if kind == "invoke" and f == "r" else v] for f, k, v in value]}
        for i, value in enumerate(values)
        for kind in ("invoke", "ok")
    ]  # fmt: skip
    return {"name": number, "workload": "list-append", "history": history}


def _bare(said: str) -> list[Any]:
    rows = [json.loads(line) for line in said.splitlines()]
    for row in rows:
        for result in row.get("results", {}).values():
            result.pop("seconds", None)
            result.pop("peak_rss_mb", None)
            result.pop("stats", None)
    return rows


@pytest.mark.parametrize("last", ["", "{\n"])
def test_workers_say_what_is_said_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(_line(n)) + "\n" for n in range(20)) + last)
    monkeypatch.setattr(check_batch, "_LINES_MAX", 3)
    here = CliRunner().invoke(APP, ["check", "--batch", str(path)])
    spread = CliRunner().invoke(APP, ["check", "--batch", str(path), "--workers", "2"])
    assert here.exit_code == spread.exit_code == 1
    assert len(_bare(here.stdout)) == 20 + bool(last)
    assert _bare(here.stdout) == _bare(spread.stdout)


@pytest.mark.parametrize("workers", ["0", "here", "http://x"])
def test_what_is_no_place_is_refused(tmp_path: Path, workers: str) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps(_line(1)) + "\n")
    done = CliRunner().invoke(APP, ["check", "--batch", str(path), "--workers", workers])
    assert done.exit_code not in (0, 1) or "worker" in str(done.exception)


def test_one_history_needs_no_workers(tmp_path: Path) -> None:
    done = CliRunner().invoke(APP, ["check", str(tmp_path), "--workers", "2"])
    assert "--workers is for many histories" in str(done.exception)
