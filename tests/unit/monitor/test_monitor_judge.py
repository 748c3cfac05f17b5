"""The measured baseline beside RF8 and RF9: it may make a row short, and makes none better."""

from __future__ import annotations

from typing import Any

import pytest
from made_audit import but, good, history, limping

from dstest.core.evidence import AuditRow
from dstest.core.verdict import State
from dstest.judge.evidence import build_evidence
from dstest.judge.facts import MeasuredBaseline
from dstest.judge.session import BASELINE, ArmEvidence, evidence_among

pytestmark = pytest.mark.slow

SAME = MeasuredBaseline(
    accepted=True, ok_per_s=1.0, p99_ms=1e6, said="accepted: measured for 120 s"
)


def row(**changes: Any) -> AuditRow:
    facts = but(**changes) if changes else good()
    evidence = build_evidence(facts, op_types=frozenset({"read", "write"}))
    return evidence.redflags["RF8"]


def changed(**fields: Any) -> MeasuredBaseline:
    values = {"accepted": True, "ok_per_s": 1.0, "p99_ms": 1e6, "said": "accepted", **fields}
    return MeasuredBaseline(**values)


def test_a_recovery_that_reaches_it_is_told() -> None:
    assert row().status == "ok"
    assert "measured baseline" not in row().evidence
    with_it = row(measured=SAME)
    assert with_it.status == "ok"
    assert "measured baseline: 1/s, p99 1,000,000 ms, accepted" in with_it.evidence


@pytest.mark.parametrize("name", ["ok_per_s", "p99_ms"])
def test_one_that_does_not_is_short(name: str) -> None:
    far = {"ok_per_s": {"ok_per_s": 1e6}, "p99_ms": {"p99_ms": -1000.0}}[name]
    assert row(measured=changed(**far)).status == "short"
    assert row(measured=changed(**far, accepted=False)).status == "ok", "an unstable one is told"


@pytest.mark.parametrize("accepted", [True, False])
@pytest.mark.parametrize("ok_per_s", [1e-9, 1.0, 1e6])
@pytest.mark.parametrize("p99_ms", [0.0, 5.0, 1e9])
def test_no_baseline_makes_a_limping_recovery_good(
    accepted: bool, ok_per_s: float, p99_ms: float
) -> None:
    limping_ = {"history": history(limping())}
    assert row(**limping_).status == "short"
    given = changed(accepted=accepted, ok_per_s=ok_per_s, p99_ms=p99_ms)
    assert row(**limping_, measured=given).status == "short"


def test_what_is_short_stays_short() -> None:
    sick = {"healthy": {**good().healthy, "n4": False}}
    assert row(**sick).status == "short"
    assert row(**sick, measured=SAME).status == "short"


def arm(seed: int, baseline: str | None) -> ArmEvidence:
    evidence = build_evidence(good(), op_types=frozenset({"read", "write"}))
    like: dict[str, Any] = dict.fromkeys(
        ("dstest", "python", "kernel", "cpus", "system_version"), "1"
    )
    like |= {"options": {}, "plugin_files": []}
    conditions = like if baseline is None else {**like, BASELINE: baseline}
    return ArmEvidence(
        id=f"n5-s{seed}",
        seed=seed,
        nodes=5,
        alone=State.PASS_SMOKE,
        evidence=evidence,
        conditions=conditions,
    )


def rf9(*arms: ArmEvidence) -> AuditRow:
    return evidence_among(list(arms), "smoke")["n5-s1"].redflags["RF9"]


def test_baselines_of_arms_are_told_and_decide_nothing() -> None:
    bare = rf9(arm(1, None), arm(2, None))
    assert (bare.status, "measured" in bare.evidence) == ("ok", False)
    found = rf9(arm(1, "100/s and p99 9 ms (accepted)"), arm(2, "7/s and p99 90 ms (accepted)"))
    assert found.status == "ok"
    assert found.evidence == (
        f"{bare.evidence}; measured baselines: n5-s1 100/s and p99 9 ms (accepted), "
        "n5-s2 7/s and p99 90 ms (accepted)"
    )
