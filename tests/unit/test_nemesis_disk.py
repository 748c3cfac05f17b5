"""Faults of the disk without a cluster: what counts as landed on servers that survive them."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from third_party import context

from dstest.core.evidence import LandingRecord, Signal
from dstest.core.protocols import Probe, Process, Service
from nemeses.base import process_fault
from nemeses.base.driver import Proven
from nemeses.base.process_fault import ProcessFault
from nemeses.disk import disk_error, disk_fault
from nemeses.disk.disk_error import DISK_FULL, FSYNC_ERROR
from nemeses.disk.disk_fault import FAULT_SETTINGS, fate_of, is_worse, with_counts
from nemeses.observe.processes import ProcessSnapshot
from nemeses.tools.groups import SYNCS, WRITES, Samples

SECOND = 1_000_000_000
SERVING = frozenset({100})
GONE, RUNS = ProcessSnapshot(lost=(100,)), ProcessSnapshot(left=(100,), listening=SERVING)
RESTARTED = ProcessSnapshot(lost=(100,), listening=frozenset({101}))
DEAF = ProcessSnapshot(left=(100,))
STANDS, CLEAR = {"write_errno": errno.ENOSPC}, {"write_errno": 0}


@pytest.mark.parametrize(
    ("before", "since", "worse"),
    [
        ([100, 0], [40, 40], True),
        ([100, 0], [0, 3], True),
        ([73, 27], [34, 66], True),
        ([100, 0], [0, 2], False),
        ([100, 0], [60, 10], False),
        ([73, 27], [70, 30], False),
        ([15, 5], [10, 10], False),
        ([0, 0], [0, 50], False),
        ([0, 50], [0, 50], False),
        ([50, 50], [50, 0], False),
    ],
    ids=["half", "all of few", "writes refused, others failed before", "too few", "a seventh",
         "as before", "by accident", "nobody was answered", "all failed before", "better"],
)  # fmt: skip
def test_when_clients_fare_worse(before: list[int], since: list[int], worse: bool) -> None:
    assert is_worse(before, since) is worse


def test_a_server_waits_where_a_thread_is_inside_and_clients_fare_worse() -> None:
    assert fate_of([100, 0], [40, 40], 0.0) == "refusing"
    assert fate_of([100, 0], [40, 40], 0.0, own=False) == "unharmed", "others may refuse"
    assert fate_of([100, 0], [40, 40], 0.9, own=False) == "waiting"
    assert fate_of([100, 0], [40, 2], 0.9) == "waiting"
    assert fate_of([100, 0], [40, 2], 0.1) == "unharmed"
    assert fate_of([100, 0], [40, 0], 0.9) == "unharmed"
    assert fate_of([90, 10], [95, 5], 0.9) == "unharmed"
    assert fate_of([0, 0], [0, 5], 0.9) == "unharmed"


def test_counts_span_two_seconds() -> None:
    rows: list[list[Any]] = []
    for second in range(5):
        rows = with_counts(rows, second * SECOND, {"n1": [second, 0]})
    assert [row[0] // SECOND for row in rows] == [2, 3, 4]
    rows = with_counts(rows, 60 * SECOND, {"n1": [60, 0]})
    assert [row[0] // SECOND for row in rows] == [4, 60]


class Traffic:
    """Counts of clients that a test moves on."""

    def __init__(self, *names: str) -> None:
        kinds = ("ok", "fail", "unknown", "ok_elsewhere", "fail_elsewhere", "unknown_elsewhere")
        self.rows = {n: dict.fromkeys(("invoked", *kinds), 0) for n in names}

    def by_node(self) -> dict[str, dict[str, int]]:
        return {name: dict(row) for name, row in self.rows.items()}

    def add(self, name: str, ok: int, fail: int = 0, unknown: int = 0) -> None:
        for kind, count in (("ok", ok), ("fail", fail), ("unknown", unknown)):
            self.rows[name][kind] += count


class Cluster:
    """A cluster as the nemesis sees it: disks, servers, clients; no node is asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *targets: str) -> None:
        self.targets = list(targets) or ["n1"]
        self.now_ns = 10 * SECOND
        self.traffic = Traffic("n1", "n2", "n3")
        self.disks: dict[str, dict[str, int]] = {
            n: {"refused_writes": 0, **CLEAR} for n in ("n1", "n2", "n3")
        }
        self.sights = dict.fromkeys(("n1", "n2", "n3"), RUNS)
        self.samples = Samples(taken=20)
        self.silent = Signal(signal="silence", moved=False, detail="they answer")
        self.ctx = context(
            SimpleNamespace(data_dir=lambda: "/data"),
            clock=SimpleNamespace(now_ns=lambda: self.now_ns),
            traffic=self.traffic,
            node=lambda name: None,
            nodes=dict.fromkeys(self.disks),
        )
        monkeypatch.setattr(disk_error, "gather", self._gather)
        monkeypatch.setattr(disk_error, "with_clients", lambda ctx: list(ctx.nodes))
        monkeypatch.setattr(disk_error, "readings", self._readings)
        monkeypatch.setattr(disk_error, "sample", self._sample)

    async def _gather(self, ctx: Any, record: LandingRecord) -> Any:
        looks = {n: (self.sights[n], self.sights[n]) for n in record.targets}
        quiet = {n: [self.traffic.rows[n]["ok"], 0] for n in record.targets}
        facts = {**record.facts, "quiet": quiet}
        control = Signal(signal="control", moved=False)
        return msgspec.structs.replace(record, facts=facts), looks, self.silent, control

    async def _readings(self, ctx: Any) -> Any:
        return {n: dict(row) for n, row in self.disks.items()}

    async def _sample(self, *given: Any) -> Samples:
        return self.samples

    def record(self, answering: Sequence[str] = ("n1", "n2", "n3")) -> LandingRecord:
        counts = {n: [100, 0] for n in self.targets}
        return LandingRecord(
            fault_id="f1", nemesis="disk-full", targets=self.targets, scheduled_at=0, epoch="f1",
            injected_at=10 * SECOND,
            facts={
                "pids": {n: [100, 7] for n in self.disks},
                "processes": {n: [["server", 100, 7, True]] for n in self.disks},
                "listening_before": {n: [100] for n in self.targets},
                "disk_before": {n: dict(row) for n, row in self.disks.items()},
                "clients_before": counts,
                "answering": list(answering),
                "client_rows": [[self.now_ns, {n: [0, 0] for n in self.targets}]],
                "scope": "one",
                "rechecks": [],
            },
        )  # fmt: skip

    def refuse(self, *names: str) -> None:
        for name in names or self.targets:
            self.disks[name] = {"refused_writes": 7, **STANDS}

    def ended(self, *names: str) -> None:
        for name in names:
            self.sights[name] = GONE
        self.silent = Signal(
            signal="silence", before={"n1": 2}, during={"n1": 0}, moved=True,
            detail="nobody gets an answer",
        )  # fmt: skip

    def look(self, record: LandingRecord | None = None, after_s: int = 3) -> LandingRecord:
        self.now_ns += after_s * SECOND
        return asyncio.run(DISK_FULL.observed(self.ctx, record or self.record()))


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


