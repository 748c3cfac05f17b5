"""Jepsen's etcd logs of 2013, with the verdicts that Porcupine's tests expect.

Read in place from DSTEST_CORPORA, or from ../shared/corpora beside the repository.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from checkers.linearizable import CHECKER
from dstest.core.check import Budget
from dstest.store.importers import load_history

CORPORA = Path(
    os.environ.get("DSTEST_CORPORA") or Path(__file__).parents[2].parent / "shared" / "corpora"
)
FOLDER = CORPORA / "porcupine"


def cases() -> list[tuple[str, str]]:
    verdicts = FOLDER / "verdicts.json"
    if not verdicts.exists():
        return []
    rows = json.loads(verdicts.read_text())
    return [(r["file"], r["expected"]) for r in rows if r["model"] == "etcd-cas-register"]


if not cases():
    pytest.skip(f"no Porcupine corpus at {FOLDER}; set DSTEST_CORPORA", allow_module_level=True)


def test_the_corpus_is_not_tiny() -> None:
    assert len(cases()) >= 50
    assert {expected for _, expected in cases()} == {"ok", "illegal"}


@pytest.mark.parametrize(("file", "expected"), cases())
def test_etcd_log(file: str, expected: str) -> None:
    history = load_history(FOLDER / file)
    result = CHECKER.check(history, "cas-register", Budget(time_s=10))
    assert result.valid is (expected == "ok")
    assert result.keys.decided == result.keys.total == 1
    assert result.ops.consumed + sum(result.ops.excluded.values()) == result.ops.total
    for anomaly in result.anomalies.get("nonlinearizable", []):
        assert anomaly.minimal
        assert 1 <= len(anomaly.ops) <= 30
