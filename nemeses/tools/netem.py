"""Queues of the kernel on the nodes: `netem` for what peers send, one HTB class with a cap for what
a node sends (our own SSH excepted), and a bulk transfer that says what really gets through.

Where packets arrive they are redirected to devices of ours (ifb), two for each sender: one for the
system's traffic, one for our probes, so that what is counted is the system's. Each device has one
netem, since kernels refuse one that duplicates beside others in a tree. IPv6 finds its neighbours
by packets of its own, which pass by. A rate keeps jitter from reordering. It never corrupts: netem
would break headers too, and data whose checksum nobody looks at again (`queued.py` does that).
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec

from dstest.core.errors import LabError, RemoteLost, RemoteTimeout
from dstest.core.limits import PROBE_UDP_PORT
from dstest.core.node import FEATURES, LabInfo, Node, NodeInfo
from dstest.core.residue import Residue
from nemeses.tools.netqueue import Sender

HANDLE: Final = "d5:"
CAPPED: Final = "d5:10"
BULK_PORT: Final = 7072
BULK_TIMEOUT_S: Final = 12.0
BULK_S: Final = 1.5
"""A transfer is as large as the cap lets through in this time."""

BULK_BYTES_MIN: Final = 131_072
BULK_BYTES_MAX: Final = 4_194_304

SHAPER_RESIDUE: Final = Residue(
    name="traffic control",
    mark=f"the queueing discipline has the handle {HANDLE}",
    look=f"""\
listing=$(tc qdisc show) || exit 1
echo "$listing" | while read -r _ kind handle _ device where rest; do
    # Of the faults by netem, which look for it themselves.
    case "$device $kind" in dstestf[0-9]*|*" ingress") continue ;; esac
    case "$kind $handle $where $rest" in
    "htb {HANDLE} root"*) echo "ours cap on $device" ;;
    *" parent {HANDLE}"*) ;;
    *noqueue\\ *|pfifo_fast\\ *|fq_codel\\ *|fq\\ *|mq\\ *|"  "*) ;;
    *) echo "foreign queueing discipline $kind $handle on $device" ;;
    esac
done
""",
    remove=f"""\
tc qdisc show | while read -r _ kind handle _ device _; do
    [ "$kind $handle" != "htb {HANDLE}" ] || tc qdisc del dev "$device" root handle {HANDLE} htb
done
""",
    rank=20,
)

# A cap lets a burst through at once, and what was lost on the way comes with what follows it. So
# the clock runs from the connection on, and the burst is not counted: the rate of a stretch in the
# middle may be above any cap where this process had to wait for a processor.
_RECEIVE: Final = """\
import socket, sys
from time import monotonic
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("", int(sys.argv[1])))
s.listen(1)
s.settimeout(5)
c, _ = s.accept()
began = monotonic()
c.settimeout(10)
n = 0
while data := c.recv(65536):
    n += len(data)
print(n, max(0, n - 32768), monotonic() - began)
"""
_SEND: Final = (
    "for i in $(seq 160); do { exec 3<>/dev/tcp/$0/$1; } 2>/dev/null && break; sleep 0.05; done; "
    "head -c $2 /dev/zero >&3"
)

Rows = Sequence[Mapping[str, Any]]
"""What `tc -j` lists."""

DEVICE: Final = "dstestf"
"""What the names of our devices begin with."""

LIMIT_PACKETS: Final = 20_000
"""What a slow path holds back is not to be lost besides."""

SHARES: Final = ("duplicate", "reorder")

HOOKED: Final = "/run/dstest-netem"
"""Names of devices whose ingress we have made, from before that until after it is gone."""

_UNHOOK: Final = f"""\
for device in $(ls /sys/class/net); do
    tc qdisc show dev $device | grep -q '^qdisc ingress ' || continue
    case "$(tc filter show dev $device ingress)" in
    *{DEVICE}[0-9]*) ;;
    # Half made by us, or somebody's who has not filled it yet.
    "") [ -e {HOOKED}/$device ] || continue ;;
    *) continue ;;
    esac
    tc qdisc del dev $device ingress
