"""Knossos' cas-register histories; the folder's name is the verdict."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from checkers.linearizable import CHECKER
from dstest.core.check import Budget
from dstest.store.importers import load_history

CORPORA = Path(
    os.environ.get("DSTEST_CORPORA") or Path(__file__).parents[2].parent / "shared" / "corpora"
)
FOLDERS = [CORPORA / "knossos" / "cas-register", CORPORA / "elle-cli" / "knossos" / "cas-register"]
FILES = [
    pytest.param(path, verdict == "good", id=f"{verdict}-{path.name}")
    for folder in FOLDERS
    for verdict in ("good", "bad")
    for path in sorted((folder / verdict).glob("*.*"))
]

if not FILES:
    pytest.skip(f"no Knossos corpus at {CORPORA}; set DSTEST_CORPORA", allow_module_level=True)


@pytest.mark.parametrize(("path", "good"), FILES)
def test_cas_register(path: Path, good: bool) -> None:
    result = CHECKER.check(load_history(path), "cas-register", Budget(time_s=20))
    assert result.valid is good
    for anomaly in result.anomalies.get("nonlinearizable", []):
        assert anomaly.minimal
        assert len(anomaly.ops) <= 20
