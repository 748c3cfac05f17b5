"""Sampling on a node, by the real agent as a child process, and what is made of that here."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.remote import agent_samples
from clusters.remote.agent_client import AgentClient
from clusters.remote.agent_groups import Groups
from clusters.remote.agent_readings import Readings, numbers_in, numbers_of
from clusters.remote.connection import end_janitors, local_agent
from clusters.systems.etcd.system import ASKS as ETCD
from clusters.systems.toykv.system import ASKS as TOYKV
from dstest.core.clock import RunClock, monotonic_ns
from dstest.core.errors import RemoteLost, RemoteTimeout
from dstest.core.protocols import Member, Probe, Service
from dstest.core.run_record import RunMeta
from dstest.debug.monitor.client import NODES, read_rows, series_of
from dstest.history.layout import RunDir
from dstest.runner.samplers import NodeSampler, every_s, rows_of

pytestmark = pytest.mark.slow

ANSWER_S = 5.0


class Server(threading.Thread):
    """Answers each connection once, until it is told to be silent."""

    def __init__(self, answer: bytes) -> None:
        super().__init__(daemon=True)
        import socket

        self.sock = socket.create_server(("127.0.0.1", 0))
        self.port = self.sock.getsockname()[1]
        self.answer = answer
        self.silent = False
        self.held: list[Any] = []

    def run(self) -> None:
        while True:
            try:
                peer, _ = self.sock.accept()
            except OSError:
                return
            peer.recv(1 << 16)
            if self.silent:
                self.held.append(peer)
                continue
            peer.sendall(self.answer)
            peer.close()


def ask_of(asks: Any, port: int) -> list[dict[str, Any]]:
    return [
        {
            "address": "127.0.0.1",
            "port": port,
            "send": one.send,
            "form": one.form,
            "every_s": 0.2,
            "values": rows_of(one),
        }
        for one in asks
    ]


STATUS = {"ok": {"term": 3, "leads": True, "commit": 40, "applied": 39, "last": 45}}


@pytest.fixture
def toy() -> Any:
    made = Server(json.dumps(STATUS).encode() + b"\n")
    made.start()
    yield made
    made.sock.close()
    for peer in made.held:
        peer.close()


def test_an_agent_samples_itself_and_keeps_it(tmp_path: Path, toy: Server) -> None:
    marker, run = tmp_path / "marker", tmp_path / "run"
    marker.write_text("lab-7\n")

    async def body(client: AgentClient) -> tuple[Any, Any, Any]:
        asks = ask_of(TOYKV, toy.port)
        given = {"services": [], "every_s": 0.2, "disk": "/", "asks": asks}
        nothing = await client.call("samples", {"after": 0}, ANSWER_S)
        first = await client.call("samples_start", given, ANSWER_S)
        again = await client.call("samples_start", given, ANSWER_S)
        assert first == again, "who asks twice starts once"
        await asyncio.sleep(1.5)
        found = await client.call("samples", {"after": 0}, ANSWER_S)
        lost_answer = await client.call("samples", {"after": 0}, ANSWER_S)
        assert lost_answer["rows"][: len(found["rows"])] == found["rows"], "nothing is given away"
        last = found["rows"][-1][0]
        rest = await client.call("samples", {"after": last}, ANSWER_S)
        assert all(row[0] > last for row in rest["rows"])
        return nothing, first, found

    async def main() -> tuple[Any, Any, Any]:
        async with local_agent("lab-7", run=run, marker=marker) as (client, _):
            return await body(client)

    try:
        nothing, first, found = asyncio.run(main())
    finally:
        end_janitors(run)
    assert (nothing["life"], nothing["rows"]) == ("", [])
    assert found["life"] == first["life"]
    values: dict[str, float] = {}
    for _, _, row in found["rows"]:
        values |= row
    assert values["disk_free"] > 0
    assert values["connections"] >= 1
    assert (values["term"], values["leads"], values["queue"], values["answers"]) == (3, 1, 5, 1)
    assert 0 < values["sampler"] < 50
    numbers = [row[0] for row in found["rows"]]
    assert numbers == sorted(numbers)
    assert found["lost"] == 0


def test_a_server_that_hangs_is_no_answer_and_holds_up_nothing(toy: Server) -> None:
    toy.silent = True
    outside = agent_samples._Outside("", ask_of(TOYKV, toy.port), 0.2)
    began = monotonic_ns()
    assert outside.look(began) == {"answers": 0.0}
    assert (monotonic_ns() - began) / 1e9 < 2 * agent_samples.ASK_S
    toy.sock.close()
    assert outside.look(monotonic_ns()) == {"answers": 0.0}


@pytest.mark.parametrize(
    "answer", [b'{"err":"no leader"}\n', b"busy\n", b'{"ok":{"term":"x"}}\n', b'{"ok":{"ter']
)
def test_a_server_that_refuses_or_cannot_be_read_does_answer(toy: Server, answer: bytes) -> None:
    outside = agent_samples._Outside("", ask_of(TOYKV, toy.port), 0.2)
    toy.answer = answer
    found = outside.look(monotonic_ns())
    assert found.keys() == {"answers", "answer_time"}
    assert found["answers"] == 1.0


def test_a_server_that_hangs_up_without_a_word_does_not_answer(toy: Server) -> None:
    outside = agent_samples._Outside("", ask_of(TOYKV, toy.port), 0.2)
    toy.answer = b""
    assert outside.look(monotonic_ns()) == {"answers": 0.0}


def test_what_has_no_room_is_counted_as_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    sampling = agent_samples.Sampling(Groups())
    for number in range(agent_samples.KEPT_MAX + 5):
        sampling._count += 1
        sampling._kept.append((sampling._count, number, {"rss": 1.0}))
    sampling._life = "1"
    found = sampling.take(0)
    assert found["lost"] == 5
    assert found["rows"][0][0] == 6
    assert len(found["rows"]) == agent_samples.GIVEN_MAX


def test_processes_are_counted_with_all_that_they_fork() -> None:
    groups: Any = SimpleNamespace(members=lambda name: [os.getpid()])
    proc = agent_samples._Proc(["toy"], groups, Path("/nowhere"))
    first = proc.look(monotonic_ns())
    assert "cpu" not in first, "a share takes two looks"
    assert first["rss"] > 1e6 and first["fds"] > 2 and first["processes"] == 1
    began = monotonic_ns()
    while monotonic_ns() - began < 300_000_000:
        pass
    second = proc.look(monotonic_ns())
    assert 0.5 < second["cpu"] <= 110
    gone: Any = SimpleNamespace(members=lambda name: [1 << 22])
    assert agent_samples._Proc(["toy"], gone, Path("/nowhere")).look(1)["processes"] == 0


PAGE = b"""\
HTTP/1.0 200 OK

