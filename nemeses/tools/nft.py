"""Our own nftables tables on a node: what they contain, how they are read and removed.

`inet dstest` counts what each peer sends, all the time (the baseline that says whether a path was
in use). `inet dstest_fault` exists only while a fault stands: its one chain first lets control
traffic pass, then drops or rejects with one named counter per source. Both sit before any other
filter on the input path, so that no earlier accept shields an established flow, and both families
are covered. Removing a table removes everything in it and nothing else.

It is nftables and not iptables since one transaction a node covers both families, a table of our
own goes as one, and named counters outlive the rules, which is what the proof of a heal reads.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from dstest.core.limits import PROBE_UDP_PORT
from dstest.core.node import LabInfo, Node, NodeInfo
from dstest.core.residue import Residue

ACCOUNT_TABLE: Final = "dstest"
FAULT_TABLE: Final = "dstest_fault"

PORT_OF_CALLERS_MIN: Final = 32_768
"""Linux takes the port of who calls from here on; servers listen below it."""

RESIDUE: Final = Residue(
    name="nftables",
    mark=f"the table is called {ACCOUNT_TABLE} or {FAULT_TABLE}",
    look=f"""\
listing=$(nft list tables) || exit 1
echo "$listing" | while read -r _ family name; do
    case "$family $name" in
    "inet {ACCOUNT_TABLE}" | "inet {FAULT_TABLE}") echo "ours table $family $name" ;;
    "" | " " | "ip "[a-z]* | "ip6 "[a-z]*)
        # Those that iptables has made; what is in them is looked at as rules of iptables.
        case "$name" in
        "" | filter | mangle | nat | raw | security) ;;
        *) echo "foreign table $family $name" ;;
        esac ;;
    *) echo "foreign table $family $name" ;;
    esac
done
""",
    remove=f"""\
for table in {FAULT_TABLE} {ACCOUNT_TABLE}; do
    nft delete table inet $table 2>/dev/null
