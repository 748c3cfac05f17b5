"""A run with nothing wrong in it, as the audit sees it, and ways to change it."""

from __future__ import annotations

import functools
from typing import Any

import msgspec

from dstest.core.check import CheckResult, Fields, KeyCount, OpCount
from dstest.core.evidence import Canary, Evidence, LandingRecord, Signal
from dstest.core.history import ClockSource, FaultWindow, Header, History, Recovery
from dstest.core.op import Op
from dstest.core.verdict import State
from dstest.judge.decide import decide
from dstest.judge.evidence import build_evidence
from dstest.judge.facts import ClockFact, ProcessFacts, RunFacts, Wire

S = 1_000_000_000
NODES = ["n1", "n2", "n3", "n4", "n5"]
CLIENTS = 10
RATE = 70
SECONDS = 305
FAULTS = 10


def record(i: int, **changes: Any) -> LandingRecord:
    start = (20 + i * 25) * S
    there, back = (f"{NODES[i % 5]}->{NODES[(i + 1) % 5]}", f"{NODES[(i + 1) % 5]}->{NODES[i % 5]}")
    fields: dict[str, Any] = {
        "fault_id": f"f{i + 1}",
        "nemesis": "partition",
        "targets": [NODES[i % 5]],
        "scheduled_at": start,
        "injected_at": start,
        "injector": Signal(
            signal="packets dropped", before={there: 0}, during={there: 9}, moved=True
        ),
        "victim": Signal(signal="probes", before={there: 2}, during={there: 0}, moved=True),
        "control": Signal(signal="probes", moved=False),
        "landed": "yes",
        "landed_at": start + S // 10,
        "epoch": f"f{i + 1}",
        "heal_start": start + 6 * S,
        "healed_at": start + 7 * S,
        "heal_verified": True,
        "facts": {
            "shape": "one",
            "direction": "in" if i % 3 == 1 else "both",
            "cuts": [there, back],
            "baseline_packets": {there: 40, back: 38},
            "rechecks": [{"at_ns": start + 3 * S, "present": True}] * 2,
        },
    }
    return LandingRecord(**(fields | changes))


def windows() -> list[FaultWindow]:
    return [
        FaultWindow(epoch=r.epoch, nemesis="partition", start_ns=r.injected_at or 0,
               healed_ns=r.healed_at)
        for r in map(record, range(FAULTS))
    ]  # fmt: skip


@functools.cache
def ops(rate: int = RATE, seconds: int = SECONDS) -> tuple[Op, ...]:
    made = []
    found = windows()
    for i in range(rate * seconds):
        start = i * S // rate
        end = start + 3_000_000
        epoch = next(
            (w.epoch for w in found if start <= (w.healed_ns or 0) and end >= w.start_ns), None
        )
        made.append(
            Op(
                op_id=i,
                process_id=i % CLIENTS,
                invoke_ts=start,
                complete_ts=end,
                op_type="write" if i % 2 else "read",
                # Some reads go back to older keys, so that what a fault destroyed would show.
                key=f"0-{i // 100 - (5 + i // 20 % 10 if i % 20 == 0 else 0)}",
                input=i if i % 2 else None,
                output=None if i % 2 else i,
                node_seen=NODES[i % 5],
                fault_epoch=epoch,
            )
        )
    return tuple(made)


def history(changed: tuple[Op, ...] | None = None, **header: Any) -> History:
    found = list(changed if changed is not None else ops())
    fields: dict[str, Any] = {
        "nodes": NODES,
        "concurrency": CLIENTS,
        "rate": float(RATE),
        "clock": ClockSource(host="control"),
        "windows": windows(),
        "counters": {"issued": len(found)},
    }
    return History(header=Header(**(fields | header)), ops=found)


def result(**changes: Any) -> CheckResult:
    total = len(ops())
    fields: dict[str, Any] = {
        "checker": "linearizable",
        "valid": True,
        "ops": OpCount(total=total, consumed=total),
        "keys": KeyCount(total=214, decided=214),
    }
    return CheckResult(**(fields | changes))


def clocks(drift_ns: int, host: str = "control") -> list[ClockFact]:
    """All hosts, one of which drifted."""
    return [
        ClockFact(
            host=name,
            wall_minus_mono_start_ns=0,
            wall_minus_mono_end_ns=drift_ns if name == host else 0,
        )
        for name in ("control", *NODES)
    ]


def wire(**changes: Any) -> Wire:
    fields: dict[str, Any] = {
        "worker": 0,
        "node": "n1",
        "calls": 900,
        "requests": 900,
        "connections": 1,
        "known": True,
    }
    return Wire(**(fields | changes))