# HELP etcd_server_is_leader Whether or not this member is a leader. 1 if is, 0 otherwise.
etcd_server_is_leader 1
etcd_server_proposals_pending 2
etcd_network_peer_sent_bytes_total{To="a"} 100
etcd_network_peer_sent_bytes_total{To="b"} 50
etcd_disk_wal_fsync_duration_seconds_sum 0.5
etcd_disk_wal_fsync_duration_seconds_count 100
etcd_disk_wal_fsync_duration_seconds_bucket{le="0.001"} 7
"""


def test_a_page_of_metrics() -> None:
    (ask,) = ETCD
    one = Readings(rows_of(ask))
    found = numbers_in(PAGE, "text", one.places)
    assert found["etcd_network_peer_sent_bytes_total"] == 150
    assert one.of(found, 10**9) == {"leads": 1.0, "queue": 2.0}
    assert one.of({}, 2 * 10**9) == {}, "a refusal between two answers takes nothing away"
    later = dict(found)
    later["etcd_network_peer_sent_bytes_total"] += 300
    later["etcd_disk_wal_fsync_duration_seconds_sum"] += 0.3
    later["etcd_disk_wal_fsync_duration_seconds_count"] += 100
    second = one.of(later, 3 * 10**9)
    assert second["peer_sent"] == pytest.approx(150)
    assert second["fsync"] == pytest.approx(3.0)
    restarted = dict(found, etcd_network_peer_sent_bytes_total=10.0)
    assert "peer_sent" not in one.of(restarted, 5 * 10**9), "a counter that began anew"
    assert numbers_in(b"etcd_server_is_leader NaN\n", "text", one.places) == {}


def test_the_same_of_a_simulated_server() -> None:
    (ask,) = TOYKV
    one = Readings(rows_of(ask))
    found = one.of(numbers_of(STATUS, one.places), 10**9)
    assert found == {"term": 3, "leads": 1, "commit": 40, "applied": 39, "queue": 5}
    assert numbers_of({"ok": {"term": "x"}}, one.places) == {}
    grown = Readings([["sent", "rate", 2.0, "ok.sent", ""], ["each", "mean", 1.0, "ok.s", "ok.n"]])
    for at, told in ((1, {"sent": 10, "s": 1, "n": 1}), (3, {"sent": 40, "s": 7, "n": 4})):
        found = grown.of(numbers_of({"ok": told}, grown.places), at * 10**9)
    assert found == {"sent": 30.0, "each": 2.0}


class Node:
    """Samples once a second of its own clock, which is `ahead_ns` of the run's; may be silent."""

    def __init__(self, name: str, ahead_ns: int) -> None:
        self.name, self.ahead_ns = name, ahead_ns
        self.info = SimpleNamespace(address="127.0.0.1")
        self.away = self.lost = False
        self.life = "1"
        self.rows: list[Any] = []
        self.started: list[Any] = []

    def sample(self, value: float) -> None:
        now = monotonic_ns() + self.ahead_ns
        self.rows.append([len(self.rows) + 1, now, {"rss": value, "sampler": 0.5}])

    async def call(self, verb: str, *, timeout_s: float, **args: Any) -> Any:
        if self.lost:
            raise RemoteTimeout(f"{self.name}: no answer")
        if verb == "samples_start":
            self.started.append(args)
            return {"life": self.life}
        rows = [row for row in self.rows if row[0] > args["after"]]
        now = monotonic_ns() + self.ahead_ns
        return {"life": self.life, "monotonic_ns": now, "lost": 0, "rows": rows}


