"""Cas-register and mutex histories as Knossos reads them; the folder's name is the verdict."""

from __future__ import annotations

from pathlib import Path

import pytest
from places import OUTER, OWN, ROOTS

from checkers.linearizable import CHECKER
from dstest.core.check import Budget
from dstest.history.importers import load_history


def files(model: str) -> list[Path]:
    roots = [root / folder for root in ROOTS for folder in ("knossos", "elle-cli/knossos")]
    return [
        path
        for root in roots
        for verdict in ("good", "bad")
        for path in sorted((root / model / verdict).glob("*.*"))
    ]


def name(path: Path) -> str:
    return f"{path.parent.name}-{path.name}"


@pytest.mark.parametrize("model", ["cas-register", "mutex"])
def test_the_corpus_is_not_tiny(model: str) -> None:
    own = [path for path in files(model) if path.is_relative_to(OWN)]
    assert len(own) >= 6
    assert {path.parent.name for path in own} == {"good", "bad"}


@pytest.mark.parametrize("path", files("cas-register"), ids=name)
def test_cas_register(path: Path) -> None:
    result = CHECKER.check(load_history(path), "cas-register", Budget(time_s=20))
    assert result.valid is (path.parent.name == "good")
    for anomaly in result.anomalies.get("nonlinearizable", []):
        assert anomaly.minimal
        assert len(anomaly.ops) <= 20


@pytest.mark.parametrize("path", files("mutex"), ids=name)
def test_mutex(path: Path) -> None:
    result = CHECKER.check(load_history(path), "mutex", Budget(time_s=20))
    assert result.valid is (path.parent.name == "good")
    for anomaly in result.anomalies.get("nonlinearizable", []):
        assert anomaly.minimal
        assert len(anomaly.ops) == 2 or path.is_relative_to(OWN)


@pytest.mark.outer_corpora
def test_knossos_own_mutex_is_there() -> None:
    assert OUTER is not None
    assert OUTER / "elle-cli/knossos/mutex/bad/etcd.edn" in files("mutex")
