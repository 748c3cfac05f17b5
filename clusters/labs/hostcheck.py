"""What this host has and lacks for nodes of its own: one row per capability, tried, not guessed.
podman is tried with a container of the host's own programs.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from clusters.labs import host, network, podman_host, podman_machines, rootless, state
from clusters.labs.podman_host import Settings, podman
from dstest.core.errors import LabError

TRIAL_S = 30.0
LINKS = {"bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64", "sbin": "usr/sbin"}


def trial() -> str:
    """What was found, where it can. Raises LabError with podman's reason where it cannot.

    The container has all that a node has but systemd and a network, and its root is an overlay.
    """
    if lacks := podman_host.missing():
        raise LabError(
            f"no --lab podman: this host lacks {', '.join(lacks)}",
            remedy="; ".join(dict.fromkeys(lacks.values())),
        )
    host.require_root()
    of = podman_host.settings()
    parent = state.root_dir()
    while not parent.exists():
        parent = parent.parent
    store = Path(tempfile.mkdtemp(prefix=".dstest-podman-", dir=parent))
    try:
        _try(store, of)
    finally:
        podman_machines.end_all(store, store.name)
        podman_machines.remove_groups(store.name)
        host.remove_tree(store)
    limits = f"limits {' '.join(of.ulimits)}" if of.ulimits else "podman's own limits"
    fuse = "/dev/fuse" if of.fuse else "no /dev/fuse, so no faults of disks"
    return f"a container ran; {Path(of.runtime).name}, {limits}, {fuse}"


def _try(store: Path, of: Settings) -> None:
    podman_host.write(store, of)
    root = store / "root"
    (root / "usr").mkdir(parents=True)
    for name, target in LINKS.items():
        (root / name).symlink_to(target)
    words = [word for word in podman_machines.options(of) if not word.startswith("--systemd")]
    words += ["--rm", "--cgroup-parent", f"/{podman_machines.group_above()}/{store.name}"]
    words += ["--volume", "/usr:/usr:ro", "--rootfs", f"{root}:O", "/usr/bin/true"]
    podman(store, "run", *words, timeout_s=TRIAL_S)


DISK_FREE_BYTES_MIN = 3 << 30
"""An image with a Java runtime is 1.2 GB, twice while it is replaced, and nodes write too."""

FILTER = """\
table inet dstest {
  chain input {
    type filter hook input priority -10; policy accept;
    ip saddr 10.77.0.1 counter drop
    ip6 saddr fd77::1 counter drop
  }
}
"""


class Capability(msgspec.Struct, frozen=True, kw_only=True):
    """One capability. `remedy` is None where it is there. All is well without an `optional` one."""

    name: str
    ok: bool
    detail: str
    remedy: str | None = None
    optional: bool = False


def host_rows() -> list[Capability]:
    """All checks of this host, each with a deadline; nothing is left behind."""
    if os.geteuid() != 0:
        return _rows_without_root()
    checks: list[tuple[str, Callable[[], str], str]] = [
        ("root", _root, "run as root, or use --lab hosts"),
        ("programs", _programs, host.apt_remedy(host.missing_tools())),
        ("nft inet tables", _nft, "use a kernel with CONFIG_NF_TABLES_INET"),
        ("veth and bridge", _links, "use a kernel with CONFIG_VETH and CONFIG_BRIDGE"),
        ("IPv6", _ipv6, "boot without ipv6.disable=1: a partition must be proven in both families"),
        ("overlay mounts", _overlay, "point DSTEST_LAB_DIR at a directory on ext4 or xfs"),
        (
            "bridged traffic passes",
            _forwarding,
            "sysctl -w net.bridge.bridge-nf-call-iptables=0 net.bridge.bridge-nf-call-ip6tables=0",
        ),
        ("disk space", _disk, f"free some, or point DSTEST_LAB_DIR elsewhere: {state.root_dir()}"),
        ("no leftovers", _leftovers, "dstest lab gc"),
    ]
    rows = [_row(name, check, remedy) for name, check, remedy in checks]
    rows.append(_row("podman", trial, "--lab lxc", optional=True))
    detail = "not tried: root has no need of it"
    return [*rows, Capability(name="rootless", ok=True, detail=detail, optional=True)]


def _rows_without_root() -> list[Capability]:
    """What an ordinary user can do, and what not: nodes come by `rootless` alone, or exist."""
    usual = "check, report, export, list, nemeses and models need no root; nor does --lab hosts"
    ours = "--lab lxc, vagrant, podman and vm need root, and were not tried"
    checks: list[tuple[str, Callable[[], str], str]] = [
        ("programs", _programs, host.apt_remedy(host.missing_tools())),
        ("IPv6", _ipv6, "boot without ipv6.disable=1: a partition must be proven in both families"),
        ("disk space", _disk, f"free some, or point DSTEST_LAB_DIR elsewhere: {state.root_dir()}"),
        ("rootless", rootless.trial, "run as root, or name machines of yours with --lab hosts"),
    ]
    root = Capability(
        name="root",
        ok=False,
        detail=f"uid {os.geteuid()}: {usual}; {ours}",
        remedy="sudo dstest doctor tells of those",
        optional=True,
    )
    return [root, *(_row(name, check, remedy) for name, check, remedy in checks)]


def _row(name: str, check: Callable[[], str], remedy: str, *, optional: bool = False) -> Capability:
    try:
        return Capability(name=name, ok=True, detail=check(), optional=optional)
    except LabError as error:
        remedy = error.remedy or remedy
        return Capability(
            name=name, ok=False, detail=error.message, remedy=remedy, optional=optional
        )


def _root() -> str:
    host.require_root()
    return "uid 0"


def _programs() -> str:
    if missing := host.missing_tools():
        raise LabError(f"missing: {', '.join(missing)}")
    return ", ".join(sorted(set(host.TOOLS.values())))


def _nft() -> str:
    host.run(["unshare", "--net", "nft", "-f", "-"], stdin=FILTER)
    return "a table with a counting drop rule was made in a throwaway namespace"


def _links() -> str:
    batch = "link add b0 type bridge\nlink add v0 type veth peer name v1\nlink set v0 master b0\n"
    host.run(["unshare", "--net", "ip", "-batch", "-"], stdin=batch)
    return "made in a throwaway namespace"


def _ipv6() -> str:
    if not Path("/proc/sys/net/ipv6").exists():
        raise LabError("this kernel runs without IPv6")
    return "available"


def _overlay() -> str:
    base = _existing(state.root_dir())
    folder = Path(tempfile.mkdtemp(prefix=".dstest-doctor-", dir=base))
    try:
        for name in ("lower", "upper", "work", "merged"):
            (folder / name).mkdir()
        layers = f"lowerdir={folder}/lower,upperdir={folder}/upper,workdir={folder}/work"
        mount = ["mount", "-t", "overlay", "overlay", "-o", layers, str(folder / "merged")]
        host.run(["unshare", "--mount", *mount])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return f"below {base}"


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path


def _forwarding() -> str:
    """Frames between nodes go through the host's FORWARD rules where br_netfilter says so."""
    flags = [
        Path(f"/proc/sys/net/bridge/bridge-nf-call-{name}") for name in ("iptables", "ip6tables")
    ]
    called = [flag for flag in flags if flag.exists() and flag.read_text().strip() == "1"]
    if not called:
        return "bridged frames do not see the host's firewall"
    dropping = _dropping_forward_chains()
    if dropping:
        raise LabError(
            f"br_netfilter hands bridged frames to the host's firewall, which drops what is "
            f"forwarded: {', '.join(dropping)}"
        )
    return "br_netfilter is on; no FORWARD chain drops by default"


