"""The control host's half of the agent protocol, ssh_config files, refusals before a login."""

from __future__ import annotations

import ast
import asyncio
import json
import struct
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import clusters.remote
from clusters.remote import bundle
from clusters.remote.agent_client import AgentClient
from clusters.remote.chores import parse_ssh_config
from clusters.remote.connection import refuse_control_host
from dstest.core.errors import LabError, NotALabNode, RemoteLost, RemoteTimeout
from dstest.core.node import NodeInfo

Body = Callable[[AgentClient, list[bytes]], Awaitable[None]]


def with_client(body: Body) -> None:
    async def main() -> None:
        written: list[bytes] = []
        await body(AgentClient("n1", written.append), written)

    asyncio.run(main())


def request(frame: bytes) -> dict[str, object]:
    assert struct.unpack(">I", frame[:4])[0] == len(frame) - 4
    found: dict[str, object] = json.loads(frame[4:])
    return found


def test_answers_find_their_calls_in_any_order_and_any_pieces() -> None:
    async def body(client: AgentClient, written: list[bytes]) -> None:
        calls = [asyncio.create_task(client.call("ping", {"n": n}, 5.0)) for n in range(3)]
        await asyncio.sleep(0)
        ids = [request(frame)["id"] for frame in written]
        stream = b"".join(
            bundle.pack({"id": i, "ok": {"monotonic_ns": i, "wall_ns": 0}}) for i in reversed(ids)
        )
        for byte in stream:
            client.feed(bytes([byte]))
        assert await asyncio.gather(*calls) == [{"monotonic_ns": i, "wall_ns": 0} for i in ids]

    with_client(body)


def test_a_late_answer_belongs_to_nobody() -> None:
    async def body(client: AgentClient, written: list[bytes]) -> None:
        with pytest.raises(RemoteTimeout, match="perhaps it was done"):
            await client.call("exec", {}, 0.01)
        client.feed(bundle.pack({"id": request(written[0])["id"], "ok": 1}))
        assert client.late_answers == 1
        assert len(written) == 1

    with_client(body)


@pytest.mark.parametrize(
    "garbage",
    [struct.pack(">I", 1 << 31), struct.pack(">I", 2) + b"}{", struct.pack(">I", 2) + b"[]"],
)
def test_a_broken_stream_counts_as_a_lost_connection(garbage: bytes) -> None:
    async def body(client: AgentClient, _: list[bytes]) -> None:
        call = asyncio.create_task(client.call("ping", {}, 5.0))
        await asyncio.sleep(0)
        client.feed(garbage)
        with pytest.raises(RemoteLost, match="stream is broken"):
            await call
        with pytest.raises(RemoteLost):
            await client.call("ping", {}, 5.0)

    with_client(body)


def test_an_agent_of_another_version_is_not_used() -> None:
    async def body(client: AgentClient, _: list[bytes]) -> None:
        starting = asyncio.create_task(client.start("demo"))
        await asyncio.sleep(0)
        client.feed(bundle.pack({"hello": {"version": "0"}}))
        with pytest.raises(LabError, match="version 0"):
            await starting

    with_client(body)


def test_the_agent_needs_the_standard_library_only() -> None:
    allowed = {"clusters.remote", *(f"clusters.remote.{name}" for name in bundle.FILES)}
    for name in bundle.FILES:
        tree = ast.parse((Path(bundle.__file__).parent / f"{name}.py").read_text())
        for node in ast.walk(tree):
            modules: list[str] = []
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                modules = [str(node.module)]
            for module in modules:
                assert (
                    module in {*allowed, "__future__"}
                    or module.split(".")[0] in sys.stdlib_module_names
                )


def test_the_room_exports_what_it_says() -> None:
    for name in clusters.remote.__all__:
        assert callable(getattr(clusters.remote, name))
    with pytest.raises(AttributeError):
        _ = clusters.remote.nothing


def test_this_machine_is_refused_by_any_of_its_addresses() -> None:
    from clusters.labs import host

    rows = json.loads(host.run(["ip", "-j", "addr"]).stdout)
    own = [
        address["local"]
        for row in rows
        for address in row.get("addr_info", [])
        if row["ifname"] != "lo" and address.get("scope") == "global"
    ]
    for address in own:
        with pytest.raises(NotALabNode, match="this machine itself"):
            asyncio.run(refuse_control_host(NodeInfo(name="x", address=address)))
    for address in ("127.0.0.1", "::1", "192.0.2.77"):
        asyncio.run(refuse_control_host(NodeInfo(name="x", address=address)))
    with pytest.raises(LabError, match="no-such-host"):
        asyncio.run(refuse_control_host(NodeInfo(name="x", address="no-such-host.invalid")))


def test_an_ssh_config_becomes_nodes() -> None:
    text = """
Host *
  User vagrant
Host n1
  HostName 192.168.121.4
  Port 2222
  IdentityFile "/boxes/n1/private_key"
Host n2 web?
  HostName n2.example
  User admin
"""
    one, two = parse_ssh_config(text, lab_id="demo", known_hosts_path="/k")
    assert (one.name, one.address, one.port, one.user) == ("n1", "192.168.121.4", 2222, "vagrant")
    assert one.key_path == "/boxes/n1/private_key"
    assert (two.name, two.address, two.port) == ("n2", "n2.example", 22)
    assert {node.known_hosts_path for node in (one, two)} == {"/k"}
