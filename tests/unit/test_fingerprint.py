"""Names of violations, and whose fault they are."""

from __future__ import annotations

from typing import Any

import pytest

from dstest.core.check import Anomaly, CheckResult
from dstest.core.evidence import BlameProbe, CheckerEvidence, Evidence, Lint
from dstest.core.fingerprint import Parts, parts_of
from dstest.judge.blame import (
    HOST_EVENTS,
    LINTS,
    PROBES,
    QUIET,
    SELF_TEST,
    SWAP,
    blame,
)
from dstest.judge.symptom import key_pattern, violation_fingerprint


def violation(key: Any, kind: str = "stale-read", model: str | None = "register") -> CheckResult:
    return CheckResult(
        checker="linearizable",
        valid=False,
        model=model,
        anomaly_types=[kind],
        anomalies={kind: [Anomaly(type=kind, key=key)]},
    )


@pytest.mark.parametrize("key", ["0-17", "a/b/c", "/", None])
def test_a_name_is_taken_apart_as_it_was_put_together(key: Any) -> None:
    name = violation_fingerprint(violation(key))
    assert parts_of(name) == Parts("linearizable", "stale-read", key_pattern(key), "register")


@pytest.mark.parametrize(
    ("name", "parts"),
    [("", Parts("")), ("slo", Parts("slo")), ("slo/slow", Parts("slo", "slow")),
     ("slo/slow/*", Parts("slo", "slow", "*"))],
)  # fmt: skip
def test_of_a_name_that_somebody_cut_off_the_rest_is_empty(name: str, parts: Parts) -> None:
    assert parts_of(name) == parts


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


def probes(**fired: bool | None) -> dict[str, BlameProbe]:
    """All negative, but for these; a name has underscores for spaces."""
    named = {name.replace("_", " "): value for name, value in fired.items()}
    return {name: BlameProbe(fired=named.get(name, False), said="x") for name in PROBES}


@pytest.mark.parametrize(
    ("given", "fired", "expected"),
    [
        (evidence(history_lint=Lint(corrupt={"H02": "x"})), {}, "harness"),
        (evidence(history_lint=Lint(weak={"H16": "x"})), {}, "harness"),
        (evidence(), {"history_lints": True}, "harness"),
        (evidence(), {"checker_self-test": True}, "checker"),
        (evidence(), {"independent_checker": True}, "checker"),
        (evidence(), {"documented_relaxation": True}, "settings"),
        (evidence(), {"generator_swap": True}, "harness"),
        (evidence(), {"host_events": True, "replay_on_a_quiet_host": True}, "environment"),
        (evidence(), {"replay_on_a_quiet_host": True}, "SUT"),
        (evidence(), {"host_events": True}, "SUT"),
        (evidence(), {"independent_checker": None}, "SUT"),
        (evidence(), {}, "SUT"),
        (evidence(violation=False, checker=CheckerEvidence(result="clean")), {}, None),
    ],
)
def test_blame(given: Evidence, fired: dict[str, Any], expected: str | None) -> None:
    assert blame(given, probes(**fired)) == expected


def test_probes_of_the_evidence_and_those_run_apart_count_alike() -> None:
    inside = evidence(probes={n: p for n, p in probes().items() if n != SWAP})
    assert blame(inside) == f"unknown - pending: {SWAP}"
    assert blame(inside, {SWAP: BlameProbe(fired=False)}) == "SUT"


def test_what_is_said_first_decides() -> None:
    both = probes(generator_swap=True, **{"checker_self-test": True})
    assert blame(evidence(), both) == "checker"


@pytest.mark.parametrize("name", [LINTS, SELF_TEST, SWAP, HOST_EVENTS])
def test_without_the_result_of_this_probe_nothing_is_said_of_the_system(name: str) -> None:
    open_ = probes() | {name: BlameProbe(said="not run")}
    assert blame(evidence(), open_) == f"unknown - pending: {name}"


def test_a_disturbed_host_leaves_the_blame_open_until_a_quiet_one_has_told() -> None:
    open_ = probes(host_events=True) | {QUIET: BlameProbe(said="not run")}
    assert blame(evidence(), open_) == f"unknown - pending: {QUIET}"


def test_broken_copies_that_all_pass_show_a_wrong_checker() -> None:
    assert blame(evidence(checker=CheckerEvidence(result="violation", canary_total=4))) == "checker"
    assert SELF_TEST in str(blame(evidence()))