def test_a_server_that_ends_is_gone(cluster: Cluster) -> None:
    record = cluster.record()
    cluster.refuse()
    cluster.ended("n1")
    found = cluster.look(record)
    assert found.landed == "yes"
    assert found.facts["fates"] == {"n1": "gone"}
    assert found.injector is not None
    assert "7 writes refused for lack of space; the server is gone on n1" in found.injector.detail


def test_a_server_that_somebody_else_killed_proves_nothing(cluster: Cluster) -> None:
    record = cluster.record()
    cluster.ended("n1")
    cluster.traffic.add("n1", ok=0, unknown=50)
    found = cluster.look(record)
    assert found.landed != "yes"
    assert found.injector is not None
    assert "refuses nothing" in found.injector.detail
    cluster.disks["n1"] = {"refused_writes": 0, **STANDS}
    found = cluster.look(record)
    assert found.landed != "yes"
    assert found.injector is not None
    assert "nothing was writes refused" in found.injector.detail


def test_a_server_that_refuses_its_clients_survives(cluster: Cluster) -> None:
    record = cluster.record()
    cluster.refuse()
    cluster.traffic.add("n1", ok=40, fail=30, unknown=4)
    found = cluster.look(record)
    assert found.landed == "yes"
    assert found.facts["fates"] == {"n1": "refusing"}
    assert found.injector is not None
    assert found.victim is not None
    assert "n1 runs and refuses its clients" in found.injector.detail
    said = "clients of n1: 34 of 74 operations ended badly, 0 of 100 before the fault"
    assert said in found.victim.detail
    assert found.victim.during == {"clients->n1": 34}


