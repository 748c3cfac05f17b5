"""`netqueue` on the nodes: rules that queue what peers send, and the program that holds it.

Some kernels have neither netem nor nft's queue statement; iptables' NFQUEUE target then is the way
into user space. The rules are a chain of ours in the mangle table, jumped to from INPUT, in both
families. A rule lets packets pass as they are where nobody serves its queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from dstest.core import clock
from dstest.core.errors import FaultRefused, LabError
from dstest.core.limits import PROBE_UDP_PORT
from dstest.core.node import FEATURES, Node, NodeInfo
from dstest.core.residue import Residue
from nemeses.tools.compiled import compile_tool

QUEUE: Final = 77
CHAIN: Final = "dstest_fault"
TOOL: Final = "/opt/dstest/netqueue"
OFF: Final = "/opt/dstest/netqueue-off"
RUN: Final = "/run/dstest-netqueue"
BOUND_DEADLINE_S: Final = 5.0
POLL_S: Final = 0.03

FAMILIES: Final = ("iptables", "ip6tables")

_UNHOOK: Final = f"""\
for tool in iptables ip6tables; do
    while $tool -w 5 -t mangle -D INPUT -j {CHAIN} 2>/dev/null; do :; done
    while $tool -w 5 -t mangle -D FORWARD -j {CHAIN} 2>/dev/null; do :; done
done
"""

_OFF: Final = f"""\
#!/bin/sh
# Take a fault of the queue away, or what is left of one; harmless where there is none.
# The rules go first; the program lets all that it holds pass when it ends.
{_UNHOOK}for tool in iptables ip6tables; do
    $tool -w 5 -t mangle -F {CHAIN} 2>/dev/null
    $tool -w 5 -t mangle -X {CHAIN} 2>/dev/null
done
pid=$(cat {RUN}/pid 2>/dev/null)
mine() {{ [ -n "$pid" ] && [ "$(cat /proc/$pid/comm 2>/dev/null)" = netqueue ]; }}
mine && kill $pid
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    mine || break
    sleep 0.05
done
mine && kill -9 $pid
rm -rf {RUN}
"""

RUNNING: Final = (
    f"for exe in $(pgrep -x netqueue); do case $(readlink /proc/$exe/exe) in"
    f" {TOOL}|'{TOOL} (deleted)') echo $exe ;; esac; done"
)
"""Prints the pids of our program; others may have one of that name."""

RESIDUE: Final = Residue(
    name="netqueue",
    mark=f"the chain is called {CHAIN}, the program netqueue, and its directory {RUN}",
    look=f"""\
for tool in iptables ip6tables; do
    command -v $tool-save >/dev/null || continue
    rules=$($tool-save) || exit 1
    echo "$rules" | grep -q -e {CHAIN} && echo "ours chain {CHAIN} of $tool"
    echo "$rules" | grep -e '^-A' | grep -v -e {CHAIN} | sed "s/^/foreign rule of $tool: /"
done
for pid in $({RUNNING}); do echo "ours process $pid (netqueue)"; done
[ ! -e {RUN} ] || echo "ours files in {RUN}"
""",
    remove=f"""\
{_OFF.partition(chr(10))[2]}for pid in $({RUNNING}); do kill -9 $pid; done
:
""",
    rank=20,
)

_LOOK: Final = f"""\
for tool in iptables ip6tables; do
    echo "== $tool"
    $tool -w 5 -t mangle -nvxL {CHAIN} 2>/dev/null
    $tool -w 5 -t mangle -S INPUT 2>/dev/null | grep -e '-j {CHAIN}$'
    $tool -w 5 -t mangle -S FORWARD 2>/dev/null | grep -e '-j {CHAIN}$'
done
echo "== queues"
cat /proc/net/netfilter/nfnetlink_queue
echo "== pids"
{RUNNING}
echo "== status"
cat {RUN}/status 2>/dev/null
:
"""


class Sender(msgspec.Struct, frozen=True, kw_only=True):
    """What the program did to one address's packets since it started, our probes left out.

    `waited_us` is the sum over those that were delayed; `probes` counts our own datagrams.
    """

    seen: int = 0
    delayed: int = 0
    waited_us: int = 0
    held: int = 0
    overtaken: int = 0
    twice: int = 0
    corrupted: int = 0
    probes: int = 0

    def plus(self, other: Sender) -> Sender:
        """Both together."""
        return Sender(**{f: getattr(self, f) + getattr(other, f) for f in self.__struct_fields__})


class QueueSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A node's rules and its program as they are now.

    `hooked` is how many families jump to our chain; `counted` is what each rule sent to
    the queue, by source address, probes included.
    """

    hooked: int
    counted: Mapping[str, int]
    served: bool
    pids: Sequence[int]
    senders: Mapping[str, Sender]

    @property
    def nothing(self) -> bool:
        """Not a trace of a fault."""
        return not (self.hooked or self.counted or self.served or self.pids)


