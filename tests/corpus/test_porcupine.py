"""Logs of one cas-register, with the verdicts that are known of them: made ones, and Jepsen's etcd
logs of 2013 with what Porcupine's tests expect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from places import ROOTS
from typer.testing import CliRunner

from checkers.linearizable import CHECKER
from dstest.cli.app import app
from dstest.core.check import Budget
from dstest.history.importers import load_history


def cases(root: Path) -> list[tuple[Path, str]]:
    rows = json.loads((root / "porcupine" / "verdicts.json").read_text())
    return [
        (root / "porcupine" / r["file"], r["expected"])
        for r in rows
        if r["model"] == "etcd-cas-register"
    ]


CASES = [case for root in ROOTS for case in cases(root)]


@pytest.mark.parametrize(("root", "least"), list(zip(ROOTS, (20, 50), strict=False)))
def test_the_corpus_is_not_tiny(root: Path, least: int) -> None:
    assert len(cases(root)) >= least
    assert {expected for _, expected in cases(root)} == {"ok", "illegal"}


@pytest.mark.parametrize(("path", "expected"), CASES, ids=[p.name for p, _ in CASES])
def test_etcd_log(path: Path, expected: str) -> None:
    history = load_history(path)
    result = CHECKER.check(history, "cas-register", Budget(time_s=10))
    assert result.valid is (expected == "ok")
    assert result.keys.decided == result.keys.total == 1
    assert result.ops.consumed + sum(result.ops.excluded.values()) == result.ops.total
    for anomaly in result.anomalies.get("nonlinearizable", []):
        assert anomaly.minimal
        assert 1 <= len(anomaly.ops) <= 30


KV = [path for root in ROOTS for path in sorted((root / "porcupine" / "kv").glob("*.txt"))]


@pytest.mark.parametrize("path", KV, ids=[p.name for p in KV])
def test_key_value_log_as_it_is(path: Path) -> None:
    done = CliRunner().invoke(app, ["check", str(path), "--budget-s", "4"])
    word, code = ("valid", 0) if path.stem.endswith("-ok") else ("VIOLATION", 1)
    assert done.exit_code == code, done.output
    assert f"{word} under kv-map" in done.output
