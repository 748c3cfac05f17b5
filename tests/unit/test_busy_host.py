"""Which runs a test may put down to a busy host: those that lack nothing else."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "integration"


@pytest.fixture(name="busy")
def _busy() -> Any:
    spec = importlib.util.spec_from_file_location("busy", FOLDER / "busy.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(name="starved_by")
def _starved_by(busy: Any) -> Any:
    return busy.starved_by


def a_verdict(**flags: str) -> dict[str, Any]:
    flags = {"RF10": "1 of 3 agreeing seeds: one pass is not a rate", **flags}
    rows = {name: {"status": "short", "evidence": text} for name, text in flags.items()}
    return {
        "verdict": "INCONCLUSIVE-oracle-too-weak",
        "evidence": {"redflags": rows, "faults": [{"landed": "yes"}]},
    }


FEW = "400 operations; 4 of 20 seconds outside fault windows fell below 80% of the target"
SLOW = "99.0% of the last 100 operations succeeded (100% before), 9/s (9/s), p99 900 ms (90 ms)"


@pytest.mark.parametrize("flags", [{"RF1": FEW}, {"RF8": SLOW}, {"RF1": FEW, "RF8": SLOW}])
def test_too_little_load_and_late_answers(starved_by: Any, flags: dict[str, str]) -> None:
    assert starved_by(a_verdict(**flags)) is not None
    assert starved_by({**a_verdict(**flags), "verdict": "PARTIAL-model"}) is not None


@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"RF1": "2 of 5 clients never asked for anything"},
        {"RF8": "heal not verified: f1"},
        {"RF8": "left behind: n1: a rule"},
        {"RF1": FEW, "RF3": "0 of 1 planned faults landed on both sides"},
        {"RF1": FEW, "RF7": "1 alarms in the logs that no fault explains"},
    ],
)
def test_nothing_else_is_excused(starved_by: Any, flags: dict[str, str]) -> None:
    assert starved_by(a_verdict(**flags)) is None


def test_a_violation_or_a_fault_that_did_not_land_is_never_excused(starved_by: Any) -> None:
    assert starved_by({**a_verdict(RF1=FEW), "verdict": "FAIL-nondeterministic"}) is None
    verdict = a_verdict(RF1=FEW)
    verdict["evidence"]["faults"][0]["landed"] = "ambiguous"
    assert starved_by(verdict) is None


@pytest.mark.parametrize(
    ("load", "flags", "ends_as"),
    [
        (0.1, {"RF8": SLOW}, "Starved"),
        (99.0, {"RF8": SLOW}, "Skipped"),
        (0.1, {"RF8": "left behind: n1: a rule"}, "AssertionError"),
        (99.0, {"RF8": "left behind: n1: a rule"}, "AssertionError"),
    ],
)
def test_only_what_a_host_can_take_is_tried_again(
    busy: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    load: float,
    flags: dict[str, str],
    ends_as: str,
) -> None:
    per_core = load * (os.cpu_count() or 1)
    monkeypatch.setattr(os, "getloadavg", lambda: (per_core, 0.0, 0.0))
    (tmp_path / "verdict.json").write_text(json.dumps(a_verdict(**flags)))
    with pytest.raises(BaseException) as caught:
        busy.assert_code(3, tmp_path)
    assert caught.type.__name__ == ends_as
    busy.assert_code(0, tmp_path)
