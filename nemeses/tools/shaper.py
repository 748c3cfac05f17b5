"""Shaping what a node sends: one HTB class with a cap for all, one without for our own SSH.

And a bulk transfer between two nodes that says what really gets through.
"""

from __future__ import annotations

import asyncio
import re
from typing import Annotated, Final

import msgspec

from dstest.core.errors import LabError, RemoteLost, RemoteTimeout
from dstest.core.node import LabInfo, Node
from dstest.core.residue import Residue

HANDLE: Final = "d5:"
CAPPED: Final = "d5:10"
BULK_PORT: Final = 7072
BULK_TIMEOUT_S: Final = 12.0
BULK_S: Final = 1.5
"""A transfer is as large as the cap lets through in this time."""

BULK_BYTES_MIN: Final = 131_072
BULK_BYTES_MAX: Final = 4_194_304

RESIDUE: Final = Residue(
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