def _dropping_forward_chains() -> list[str]:
    chains = []
    listed = host.run(["nft", "-j", "list", "chains"], check=False)
    if listed.returncode == 0 and listed.stdout:
        for row in json.loads(listed.stdout).get("nftables", []):
            chain = row.get("chain", {})
            if chain.get("hook") == "forward" and chain.get("policy") == "drop":
                chains.append(f"nft {chain['family']} {chain['table']} {chain['name']}")
    for tool in ("iptables-legacy", "ip6tables-legacy"):
        if shutil.which(tool) is None:
            continue
        rules = host.run([tool, "-S", "FORWARD"], check=False).stdout
        if rules.startswith("-P FORWARD DROP"):
            chains.append(f"{tool} FORWARD")
    return chains


def _disk() -> str:
    base = _existing(state.root_dir())
    free = shutil.disk_usage(base).free
    text = f"{free / 1e9:.1f} GB free at {base}"
    if free < DISK_FREE_BYTES_MIN:
        raise LabError(f"{text}; an image and its nodes need {DISK_FREE_BYTES_MIN / 1e9:.0f} GB")
    return text


def _leftovers() -> str:
    labs = [lab for lab_id in state.lab_ids() if (lab := state.load(lab_id)) is not None]
    bridges, octets = network.orphans({lab.tag: lab.octet for lab in labs})
    if bridges or octets:
        routes = [f"routes of 10.77.{octet}.0/24" for octet in octets]
        raise LabError(f"of labs that are gone: {', '.join([*bridges, *routes])}")
    return f"{len(labs)} labs known here"