def sampler_of(path: Path, nodes: list[Node]) -> tuple[NodeSampler, RunClock]:
    service = Service(name="toy", argv=("x",), probe=Probe(1), log="/x")
    members = {node.name: Member(node.name, [service]) for node in nodes}
    deployment: Any = SimpleNamespace(members=members)
    clock = RunClock(monotonic_ns())
    made = NodeSampler(RunDir(path), clock, {n.name: n for n in nodes}, deployment, TOYKV, 60.0)
    return made, clock


def test_samples_stand_on_the_clock_of_the_run(tmp_path: Path) -> None:
    nodes = [Node("n1", 0), Node("n2", 7 * 10**12), Node("n3", -3 * 10**9)]
    made, clock = sampler_of(tmp_path, nodes)
    for node in nodes:
        node.sample(5.0)
    told = asyncio.run(made.finish())
    for row in read_rows(tmp_path / NODES):
        assert abs(row.time_ns - clock.now_ns()) < 10**9, row
    assert {row["samples"] for row in told["nodes"].values()} == {1}
    assert nodes[0].started[0]["services"] == ["toy"]


def test_a_node_that_is_cut_off_loses_nothing(tmp_path: Path) -> None:
    node = Node("n1", 5)
    made, _ = sampler_of(tmp_path, [node])

    async def story() -> Any:
        node.sample(1.0)
        await made._all()
        node.lost = True
        for value in (2.0, 3.0):
            node.sample(value)
            await made._all()
        node.lost = False
        await made._all()
        return await made.finish()

    told = asyncio.run(story())
    series = series_of(read_rows(tmp_path / NODES))
    assert [value for _, value in series["n1", "rss"]] == [1.0, 2.0, 3.0]
    assert told["nodes"]["n1"]["samples"] == 3


def test_a_node_that_stays_away_and_a_disk_that_refuses_are_written_down(tmp_path: Path) -> None:
    nodes = [Node("n1", 0), Node("n2", 0)]
    made, _ = sampler_of(tmp_path, nodes)

    async def story() -> Any:
        for node in nodes:
            node.sample(1.0)
        await made._all()
        nodes[1].lost = True
        (tmp_path / NODES).unlink()
        (tmp_path / NODES).mkdir()
        nodes[0].sample(2.0)
        return await made.finish()

    told = asyncio.run(story())
    assert told["refused"] == "Is a directory"
    assert told["nodes"]["n2"]["samples"] == 1
    assert told["nodes"]["n2"]["problem"] == "n2: no answer"
    assert "problem" not in told["nodes"]["n1"]


def test_a_node_that_was_restarted_begins_anew(tmp_path: Path) -> None:
    node = Node("n1", 5)
    made, _ = sampler_of(tmp_path, [node])

    async def story() -> Any:
        node.sample(1.0)
        await made._all()
        node.life, node.rows, node.ahead_ns = "2", [], -9 * 10**9
        node.sample(2.0)
        return await made.finish()

    told = asyncio.run(story())
    series = series_of(read_rows(tmp_path / NODES))
    assert [value for _, value in series["n1", "rss"]] == [1.0, 2.0]
    first, second = (time_ns for time_ns, _ in series["n1", "rss"])
    assert 0 <= second - first < 10**9
    assert told["nodes"]["n1"]["agents"] == 2


def test_a_node_that_never_answers_ends_nothing(tmp_path: Path) -> None:
    node = Node("n1", 0)
    node.lost = True
    made, _ = sampler_of(tmp_path, [node])
    told = asyncio.run(made.finish())
    assert told["nodes"]["n1"] == {"samples": 0, "lost": 0, "problem": "n1: no answer"}
    assert isinstance(RemoteLost("x"), Exception)


def test_a_disk_that_refuses_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node("n1", 0)
    made, _ = sampler_of(tmp_path, [node])
    made._file = tmp_path / "nowhere" / "nodes.jsonl"
    node.sample(1.0)
    assert asyncio.run(made.finish())["refused"]


def test_long_runs_are_sampled_less_often() -> None:
    assert every_s(60) == every_s(3600) == 1.0
    assert every_s(36_000) == 10.0


def test_run_json_of_other_versions_has_none() -> None:
    assert RunMeta.__struct_fields__.count("monitor") == 1