done
:
""",
    rank=20,
)

Action = Literal["drop", "reject"]


def _sources(info: NodeInfo | LabInfo) -> list[str]:
    v4, v6 = (
        (info.address, info.address6)
        if isinstance(info, NodeInfo)
        else (info.control, info.control6)
    )
    return [f"ip saddr {v4}", *([f"ip6 saddr {v6}"] if v6 else [])]


def _ssh_passes(lab: LabInfo) -> list[str]:
    """Rules that let our SSH in, wherever it comes from."""
    families = [("ip6" if ":" in address else "ip", address) for address in lab.ssh_sources]
    return [
        f"    {family} saddr {address} tcp dport {port} accept"
        for family, address in families
        for port in lab.ssh_ports
    ]


def account_rules(peers: Sequence[NodeInfo]) -> str:
    """The accounting table: packets from each peer, probes not counted."""
    lines = [f"table inet {ACCOUNT_TABLE} {{"]
    lines += [f"  counter from_{p.name} {{ }}" for p in peers]
    lines.append("  chain account {")
    lines.append("    type filter hook input priority -310; policy accept;")
    lines.append(f"    udp dport {PROBE_UDP_PORT} return")
    lines += [f"    tcp {end} {PROBE_UDP_PORT} return" for end in ("dport", "sport")]
    for peer in peers:
        lines += [f"    {source} counter name from_{peer.name}" for source in _sources(peer)]
    lines += ["  }", "}"]
    return "\n".join(lines) + "\n"


def _verdicts(source: str, counter: str, action: Action) -> list[str]:
    counted = f"{source} counter name {counter}"
    if action == "drop":
        return [f"{counted} drop"]
    return [
        f"{counted} meta l4proto tcp reject with tcp reset",
        f"{source} meta l4proto != tcp reject with icmpx type admin-prohibited",
    ]


def fault_rules(
    sources: Sequence[NodeInfo],
    lab: LabInfo,
    action: Action,
    *,
    cut_clients: bool = False,
    hook: str = "input",
) -> str:
    """The fault table of one destination: one counted rule per source and family.

    Our probes are dropped by a rule of their own before, so that the counters count the system's
    traffic alone. `cut_clients` drops what clients send from the control address, SSH excepted.
    `hook` is an argument so that a test can hang the rules where they catch nothing.
    """
    lines = [f"table inet {FAULT_TABLE} {{"]
    lines += [f"  counter cut_{s.name} {{ }}" for s in sources]
    if cut_clients:
        lines.append("  counter cut_clients { }")
    lines.append("  chain cut {")
    lines.append(f"    type filter hook {hook} priority -300; policy accept;")
    lines += _ssh_passes(lab)
    # IPv6 finds its neighbours by packets that this hook sees, IPv4 (ARP) does not: cutting them
    # would end the other direction of a one-way partition as well.
    lines.append("    icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept")
    for info in sources:
        for source in _sources(info):
            lines.append(f"    {source} udp dport {PROBE_UDP_PORT} drop")
            lines += [f"    {rule}" for rule in _verdicts(source, f"cut_{info.name}", action)]
    if cut_clients:
        for source in _sources(lab):
            lines += [f"    {rule}" for rule in _verdicts(source, "cut_clients", action)]
    lines += ["  }", "}"]
    return "\n".join(lines) + "\n"


def loss_rules(
    sources: Sequence[NodeInfo], lab: LabInfo, share: float, *, hook: str = "input"
) -> str:
    """The fault table of one destination that loses a random `share` (0 to 1) of what comes.

    Per source, `seen_X` counts the system's packets that came and `cut_X` those that were lost;
    probes are lost at the same rate by rules of their own and counted nowhere.
    """
    lot = f"numgen random mod 10000 < {round(share * 10_000)}"
    lines = [f"table inet {FAULT_TABLE} {{"]
    for info in sources:
        lines += [f"  counter seen_{info.name} {{ }}", f"  counter cut_{info.name} {{ }}"]
    lines.append("  chain cut {")
    lines.append(f"    type filter hook {hook} priority -300; policy accept;")
    lines += _ssh_passes(lab)
    lines.append("    icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept")
    for info in sources:
        for source in _sources(info):
            probes = f"{source} udp dport {PROBE_UDP_PORT}"
            lines += [f"    {probes} {lot} drop", f"    {probes} return"]
            lines.append(f"    {source} counter name seen_{info.name}")
            lines.append(f"    {source} {lot} counter name cut_{info.name} drop")
    lines += ["  }", "}"]
    return "\n".join(lines) + "\n"


def opening_rules(
    sources: Sequence[NodeInfo], lab: LabInfo, action: Action, reset: bool, *, hook: str = "input"
) -> str:
    """The fault table of one destination to which `sources` can open no connection.

    Per source, `cut_X` counts the system's attempts that were dropped or rejected. What comes on
    connections that X has opened before is counted by `reset_X` and answered with a reset, or
    without `reset` counted by `kept_X` and let pass. Connections that this node has opened itself
    are let alone, and so are resets: both ends are to learn of the end. Our own attempts to connect
    are cut and counted nowhere.
    """
    verdict = "drop" if action == "drop" else "reject with tcp reset"
    stands, end = ("reset", " reject with tcp reset") if reset else ("kept", "")
    opening = "tcp flags & (fin | syn | rst | ack) == syn"
    lines = [f"table inet {FAULT_TABLE} {{"]
    for info in sources:
        lines += [f"  counter {what}_{info.name} {{ }}" for what in ("cut", stands)]
    lines.append("  chain cut {")
    lines.append(f"    type filter hook {hook} priority -300; policy accept;")
    lines += _ssh_passes(lab)
    for info in sources:
        for source in _sources(info):
            lines.append(f"    {source} tcp dport {PROBE_UDP_PORT} {opening} {verdict}")
            lines.append(f"    {source} tcp dport {PROBE_UDP_PORT} return")
            lines.append(f"    {source} tcp dport >= {PORT_OF_CALLERS_MIN} return")
            lines.append(f"    {source} tcp flags & rst == rst return")
            lines.append(f"    {source} {opening} counter name cut_{info.name} {verdict}")
            lines.append(f"    {source} meta l4proto tcp counter name {stands}_{info.name}{end}")
    lines += ["  }", "}"]
    return "\n".join(lines) + "\n"


def store_rules(name: str, user: str, port: int, action: Action) -> str:
    """The fault table of a node on which programs of `user` reach nobody at this TCP port.

    `cut_NAME` counts their attempts to connect, which are dropped or rejected. What they send on
    connections that stand is answered with a reset: with a mere drop they would go on to hear of
    changes. What other users send is let alone.
    """
    verdict = "drop" if action == "drop" else "reject with tcp reset"
    opening = "tcp flags & (fin | syn | rst | ack) == syn"
    theirs = f"meta skuid {user} tcp dport {port}"
    lines = [
        f"table inet {FAULT_TABLE} {{",
        f"  counter cut_{name} {{ }}",
        "  chain cut {",
        "    type filter hook output priority -300; policy accept;",
        f"    {theirs} {opening} counter name cut_{name} {verdict}",
        f"    {theirs} tcp flags & rst != rst reject with tcp reset",
        "  }",
        "}",
    ]
    return "\n".join(lines) + "\n"


async def load(node: Node, text: str) -> None:
    """Apply a rule file in one transaction."""
    await node.run(["nft", "-f", "-"], stdin=text, timeout_s=5.0)


async def flush_chain(node: Node) -> bool:
    """Take the fault's rules out, keep its counters; False where the table is gone."""
    done = await node.run(
        ["nft", "flush", "chain", "inet", FAULT_TABLE, "cut"], timeout_s=5.0, check=False
    )
    return done.status == 0


