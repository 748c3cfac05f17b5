"""All faults that dstest means to deliver, N01 to N34: what each needs and what proves it, as
`docs/nemeses.md` shows them.

Which nemesis delivers a fault is asked of the plug-ins, never written here. Where none does, `gap`
says what stands in the way on nodes that share one kernel.
"""

from __future__ import annotations

import random
from collections.abc import MutableSequence
from typing import Any, Final

import msgspec

from dstest.core import registry
from nemeses.base.paths import SHAPES, Path, cuts_for

_NODES: Final = ("n1", "n2", "n3", "n4", "n5")


class _InOrder(random.Random):
    """Chooses nodes in their order, where a run draws them from its seed."""

    def shuffle(self, x: MutableSequence[Any]) -> None:
        return None


def _deaf(cuts: list[Path]) -> str:
    """`n1 from n3 n4`: what each node no longer hears."""
    by = {node: [a for a in _NODES if (a, node) in cuts] for node in _NODES}
    return "; ".join(f"{node} from {' '.join(row)}" for node, row in by.items() if row)


def shapes() -> list[str]:
    """The shapes of a partition over five nodes, path by path, as lines of Markdown."""
    lines = [
        "## Shapes of a partition",
        "",
        "What each of five nodes no longer hears with `-o direction=both`, if nodes were chosen in",
        "their order (a run draws them from its seed) and n1 led:",
        "",
        "| `-o shape` | chosen | cut |",
        "|---|---|---|",
    ]
    for shape in SHAPES:
        found = cuts_for(shape, "both", _NODES, _InOrder(), leader="n1")
        chosen = "all" if len(found.targets) == len(_NODES) else " ".join(found.targets)
        lines.append(f"| `{shape}` | {chosen} | {_deaf(found.cuts)} |")
    return [
        *lines,
        "",
        "`in` cuts only what goes to the chosen nodes, `out` only what comes from them; for",
        "`bridge` these are n1 and n2. In `majorities-ring` every node hears two neighbours and so",
        "sees a majority, and no two see the same one; it has no direction.",
    ]


class Fault(msgspec.Struct, frozen=True):
    """One kind of fault. `proof` names the two sides; `gap` is for while nobody delivers it."""

    number: str
    name: str
    group: str
    needs: str
    proof: str
    gap: str = "not built yet"


class FaultRow(msgspec.Struct, frozen=True, kw_only=True):
    """A fault as of now. `nemeses` deliver it; `reason` says why nobody does."""

    number: str
    name: str
    group: str
    needs: str
    proof: str
    delivered: bool
    nemeses: list[str]
    reason: str | None


