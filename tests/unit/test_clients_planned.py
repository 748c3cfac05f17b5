"""Clients that lack operations, and faults that no client would see, are refused when planned."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from made_plugins import declaring

from clusters.supervise import OpsClient
from dstest.core import registry
from dstest.core.errors import ConfigError
from dstest.core.protocols import Endpoint, OpDraft, Reply, System
from dstest.core.registry import offered
from dstest.extend.scaffold.write import KINDS, write
from dstest.runner.requirements import check_client, check_endpoints, check_requires, lacking


class Puts(OpsClient):
    async def do_enqueue(self, op: OpDraft) -> None: ...


class Both(Puts):
    async def do_dequeue(self, op: OpDraft) -> None: ...


class ByItself(Puts):
    async def invoke(self, op: OpDraft, timeout_s: float) -> Reply:
        return Reply(None)


class Finds(Puts):
    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def system(client: Any) -> Any:
    return SimpleNamespace(name="toy", capabilities=frozenset({"queue"}), clients={"queue": client})


def queue() -> Any:
    return registry.load("workloads", "queue")


def test_a_client_without_an_operation_of_the_workload_is_refused() -> None:
    with pytest.raises(ConfigError, match="queue asks for dequeue, which Puts of toy cannot") as no:
        check_client(system(Puts), queue())
    assert no.value.remedy == "write do_dequeue in Puts"


@pytest.mark.parametrize("client", [Both, ByItself, Finds, lambda *_: None])
def test_one_that_has_them_or_cannot_be_asked_is_not(client: Any) -> None:
    check_client(system(client), queue())


def test_the_workloads_that_fit_are_named() -> None:
    with pytest.raises(ConfigError, match="register needs a register client, toy offers") as no:
        check_client(system(Both), registry.load("workloads", "register"))
    assert "--workload queue or work-queue;" in (no.value.remedy or "")


@pytest.mark.parametrize("name", registry.names("systems"))
def test_our_own_clients_can_do_what_their_workloads_ask(name: str) -> None:
    ours, refused = registry.load("systems", name), []
    for workload in registry.names("workloads"):
        work = registry.load("workloads", workload)
        if work.capability in ours.capabilities:
            try:
                check_client(ours, work)
            except ConfigError as error:
                refused.append(error.message)
    redis = "cas-register asks for cas, which RegisterClient of redis-sentinel cannot do"
    assert refused == ([f"workload {redis}"] if name == "redis-sentinel" else [])


def test_a_fault_that_shows_at_clients_needs_clients_of_one_node(tmp_path: Path) -> None:
    made, _ = write(KINDS["nemesis"], "deaf-clients", tmp_path)
    nemesis, memcached = offered(made)["nemeses"], registry.load("systems", "memcached")
    with pytest.raises(ConfigError, match="memcached cannot have --nemesis deaf-clients"):
        check_requires(memcached, nemesis)
    (lack,) = lacking(memcached, nemesis)
    assert "endpoint_kind seed" in lack.text
    check_requires(registry.load("systems", "etcd"), nemesis)
    assert lacking(registry.load("systems", "etcd"), nemesis) == []


def endpoints(*kinds: Any) -> list[Endpoint]:
    return [Endpoint(node="n1", address="10.0.0.1", port=1, kind=kind) for kind in kinds]


@pytest.mark.parametrize(
    ("said", "kinds"), [({}, ["any", "proxy"]), ({"endpoint_kind": "seed"}, ["any", "primary"])]
)
def test_endpoints_of_another_kind_than_the_system_says_are_refused(
    said: dict[str, str], kinds: list[str]
) -> None:
    toy = declaring(System, name="toy", **said)
    with pytest.raises(ConfigError, match="and has endpoints of kind") as no:
        check_endpoints(toy, endpoints(*kinds))
    assert f'endpoint_kind = "{kinds[-1] if not said else kinds[0]}"' in (no.value.remedy or "")


@pytest.mark.parametrize(
    ("said", "kinds"),
    [
        ({}, ["any"]),
        ({}, []),
        ({"endpoint_kind": "primary"}, ["primary", "replica"]),
        ({"endpoint_kind": "proxy"}, ["any", "proxy"]),
    ],
)
def test_endpoints_that_are_what_the_system_says(said: dict[str, str], kinds: list[str]) -> None:
    toy = declaring(System, name="toy", **said)
    check_endpoints(toy, endpoints(*kinds))


def test_a_system_says_it_whatever_its_deployment_says(tmp_path: Path) -> None:
    made, _ = write(KINDS["nemesis"], "deaf-clients", tmp_path)
    nemesis, etcd = offered(made)["nemeses"], registry.load("systems", "etcd")
    toy = declaring(System, name="toy", deployment=etcd.deployment, endpoint_kind="proxy")
    (lack,) = lacking(toy, nemesis)
    assert "endpoint_kind proxy" in lack.text
