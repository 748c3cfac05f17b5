"""The report of a made run, and what a hostile system may have answered in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from made_meta import meta

from dstest.core.check import Anomaly, CheckResult, KeyCount, OpCount
from dstest.core.evidence import (
    AuditRow,
    Canary,
    CheckerEvidence,
    Evidence,
    FaultEvidence,
    LandingRecord,
)
from dstest.core.evidence import Signal as Signal_
from dstest.core.history import ClockSource, FaultWindow, Header, History
from dstest.core.op import Op
from dstest.judge.decide import RED_FLAGS, WEAK_ITEMS, decide
from dstest.judge.facts import budgets
from dstest.report.model import RunReport, build_report

HOSTILE = "\x1b[2J\x00<script>alert(1)</script><img src=http://evil.test/x onerror=a()>|`*"
S = 1_000_000_000
SPEC: dict[str, Any] = {
    "system": "etcd", "workload": "register", "nemesis": "partition", "lab": "lxc", "nodes": 5,
    "time_limit_s": 60.0, "rate": None, "concurrency": 10, "seed": 42, "model": None,
    "options": {"keys": 3, "clients": False, "targets": "", "shape": "a b"},
}  # fmt: skip


def ops(count: int = 200, *, hostile: bool = False) -> list[Op]:
    made = []
    for i in range(count):
        unknown, failed = i % 20 == 7, i % 20 == 9
        text = HOSTILE if hostile else "refused"
        made.append(
            Op(
                op_id=i,
                process_id=i % 10,
                invoke_ts=i * 60 * S // count,
                complete_ts=None if unknown else i * 60 * S // count + 2_000_000 + i * 1000,
                op_type="write" if i % 2 else "read",
                key=HOSTILE if hostile else "0-1",
                input=i if i % 2 else None,
                output=None if unknown or failed else HOSTILE if hostile else i,
                error=text if unknown or failed else None,
                timeout_marker=unknown,
                node_seen=None if unknown else f"n{i % 5 + 1}",
            )
        )
    return made


def record(i: int, hostile: bool = False) -> LandingRecord:
    text = HOSTILE if hostile else "every rule counted"
    return LandingRecord(
        fault_id=f"f{i + 1}",
        nemesis="partition",
        targets=["n1"],
        scheduled_at=i * 10 * S + 4 * S,
        injected_at=i * 10 * S + 4 * S,
        landed_at=i * 10 * S + 4 * S + 120_000_000,
        healed_at=i * 10 * S + 9 * S,
        heal_verified=True,
        landed="yes",
        epoch=f"f{i + 1}",
        injector=Signal_(
            signal="packets dropped per rule",
            before={"n1->n2": 0},
            during={"n1->n2": 1234},
            after={"n1->n2": [1240, 1240]},
            moved=True,
            detail=text,
        ),
        victim=Signal_(
            signal="probes that arrived",
            before={"n1->n2": [3, 3]},
            during={"n1->n2": [0, 0]},
            after={"n1->n2": [3, 3]},
            moved=True,
        ),
        facts={"shape": "one", "direction": "in", "rechecks": [{"at_ns": 1, "present": True}]},
        notes=[text],
    )


def evidence(**changes: Any) -> Evidence:
    ok = AuditRow(status="ok", evidence="12 of 12")
    fields: dict[str, Any] = {
        "attempted": True,
        "fault_planned": True,
        "faults_planned": 2,
        "faults": [
            FaultEvidence(id=f"f{i}", nemesis="partition", landed="yes", heal_verified=True)
            for i in (1, 2)
        ],
        "checker": CheckerEvidence(
            declared=["linearizable"], ran=["linearizable"], result="clean", ops_eligible=190,
            ops_consumed=190, keys_total=2, keys_decided=2, canary_killed=4, canary_total=4,
        ),
        "redflags": dict.fromkeys(RED_FLAGS, ok),
        "weak_audit": dict.fromkeys(WEAK_ITEMS, ok)
        | {"WO11": AuditRow(status="short", evidence="one seed only")},
        "budget": budgets({"duration_s": 60, "nodes": 5, "faults": 2, "seeds": 1, "ops": 600},
                          nemesis=True),
    }  # fmt: skip
    return Evidence(**(fields | changes))


def report(*, hostile: bool = False, fail: bool = False, **changes: Any) -> RunReport:
    made = ops(changes.pop("count", 200), hostile=hostile)
    text = HOSTILE if hostile else "Read 4 returned a value that was overwritten before it began."
    result = CheckResult(
        checker="linearizable",
        valid=not fail,
        model="register",
        anomaly_types=["stale-read"] if fail else [],
        anomalies={
            "stale-read": [
                Anomaly(type="stale-read", key=made[0].key, ops=[1, 3, 4, 7], minimal=True,
                        epochs=["f1"], explanation=text)
            ]
        }
        if fail
        else {},
        ops=OpCount(total=200, consumed=190, excluded={"unknown-read": 10}),
        keys=KeyCount(total=2, decided=2),
    )  # fmt: skip
    found = evidence(violation=fail, **changes)
    header = Header(
        run="20261121T215100Z-42",
        system="etcd",
        system_version=HOSTILE if hostile else "3.4.23",
        workload="register",
        model="register",
        nodes=[f"n{i}" for i in range(1, 6)],
        concurrency=10,
        seed=42,
        clock=ClockSource(host="control"),
        windows=[FaultWindow(epoch="f1", nemesis="partition", start_ns=4 * S, healed_ns=9 * S)],
    )
    verdict = decide(
        found,
        {"linearizable": msgspec.to_builtins(result)},
        blame="unknown - pending: generator swap" if fail else None,
    )
    canary = Canary(
        killed=1,
        total=1,
        details=[{"kind": "stale-read", "mutant": text, "valid": False, "checker": "x"}],
    )
    return build_report(
        msgspec.structs.replace(verdict, canary=canary),
        [record(i, hostile) for i in range(2)],
        History(header=header, ops=made),
        meta(
            spec=SPEC,
            nodes=header.nodes,
            system_version=header.system_version,
            healthy={"n1": True},
            ended_by=HOSTILE if hostile else None,
        ),
        path=Path("store/x/run"),
    )