CATALOGUE: Final = (
    Fault(
        "N01",
        "hard kill",
        "process",
        "a system that names its server processes",
        "the pid that served is gone, nobody listens; connections are refused, clients fail",
    ),
    Fault(
        "N02",
        "graceful stop",
        "process",
        "as N01, and log lines of an orderly end",
        "as N01, and the server's log tells of an orderly end",
    ),
    Fault(
        "N03",
        "pause",
        "process",
        "a system that names its server processes",
        "all threads in state T, or their freezer group reads FROZEN, and no CPU tick, twice; no "
        "answer, clients time out",
    ),
    Fault(
        "N04",
        "node restart",
        "process",
        "a lab that restarts nodes",
        "what the node runs in is gone and comes anew; no answer, clients fail",
    ),
    Fault(
        "N05",
        "partition",
        "network",
        "nftables on the nodes",
        "packets per drop rule; directed datagrams that no longer arrive",
    ),
    Fault(
        "N06",
        "one-way partition",
        "network",
        "nftables on the nodes",
        "as N05 for one direction, while the other stays alive",
    ),
    Fault(
        "N07",
        "packet loss",
        "network",
        "nftables on the nodes",
        "dropped of all packets near the share asked for; datagrams lost",
    ),
    Fault(
        "N08",
        "latency",
        "network",
        "iptables with NFQUEUE on the nodes",
        "packets held, by path; round trips longer there and the same on others",
    ),
    Fault(
        "N09",
        "bandwidth cap",
        "network",
        "tbf or htb",
        "overlimits of the qdisc; measured throughput",
    ),
    Fault(
        "N10",
        "isolated minority or node",
        "network",
        "nftables on the nodes",
        "as N05; the others stay whole",
    ),
    Fault(
        "N11",
        "isolated majority",
        "network",
        "nftables on the nodes",
        "as N05; nobody has a quorum",
    ),
    Fault(
        "N12",
        "leader isolation",
        "network",
        "nftables; a system that names its leader",
        "as N05, and a new term",
    ),
    Fault(
        "N13",
        "duplication",
        "network",
        "iptables with NFQUEUE on the nodes",
        "packets sent twice; datagrams that arrive twice, and TCP's DSACK counters",
    ),
    Fault(
        "N14",
        "reordering",
        "network",
        "iptables with NFQUEUE on the nodes",
        "packets overtaken; datagrams that arrive late, and TCP's out-of-order counter",
    ),
    Fault(
        "N15",
        "metadata store outage",
        "network",
        "a system that depends on another store",
        "attempts stopped per rule; what members say of their store stands still, and their log "
        "tells of errors of one class",
    ),
    Fault(
        "N16",
        "full disk",
        "storage",
        "a small file system under the data",
        "free space below one segment; errors in the log",
    ),
    Fault(
        "N17",
        "loss of unsynced data",
        "storage",
        "a file system that forgets what was not synced",
        "bytes discarded; a shorter log at recovery",
    ),
    Fault(
        "N18",
        "slow disk",
        "storage",
        "a file system that delays, or throttled block I/O",
        "delays injected; slower syncs",
    ),
    Fault(
        "N19",
        "bit flip, truncation",
        "storage",
        "data files of the system",
        "bytes at recorded offsets, or the log's end before and after; bits flipped; "
        "the server's own log, or the value and the hash it returns; rotten bits that were read",
    ),
    Fault(
        "N20",
        "failing fsync",
        "storage",
        "a file system that refuses, or system calls intercepted",
        "calls answered with EIO; the server's reaction",
    ),
    Fault(
        "N21",
        "I/O errors",
        "storage",
        "a file system that refuses",
        "errors injected; integrity errors in the log",
    ),
    Fault(
        "N22",
        "backup and restore race",
        "storage",
        "a system with snapshots",
        "checksums of copy and restored store; the log position that the server starts from",
    ),
    Fault(
        "N23",
        "clock skew",
        "clock",
        "a clock per process or per node",
        "hits of the patched clock, or the node's clock against its raw one; time as the victim"
        " reports it",
    ),
    Fault(
        "N24",
        "fast or slow clock",
        "clock",
        "a clock per process or per node",
        "as N23; slope over 30 s, or of the node's own clock",
    ),
    Fault(
        "N25",
        "rolling restart across leaders",
        "cluster",
        "a system that names its leader and its processes",
        "order of (node, pid, term); at least one new leader",
    ),
    Fault(
        "N26",
        "split-brain pressure",
        "cluster",
        "nftables; a system that names its leader",
        "as N12; two nodes that each claim to lead at one time",
    ),
    Fault(
        "N27",
        "slow follower",
        "cluster",
        "delay for one node, or throttled CPU",
        "lag of one replica, none of the others; throttled periods of its group",
    ),
    Fault(
        "N28",
        "mixed versions",
        "cluster",
        "two builds of the system",
        "versions as the members report them; clients answered by the other build",
    ),
    Fault(
        "N29",
        "rolling upgrade",
        "cluster",
        "two builds of the system",
        "version of each member, step by step; the common format raised",
    ),
    Fault(
        "N30",
        "config divergence",
        "cluster",
        "a setting that can be read back",
        "values read back from each node; what only the target refuses",
    ),
    Fault(
        "N31",
        "credential divergence",
        "cluster",
        "a system with authentication switched on",
        "which tokens each member takes; clients refused on one node only",
    ),
    Fault(
        "N32",
        "compaction during reads",
        "cluster",
        "a system that compacts on demand",
        "compactions finished, versions dropped, old revisions refused; operations meanwhile",
    ),
    Fault(
        "N33",
        "membership change under writes",
        "cluster",
        "a system whose members can be added and removed",
        "members as each other node lists them; the removed one answers nobody",
    ),
    Fault(
        "N34",
        "schema change under load",
        "cluster",
        "a system with tables that clients use",
        "columns and indexes, by each member's own catalogue; operations meanwhile and afterwards",
    ),
)


def rows() -> list[FaultRow]:
    """The catalogue with what the registered nemeses deliver."""
    plugins = {name: registry.load("nemeses", name) for name in registry.names("nemeses")}
    found = []
    for fault in CATALOGUE:
        by = [name for name, plugin in plugins.items() if fault.number in plugin.faults]
        found.append(
            FaultRow(
                number=fault.number,
                name=fault.name,
                group=fault.group,
                needs=fault.needs,
                proof=fault.proof,
                delivered=bool(by),
                nemeses=by,
                reason=None if by else fault.gap,
            )
        )
    return found


def markdown() -> str:
    """`docs/nemeses.md`."""
    lines = [
        "# Faults",
        "",
        "`dstest run --nemesis partition` injects one kind of fault. With",
        "`--nemesis partition,kill,pause` the kinds are mixed, one fault at a time;",
        "`-o weights=kill:2` makes one of them come more often. `dstest list --system S` says",
        "which fit your system, [systems.md](systems.md) which have landed on the systems that",
        "dstest brings.",
        "",
        "Each fault stands for `-o fault_s=6` and is healed for `-o quiet_s=4` before the next.",
        "`-o scope=` says whose processes or disks are hit (one, a minority, a majority, all, the",
        "primaries), `-o shape=` and `-o direction=` which links, `-o targets=n1,n3` names nodes.",
        "Without them the seed draws. All options, and what each nemesis asks of a system:",
        "[reference/nemeses.md](reference/nemeses.md).",
        "",
        "A fault counts as landed only where both sides show it: the node where it was made, and",
        "the victim. Written by `dstest nemeses --markdown`; do not edit.",
        "",
        "| | fault | `--nemesis` | needs | proven by (node; victim) |",
        "|---|---|---|---|---|",
    ]
    for row in rows():
        by = f"`{row.nemeses[0]}`" if row.delivered else f"no: {row.reason}"
        more = "".join(f", `{name}`" for name in row.nemeses[1:])
        lines.append(f"| {row.number} | {row.name} | {by}{more} | {row.needs} | {row.proof} |")
    lines += ["", "Besides, without a number:", ""]
    for name in registry.names("nemeses"):
        plugin = registry.load("nemeses", name)
        if not plugin.faults:
            lines.append(f"- `{name}`: {plugin.doc}")
    return "\n".join([*lines, "", *shapes()]) + "\n"