@functools.cache
def good() -> RunFacts:
    return RunFacts(
        history=history(),
        records=[record(i) for i in range(FAULTS)],
        faults_planned=FAULTS,
        checkers_declared=["linearizable"],
        results={"linearizable": result()},
        checker_kinds={"linearizable": "history"},
        canary=Canary(killed=8, total=8),
        node_of_process={p: NODES[p % 5] for p in range(CLIENTS)},
        clocks=clocks(2_000_000),
        log_lines=dict.fromkeys(NODES, 900),
        processes=ProcessFacts(looks=dict.fromkeys(NODES, 200), lives=dict.fromkeys(NODES, 1)),
        healthy=dict.fromkeys(NODES, True),
        wire=[wire()],
        replicas=dict.fromkeys(NODES, "abc@1"),
        members_at={f"f{i + 1}": NODES for i in range(FAULTS)},
        recoveries=[
            Recovery(healed_ns=(27 + i * 25) * S, settled_ns=(29 + i * 25) * S)
            for i in range(FAULTS)
        ],
        seeds_agreeing=3,
        node_counts_run=[3, 5],
        residue={name: [] for name in NODES},
        tier_wanted="hardening",
    )


def but(**changes: Any) -> RunFacts:
    return msgspec.structs.replace(good(), **changes)


def records(i: int, **changes: Any) -> list[LandingRecord]:
    return [
        msgspec.structs.replace(r, **changes) if n == i else r for n, r in enumerate(good().records)
    ]


def with_facts(i: int, **facts: Any) -> list[LandingRecord]:
    return records(i, facts=good().records[i].facts | facts)


def shorts(evidence: Evidence) -> set[str]:
    rows = evidence.redflags | evidence.weak_audit
    return {name for name, row in rows.items() if row.status == "short"}


def judged(facts: RunFacts) -> tuple[set[str], State]:
    evidence = build_evidence(facts, op_types=frozenset({"read", "write", "intrude"}))
    return shorts(evidence), decide(evidence).verdict


def thin() -> tuple[Op, ...]:
    """Half of the seconds outside the windows offer a fifth of the load."""
    return tuple(o for o in ops() if o.invoke_ts // S % 2 or o.op_id % 5 == 0 or o.fault_epoch)


READ = frozenset({"read"})
WRITE = frozenset({"write"})


def boundary(**fields: Any) -> RunFacts:
    """A boundary claim; what is not given is as it should be."""
    whole: dict[str, Any] = {
        "surfaces": {"read": READ, "write": WRITE, "both": READ | WRITE},
        "negative_controls": frozenset({"intrude"}),
    }
    changes = {"op_type": "intrude", "output": None, "error": "refused"}
    refused = (msgspec.structs.replace(ops()[0], **changes), *ops()[1:])
    return but(
        claims=frozenset({"safety", "boundary"}),
        fields=Fields(**(whole | fields)),
        history=history(refused),
    )


def unanswered() -> tuple[Op, ...]:
    """Every third second outside the windows answers nothing, and its clients wait."""
    return tuple(
        o
        if o.fault_epoch or o.invoke_ts // S % 3 or not 5 < o.invoke_ts // S < 270
        else msgspec.structs.replace(o, output=None, error="no leader")
        for o in ops()
    )


def left_behind() -> tuple[Op, ...]:
    """Each operation has a key of its second: what was written before a fault is never read."""
    return tuple(msgspec.structs.replace(o, key=f"0-{o.invoke_ts // S}") for o in ops())


def limping(error: str = "no leader") -> tuple[Op, ...]:
    """After the last heal every fourth operation fails."""
    return tuple(
        msgspec.structs.replace(o, output=None, error=error)
        if o.invoke_ts > 280 * S and o.op_id % 4 == 0
        else o
        for o in ops()
    )


P = State.PARTIAL_MODEL
SMOKE = State.PASS_SMOKE
ORACLE = State.INCONCLUSIVE_ORACLE
FAULT = State.INCONCLUSIVE_FAULT


def minute(**changes: Any) -> RunFacts:
    kept = ops()[: 60 * RATE]
    found = history(kept, windows=windows()[:2])
    total = len(kept)
    answer = result(ops=OpCount(total=total, consumed=total))
    return but(
        **(
            {
                "history": found,
                "records": good().records[:2],
                "faults_planned": 2,
                "results": {"linearizable": answer},
                "seeds_agreeing": 1,
                "node_counts_run": [5],
                "tier_wanted": "smoke",
            }
            | changes
        )
    )