async def delete(node: Node, table: str) -> bool:
    """Remove a table; False where there is none."""
    done = await node.run(["nft", "delete", "table", "inet", table], timeout_s=5.0, check=False)
    return done.status == 0


async def tables(node: Node) -> list[str]:
    """Names of our tables that exist on the node."""
    listing = await node.run(["nft", "-j", "list", "tables"], timeout_s=5.0)
    rows: list[dict[str, Any]] = json.loads(listing.stdout)["nftables"]
    names = [row["table"]["name"] for row in rows if "table" in row]
    return [name for name in names if name in (ACCOUNT_TABLE, FAULT_TABLE)]


async def counters(node: Node, table: str) -> Mapping[str, int] | None:
    """Packets per named counter of a table; None where the table is gone."""
    listing = await node.run(
        ["nft", "-j", "list", "table", "inet", table], timeout_s=5.0, check=False
    )
    if listing.status != 0:
        return None
    rows: list[dict[str, Any]] = json.loads(listing.stdout)["nftables"]
    return {r["counter"]["name"]: int(r["counter"]["packets"]) for r in rows if "counter" in r}


async def marks(nodes: Sequence[Node], table: str) -> dict[str, str]:
    """By node the handles that the kernel has given the table and its rules: others where they were
    taken out and put back. Empty where no rule stands."""

    async def one(node: Node) -> str:
        listing = await node.run(
            ["nft", "-j", "-a", "list", "table", "inet", table], timeout_s=5.0, check=False
        )
        if listing.status != 0:
            return ""
        rows: list[dict[str, Any]] = json.loads(listing.stdout)["nftables"]
        rules = [str(row["rule"]["handle"]) for row in rows if "rule" in row]
        tables = [str(row["table"]["handle"]) for row in rows if "table" in row]
        return " ".join([*tables, *rules]) if rules else ""

    found = await asyncio.gather(*map(one, nodes))
    return {node.name: mark for node, mark in zip(nodes, found, strict=True)}


async def rule_count(node: Node, table: str) -> int:
    """How many rules the table holds; 0 where it is gone."""
    listing = await node.run(
        ["nft", "-j", "list", "table", "inet", table], timeout_s=5.0, check=False
    )
    if listing.status != 0:
        return 0
    rows: list[dict[str, Any]] = json.loads(listing.stdout)["nftables"]
    return sum(1 for row in rows if "rule" in row)
