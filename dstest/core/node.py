"""What a node is to the rest of dstest: facts, a handle that runs things on it, and the features
that its kernel and programs may have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, runtime_checkable

import msgspec

from dstest.core import limits
from dstest.core.evidence import Transport
from dstest.core.implements import required

__all__ = [
    "CLIENTS_HOST",
    "Completed",
    "Foreign",
    "Inspects",
    "Lab",
    "LabInfo",
    "Login",
    "Made",
    "Node",
    "NodeInfo",
    "OwnClocks",
    "Reopens",
    "Restarts",
    "Secluded",
    "both_names",
]


CLIENTS_HOST: Final = "clients"
"""Of a simulation the host of all clients."""


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """How to log in to a machine over SSH: with the key, or without one with those of `agent_path`,
    an agent's socket. Paths are on the control host."""

    host: str
    port: int = 22
    user: str = "root"
    key_path: str = ""
    agent_path: str = ""
    known_hosts_path: str = ""


def heard_at(local: str) -> tuple[str, int]:
    """Address and port of a socket as `ss` writes it: an IPv4 address is the same one behind
    `::ffff:`, as a socket of both families has it."""
    address, _, port = local.rpartition(":")
    return address.partition("%")[0].strip("[]").removeprefix("::ffff:"), int(port)


class NodeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach one node. Paths are on the control host.

    `address` and `address6` are those under which other nodes and clients know it. SSH goes to
    `ssh_host`, or to `address` where that is empty, through the `jumps`, the first one first.
    Who logs in as another user than root becomes root by sudo, with the password that the file at
    `sudo_password_path` holds, or without one. `agent_path` is as in `Login`. `roles` are words of
    the user's own.
    `slowness`: how many times longer than on a busy small machine things may take there; deadlines
    of calls, and what a system says of its own timing, are that many times longer.
    """

    name: str
    address: str
    address6: str | None = None
    port: int = 22
    user: str = "root"
    key_path: str = ""
    known_hosts_path: str = ""
    lab_id: str = ""
    slowness: float = 1.0
    ssh_host: str = ""
    agent_path: str = ""
    jumps: tuple[Login, ...] = ()
    sudo_password_path: str = ""
    roles: tuple[str, ...] = ()

    @property
    def login(self) -> Login:
        """How to log in to it, once there is a way."""
        return Login(
            host=self.ssh_host or self.address,
            port=self.port,
            user=self.user,
            key_path=self.key_path,
            agent_path=self.agent_path,
            known_hosts_path=self.known_hosts_path,
        )


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that dstest has made: with which packages and builds."""

    packages: list[str]


class Foreign(msgspec.Struct, frozen=True, kw_only=True):
    """Machines that were there before us, by node: `taken` are directories of their own where a
    system would put its files, `as_found` is what disturbs no run since it was there already,
    `called` is what the user calls the machine."""

    taken: dict[str, list[str]]
    as_found: dict[str, list[str]]
    called: dict[str, str] = msgspec.field(default_factory=dict)


def both_names(name: str, called: str) -> str:
    """A node's own name, and what the user calls it where that is another one."""
    return name if called == name else f"{name} ({called})"


class LabInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One running lab. `control` and `control6` are our addresses as the nodes see them; from those
    of `ssh_from`, where it is given, our SSH comes besides: jump hosts. `made` and `adopted` say
    whose the nodes are; a lab that says neither has machines that nobody knows. `beside` are its
    nodes that a run leaves out. `facts` are shown to people, and nothing is decided by them."""

    lab_id: str
    kind: str
    nodes: list[NodeInfo]
    control: str
    control6: str | None = None
    ssh_from: list[str] = msgspec.field(default_factory=list)
    made: Made | None = None
    adopted: Foreign | None = None
    beside: list[NodeInfo] = msgspec.field(default_factory=list)
    facts: dict[str, Any] = msgspec.field(default_factory=dict)

    def named(self, name: str) -> str:
        """What the user calls this node; its own name where nobody calls it otherwise."""
        return self.adopted.called.get(name, name) if self.adopted is not None else name

    def shown(self, name: str) -> str:
        """See `both_names`."""
        return both_names(name, self.named(name))

    def find(self, name: str) -> NodeInfo | None:
        """The node of this name, ours before the user's; None where nothing is called so."""
        ours = [node for node in self.nodes if node.name == name]
        theirs = [node for node in self.nodes if self.named(node.name) == name]
        return next(iter([*ours, *theirs]), None)

    @property
    def as_found(self) -> Mapping[str, list[str]]:
        """What was on the nodes before us, by node."""
        return self.adopted.as_found if self.adopted is not None else {}

    @property
    def ssh_ports(self) -> list[int]:
        """Ports at which SSH answers on any node."""
        return sorted({node.port for node in self.nodes}) or [22]

    @property
    def ssh_sources(self) -> list[str]:
        """All addresses, of both families, from which our SSH may come."""
        ours = [self.control, *([self.control6] if self.control6 else [])]
        return list(dict.fromkeys([*ours, *self.ssh_from]))