def test_a_server_that_waits_in_the_call(cluster: Cluster) -> None:
    record = cluster.record()
    cluster.refuse()
    cluster.traffic.add("n1", ok=40, unknown=2)
    cluster.samples = Samples(taken=20, busy=19, threads=19)
    found = cluster.look(record)
    assert found.landed == "yes"
    assert found.facts["fates"] == {"n1": "waiting"}
    assert found.injector is not None
    assert "n1 runs, in 95% of samples with a thread in the call" in found.injector.detail
    cluster.samples = Samples(taken=20, busy=2, threads=2)
    assert cluster.look(record).landed == "no"


@pytest.mark.parametrize("why", ["fares", "restarted", "deaf", "other", "elsewhere", "settled"])
def test_what_is_no_survivor(cluster: Cluster, why: str) -> None:
    """Each of them: but for one thing it would have landed."""
    record = cluster.record()
    cluster.refuse()
    cluster.traffic.add("n1", ok=40, fail=0 if why == "fares" else 40)
    if why == "restarted":
        cluster.sights["n1"] = RESTARTED
    if why == "deaf":
        cluster.sights["n1"] = DEAF
    if why == "other":
        record.facts["listening_before"]["n1"] = [99]
    if why == "elsewhere":
        cluster.disks["n2"]["refused_writes"] = 1
    if why == "settled":
        cluster.disks["n1"].update(CLEAR)
    assert cluster.look(record).landed != "yes"


def test_a_server_that_has_closed_its_port_on_the_way_to_its_end(cluster: Cluster) -> None:
    """It is hit where nobody gets an answer any more; `deaf` above is one that still answers."""
    record = cluster.record()
    cluster.refuse()
    cluster.traffic.add("n1", ok=0, fail=40)
    cluster.ended()
    cluster.sights["n1"] = DEAF
    found = cluster.look(record)
    assert found.facts["fates"] == {"n1": "closed"}
    assert found.landed == "yes"
    assert found.injector is not None
    assert "runs and has closed its port" in found.injector.detail


def test_one_is_gone_and_one_survives(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, "n1", "n2")
    record = cluster.record()
    cluster.refuse()
    cluster.ended("n1")
    cluster.traffic.add("n2", ok=0, fail=40)
    found = cluster.look(record)
    assert found.landed == "yes"
    assert found.facts["fates"] == {"n1": "gone", "n2": "refusing"}
    cluster.silent = msgspec.structs.replace(cluster.silent, moved=False)
    assert cluster.look(record).landed == "ambiguous"
    cluster.ended()
    cluster.traffic.add("n2", ok=4000)
    assert cluster.look(record).landed == "no"


