"""What the base of systems asks of nodes, and makes of what they say."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from clusters.remote.agent_groups import PREPARE_S
from clusters.supervise import Durable, FullMesh, SupervisedSystem
from clusters.supervise.member_set import GROUPS, MEMBER, PROGRAM
from clusters.systems.memcached import SYSTEM as MEMCACHED
from clusters.systems.redis_sentinel import SYSTEM as REDIS
from dstest.core.errors import ConfigError, LabError
from dstest.core.node import Completed
from dstest.core.protocols import LocalFile, Member, Process, Service
from dstest.core.protocols.systems import Probe, Timing

pytestmark = pytest.mark.slow

ROWS = {
    "db": {
        "main": [7, 70],
        "processes": [[7, 70], [8, 80]],
        "exit": None,
        "group": {"kind": "v1", "path": "/f/dstest-service-db"},
        "frozen": False,
    },
    "side": {
        "main": None,
        "processes": [],
        "exit": {"status": -9},
        "group": None,
        "frozen": False,
    },
}


class Node:
    """Notes what is asked of it."""

    def __init__(self, name: str, **answers: int) -> None:
        self.name, self.info = name, SimpleNamespace(address=f"10.0.0.{name[1:]}", lab_id="x")
        self.ran: list[str] = []
        self.struck: list[str] = []
        self.files: dict[str, bytes] = {}
        self.status = answers
        self.patience_s = 0.0

    async def run(
        self, argv: Sequence[str], timeout_s: float = 0.0, check: bool = True
    ) -> Completed:
        text, self.patience_s = " ".join(argv), timeout_s
        self.ran.append(text)
        status = next((s for word, s in self.status.items() if word in text), 0)
        stdout = f"{GROUPS}\n" if "override.json" in text else ""
        return Completed(status=status, stdout=stdout, stderr="")

    async def call(self, verb: str, **given: Any) -> Any:
        if verb == "services":
            return ROWS
        if verb in ("strike", "signal_services"):
            what = given["act"] if verb == "strike" else str(given["number"])
            self.struck.append(" ".join([verb, what, *given["services"]]))
            return None
        if verb == "stat":
            return {"exists": True, "size": 5}
        if given["offset"] > 5:
            raise LabError("no such file")
        return {"data": base64.b64encode(b"a line\n").decode()}

    async def put(self, path: str, data: bytes, mode: int = 0o644) -> None:
        self.files[path] = data

    async def get(self, path: str, bytes_max: int = 0) -> bytes:
        return b"its last words"


class Made(FullMesh, Durable):
    timing = Timing(start_s=0.3)
    well = True

    def services(self, node: Any) -> Sequence[Service]:
        db = Service(name="db", argv=("db",), probe=Probe(1), log="/l/db", data=("/d",))
        side = Service(name="side", argv=("side",), probe=Probe(2), log="/l/side", after=("db",))
        return [db, side]

    async def healthy(self) -> dict[str, bool]:
        return dict.fromkeys(self.members, self.well)

    async def version(self) -> str:
        return "1"


class OneProxy(Made):
    """A proxy on the first member alone, which clients connect to."""

    endpoint_service = "side"

    def services(self, node: Any) -> Sequence[Service]:
        return list(super().services(node))[: 2 if node.name == "n1" else 1]


def made(**answers: int) -> tuple[Made, Node, Node]:
    one, two = Node("n1", **answers), Node("n2", **answers)
    nodes: Any = [one, two]
    return Made(nodes, {}), one, two


class Brought(Made):
    """Its program is a file of the control host."""

    program: Any = b""

    def services(self, node: Any) -> Sequence[Service]:
        argv, files = ("/opt/own/kvd", "-x"), {"/opt/own/kvd": self.program}
        return [Service(name="db", argv=argv, probe=Probe(1), log="/l/db", files=files)]


def brought(program: Any) -> tuple[Brought, Node]:
    kind, node = type("Own", (Brought,), {"program": program}), Node("n1")
    nodes: Any = [node]
    return kind(nodes, {}), node


def test_a_program_of_the_users_own_is_laid_with_its_mode(tmp_path: Path) -> None:
    """It is looked for in no image, and waits on the node for each start."""
    (tmp_path / "kvd").write_bytes(b"\x7fELF")
    deployment, node = brought(LocalFile(tmp_path / "kvd"))
    asyncio.run(deployment.install())
    assert not any("command -v" in text for text in node.ran)
    asyncio.run(deployment.start())
    (row,) = json.loads(node.files[MEMBER])["services"]
    waiting, mode = row["given"]["/opt/own/kvd"]
    assert (node.files[waiting], mode, row["files"]) == (b"\x7fELF", 0o755, {})


@pytest.mark.parametrize(
    ("program", "why"),
    [(b"#!/bin/sh", "nobody may execute"), (LocalFile("/nowhere/kvd"), "/nowhere/kvd, which is")],
)
def test_a_program_that_cannot_be_one_is_said_before_the_start(program: Any, why: str) -> None:
    deployment, _ = brought(program)

    async def began() -> None:
        await deployment.install()
        await deployment.start()

    with pytest.raises(ConfigError, match=why) as caught:
        asyncio.run(began())
    assert "LocalFile(" in (caught.value.remedy or "")


def test_a_start_lays_what_is_to_run_stops_wipes_and_starts() -> None:
    deployment, one, two = made()
    asyncio.run(deployment.install())
    asyncio.run(deployment.start())
    names = [row["name"] for row in json.loads(one.files[MEMBER])["services"]]
    assert names == ["db", "side"]
    assert PROGRAM in two.files
    order = [next(i for i, text in enumerate(one.ran) if word in text)
             for word in ("command -v", "stop", "find \"$path\"", "services start")]  # fmt: skip
    assert order == sorted(order)


def test_what_cannot_be_started_is_said_with_the_end_of_a_log() -> None:
    deployment, *_ = made()
    deployment.well = False
    with pytest.raises(LabError, match="its last words"):
        asyncio.run(deployment.start())
    with pytest.raises(LabError, match="has no db"):
        asyncio.run(made(command=1)[0].install())


def test_a_member_without_a_service_that_does_not_serve_is_named() -> None:
    deployment, *_ = made()
    deployment.well = False
    deployment.members["n1"] = Member("n1", ())
    with pytest.raises(LabError, match=r"n1, n2 serve nobody after 0 s; n1 has no service"):
        asyncio.run(deployment.start())


def test_a_server_that_has_ended_is_not_waited_for() -> None:
    deployment, *_ = made()
    deployment.well, deployment.timing = False, Timing(start_s=60.0)
    with pytest.raises(LabError, match=r"side on n1 ended with status -9; end of /l/side: its la"):
        asyncio.run(deployment.start())


def test_what_a_client_library_said_last_is_in_the_error() -> None:
    deployment, *_ = made()

    async def ask(node: Any) -> bool:
        if node.name == "n2":
            raise ConnectionError("no password was given")
        return True

    async def healthy() -> dict[str, bool]:
        return {name: bool(ok) for name, ok in (await deployment.answers(ask)).items()}

    deployment.healthy = healthy  # type: ignore[method-assign]
    with pytest.raises(LabError, match=r"n2, asked last: .*no password was given"):
        asyncio.run(deployment.start())


def test_all_processes_are_told_by_service() -> None:
    deployment, *_ = made()
    rows = [Process("db", 7, 70, True), Process("db", 8, 80, False)]
    assert asyncio.run(deployment.processes()) == {"n1": rows, "n2": rows}
    assert asyncio.run(deployment.exits())["n1"] == {"db": None, "side": -9}
    assert asyncio.run(deployment.freezer_groups())["n2"] == ["/f/dstest-service-db"]


def test_faults_name_the_service_or_mean_all() -> None:
    deployment, one, two = made()
    acts = (deployment.kill, deployment.terminate, deployment.pause, deployment.resume,
            deployment.freeze, deployment.thaw)  # fmt: skip
    for act in acts:
        asyncio.run(act(["n2"], "db"))
    asyncio.run(deployment.kill(["n2"]))
    asyncio.run(deployment.restart(["n2"]))
    quick = ["signal_services 19 db", "signal_services 18 db"]
    assert two.struck == [
        *("strike kill db", "strike terminate db", *quick),
        *("strike freeze db", "strike thaw db", "strike kill"),
    ]
    assert two.ran == [f"{PROGRAM} start"]
    assert one.ran == one.struck == []
    assert deployment.thaw_command() == [PROGRAM, "thaw"]


def test_logs_overrides_and_groups() -> None:
    deployment, one, _ = made()
    assert asyncio.run(deployment.log_sizes("side")) == {"n1": 5, "n2": 5}
    assert asyncio.run(deployment.log_since("n1", 0)) == "a line\n"
    assert asyncio.run(deployment.log_since("n1", 9)) == ""
    assert deployment.log_files() == {"n1": ["/l/db", "/l/side"], "n2": ["/l/db", "/l/side"]}
    assert deployment.data_dir() == "/d"
    assert deployment.links() is None
    asyncio.run(deployment.override("n1", "db", ["-x"], "/other"))
    (row,) = (json.loads(d) for path, d in one.files.items() if path.endswith("override.json"))
    assert row == {"argv": ["-x"], "program": "/other"}
    assert asyncio.run(deployment.overridden()) == ["n1", "n2"]
    asyncio.run(deployment.clear_override("n1", "db"))
    asyncio.run(deployment.start_in("/g"))
    assert one.files[GROUPS] == b"/g"
    asyncio.run(deployment.start_in(""))
    assert one.ran[-1] == f"rm -f {GROUPS}"


def test_members_need_not_have_the_same_services() -> None:
    nodes: Any = [Node("n1"), Node("n2")]
    deployment = OneProxy(nodes, {})
    assert [one.node for one in deployment.endpoints()] == ["n1"]
    assert deployment.log_files() == {"n1": ["/l/db", "/l/side"], "n2": ["/l/db"]}
    assert asyncio.run(deployment.log_sizes("side")) == {"n1": 5}
    with pytest.raises(ConfigError, match="n2 has no service 'side'"):
        asyncio.run(deployment.log_since("n2", 0, "side"))


def test_a_service_that_nobody_has_is_no_other_one() -> None:
    deployment = made()[0]
    deployment.endpoint_service = "sied"  # type: ignore[misc]
    for asked in (deployment.endpoints, lambda: asyncio.run(deployment.install())):
        with pytest.raises(ConfigError, match="no member has a service 'sied'") as no:
            asked()
        assert no.value.remedy == "one of db, side"


def test_a_node_names_a_command_that_hangs_before_we_lose_patience() -> None:
    deployment, one, _ = made()
    (first, *rest) = deployment.members["n1"].services
    prepared = msgspec.structs.replace(first, prepare=(("a",), ("b",)))
    deployment.members["n1"] = Member("n1", (prepared, *rest))
    asyncio.run(deployment.boot())
    assert one.patience_s > 2 * PREPARE_S


@pytest.mark.parametrize("system", [MEMCACHED, REDIS], ids=lambda system: system.name)
def test_what_a_system_says_fits_its_services(system: SupervisedSystem) -> None:
    nodes: Any = [Node("n1"), Node("n2"), Node("n3")]
    options = {name: option.default for name, option in system.options.items()}
    deployment: Any = system.deploy(nodes, options)
    for member in deployment.members.values():
        assert tuple(service.name for service in member.services) == system.services
    assert [one.node for one in deployment.endpoints()] == ["n1", "n2", "n3"]
    assert not any(one.pinned for one in deployment.endpoints())
    assert system.members(["n1", "n2"], {}) == ["n1", "n2"]