def rules(sources: Sequence[NodeInfo], *, hook: str = "INPUT", queue: int = QUEUE) -> list[str]:
    """What `iptables-restore` and `ip6tables-restore` are told on one node.

    Copies of packets come over the loopback interface and pass; IPv6 finds its neighbours by
    packets of its own, which pass too. `hook` and `queue` are for tests, which point them nowhere.
    """
    target = f"-j NFQUEUE --queue-num {queue} --queue-bypass"
    texts = []
    for v6 in (False, True):
        lines = ["*mangle", f":{CHAIN} - [0:0]"]
        if v6:
            lines += [
                f"-A {CHAIN} -p icmpv6 --icmpv6-type {kind} -j RETURN"
                for kind in ("neighbour-solicitation", "neighbour-advertisement")
            ]
        addresses = [info.address6 if v6 else info.address for info in sources]
        lines += [f"-A {CHAIN} ! -i lo -s {a} {target}" for a in addresses if a]
        texts.append("\n".join([*lines, f"-I {hook} -j {CHAIN}", "COMMIT", ""]))
    return texts


def parse_counters(listing: str) -> dict[str, int]:
    """Source address -> packets, of the rules with a queue in `iptables -nvxL`."""
    found: dict[str, int] = {}
    for line in listing.splitlines():
        words = line.split()
        if len(words) > 7 and "NFQUEUE" in words and words[0].isdigit():
            source = words[7].partition("/")[0]
            found[source] = found.get(source, 0) + int(words[0])
    return found


def parse_status(text: str) -> dict[str, Sender]:
    """Source address -> its counters, of a status file."""
    found = {}
    for line in text.splitlines():
        address, *pairs = line.split()
        if pairs and "=" not in address:
            values = dict(pair.split("=", 1) for pair in pairs)
            found[address] = Sender(**{name: int(value) for name, value in values.items()})
    return found


async def install(nemesis: str, nodes: Sequence[Node]) -> None:
    """Put the program and its undoing on the nodes; take away what a dead run left."""
    program = await compile_tool(nemesis, ["netqueue.c"])

    async def one(node: Node) -> None:
        argv = ["sh", "-c", FEATURES["nfqueue"].look]
        done = await node.run(argv, timeout_s=10.0, check=False)
        if done.status != 0:
            raise FaultRefused(
                f"{nemesis}: {node.name} has no netem that is free, and not"
                f" {FEATURES['nfqueue'].what}: {done.stderr.strip()[-200:]}",
                remedy=FEATURES["nfqueue"].remedy,
            )
        await stop(node)
        await node.put(TOOL, program, mode=0o755)

    await asyncio.gather(*map(one, nodes))


async def start(node: Node, texts: Sequence[str], settings: Mapping[str, int]) -> None:
    """Start the program, then the rules: no packet meets a queue that nobody serves."""
    await node.run(["mkdir", "-p", RUN])
    words = [f"{name}={value}" for name, value in settings.items()]
    await node.call(
        "spawn",
        argv=[TOOL, str(QUEUE), f"{RUN}/status", str(PROBE_UDP_PORT), *words],
        log=f"{RUN}/log",
        pidfile=f"{RUN}/pid",
        cwd="/",
    )
    deadline_ns = clock.monotonic_ns() + int(BOUND_DEADLINE_S * 1e9)
    while not (await take_snapshot(node)).served:
        if clock.monotonic_ns() > deadline_ns:
            log = (await node.get(f"{RUN}/log")).decode("utf-8", "replace").strip()
            raise LabError(f"{node.name}: nobody serves the queue: {log[-300:]}")
        await asyncio.sleep(POLL_S)
    for family, text in zip(FAMILIES, texts, strict=True):
        await node.run([f"{family}-restore", "--noflush", "-w", "5"], stdin=text, timeout_s=10.0)


async def unhook(node: Node) -> None:
    """No packet goes to the queue from now on; what is held stays held, the counters stay."""
    await node.run(["sh", "-c", _UNHOOK], timeout_s=20.0, check=False)


async def stop(node: Node) -> None:
    """Take it all away. The script for that is put there first: a lease may need it."""
    await node.put(OFF, _OFF.encode(), mode=0o755)
    await node.run([OFF], timeout_s=30.0, check=False)


async def take_snapshot(node: Node) -> QueueSnapshot:
    """Rules, program and counters of a node. Raises LabError where it does not answer."""
    found = await node.run(["sh", "-c", _LOOK], timeout_s=15.0)
    parts: dict[str, list[str]] = {}
    for line in found.stdout.splitlines():
        if line.startswith("== "):
            part = parts.setdefault(line[3:], [])
        else:
            part.append(line)
    tables = [line for family in FAMILIES for line in parts[family]]
    queues = [line.split() for line in parts["queues"]]
    return QueueSnapshot(
        hooked=sum(line.startswith("-A ") for line in tables),
        counted=parse_counters("\n".join(tables)),
        served=any(row[:1] == [str(QUEUE)] for row in queues),
        pids=[int(line) for line in parts["pids"]],
        senders=parse_status("\n".join(parts["status"])),
    )
