"""Who listens at the ports of services: nobody before they start, then their own processes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from dstest.core.errors import LabError
from dstest.core.node import Completed
from dstest.core.protocols import Endpoint, Member, Probe, Process, Service, Timing
from dstest.runner.before_load import (
    check_free,
    check_listeners,
    held_by_others,
    read_listeners,
)

SERVER = Service(name="server", argv=("s",), probe=Probe(7420), log="/l", ports={"client": 7421})
SIDE = Service(name="side", argv=("s",), probe=Probe(7430), log="/l")
ENDS = [Endpoint(node="n1", address="10.0.0.1", port=7421)]


def row(port: int, *pids: int, kind: str = "tcp") -> str:
    users = ",".join(f'("x",pid={pid},fd=3)' for pid in pids)
    return f"{kind} LISTEN 0 5 10.0.0.1:{port} 0.0.0.0:* " + (f"users:({users})" if pids else "")


class Deployment:
    """Processes 10 and 11 are the server's, 20 is the other's."""

    timing = Timing(start_s=0.0)

    def __init__(self, *services: Service) -> None:
        self.members = {"n1": Member("n1", services or (SERVER, SIDE))}
        self.runs = True

    async def processes(self, names: Any = ()) -> dict[str, list[Process]]:
        rows = [("server", 10), ("server", 11), ("side", 20)]
        return {"n1": [Process(name, pid, 1) for name, pid in rows]} if self.runs else {}


class Node:
    """Each look finds the next of these, the last one for ever."""

    name = "n1"

    def __init__(self, *looks: list[str], gone: tuple[int, ...] = ()) -> None:
        self.looks, self.gone = list(looks), gone

    async def run(self, argv: list[str], timeout_s: float) -> Completed:
        if argv[0] == "ss":
            assert "sport = :" in argv[-1]
            said = "\n".join(self.looks.pop(0) if len(self.looks) > 1 else self.looks[0])
        else:
            said = "" if int(argv[-1]) in self.gone else "python3 /opt/x \n"
        return Completed(status=0, stdout=said, stderr="")


WELL = [row(7420, 10), row(7421, 10, 11), row(7430, 20)]


def before_load(node: Any, deployment: Any = None, ends: Any = ENDS) -> None:
    deployment = deployment or Deployment()
    asyncio.run(check_listeners(deployment, {"n1": node}, ends))


def test_those_of_the_service_may_listen() -> None:
    before_load(Node(WELL))


def test_somebody_else_refuses_the_run() -> None:
    with pytest.raises(LabError) as told:
        before_load(Node([row(7420, 10), row(7421, 4711)]))
    said = "n1: port 7421 is held by process 4711 (python3 /opt/x), which is not of service server"
    assert told.value.message == said
    assert told.value.remedy


@pytest.mark.parametrize(
    "rows",
    [
        [row(7420, 10), row(7421, 10, 4711)],
        [*WELL, row(7421, 4711)],
        [row(7420, 10), row(7421, 20), row(7430, 20)],
        [row(7420, 10), row(7421)],
    ],
    ids=["beside it", "at another address", "another service", "nobody that can be seen"],
)
def test_nobody_else_may(rows: list[str]) -> None:
    with pytest.raises(LabError, match=r"port 7421 is held by .* not of service server"):
        before_load(Node(rows))


def test_a_port_that_two_services_name_may_be_of_either() -> None:
    shared = Service(name="side", argv=("s",), probe=Probe(7421), log="/l")
    before_load(Node([row(7420, 10), row(7421, 20)]), Deployment(SERVER, shared))
    before_load(Node([row(7420, 10), row(7421, 10)]), Deployment(SERVER, shared))


def test_who_is_late_or_leaves_is_waited_for() -> None:
    deployment = Deployment()
    deployment.timing = Timing(start_s=5.0)
    node = Node([row(7420, 10)], [row(7420, 10), row(7421, 4711)], WELL)
    before_load(node, deployment)
    assert node.looks == [WELL]


def test_what_binds_no_tcp_port_is_let_alone() -> None:
    before_load(Node([row(7420, 10)]), ends=[])
    before_load(Node([row(7420, 10)]))
    before_load(Node([row(7420, 10), row(7421, 4711, kind="udp")]))


def test_a_worker_that_has_ended_meanwhile_is_nobody_else() -> None:
    before_load(Node([row(7420, 10), row(7421, 10, 12)], gone=(12,)))


def test_a_system_that_cannot_tell_its_processes_is_let_alone() -> None:
    deployment: Any = SimpleNamespace(members=Deployment().members, timing=Timing(start_s=0.0))
    before_load(Node([row(7420, 4711)]), deployment)
    asyncio.run(check_free(deployment, {"n1": Node([row(7420, 4711)])}))  # type: ignore[dict-item]


def test_before_a_start_nobody_else_holds_a_port() -> None:
    deployment: Any = Deployment()
    deployment.runs = False
    asyncio.run(check_free(deployment, {"n1": Node([])}))  # type: ignore[dict-item]
    node: Any = {"n1": Node([row(7421, 4711)])}
    with pytest.raises(LabError, match=r"n1: port 7421 is held by process 4711 .*nothing was st"):
        asyncio.run(check_free(deployment, node))
    (held,) = asyncio.run(held_by_others(deployment, node))
    assert (held.port, held.pid) == (7421, 4711)
    deployment.runs = True
    own: Any = {"n1": Node([row(7421, 20)])}
    assert asyncio.run(held_by_others(deployment, own)) == []


def test_what_a_node_says_is_read() -> None:
    text = (
        'tcp   LISTEN 0      128        0.0.0.0:2024  0.0.0.0:*    users:(("sshd",pid=5,fd=3))\n'
        'tcp   LISTEN 0      128           [::]:2024     [::]:*    users:(("a b",pid=6,fd=4))\n'
        "udp   UNCONN 0      0      127.0.0.1%lo:53   0.0.0.0:*\n"
    )
    rows = [(one.kind, one.port, sorted(one.pids)) for one in read_listeners(text)]
    assert rows == [("tcp", 2024, [5]), ("tcp", 2024, [6]), ("udp", 53, [])]


class Here:
    """A node that is this machine."""

    name = "n1"

    async def run(self, argv: list[str], timeout_s: float) -> Completed:
        done = await asyncio.to_thread(
            subprocess.run, argv, check=True, timeout=timeout_s, capture_output=True, text=True
        )
        return Completed(status=0, stdout=done.stdout, stderr=done.stderr)


def test_a_process_of_this_machine_is_told_with_its_command() -> None:
    make = "s = socket.create_server(('127.0.0.1', 0))"
    code = f"import socket; {make}; print(s.getsockname()[1], flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        deployment: Any = Deployment(
            Service(name="server", argv=("s",), probe=Probe(port), log="/l")
        )
        deployment.runs = False
        (held,) = asyncio.run(held_by_others(deployment, {"n1": Here()}))  # type: ignore[dict-item]
        process.communicate("\n")
    assert (held.port, held.pid) == (port, process.pid)
    assert "import socket" in held.command
