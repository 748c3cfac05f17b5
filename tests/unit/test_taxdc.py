"""Type, tags and severity of a bug, from fault, timing and symptom."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from made_audit import S, but, history, record
from made_plugins import declaring

from dstest.core import registry
from dstest.core.check import Anomaly, CheckResult
from dstest.core.evidence import Evidence, NearFault, Symptom, TaxDC
from dstest.core.protocols import Checker, Nemesis
from dstest.core.verdict import Bug
from dstest.judge.symptom import UNCLASSIFIED, classify, symptom_of


def near(taxdc: TaxDC, *, after: bool = False, tags: tuple[str, ...] = ()) -> NearFault:
    return NearFault(id="f1", nemesis="some", taxdc=taxdc, after=after, tags=list(tags))


def bug(**known: Any) -> Bug:
    fields: dict[str, Any] = {"checker": "x", "claims": ["safety"], "start_ns": 1, "end_ns": 2}
    found = classify(Evidence(attempted=True, symptom=Symptom(**(fields | known))))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("known", "type_"),
    [
        ({"faults": [near("partition")]}, "partition"),
        ({"faults": [near("crash-recovery", after=True)]}, "crash-recovery"),
        ({"faults": [near("timing")]}, "timing"),
        ({"faults": [near("ordering")]}, "ordering"),
        ({"faults": [near("upgrade")]}, "upgrade"),
        ({"faults": [near("config")]}, "config"),
        ({"concurrent": True}, "ordering"),
        ({"claims": ["performance-SLO"], "faults": [near("timing")]}, "performance"),
        ({"alarms": ["exception"], "faults": [near("partition")]}, "fault-handling"),
    ],
)
def test_type(known: dict[str, Any], type_: str) -> None:
    found = bug(**known)
    assert found.type == type_
    assert found.reasons


@pytest.mark.parametrize(
    ("known", "why"),
    [
        ({}, "no operations overlapped"),
        ({"start_ns": None}, "time is not known"),
        ({"faults": [near("partition"), near("timing")]}, "different types"),
        ({"faults": [near("")]}, "says of no type"),
        ({"alarms": ["exit"]}, "no operations overlapped"),
    ],
)
def test_what_is_not_known_is_called_so(known: dict[str, Any], why: str) -> None:
    found = bug(**known).type
    assert found.startswith(UNCLASSIFIED)
    assert why in found


@pytest.mark.parametrize(
    ("known", "severity"),
    [
        ({"claims": ["durability"]}, "P0"),
        ({"claims": ["idempotency"]}, "P0"),
        ({"claims": ["operational"], "unhealthy": ["n2"]}, "P1"),
        ({"claims": ["operational"]}, "P2"),
        ({"claims": ["fairness"]}, "P2"),
    ],
)
def test_severity(known: dict[str, Any], severity: str) -> None:
    assert bug(**known).severity == severity


def test_tags() -> None:
    found = bug(
        claims=["durability"], nodes=["n1", "n3"], faults=[near("partition", tags=("leadership",))]
    )
    assert found.tags == ["durability", "leadership", "replication", "safety"]
    assert bug(claims=["liveness"]).tags == ["liveness"]


def test_without_a_symptom_there_is_no_bug() -> None:
    assert classify(Evidence(attempted=True)) is None


def violation(*ids: int) -> CheckResult:
    return CheckResult(
        checker="set",
        valid=False,
        anomaly_types=["lost"],
        anomalies={"lost": [Anomaly(type="lost", ops=list(ids))]},
    )


def symptom(*ids: int, **changes: Any) -> Symptom:
    traits = {"set": declaring(Checker, breaks={"lost": "durability"})}
    nemeses = {"partition": declaring(Nemesis, taxdc="partition")}
    found = symptom_of(but(**changes), [violation(*ids)], traits, nemeses)
    assert found is not None
    return found


def ids_at(start_ns: int, end_ns: int) -> list[int]:
    ops = [op for op in history().ops if start_ns <= op.invoke_ts <= end_ns]
    return [int(ops[0].op_id), int(ops[-1].op_id)]


def test_a_fault_that_stood_meanwhile_is_near_and_one_healed_long_ago_is_not() -> None:
    first = record(0)
    assert first.injected_at is not None
    assert first.healed_at is not None
    inside = symptom(*ids_at(first.injected_at + S, first.injected_at + 2 * S))
    assert [(f.id, f.after) for f in inside.faults] == [(first.fault_id, False)]
    assert inside.claims == ["durability"]
    later = symptom(*ids_at(first.healed_at + 2 * S, first.healed_at + 3 * S), records=[first])
    assert [(f.id, f.after) for f in later.faults] == [(first.fault_id, True)]
    far = symptom(*ids_at(first.healed_at + 11 * S, first.healed_at + 12 * S), records=[first])
    assert far.faults == []


def test_a_fault_that_did_not_land_is_near_nothing() -> None:
    first = msgspec.structs.replace(record(0), landed="no")
    start = first.injected_at or 0
    assert symptom(*ids_at(start + S, start + 2 * S), records=[first]).faults == []


def test_each_nemesis_says_what_its_faults_show() -> None:
    for name in registry.names("nemeses", ours=True):
        traits = registry.load("nemeses", name)
        assert (traits.taxdc == "") == (not traits.injects), name
