"""Bridges, subnets and routes of labs on this host.

A lab's nodes share one bridge and have no default route. An `unreachable` route for the lab's
subnet, worse than the bridge's own, stands from before the bridge exists until after it is gone:
a packet for a node that is no more ends here and not at this host's gateway.
"""

from __future__ import annotations

import ipaddress
import json
import re
from pathlib import Path
from typing import Any

from clusters.labs import host, state
from clusters.labs.state import LabState
from dstest.core import clock
from dstest.core.errors import LabError

UNREACHABLE_METRIC = 4278198272
"""Worse than any route that somebody sets; also how we know our own routes again."""

OUR_LINK = re.compile(r"dst[0-9a-f]{8}(n[0-9]+)?")
LINK_GONE_TIMEOUT_S = 5.0


def choose_octet(lab_id: str) -> int:
    """A free X for 10.77.X.0/24 and fd77:X::/64; call it with `state.subnets_lock` held.

    The search starts at a number that follows from the lab's id, so that a lab normally gets the
    same addresses again. Raises LabError where all are taken.
    """
    taken = {s.octet for i in state.lab_ids() if i != lab_id and (s := state.load(i)) is not None}
    networks = _routed_networks()
    first = int(state.tag_of(lab_id)[3:], 16)
    for step in range(254):
        octet = (first + step) % 254 + 1
        wanted = ipaddress.ip_network(f"10.77.{octet}.0/24")
        wanted6 = ipaddress.ip_network(f"fd77:{octet:x}::/64")
        if octet in taken or any(n.overlaps(wanted) for n in networks if n.version == 4):
            continue
        if any(n.overlaps(wanted6) for n in networks if n.version == 6):
            continue
        return octet
    raise LabError(
        "no free subnet is left in 10.77.0.0/16",
        remedy="remove labs that are not in use: dstest lab list, dstest lab gc",
    )


def up(lab: LabState) -> None:
    """Make the routes and the bridge. Raises LabError where a link of that name exists."""
    name = lab.bridge
    make = f"""
route replace unreachable {lab.subnet} metric {UNREACHABLE_METRIC}
route replace unreachable {lab.subnet6} metric {UNREACHABLE_METRIC}
link add {name} address {_mac(lab.tag)} type bridge stp_state 0 forward_delay 0
link set {name} alias {_alias(lab.lab_id)}
link set {name} addrgenmode none
"""
    address = f"""
addr add {lab.control}/24 dev {name}
addr add {lab.control6}/64 dev {name} nodad
link set {name} up
"""
    host.run(["ip", "-batch", "-"], stdin=make)
    # Hosts that switch IPv6 off by default do so for links that are ours, too.
    Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("0")
    host.run(["ip", "-batch", "-"], stdin=address)


def down(lab: LabState) -> list[str]:
    """Remove the bridge, then the routes; returns what was there. Safe to repeat."""
    return remove_links(lab.tag) + drop_routes(lab.octet)


def remove_links(tag: str) -> list[str]:
    """Remove the links whose names begin with `tag`; returns what was there."""
    links = [name for name in lab_links() if name.startswith(tag)]
    for name in links:
        host.run(["ip", "link", "del", name], check=False)
    deadline_ns = clock.monotonic_ns() + int(LINK_GONE_TIMEOUT_S * 1e9)
    while left := [name for name in lab_links() if name.startswith(tag)]:
        if clock.monotonic_ns() > deadline_ns:
            raise LabError(f"links {', '.join(left)} cannot be removed")
        clock.sleep_s(0.02)
    return [f"link {name}" for name in links]


def orphans(labs: dict[str, int]) -> tuple[list[str], list[int]]:
    """Our bridges, and the octets of our routes, that belong to none of `labs` (tag -> octet).

    A bridge says in its alias which lab directory made it; those of other directories are not
    ours, nor are routes to a subnet that a link still has.
    """
    ours = _alias("")
    bridges = [
        str(link["ifname"])
        for link in _links()
        if len(str(link["ifname"])) == len("dst") + 8
        and link["ifname"] not in labs
        and str(link.get("ifalias", ours)).startswith(ours)
    ]
    addressed = {
        _octet(str(ipaddress.ip_interface(f"{a['local']}/{a['prefixlen']}").network))
        for link in json.loads(host.run(["ip", "-j", "addr"]).stdout or "[]")
        if link["ifname"] not in bridges
        for a in link.get("addr_info", [])
    }
    octets = {_octet(route) for route in stray_routes(keep=frozenset(labs.values()))} - addressed
    return bridges, sorted(octet for octet in octets if octet is not None)


def remove_orphans(labs: dict[str, int]) -> list[str]:
    """Remove the orphans; returns what was there."""
    bridges, octets = orphans(labs)
    removed = [what for bridge in bridges for what in remove_links(bridge)]
    return removed + [what for octet in octets for what in drop_routes(octet)]


def _mac(tag: str) -> str:
    # Given by us it stays; else it follows the ports, and nodes resolve the control host anew.
    return ":".join(["02", "d5", *(tag[i : i + 2] for i in range(3, 11, 2))])


def _alias(lab_id: str) -> str:
    return f"dstest:{state.root_dir().resolve()}:{lab_id}"


def drop_routes(octet: int) -> list[str]:
    """Remove the unreachable routes of one subnet; returns what was there."""
    removed = []
    for route in stray_routes({octet}):
        family = "-6" if ":" in route else "-4"
        host.run(["ip", family, "route", "del", "unreachable", route], check=False)
        removed.append(f"route unreachable {route}")
    return removed


def lab_links() -> list[str]:
    """Names of the links on this host that belong to any lab."""
    return [str(link["ifname"]) for link in _links()]


def _links() -> list[dict[str, Any]]:
    links: list[dict[str, Any]] = json.loads(host.run(["ip", "-j", "link"]).stdout or "[]")
    return [link for link in links if OUR_LINK.fullmatch(str(link["ifname"]))]


def stray_routes(only: set[int] | None = None, *, keep: frozenset[int] = frozenset()) -> list[str]:
    """Destinations of our unreachable routes, of the octets in `only`, without those in `keep`."""
    found = []
    for family in ("-4", "-6"):
        for route in _routes(family, ["type", "unreachable"]):
            octet = _octet(str(route.get("dst", "")))
            ours = octet is not None and route.get("metric") == UNREACHABLE_METRIC
            if ours and octet not in keep and (only is None or octet in only):
                found.append(str(route["dst"]))
    return found


def _octet(destination: str) -> int | None:
    try:
        network = ipaddress.ip_network(destination)
    except ValueError:
        return None
    packed = network.network_address.packed
    if network.version == 4 and network.prefixlen == 24 and packed[:2] == b"\x0a\x4d":
        return packed[2]
    if network.version == 6 and network.prefixlen == 64 and packed[:3] == b"\xfd\x77\x00":
        return packed[3]
    return None


def _routes(family: str, what: list[str]) -> list[dict[str, Any]]:
    shown = host.run(["ip", family, "-j", "route", "show", *what]).stdout
    routes: list[dict[str, Any]] = json.loads(shown or "[]")
    return routes


def _routed_networks() -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    networks = []
    for family in ("-4", "-6"):
        for route in _routes(family, ["table", "all"]):
            try:
                network = ipaddress.ip_network(str(route.get("dst", "")))
            except ValueError:
                continue
            if network.prefixlen > 0 and not network.is_multicast:
                networks.append(network)
    return networks
