"""Small histories of every model in our own notation, all of whose orders were tried."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_objects import MODELS
from places import OWN

from checkers.lin.catalogue import MODELS as KNOWN
from checkers.linearizable import CHECKER
from dstest.core.check import Budget
from dstest.history.importers import load_history

FILES = sorted((OWN / "ours").glob("*/*/*.jsonl"))


def test_every_model_has_some_of_both_kinds() -> None:
    assert set(MODELS) == set(KNOWN)
    assert {p.parent.parent.name for p in FILES} == set(MODELS)
    assert len(FILES) == 10 * len(MODELS)


@pytest.mark.parametrize(
    "path", FILES, ids=lambda p: f"{p.parent.parent.name}-{p.parent.name}-{p.name}"
)
def test_our_notation(path: Path) -> None:
    model, verdict = path.parent.parent.name, path.parent.name
    result = CHECKER.check(load_history(path), model, Budget(time_s=20))
    assert result.valid is (verdict == "good")
