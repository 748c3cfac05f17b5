"""Members that are not all alike: without an endpoint, and with services that others lack."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from dstest.core.evidence import LandingRecord
from dstest.core.protocols import Endpoint, FaultPlan, Member, Probe, Process, Service, Timing
from nemeses.base.driver import Choice
from nemeses.base.process_fault import choose_processes
from nemeses.member import credentials, versions
from nemeses.process import rolling

NODES = ["n1", "n2", "n3"]
PROXIES = ("n1", "n2")


def service(name: str, port: int) -> Service:
    return Service(name=name, argv=(name,), probe=Probe(port), log=f"/log/{name}")


class Unlike:
    """Clients connect to n1 alone; n1 and n2 have a proxy besides."""

    timing = Timing()

    def __init__(self) -> None:
        db, proxy = service("db", 1), service("proxy", 2)
        self.members = {n: Member(n, (db, proxy) if n in PROXIES else (db,)) for n in NODES}

    def endpoints(self) -> list[Endpoint]:
        return [Endpoint(node="n1", address="10.0.0.1", port=1)]

    async def processes(self) -> dict[str, list[Process]]:
        rows = {n: [(s.name, i) for i, s in enumerate(m.services)] for n, m in self.members.items()}
        return {n: [Process(name, 10 + i, 1) for name, i in row] for n, row in rows.items()}


def context(counts: dict[str, int]) -> Any:
    deployment = Unlike()
    return SimpleNamespace(
        nodes=dict.fromkeys(NODES),
        deployment=deployment,
        clock=SimpleNamespace(now_ns=lambda: 0),
        traffic=SimpleNamespace(by_node=lambda: {"n1": counts}),
        need=lambda capability: deployment,
        offered=lambda capability: None,
    )


BEFORE = {"n1": {"ok": 5, "fail": 0, "unknown": 0}}
NOW = {"ok": 9, "fail": 2, "unknown": 1}


def record(*targets: str, **facts: Any) -> LandingRecord:
    known = {"traffic_at_inject": BEFORE, **facts}
    return LandingRecord(
        fault_id="f1",
        nemesis="any",
        targets=[*targets],
        scheduled_at=0,
        epoch="f1",
        facts=known,
    )


def test_a_rolling_restart_of_members_of_whom_one_has_clients() -> None:
    row = {"leader": "n2", "new_leader": "n1", "term": 4, "new_term": 5, "moved": True}
    steps = [{"node": n, **row} for n in ("n2", "n1")]
    found = rolling._victim(context(NOW), record("n2", "n1", steps=steps))
    assert found.moved, found.detail
    quiet = rolling._victim(context(BEFORE["n1"]), record("n2", "n1", steps=steps))
    assert quiet.detail == "no client of n1 saw an operation end badly"


def test_a_rotated_secret_of_a_member_without_clients() -> None:
    refuses = dict.fromkeys(NODES, "refused: no")
    hit = record("n1", "n2", refuses=refuses, refuses_before=dict.fromkeys(NODES, ""))
    found = credentials._victim(context(NOW), hit)
    assert found.moved, found.detail
    assert "clients->n2" not in found.during


@pytest.mark.parametrize(
    ("targets", "moved", "detail"),
    [
        (("n1", "n2"), True, "4 answers by 2"),
        (("n2",), False, "n2 answer no clients themselves"),
    ],
)
def test_another_build_on_a_member_without_clients(
    targets: tuple[str, ...], moved: bool, detail: str
) -> None:
    answered = {"n1": {"answered": 5}}
    steps = [{"node": n, **answered.get(n, {})} for n in targets]
    found = versions.answered_signal(context(NOW), record(*targets, steps=steps, other="2"))
    assert (found.moved, found.detail) == (moved, detail)


def chosen(scope: str, service: str, *targets: str) -> Choice:
    facts = {"scope": scope, "seed": 1, "service": service, "targets": [*targets]}
    plan = FaultPlan(fault_id="f1", nemesis="kill", start_ns=0, duration_ns=1, facts=facts)
    return asyncio.run(choose_processes(context(NOW), plan))


def test_a_service_is_struck_on_the_members_that_have_it() -> None:
    found = chosen("all", "proxy")
    assert (found.targets, found.why_not) == ([*PROXIES], "")
    assert chosen("one", "proxy").targets in (["n1"], ["n2"])
    assert chosen("all", "db").targets == NODES
    assert chosen("given", "proxy", "n3").why_not == "n3 has no service 'proxy'"
    assert chosen("all", "cache").why_not == "no member has a service 'cache'"
