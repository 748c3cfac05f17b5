"""Names of violations, and whose fault they are."""

from __future__ import annotations

from typing import Any

import pytest

from dstest.core.check import Anomaly, CheckResult
from dstest.core.evidence import CheckerEvidence, Evidence, Lint
from dstest.judge.blame import PROBES, blame
from dstest.judge.fingerprint import key_pattern, violation_fingerprint


def violation(key: Any, kind: str = "stale-read", model: str | None = "register") -> CheckResult:
    return CheckResult(
        checker="linearizable",
        valid=False,
        model=model,
        anomaly_types=[kind],
        anomalies={kind: [Anomaly(type=kind, key=key)]},
    )


@pytest.mark.parametrize(
    ("key", "pattern"),
    [("0-17", "#-#"), (5, "#"), (None, "*"), ("accounts", "accounts"), ("r12b3", "r#b#")],
)
def test_key_pattern(key: Any, pattern: str) -> None:
    assert key_pattern(key) == pattern


def test_the_same_violation_on_another_key_has_the_same_name() -> None:
    assert violation_fingerprint(violation("0-17")) == "linearizable/stale-read/#-#/register"
    assert violation_fingerprint(violation("3-2")) == violation_fingerprint(violation("0-17"))
    assert violation_fingerprint(violation("0-1", "G1a")) != violation_fingerprint(violation("0-1"))


def test_a_bare_violation_has_a_name() -> None:
    bare = CheckResult(checker="set", valid=False)
    assert violation_fingerprint(bare) == "set/violation/*/*"


@pytest.mark.parametrize("valid", [True, "unknown"])
def test_no_violation_has_no_name(valid: Any) -> None:
    with pytest.raises(ValueError, match="no violation"):
        violation_fingerprint(CheckResult(checker="linearizable", valid=valid))


def evidence(**changes: Any) -> Evidence:
    fields: dict[str, Any] = {
        "attempted": True,
        "violation": True,
        "checker": CheckerEvidence(result="violation", canary_killed=3, canary_total=4),
    }
    return Evidence(**(fields | changes))


QUIET = dict.fromkeys(PROBES, False)


@pytest.mark.parametrize(
    ("given", "probes", "expected"),
    [
        (evidence(history_lint=Lint(corrupt={"H02": "x"})), {}, "harness"),
        (evidence(history_lint=Lint(weak={"H16": "x"})), {}, "harness"),
        (evidence(checker=CheckerEvidence(canary_total=4)), {}, "checker"),
        (evidence(), {"documented relaxation": True}, "checker"),
        (evidence(), {"generator swap": True}, "harness"),
        (evidence(), {"host events": True, "replay on another host": True}, "environment"),
        (evidence(), QUIET, "SUT"),
        (evidence(violation=False, checker=CheckerEvidence(result="clean")), {}, None),
    ],
)
def test_blame(given: Evidence, probes: dict[str, bool], expected: str | None) -> None:
    assert blame(given, probes) == expected


def test_an_open_probe_leaves_the_blame_open() -> None:
    said = blame(evidence())
    assert said is not None
    assert said.startswith("unknown - pending: ")
    assert "generator swap" in said
    assert "checker self-test" not in said
    alone = blame(evidence(), QUIET | {"host events": True})
    assert alone is not None
    assert alone.startswith("unknown")
