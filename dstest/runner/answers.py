"""What the file of a system says of its members and endpoints, looked at before anybody uses it.

Faults are planned, injected and proven by these answers: what is wrong with one of them would show
in the middle of a fault, or in a fault that seems to have landed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Final

import msgspec

from dstest.core.answers import (
    answer_error,
    ask_s,
    check_leaders,
    check_links,
    in_time,
    rows_of,
)
from dstest.core.errors import ConfigError
from dstest.core.implements import wrong_type
from dstest.core.node import Node
from dstest.core.protocols import (
    DataDir,
    Deployment,
    Endpoint,
    Leadership,
    Linked,
    Member,
    Service,
    System,
    Tapped,
    Timing,
)

PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
"""Directories and control groups are called by it."""


def ports_of(service: Service) -> set[int]:
    """All ports that a service names."""
    return {service.probe.port, *service.ports.values()}


def check_timing(deployment: Deployment) -> None:
    """Raises ConfigError where its times are none: limits are made of them."""
    timing, expected = deployment.timing, "a Timing, in seconds"
    if wrong := wrong_type(timing, Timing):
        raise answer_error(deployment, "timing", wrong, expected)
    for name, value in msgspec.structs.asdict(timing).items():
        if not 0 <= value < 1e6:
            raise answer_error(deployment, "timing", f"{name}={value!r}", expected)


def allow_for_slowness(deployment: Deployment, nodes: Iterable[Node]) -> None:
    """Its times are those of nodes as slow as these."""
    if (slowness := max(node.info.slowness for node in nodes)) > 1:
        deployment.timing = deployment.timing.slower(slowness)


def check_members(deployment: Deployment, names: Sequence[str]) -> None:
    """Raises ConfigError where the members are not these, or one of their services cannot be."""
    members = deployment.members
    if not isinstance(members, Mapping) or sorted(members) != sorted(names):
        found = f"members {', '.join(map(str, members))}" if members else "no member"
        raise answer_error(deployment, "members", found, f"one on each of {', '.join(names)}")
    for name, member in members.items():
        if wrong := wrong_type(member, Member):
            raise answer_error(
                deployment, "members", f"on {name} {wrong}", "a Member with its services"
            )
        for service in member.services:
            _check_service(deployment, name, service)
        _check_order(deployment, name, member.services)
    if not any(member.services for member in members.values()):
        raise answer_error(deployment, "services", "nothing on any node", "what runs there")
    if isinstance(deployment, DataDir):
        _check_data(deployment, deployment.data_dir())


def _check_data(deployment: Deployment, folder: str) -> None:
    """A disk fault is under one directory: data beside it would survive the fault, unseen, and a
    log in it would be hit as well."""
    services = [service for member in deployment.members.values() for service in member.services]
    data = {path for service in services for path in service.data}
    beside = sorted(path for path in data if not PurePath(path).is_relative_to(folder))
    others = {path for service in services for path in (service.log, *service.files)}
    among = sorted(
        path
        for path in others
        if PurePath(path).is_relative_to(folder)
        and not any(PurePath(path).is_relative_to(place) for place in data)
    )
    if beside or among:
        found = f"{folder}, {f'without {beside[0]}' if beside else f'with {among[0]} in it'}"
        expected = "the directory of all data of its services, and of nothing else"
        raise answer_error(deployment, "data_dir()", found, expected)


def _check_service(deployment: Deployment, name: str, service: Service) -> None:
    if not PLAIN.fullmatch(service.name):
        expected = "a name of letters, digits, `_`, `-` and dots"
        raise answer_error(
            deployment, "services", f"on {name} a service {service.name!r}", expected
        )
    for port in sorted(ports_of(service)):
        if not 0 < port < 1 << 16:
            found = f"on {name} port {port} of service {service.name}"
            raise answer_error(deployment, "services", found, "a port from 1 to 65535")


def _check_order(deployment: Deployment, name: str, services: Sequence[Service]) -> None:
    """Names are distinct, and there is an order in which the services can start."""
    there = [service.name for service in services]
    if double := sorted({one for one in there if there.count(one) > 1}):
        found = f"on {name} more than one service {', '.join(double)}"
        raise answer_error(deployment, "services", found, "a name of its own for each service")
    left = {service.name: {*service.after} for service in services}
    while ready := [one for one, after in left.items() if not after & {*left}]:
        for one in ready:
            del left[one]
    strangers = sorted({one for service in services for one in service.after} - {*there})
    if left or strangers:
        found = f"on {name} services that start after {', '.join(strangers or left)}"
        raise answer_error(
            deployment, "services", found, "`after` names services that start before"
        )


def check_places(
    system: System, deployment: Deployment, nodes: Mapping[str, Node], endpoints: Sequence[Endpoint]
) -> None:
    """Raises ConfigError where clients of a member would not be served by a service of its own.

    What clients see of a fault counts where they ask a service that the fault is about: of one that
    nobody knows, they would be left out, and the fault would count without them.
    """
    rows: list[Endpoint] = rows_of(deployment, "endpoints()", endpoints, Endpoint)
    if not rows:
        raise answer_error(deployment, "endpoints()", "nothing", "where clients connect")
    members = deployment.members
    for end in rows:
        if end.node in members:
            _check_place(system, deployment, nodes, end)
        elif end.pinned:
            found = f"an endpoint at {end.node!r}, which carries no member"
            expected = f"one of {', '.join(members)}, or a proxy or seed"
            raise answer_error(deployment, "endpoints()", found, expected)
    known = {p for member in members.values() for s in member.services for p in ports_of(s)}
    at_members = any(end.node in members for end in rows)
    port = system.client_port if isinstance(system, Tapped) else 0
    if at_members and port and port not in known:
        raise _no_service(f"client_port {port} of system {system.name}")


def _check_place(
    system: System, deployment: Deployment, nodes: Mapping[str, Node], end: Endpoint
) -> None:
    others = {node.info.address: name for name, node in nodes.items() if name != end.node}
    if end.address != nodes[end.node].info.address and end.address in others:
        found = f"{end.address} for {end.node}, which is the address of {others[end.address]}"
        raise answer_error(deployment, "endpoints()", found, "the address of the node")
    services = deployment.members[end.node].services
    if all(end.port not in ports_of(service) for service in services):
        where = f"endpoints() of system {system.name}: port {end.port} of {end.node}"
        there = [f"{s.name} has {', '.join(map(str, sorted(ports_of(s))))}" for s in services]
        raise _no_service(where, "; ".join(there))


def _no_service(where: str, there: str = "") -> ConfigError:
    return ConfigError(
        f"{where} belongs to no service of a member{f' ({there})' if there else ''}, so that no"
        " fault of a service could be proven by its clients",
        remedy='name the port where it is served: Service(ports={"client": ...})',
    )


async def check_relations(deployment: Deployment) -> None:
    """Raises ConfigError where leaders or links, asked once, are not what they are to be."""
    if isinstance(deployment, Linked):
        check_links(deployment, deployment.links())
    if isinstance(deployment, Leadership):
        limit_s = ask_s(deployment.timing)
        views = await in_time(deployment, "leaders", deployment.leaders(), limit_s)
        check_leaders(deployment, views)