done
rm -rf {HOOKED}
"""
_DEVICES: Final = f"ls /sys/class/net | grep -x '{DEVICE}[0-9]*'"

OFF: Final = f"""\
{_UNHOOK}for device in $({_DEVICES}); do ip link del $device; done
"""

RESIDUE: Final = Residue(
    name="netem",
    mark=f"the devices are called {DEVICE} and a number, {HOOKED} names the hooks",
    look=f"for device in $({_DEVICES}); do echo ours device $device; done;"
    f" for name in $(ls {HOOKED} 2>/dev/null); do echo ours ingress of $name; done",
    remove=OFF,
    rank=15,
)

# Who has such a hook at this device already, as container networks do, has the only one.
_FREE: Final = """\
[ -n "$0" ] || exit 0
device=$(ip route get "$0" | sed -n 's/.* dev \\([^ ]*\\).*/\\1/p')
tc qdisc show dev "$device" | grep -E '^qdisc (ingress|clsact) ' >&2 && exit 1
exit 0
"""

_HOOK: Final = f"""\
mkdir -p {HOOKED} && : >"{HOOKED}/$0" && exec tc -batch -
"""

_MAKE: Final = """\
set -e
for device in "$@"; do
    ip link add $device type ifb
    echo 1 >/proc/sys/net/ipv6/conf/$device/disable_ipv6
    ip link set $device up
done
"""


class Shape(msgspec.Struct, frozen=True):
    """What the capped class did: packets that had to wait or were dropped, bytes that passed."""

    rate_kbit: int
    overlimits: int
    dropped: int
    sent_bytes: int


class _Route(msgspec.Struct):
    dev: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:@+-]{0,14}\Z")]


_ROUTES: Final = msgspec.json.Decoder(list[_Route])


async def device_of(node: Node, address: str) -> str:
    """The interface that leads to `address`. Raises LabError where none does, and for a name that
    could be more than one word of a command."""
    found = await node.run(["ip", "-j", "route", "get", address], timeout_s=5.0)
    try:
        rows = _ROUTES.decode(found.stdout)
    except msgspec.DecodeError as error:
        raise LabError(f"{node.name}: its route to {address} makes no sense: {error}") from None
    if not rows:
        raise LabError(f"{node.name}: no interface leads to {address}")
    return rows[0].dev


def cap_rules(device: str, lab: LabInfo, kbit: int) -> str:
    """A `tc` batch: all that leaves `device` shares `kbit`, our SSH excepted.

    The queue is short (half a second), so that what is slow does not become what is dead.
    """
    queue_bytes = max(16_384, kbit * 1000 // 16)
    lines = [
        f"qdisc add dev {device} root handle {HANDLE} htb default 10 r2q 1000",
        (
            f"class add dev {device} parent {HANDLE} classid {CAPPED} htb rate {kbit}kbit burst 16k"
            " quantum 1514"
        ),
        f"qdisc add dev {device} parent {CAPPED} bfifo limit {queue_bytes}",
        f"class add dev {device} parent {HANDLE} classid d5:20 htb rate 10gbit quantum 60000",
    ]
    for address in lab.ssh_sources:
        protocol, family, prio, bits = (
            ("ipv6", "ip6", 2, 128) if ":" in address else ("ip", "ip", 1, 32)
        )
        lines += [
            f"filter add dev {device} parent {HANDLE} protocol {protocol} prio {prio} u32 match"
            f" {family} dst {address}/{bits} match {family} sport {port} 0xffff flowid d5:20"
            for port in lab.ssh_ports
        ]
    return "\n".join(lines) + "\n"


def heal_command(device: str) -> list[str]:
    """Removes the cap, whatever is in its queue, and nothing else."""
    return ["tc", "qdisc", "del", "dev", device, "root", "handle", HANDLE, "htb"]


async def shape_of(node: Node, device: str) -> Shape | None:
    """The counters of the capped class; None where there is no cap of ours."""
    found = await node.run(["tc", "-s", "class", "show", "dev", device], timeout_s=5.0)
    for block in found.stdout.split("class htb ")[1:]:
        if not block.startswith(f"{CAPPED} "):
            continue
        rate = re.search(r" rate (\d+)([KMG]?)bit", block)
        counts = re.search(r"Sent (\d+) bytes .*dropped (\d+), overlimits (\d+)", block)
        if rate is None or counts is None:
            raise LabError(f"{node.name}: `tc -s class show` says {block.strip()[:200]}")
        scale = {"": 0.001, "K": 1, "M": 1000, "G": 1_000_000}[rate[2]]
        return Shape(
            rate_kbit=round(int(rate[1]) * scale),
            overlimits=int(counts[3]),
            dropped=int(counts[2]),
            sent_bytes=int(counts[1]),
        )
    return None


async def bulk_kbit(source: Node, destination: Node, kbit: int, *, lane: int = 0) -> float | None:
    """What gets through from node to node, in kbit/s; None where nothing arrived.

    `lane` must differ between transfers to the same node at the same time.
    """
    size = min(max(int(kbit * 125 * BULK_S), BULK_BYTES_MIN), BULK_BYTES_MAX)
    port = str(BULK_PORT + lane)
    receive = ["timeout", str(BULK_TIMEOUT_S), "python3", "-I", "-S", "-c", _RECEIVE, port]
    send = ["timeout", str(BULK_TIMEOUT_S), "bash", "-c", _SEND]
    try:
        got, _ = await asyncio.gather(
            destination.run(receive, timeout_s=BULK_TIMEOUT_S + 2, check=False),
            source.run(
                [*send, destination.info.address, port, str(size)],
                timeout_s=BULK_TIMEOUT_S + 2,
                check=False,
            ),
        )
    except (RemoteTimeout, RemoteLost):
        return None
    words = got.stdout.split()
    if got.status != 0 or len(words) != 3 or float(words[0]) < size:
        return None
    return float(words[1]) * 8 / 1000 / max(float(words[2]), 1e-4)


class NetemSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What stands on a node: `filters` that redirect, and per sender's address what its queue is
    set to (`words`) and has done. `Sender.delayed` is what has left the queue, `twice` what left it
    or waits in it beyond what came in."""

    filters: int
    words: Mapping[str, Mapping[str, Any]]
    senders: Mapping[str, Sender]


