"""Who ended, when, and how often nobody could tell; what became of each log."""

from __future__ import annotations

import asyncio
import base64
import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from dstest.core.errors import RemoteLost
from dstest.core.node import Completed
from dstest.core.protocols import Process
from dstest.history.layout import RunDir, opened_log
from dstest.runner import samplers
from dstest.runner.logs import fetch_logs, fetch_settings_and_cores
from dstest.runner.samplers import ProcessWatch

S = 1_000_000_000


class Told:
    """A clock that is told the time."""

    def __init__(self) -> None:
        self.at_ns = 0

    def now_ns(self) -> int:
        return self.at_ns


class Node:
    """Answers with the kernel's count of kills, and with core files."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.away = False
        self.lost = False
        self.counted = {"/sys/fs/cgroup/memory/memory.oom_control": 0}
        self.cores = ""

    async def run(self, argv: list[str], **_: Any) -> Completed:
        if self.lost:
            raise RemoteLost(f"{self.name}: gone")
        if argv[0] == "readlink":
            text = "/opt/etcd\n"
        else:
            assert argv[2] == samplers._CORES
            text = self.cores
        return Completed(status=0, stdout=text, stderr="")

    async def call(self, verb: str, **_: Any) -> dict[str, int]:
        if self.lost:
            raise RemoteLost(f"{self.name}: gone")
        assert verb == "memory_kills"
        return self.counted


class System:
    """One server per node, by `pids`; the first has a service more, as primaries may."""

    def __init__(self) -> None:
        self.pids: dict[str, tuple[int, int]] = {"n1": (7, 70), "n2": (8, 80)}
        self.forked = itertools.count(1)
        """Children come and go; that is no end of a server."""

    def deploy(self, nodes: Any, options: Any) -> Any:
        async def processes(names: Any = ()) -> dict[str, list[Process]]:
            asked = [node for node in nodes if node.name in (names or self.pids)]
            for node in asked:
                if node.lost:
                    raise RemoteLost(f"{node.name}: gone")
            found = {}
            for name, (pid, start) in self.pids.items():
                child = Process("toy", 1000 + pid, next(self.forked), main=False)
                found[name] = [Process("toy", pid, start), child]
            return {node.name: found[node.name] for node in asked if node.name in found}

        toy = SimpleNamespace(name="toy", log="/var/log/toy.log")
        idle = SimpleNamespace(name="idle", log="/var/log/idle.log")
        members = {
            node.name: SimpleNamespace(services=[toy, idle] if node is nodes[0] else [toy])
            for node in nodes
        }
        return SimpleNamespace(processes=processes, members=members)


class Watched:
    """A watch whose looks are taken one by one."""

    def __init__(self) -> None:
        self.system, self.clock = System(), Told()
        self.nodes = {name: Node(name) for name in ("n1", "n2")}
        whole = self.system.deploy(list(self.nodes.values()), {})
        self.watch = ProcessWatch(whole, self.nodes, self.clock)  # type: ignore[arg-type]

    def look(self, at_s: float) -> None:
        self.clock.at_ns = int(at_s * S)
        asyncio.run(self._all())

    async def _all(self) -> None:
        for one in self.watch._nodes:
            await self.watch._look(one, True)

    def end(self) -> Any:
        return asyncio.run(self.watch.finish())


def test_nothing_ends_in_a_quiet_run() -> None:
    seen = Watched()
    for at_s in (0, 1, 2):
        seen.look(at_s)
    found = seen.end()
    assert (found.ends, found.unseen, found.oom_kills, found.cores) == ([], [], [], {})
    assert found.looks == {"n1": 4, "n2": 4}
    assert found.lives == {"n1": 1, "n2": 1}


def test_an_end_a_restart_and_a_restart_between_two_looks() -> None:
    seen = Watched()
    seen.look(0)
    del seen.system.pids["n1"]
    seen.look(1)
    seen.system.pids["n1"] = (9, 900)
    seen.look(2)
    seen.system.pids["n1"] = (9, 950)  # the same number, another process
    seen.look(3)
    found = seen.end()
    rows = [(e.node, e.what, e.after_ns // S, e.before_ns // S) for e in found.ends]
    assert rows == [("n1", "process 7", 0, 1), ("n1", "process 9", 2, 3)]
    assert found.lives == {"n1": 3, "n2": 1}
    told = {"n1": {"toy.log": 3, "idle.log": 0}, "n2": {"toy.log": 1}}
    assert found.lives_by_log == told


@pytest.mark.parametrize("error", [SystemExit(0), KeyError("n1")])
def test_a_system_that_fails_to_tell_has_not_been_seen(error: BaseException) -> None:
    seen = Watched()
    seen.look(0)
    told = seen.watch._nodes[0].servers.processes  # type: ignore[union-attr]

    async def fails(names: Any = ()) -> Any:
        raise error

    for one in seen.watch._nodes:
        one.servers.processes = fails  # type: ignore[union-attr, method-assign]
    seen.look(10)
    for one in seen.watch._nodes:
        one.servers.processes = told  # type: ignore[union-attr, method-assign]
    seen.look(20)
    unseen = [(one.node, one.after_ns // S, one.before_ns // S) for one in seen.end().unseen]
    assert unseen == [("n1", 0, 20), ("n2", 0, 20)]


def test_a_node_that_cannot_be_asked_is_unseen_and_its_next_look_tells() -> None:
    seen = Watched()
    seen.look(0)
    seen.nodes["n1"].lost = True
    seen.look(10)
    seen.nodes["n1"].lost = False
    seen.system.pids["n1"] = (9, 900)
    seen.look(20)
    found = seen.end()
    assert [(u.node, u.after_ns // S, u.before_ns // S) for u in found.unseen] == [("n1", 0, 20)]
    assert [(e.node, e.after_ns // S, e.before_ns // S) for e in found.ends] == [("n1", 0, 20)]


def test_a_node_that_is_never_seen_again_is_unseen() -> None:
    seen = Watched()
    seen.look(0)
    seen.nodes["n2"].lost = True
    for at_s in (10, 20, 30):
        seen.look(at_s)
    assert [u.node for u in seen.end().unseen] == ["n2"]


def test_kills_for_lack_of_memory_and_core_files() -> None:
    seen = Watched()
    group = "/sys/fs/cgroup/memory/memory.oom_control"
    seen.nodes["n1"].counted = {group: 3}  # before the run
    seen.look(0)
    seen.nodes["n2"].counted = {group: 2}
    seen.nodes["n2"].cores = "/opt/etcd/core\n"
    seen.look(5)
    found = seen.end()
    assert [(k.node, k.what.split()[0], k.before_ns // S) for k in found.oom_kills] == [
        ("n2", "2", 5)
    ]
    assert found.cores == {"n2": ["/opt/etcd/core"]}


def test_kills_that_no_node_tells_of_are_said_not_to_be_counted() -> None:
    seen = Watched()
    seen.nodes["n2"].counted = {}
    seen.look(0)
    assert seen.end().untaken == ["n2: the kernel's kills for lack of memory were not counted"]


class Logging(Node):
    """Has one log of `text`; None: it has none."""

    def __init__(self, name: str, text: bytes | None) -> None:
        super().__init__(name)
        self.text = text

    async def call(self, verb: str, **given: Any) -> dict[str, Any]:
        if verb == "read":
            at = given["offset"]
            data = (self.text or b"")[at : at + given["bytes_max"]]
            return {"data": base64.b64encode(data).decode()}
        return {"exists": self.text is not None, "size": len(self.text or b"")}

    async def get(self, path: str, *, bytes_max: int, from_start: bool = False) -> bytes:
        if self.text is None:
            raise RemoteLost(f"{self.name}: no such file")
        return self.text[:bytes_max] if from_start else self.text[-bytes_max:]


def test_what_was_kept_of_each_log(tmp_path: Path) -> None:
    long = b"aa\nbb\ncc\ndd\nee\nff\n"
    told = (("n1", b"abc"), ("n2", long), ("n3", None), ("n4", b"x" * 20))
    nodes = {n: Logging(n, t) for n, t in told}
    run = RunDir(tmp_path)
    deployment = SimpleNamespace(log_files=lambda: {n: ["/opt/etcd/etcd.log"] for n in nodes})
    logs = asyncio.run(fetch_logs(run, nodes, deployment, bytes_max=12))
    assert msgspec.to_builtins(logs) == {
        "files": {
            "n1/etcd.log": {"bytes": 3, "kept": 3},
            "n2/etcd.log": {"bytes": 18, "kept": 9, "hole_at": 6},
            "n4/etcd.log": {"bytes": 20, "kept": 6, "hole_at": 0},
        },
        "lost": {"n3/etcd.log": "n3: no such file"},
    }
    kept = (run.nodes / "n2" / "etcd.log").read_bytes()
    assert kept == b"aa\nbb\nff\n", "whole lines of its beginning and of its end"


@pytest.mark.parametrize("bytes_max", [1000, 12])
def test_a_large_log_is_kept_compressed_part_by_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bytes_max: int
) -> None:
    """Whatever the parts cut through; what others read by its name stays as it is."""
    monkeypatch.setattr("dstest.runner.logs.PLAIN_BYTES_MAX", 8)
    monkeypatch.setattr("dstest.runner.logs.PART_BYTES", 4)
    text = b"aa\nbb\ncc\ndd\nee\nff"
    run, node = RunDir(tmp_path), Logging("n1", text)
    deployment = SimpleNamespace(log_files=lambda: {"n1": ["/l/log", "/l/spans"]})
    fetching = fetch_logs(run, {"n1": node}, deployment, bytes_max=bytes_max, plain={"spans"})
    logs = asyncio.run(fetching)
    assert logs is not None
    row = logs.files["n1/log"]
    with opened_log(run.nodes / "n1" / "log.gz") as file:
        kept = file.read()
    assert (row.bytes, row.kept) == (17, len(kept))
    assert kept == ("aa\nbb\nee\nff" if bytes_max == 12 else text.decode())
    assert row.hole_at == (6 if bytes_max == 12 else None)
    assert (run.nodes / "n1" / "spans").is_file()


def test_logs_of_one_base_name_do_not_overwrite_each_other(tmp_path: Path) -> None:
    nodes = {"n1": Logging("n1", b"abc"), "n2": Logging("n2", b"abc")}
    told = {"n1": ["/opt/db/log", "/opt/proxy/log"], "n2": ["/opt/db/log"]}
    deployment = SimpleNamespace(log_files=lambda: told)
    logs = asyncio.run(fetch_logs(RunDir(tmp_path), nodes, deployment))
    assert logs is not None
    assert sorted(logs.files) == ["n1/db-log", "n1/proxy-log", "n2/log"]


def test_settings_and_cores_are_kept_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dstest.runner.logs.CORE_BYTES_MAX", 4)
    nodes = {n: Logging(n, text) for n, text in (("n1", b"abcd"), ("n2", b"abcde"))}
    service = SimpleNamespace(files={"/etc/db.conf": b""})
    members = {n: SimpleNamespace(services=[service]) for n in nodes}
    cores = {"n1": ["/opt/db/core.9", "/opt/db/core.7"], "n2": ["/opt/db/core"]}
    run = RunDir(tmp_path)
    found = asyncio.run(
        fetch_settings_and_cores(run, nodes, SimpleNamespace(members=members), cores)
    )
    assert sorted(found.files) == ["n1/config.d/db.conf", "n1/core.d/core.7", "n2/config.d/db.conf"]
    assert found.lost == {"n2/core.d/core": "/opt/db/core has 5 bytes; at most 4 are fetched"}
    assert (run.nodes / "n1" / "core.d" / "core.7").read_bytes() == b"abcd"
