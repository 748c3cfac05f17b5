"""What keeps a fault from counting, and what a checker may leave out."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from made_audit import (
    CLIENTS,
    FAULT,
    NODES,
    RATE,
    S,
    history,
    minute,
    ops,
    record,
    windows,
)

from dstest.core.check import CheckResult, OpCount
from dstest.core.evidence import AuditRow, Evidence, Signal
from dstest.judge.decide import decide
from dstest.judge.evidence import build_evidence, checker_evidence, eligible


def demotion(**changes: Any) -> str:
    fault = build_evidence(minute(**changes)).faults[0]
    assert fault.landed == "ambiguous"
    return fault.why


def test_an_idle_window_proves_nothing() -> None:
    kept = tuple(o for o in ops()[: 60 * RATE] if not 20 * S < o.invoke_ts < 28 * S)
    facts: dict[str, Any] = {"history": history(kept, windows=windows()[:2])}
    assert "idle: only 1 operation began in its window, 30 are needed" in demotion(**facts)
    assert decide(build_evidence(minute(**facts))).verdict is FAULT


def test_an_idle_target_proves_nothing() -> None:
    others = {p: NODES[1 + p % 4] for p in range(CLIENTS)}
    assert "0 of 3 operations at n1 before" in demotion(node_of_process=others)
    assert "was not recorded" in demotion(node_of_process={})


def test_a_fault_that_did_not_land_says_why() -> None:
    silent = Signal(signal="packets dropped", moved=False, detail="no packet yet on n1->n2")
    facts = minute(records=[record(0, injector=silent, landed="no"), record(1)])
    evidence = build_evidence(facts)
    assert "no packet yet on n1->n2" in evidence.faults[0].why
    assert "no packet yet" in decide(evidence).reason


# --- what a checker may leave out ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("excluded", "expected"),
    [
        ({}, 10),
        ({"definite failure": 2}, 8),
        ({"unknown-read": 1}, 9),
        ({"unknown_read": 1, "failed": 2}, 7),
        ({"budget": 4}, 10),
        ({"unknown-write": 3}, 10),
        ({"failed": 9}, 8),
    ],
)
def test_only_what_the_history_justifies_may_be_left_out(
    excluded: dict[str, int], expected: int
) -> None:
    made = list(ops()[:10])
    made[0] = msgspec.structs.replace(made[0], output=None, error="no")
    made[1] = msgspec.structs.replace(made[1], error="no")
    made[2] = msgspec.structs.replace(made[2], output=None, complete_ts=None, timeout_marker=True)
    answer = CheckResult(checker="x", valid=True, ops=OpCount(total=10, excluded=excluded))
    assert eligible(answer, made) == expected


@pytest.mark.parametrize(
    ("results", "outcome"),
    [
        ({"a": True, "b": True}, "clean"),
        ({"a": True, "b": "unknown"}, "unknown"),
        ({"a": False, "b": "unknown"}, "violation"),
        ({"a": True}, "not-run"),
        ({"a": False}, "violation"),
        ({}, "not-run"),
    ],
)
def test_the_worst_answer_counts(results: dict[str, Any], outcome: str) -> None:
    facts = minute(
        checkers_declared=["a", "b"],
        results={
            name: CheckResult(checker=name, valid=valid, ops=OpCount(total=9, consumed=9))
            for name, valid in results.items()
        },
    )
    assert checker_evidence(facts).result == outcome


def test_one_vacuous_checker_makes_all_vacuous() -> None:
    facts = minute(
        checkers_declared=["a", "b"],
        results={
            "a": CheckResult(checker="a", valid=True, ops=OpCount(total=9, consumed=9)),
            "b": CheckResult(checker="b", valid=True, ops=OpCount(total=9, consumed=0)),
        },
    )
    assert checker_evidence(facts).ops_consumed == 0
    assert not build_evidence(facts).checker_ran


def test_rows_are_plain_data() -> None:
    assert msgspec.json.decode(
        msgspec.json.encode(build_evidence(minute())), type=Evidence
    ).redflags["RF1"] == AuditRow(
        status="ok", evidence=build_evidence(minute()).redflags["RF1"].evidence
    )
