"""What a node's kernel and programs may offer, and how each is looked for there.

A nemesis says which it `needs` (`NemesisTraits`): each of them, and of `one|another` either. It is
looked for before a run, on every node, and when machines are adopted: so what cannot be injected is
known before anything is started.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec


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