def _devices(number: int) -> tuple[str, str]:
    """For a sender's traffic, and for its probes."""
    return f"{DEVICE}{2 * number}", f"{DEVICE}{2 * number + 1}"


def rules(device: str, sources: Sequence[NodeInfo], words: str) -> str:
    """A `tc` batch for one node whose peers are reached by `device`; `words` are netem's."""
    ours = [name for number in range(len(sources)) for name in _devices(number)]
    lines = [f"qdisc add dev {name} root netem limit {LIMIT_PACKETS} {words}" for name in ours]
    lines.append(f"qdisc add dev {device} ingress")
    add = f"filter add dev {device} ingress protocol"
    for number, info in enumerate(sources):
        usual, probes = _devices(number)
        matches = [
            (f"ip_proto udp dst_port {PROBE_UDP_PORT} ", probes),
            (f"ip_proto udp src_port {PROBE_UDP_PORT} ", probes),
            ("", usual),
        ]
        for address in filter(None, (info.address, info.address6)):
            family, first = ("ipv6", 3) if ":" in address else ("ip", 6)
            for prio, (match, to) in enumerate(matches, first):
                action = f"action mirred egress redirect dev {to}"
                lines.append(f"{add} {family} prio {prio} flower src_ip {address} {match}{action}")
    # They come last, so that filters without one of ours among them are never ours.
    icmp = "flower ip_proto icmpv6 type"
    lines += [f"{add} ipv6 prio {kind - 134} {icmp} {kind} action pass" for kind in (135, 136)]
    return "\n".join(lines) + "\n"


def words_of(wanted: Mapping[str, Any]) -> str:
    """netem's own words for what `tc -j` is to show afterwards."""
    parts = []
    if "delay.delay" in wanted:
        parts.append(f"delay {wanted['delay.delay'] * 1000:g}ms")
        if "delay.jitter" in wanted:
            parts.append(f"{wanted['delay.jitter'] * 1000:g}ms")
    parts += [f"{n} {wanted[f'{n}.{n}'] * 100:g}%" for n in SHARES if f"{n}.{n}" in wanted]
    if "rate.rate" in wanted:
        parts.append(f"rate {wanted['rate.rate'] * 8}bit")
    return " ".join(parts)