class Completed(msgspec.Struct, frozen=True, kw_only=True):
    """A command that ran to its end on a node."""

    status: int
    stdout: str
    stderr: str
    duration_ns: int = 0


class Node(Protocol):
    """A connected node. Every call has a deadline and nothing is ever sent twice.

    Raises `RemoteError` (ended badly, with `check`), `RemoteTimeout` (deadline), `RemoteLost`
    (connection gone).
    """

    @property
    def info(self) -> NodeInfo: ...

    @property
    def name(self) -> str: ...

    async def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 10.0,
        stdin: str | None = None,
        check: bool = True,
    ) -> Completed:
        """Run a program through the node's agent (no shell, about a millisecond)."""
        ...

    async def call(self, verb: str, *, timeout_s: float = 5.0, **args: Any) -> Any:
        """Call an agent verb (see `clusters/remote/agent_main.py`) and return its result."""
        ...

    async def put(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write a file on the node, atomically."""
        ...

    async def get(self, path: str, *, bytes_max: int = 1 << 26, from_start: bool = False) -> bytes:
        """Read a file's last `bytes_max` bytes, or the first ones."""
        ...

    async def arm_lease(
        self,
        lease_id: str,
        heal: Sequence[Sequence[str]],
        *,
        ttl_s: float,
        step_s: float = limits.HEAL_STEP_S,
    ) -> None:
        """From now on the node runs the `heal` commands by itself `ttl_s` after our last heartbeat.

        One follows the other when it has ended, or after `step_s`.

        Returns once the node's janitor confirmed the lease; renewed in the background until
        released. A fault is injected only after its lease is armed.
        """
        ...

    async def release_lease(self, lease_id: str) -> None:
        """Forget a lease; its fault has been healed and the heal was verified."""
        ...


class Lab:
    """A way for nodes to come to be. `up` is idempotent for a given `lab_id`."""

    name: str
    doc: str
    """One line for `dstest list`."""

    transport: Transport = "network"
    """What is between its nodes. Those of a lab that is `in-process` are simulated: they come and
    go with the run."""

    rate: float | None = None
    """Operations per second that a run offers where its user says nothing; None: as many as are
    answered."""

    catch_up: bool = False
    """What is overdue after a pause is sent as fast as clients can, where its user says nothing."""

    @required
    def up(
        self,
        lab_id: str,
        nodes: int,
        *,
        packages: Sequence[str],
        progress: Any = None,
        persistent: bool = False,
    ) -> LabInfo:
        """Bring `nodes` nodes up that answer SSH and have the Debian `packages`.

        `progress` is called with a line of text per step. A `persistent` lab outlives this process;
        another one is a leftover once the process is gone.
        """
        raise NotImplementedError

    @required
    def down(self, lab_id: str) -> list[str]:
        """Remove everything of the lab; returns what was removed."""
        raise NotImplementedError

    @required
    def status(self, lab_id: str) -> LabInfo | None:
        """The running lab, or None."""
        raise NotImplementedError

    @required
    def list(self) -> list[str]:
        """Ids of labs that have anything on this host, dead or alive."""
        raise NotImplementedError

    @required
    def missing(self) -> Mapping[str, str]:
        """What this host lacks for the lab: capability -> how to get it. Empty means ready."""
        raise NotImplementedError


@runtime_checkable
class Inspects(Protocol):
    """A lab that can tell of labs which are not whole, and of who uses them."""

    def known(self, lab_id: str) -> LabInfo | None:
        """What was written down of a lab, whether it runs or not; None where nothing was."""
        ...

    def examine(self, lab_id: str) -> list[str]:
        """What a lab lacks, in words; empty for a whole or an unknown one."""
        ...

    def users(self, lab_id: str) -> list[int]:
        """Living processes, other than this one, that made the lab or use it."""
        ...

    def starting(self, lab_id: str) -> bool:
        """Is a living process bringing it up right now?"""
        ...


@runtime_checkable
class Prepares(Protocol):
    """A lab whose nodes begin from an image, which can be made before any node is asked for."""

    def prepare(self, packages: Sequence[str], *, progress: Any = None) -> None:
        """Have the image with these Debian packages and builds; at once where it is there.

        Raises LabError where it cannot be made, or this host lacks what the lab needs.
        """
        ...


@runtime_checkable
class Restarts(Protocol):
    """A lab that can stop single nodes hard and start them again on the disks they have."""

    def boots(self, lab_id: str) -> Mapping[str, str | None]:
        """What tells each node's present life from its earlier ones; None while it is down."""
        ...

    def cut(self, lab_id: str, names: Sequence[str]) -> None:
        """Stop nodes, all that runs there at once. Raises LabError."""
        ...

    def boot(self, lab_id: str, names: Sequence[str]) -> None:
        """Start nodes that are down; returns when all of these answer SSH. Raises LabError."""
        ...

    def guard(self, lab_id: str, healing: Mapping[str, Sequence[str]]) -> Any:
        """From now on, if this process ends, somebody boots these nodes and runs `healing` there.

        Returns an object whose `release()` calls that off; False where the guard was gone.
        """
        ...


@runtime_checkable
class OwnClocks(Protocol):
    """A lab whose nodes have a clock each, which is nobody else's: one can be set wrong alone."""

    def set_clocks(self, lab_id: str, names: Sequence[str]) -> None:
        """Set the clocks of these nodes to ours. Raises LabError."""
        ...


@runtime_checkable
class Secluded(Protocol):
    """A lab whose nodes can be reached from within namespaces only, which end with a command."""

    def inside(self) -> bool:
        """Is this process within?"""
        ...

    def within(self, lab_id: str, packages: Sequence[str] | None, argv: Sequence[str]) -> int:
        """Run `dstest ARGV` within, once an image has the `packages`, if any; returns its exit.

        Raises LabError where this host cannot do that.
        """
        ...


@runtime_checkable
class Reopens(Protocol):
    """A node whose connection can be made anew. `away` while somebody has it down on purpose."""

    away: bool

    async def reopen(self) -> None:
        """Connect again; what was under way is lost. Raises as connecting does."""
        ...


class Feature(msgspec.Struct, frozen=True, kw_only=True):
    """`look` is a program for `sh -c`, run as root: it ends with 0 where the feature is there, and
    changes nothing. `remedy` is how a node comes to have it."""

    what: str
    look: str
    remedy: str


_GROUP: Final = """\
unshare --mount sh -c 'mount -t cgroup -o CONTROLLER dstest-look /mnt && d=/mnt/dstest-look-$$ &&
    mkdir $d && rmdir $d' 2>/dev/null && exit 0
mount=$(awk '$3 == "cgroup2" && $4 ~ /(^|,)rw(,|$)/ {print $2; exit}' /proc/mounts)
[ -n "$mount" ] && grep -qw CONTROLLER "$mount/cgroup.controllers"
"""
"""Of version 1, mounted where nobody else sees it, or of version 2."""


def _group(feature: str) -> str:
    return _GROUP.replace("CONTROLLER", feature.removesuffix("-group"))


_NFQUEUE: Final = """\
[ "$(uname -m)" = x86_64 ] || { echo no x86-64 >&2; exit 1; }
command -v iptables-restore ip6tables-restore >/dev/null || { echo no iptables >&2; exit 1; }
[ -e /proc/net/netfilter/nfnetlink_queue ] || { echo no nfnetlink_queue >&2; exit 1; }
"""

# All that `nemeses/tools/netem.py` uses, on a device that ends with us, whatever ends us.
_NETEM: Final = """\
command -v tc ip >/dev/null || { echo no iproute2 >&2; exit 1; }
exec unshare --net sh -ec '
d=dstesttry
ip link add $d type ifb
tc qdisc add dev $d root netem limit 10 delay 1ms reorder 50% duplicate 1%
tc qdisc add dev $d ingress
tc filter add dev $d ingress protocol ip prio 1 flower ip_proto udp src_ip 192.0.2.1 \\
    src_port 1 action mirred egress redirect dev $d'
"""

# A nemesis says which it `needs` (`Nemesis`): each of them, and of `one|another` either. They
# are looked for before a run, on every node, and when machines are adopted: so what cannot be
# injected is known before anything is started.
FEATURES: Final[Mapping[str, Feature]] = {
    "nft": Feature(
        what="nftables with inet tables and counters",
        look="printf 'table inet dstest_look { chain c { type filter hook input priority -300;"
        " ip saddr 192.0.2.1 counter drop; }; }\\n' | unshare --net nft -f -",
        remedy="apt-get install -y nftables, and a kernel with CONFIG_NF_TABLES_INET",
    ),
    "tc-htb": Feature(
        what="traffic control with HTB",
        look="unshare --net tc qdisc add dev lo root handle d5: htb default 10",
        remedy="apt-get install -y iproute2, and a kernel with CONFIG_NET_SCH_HTB",
    ),
    "netem": Feature(
        what="netem behind devices of its own",
        look=_NETEM,
        remedy="apt-get install -y iproute2, and a kernel with CONFIG_NET_SCH_NETEM, CONFIG_IFB,"
        " CONFIG_NET_CLS_FLOWER and CONFIG_NET_ACT_MIRRED",
    ),
    "nfqueue": Feature(
        what="iptables and the queue to user space",
        look=_NFQUEUE,
        remedy="x86-64 nodes: apt-get install -y iptables, and modprobe nfnetlink_queue",
    ),
    "fuse": Feature(
        what="FUSE",
        look="exec 3<>/dev/fuse",
        remedy="a kernel with FUSE, and a node that may open /dev/fuse and mount",
    ),
    "ptrace": Feature(
        what="looking into processes of others",
        look='[ "$(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null || echo 0)" != 3 ] &&'
        " [ $((0x$(awk '/^CapEff/ {print $2}' /proc/self/status) >> 19 & 1)) = 1 ]",
        remedy="CAP_SYS_PTRACE, and kernel.yama.ptrace_scope below 3",
    ),
    "memory-group": Feature(
        what="control groups that limit memory",
        look=_group("memory-group"),
        remedy="a kernel with CONFIG_MEMCG, and a node that may write its control groups",
    ),
    "cpu-group": Feature(
        what="control groups that limit processor time",
        look=_group("cpu-group"),
        remedy="a kernel with CONFIG_CFS_BANDWIDTH, and a node that may write its control groups",
    ),
    "freezer-group": Feature(
        what="control groups that freeze",
        # As `clusters/remote/agent_groups.py` looks for them.
        look="""awk '$4 ~ /(^|,)rw(,|$)/ && ($3 == "cgroup2" || $3 == "cgroup" &&"""
        """ $4 ~ /(^|,)freezer(,|$)/) { found = 1 } END { exit !found }' /proc/mounts""",
        remedy="a kernel with CONFIG_CGROUP_FREEZER or version 2 of control groups, and a node that"
        " may write them",
    ),
    "x86-64": Feature(
        what="a 64-bit x86 processor",
        look='[ "$(uname -m)" = x86_64 ]',
        remedy="x86-64 nodes: what dstest compiles for nodes is made for these",
    ),
}


def alternatives(need: str) -> list[str]:
    """Names of features, of which one is enough for this need."""
    return need.split("|")


def what_of(need: str) -> str:
    """The need, in words."""
    return ", or ".join(FEATURES[name].what for name in alternatives(need))


def remedy_of(need: str) -> str:
    """How a node comes to have what is needed."""
    return "; or ".join(FEATURES[name].remedy for name in alternatives(need))