def test_of_two_whose_clients_are_the_same_none_is_known_to_refuse(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(monkeypatch, "n1", "n2")
    record = cluster.record(answering=[])
    cluster.refuse()
    cluster.ended("n1")
    cluster.traffic.add("n2", ok=0, fail=40)
    found = cluster.look(record)
    assert found.landed == "no"
    assert found.facts["fates"] == {"n1": "gone", "n2": "unharmed"}


def test_a_survivor_may_answer_while_the_fault_stands(cluster: Cluster) -> None:
    record = cluster.record()
    cluster.refuse()
    cluster.traffic.add("n1", ok=40, fail=40)
    found = msgspec.structs.replace(cluster.look(record), landed_at=cluster.now_ns)
    cluster.traffic.add("n1", ok=40, fail=40)
    cluster.now_ns += 3 * SECOND
    found = asyncio.run(DISK_FULL.recheck(cluster.ctx, found))
    assert found.landed == "yes"
    assert found.notes == []
    cluster.traffic.add("n1", ok=80)
    cluster.now_ns += 3 * SECOND
    found = asyncio.run(DISK_FULL.recheck(cluster.ctx, found))
    assert found.landed == "ambiguous"
    assert "did not stand" in found.notes[0]


def test_a_server_that_was_gone_and_answers_is_no_survivor(cluster: Cluster) -> None:
    record = cluster.record()
    cluster.refuse()
    cluster.ended("n1")
    found = msgspec.structs.replace(cluster.look(record), landed_at=cluster.now_ns)
    cluster.traffic.add("n1", ok=1)
    found = asyncio.run(DISK_FULL.recheck(cluster.ctx, found))
    assert found.landed == "ambiguous"
    assert "were answered inside the window" in found.notes[0]


def test_a_survivor_need_not_be_started_again(cluster: Cluster) -> None:
    record = cluster.record()
    cluster.refuse()
    cluster.traffic.add("n1", ok=40, fail=40)
    survived = cluster.look(record)
    now = [Process("server", 100, 7)]
    assert DISK_FULL.process_problem(survived, "n1", now, RUNS) is None
    assert DISK_FULL.process_problem(survived, "n1", now, DEAF) == "processes 100 do not serve"
    cluster.ended("n1")
    gone = cluster.look(record)
    assert "the old one" in (DISK_FULL.process_problem(gone, "n1", now, RUNS) or "")


def test_clients_are_watched_before_the_fault(
    monkeypatch: pytest.MonkeyPatch, cluster: Cluster
) -> None:
    async def busy() -> Any:
        before = asyncio.create_task(DISK_FULL.before(cluster.ctx, cluster.record()))
        await asyncio.sleep(0)
        cluster.traffic.add("n1", ok=30, fail=5)
        return await before

    monkeypatch.setattr(disk_error, "BASELINE_S", 0.05)
    cluster.traffic.add("n1", ok=1000, fail=900)
    found = asyncio.run(busy())
    assert found["clients_before"] == {"n1": [30, 5]}
    assert found["client_rows"] == [[cluster.now_ns, {"n1": [1030, 905]}]]


def test_each_fault_looks_for_threads_in_the_calls_that_it_refuses(
    monkeypatch: pytest.MonkeyPatch, cluster: Cluster
) -> None:
    asked = []

    async def taken(node: Any, pids: Any, folder: str, calls: Any, seconds: float) -> Samples:
        asked.append((list(pids), folder, calls))
        return Samples()

    monkeypatch.setattr(disk_error, "sample", taken)
    for nemesis in (DISK_FULL, FSYNC_ERROR):
        record = msgspec.structs.replace(
            cluster.record(),
            facts={**cluster.record().facts, "quiet": {}, "clients_since": {"n1": [1, 0]}},
        )
        asyncio.run(nemesis.fates(cluster.ctx, record, ["n1"]))
    assert asked == [([100], "/data", WRITES), ([100], "/data", SYNCS)]


class Servers:
    """One server of two a node, and what a nemesis has done to them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *stuck_after: Any) -> None:
        self.done: list[tuple[str, list[str]]] = []
        one, other = (
            Service(
                name=name,
                argv=(name,),
                probe=Probe(port),
                log="/l",
                data=(f"/data/{name}",),
                stuck_after=stuck_after,
            )
            for name, port in (("one", 1), ("other", 2))
        )
        self.running = {n: [Process("one", 7, 1), Process("other", 8, 1)] for n in ("n1", "n2")}
        members = {n: SimpleNamespace(services=[one, other]) for n in self.running}
        self.ctx = context(
            SimpleNamespace(
                data_dir=lambda: "/data",
                members=members,
                kill=self._kill,
                restart=self._restart,
                restart_command=lambda name: ["start", name],
            ),
            node=lambda name: self,
        )
        monkeypatch.setattr(disk_error, "clear_disks", self._clear)
        for module in (disk_error, process_fault):
            monkeypatch.setattr(module, "running", self._running)
        self.record = LandingRecord(
            fault_id="f1", nemesis="disk-full", targets=["n1"], scheduled_at=0, epoch="f1"
        )

    async def _clear(self, ctx: Any, names: Sequence[str]) -> None:
        self.done.append(("clear", list(names)))

    async def _kill(self, names: Sequence[str], service: str = "") -> None:
        self.done.append(("kill", list(names)))

    async def _restart(self, names: Sequence[str]) -> None:
        self.done.append(("restart", list(names)))

    async def _running(self, ctx: Any, service: str = "") -> Any:
        return self.running

    async def run(self, argv: list[str], **rest: Any) -> None:
        self.done.append(("start", argv))


@pytest.mark.parametrize(
    ("stuck_after", "nemesis", "killed"),
    [((), DISK_FULL, False), (("sync",), DISK_FULL, False), (("sync",), FSYNC_ERROR, True)],
)
def test_a_server_that_stays_stuck_is_killed_when_its_disk_is_well(
    monkeypatch: pytest.MonkeyPatch, stuck_after: tuple[str, ...], nemesis: Any, killed: bool
) -> None:
    servers = Servers(monkeypatch, *stuck_after)
    reverted = asyncio.run(nemesis.revert(servers.ctx, servers.record))
    assert reverted.facts == {"killed_when_healed": ["n1"] if killed else []}
    kill = [("kill", ["n1"])] if killed else []
    assert servers.done == [("clear", ["n1"]), *kill, ("restart", ["n1"])]
    servers.running["n1"] = []
    reverted = asyncio.run(nemesis.revert(servers.ctx, servers.record))
    assert reverted.facts == {"killed_when_healed": []}, "what has ended need not be killed"


def test_a_server_that_ends_after_the_heal_is_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def proven(*given: Any) -> Proven:
        return Proven([])

    async def readings(ctx: Any) -> Any:
        return {"n1": dict.fromkeys(FAULT_SETTINGS, 0)}

    monkeypatch.setattr(ProcessFault, "prove", proven)
    monkeypatch.setattr(disk_fault, "readings", readings)
    servers = Servers(monkeypatch)
    asyncio.run(DISK_FULL.prove(servers.ctx, servers.record, cast(Any, None)))
    assert servers.done == []
    servers.running["n1"].pop()
    record = servers.record
    for _ in range(5):
        look = asyncio.run(DISK_FULL.prove(servers.ctx, record, cast(Any, None)))
        record = msgspec.structs.replace(record, facts={**record.facts, **look.facts})
    left = asyncio.run(DISK_FULL.left(servers.ctx, record))
    assert left == {"n1": 0}, "faults that its file system still makes, and no pid"
    assert servers.done == [("start", ["start", "n1"])] * 2, "it may not be started for ever"
    assert record.facts == {"started_again": {"n1": 2}}


def test_what_other_servers_refused_says_nothing_of_a_survivor(cluster: Cluster) -> None:
    record = cluster.record()
    cluster.refuse()
    cluster.traffic.add("n1", ok=200)
    cluster.traffic.rows["n1"]["fail_elsewhere"] += 200
    assert cluster.look(record).facts["fates"] == {"n1": "unharmed"}