async def is_supported(nodes: Sequence[Node], peers: Mapping[str, str]) -> bool:
    """Can all of these do it, on the devices that lead to their `peers` (addresses, by node)?"""

    async def one(node: Node) -> bool:
        await node.run(["sh", "-c", OFF], timeout_s=10.0, check=False)  # of a run that died
        for argv in (
            ["sh", "-c", FEATURES["netem"].look],
            ["sh", "-c", _FREE, peers[node.name]],
        ):
            if (await node.run(argv, timeout_s=15.0, check=False)).status != 0:
                return False
        return True

    return all(await asyncio.gather(*map(one, nodes)))


async def start(node: Node, sources: Sequence[NodeInfo], words: str) -> None:
    """Queues first, then what leads to them. LabError where that fails; part of it may stand."""
    device = await device_of(node, sources[0].address)
    names = [name for number in range(len(sources)) for name in _devices(number)]
    # Of their own they send nothing, which would be counted as well.
    await node.run(["sh", "-c", _MAKE, "sh", *names], timeout_s=10.0)
    batch = rules(device, sources, words)
    await node.run(["sh", "-c", _HOOK, device], stdin=batch, timeout_s=10.0)


async def unhook(node: Node) -> None:
    """Nothing is redirected from now on; the queues and their counters stay."""
    await node.run(["sh", "-c", _UNHOOK], timeout_s=10.0, check=False)


async def clear(node: Node) -> None:
    """Take it all away; what a queue holds is lost, as in a queue that overflows."""
    await node.run(["sh", "-c", OFF], timeout_s=10.0, check=False)


# What comes in is counted before and after what goes out: on a slow node these looks take a while.
_LOOK: Final = f"""\
[ -n "$({_DEVICES})" ] || exit 0
for device in $(ls /sys/class/net); do
    tc filter show dev $device ingress 2>/dev/null | grep -q '{DEVICE}[0-9]' && break
    device=
done
came() {{ [ -z "$device" ] || tc -s -j filter show dev $device ingress | tr '\\n' ' '; echo; }}
came
echo "$(tc -s -j qdisc show | tr '\\n' ' ')"
came
"""


async def take_snapshot(node: Node) -> NetemSnapshot:
    """Raises LabError where the node does not answer."""
    found = await node.run(["sh", "-c", _LOOK], timeout_s=10.0)
    rows = [json.loads(line) if line.strip() else [] for line in found.stdout.splitlines()]
    before, queues, after = rows if len(rows) == 3 else ([], [], [])
    return parse(queues, before, after)


def parse(qdiscs: Rows, before: Rows, after: Rows) -> NetemSnapshot:
    """What `tc -s -j` says of all queues of a node, and before and after of what leads to ours."""
    early, late = _came(before), _came(after)
    queues = {row["dev"]: row for row in qdiscs if row["kind"] == "netem"}
    senders, words = {}, {}
    for device in {device for device, _, _ in late.values()}:
        those = [a for a, (to, _, _) in late.items() if to == device]
        queue = queues.get(device)
        left, waiting = (int(queue["packets"]), int(queue["qlen"])) if queue else (0, 0)
        came = sum(late[a][1] + early.get(a, late[a])[1] for a in those) / 2
        twice = max(0, round(left + waiting - came))
        for address in those:
            # Both families share a queue: what it did is said once.
            did = {"delayed": left, "twice": twice} if address == those[0] else {}
            _, seen, probes = late[address]
            senders[address] = Sender(seen=seen, probes=probes, **did)
            words[address] = dict(queue["options"]) if queue else {}
    return NetemSnapshot(filters=len(_redirecting(after)), words=words, senders=senders)


def _redirecting(filters: Rows) -> list[tuple[str, str, bool, int]]:
    """Of each filter that redirects to us: address, device, is it for probes, packets."""
    found = []
    for row in filters:
        options = row.get("options", {})
        to = next((a for a in options.get("actions", ()) if "to_dev" in a), None)
        if to is not None and str(to["to_dev"]).startswith(DEVICE):
            keys = options["keys"]
            packets = int(to["stats"]["packets"])
            found.append((str(keys["src_ip"]), str(to["to_dev"]), "ip_proto" in keys, packets))
    return found


def _came(filters: Rows) -> dict[str, tuple[str, int, int]]:
    """Address -> device of its traffic, packets of that, probes."""
    rows = _redirecting(filters)
    return {
        address: (device, packets, sum(row[3] for row in rows if row[0] == address and row[2]))
        for address, device, probes, packets in rows
        if not probes
    }
