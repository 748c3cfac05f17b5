"""What a node is apart from others made of the same image: keys, names, addresses.

Each kind of lab lays `own_files` over the image in its own way.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

from clusters.labs import host, recipe, state
from clusters.labs.state import LabState
from dstest.core import clock
from dstest.core.errors import LabError

SSH_ANSWER_TIMEOUT_S = 30.0
"""Cold caches and a busy host included; normally two seconds."""

# Runs on the host between the making of a node's network and the start of its process 1.
# Without link-local addresses there is no path between nodes that a partition could overlook.
ADDRESSES = """\
#!/bin/sh
set -eu
number="${{LXC_NAME##*-n}}"
exec nsenter --target "$LXC_PID" --net /bin/sh -eu <<SCRIPT
echo 0 > /proc/sys/net/ipv6/conf/lo/disable_ipv6
echo 0 > /proc/sys/net/ipv6/conf/eth0/disable_ipv6
echo 0 > /proc/sys/net/ipv6/conf/eth0/accept_ra
ip -batch - <<BATCH
link set eth0 addrgenmode none
addr flush dev eth0 scope link
addr add 10.77.{octet}.$number/24 dev eth0
addr add fd77:{octet:x}::$(printf %x "$number")/64 dev eth0 nodad
link set eth0 up
link set lo up
BATCH
SCRIPT
"""


def own_files(lab: LabState, name: str) -> Path:
    """The directory of what a node has besides, or in place of, the files of its image."""
    return state.lab_dir(lab.lab_id) / "nodes" / lab.container(name) / "upper"


def hwaddr(lab: LabState, index: int) -> str:
    """The same after a restart: what the others remember of a node stays right."""
    return f"02:64:73:74:{lab.octet:02x}:{index:02x}"


def write_hook(lab: LabState) -> Path:
    """The program that sets a node's addresses: LXC_NAME and LXC_PID say whose."""
    hook = state.lab_dir(lab.lab_id) / "addresses"
    hook.write_text(ADDRESSES.format(octet=lab.octet))
    hook.chmod(0o755)
    return hook


def write_keys(lab: LabState) -> None:
    """The lab's client key, a host key for each node, and `known_hosts` that pins them."""
    folder = state.lab_dir(lab.lab_id)
    paths = [folder / "id_ed25519"]
    for name in lab.names:
        keys = own_files(lab, name) / "etc/ssh"
        keys.mkdir(parents=True, mode=0o755)
        paths.append(keys / "ssh_host_ed25519_key")
    host.each(lambda path: _keygen(path, f"dstest-{lab.lab_id}"), paths)
    lines = []
    for index, name in enumerate(lab.names, 1):
        public = (own_files(lab, name) / "etc/ssh/ssh_host_ed25519_key.pub").read_text().split()
        hosts = f"{lab.address(index)},{lab.address6(index)},{name}"
        lines.append(f"{hosts} {public[0]} {public[1]}\n")
    (folder / "known_hosts").write_text("".join(lines))


def _keygen(path: Path, comment: str) -> None:
    host.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)])


def write_files(lab: LabState) -> None:
    """Write what differs from the image, after `write_keys`."""
    authorized = (state.lab_dir(lab.lab_id) / "id_ed25519.pub").read_text()
    hosts = ["127.0.0.1 localhost", "::1 localhost ip6-localhost"]
    for index, name in enumerate(lab.names, 1):
        hosts += [f"{lab.address(index)} {name}", f"{lab.address6(index)} {name}"]
    for name in lab.names:
        upper = own_files(lab, name)
        files = {
            "etc/hostname": f"{name}\n",
            "etc/hosts": "\n".join(hosts) + "\n",
            "etc/machine-id": f"{uuid4().hex}\n",
            recipe.MARKER_PATH.lstrip("/"): f"{lab.lab_id}\n",
        }
        for relative, text in files.items():
            (upper / relative).write_text(text)
            (upper / relative).chmod(0o644)
        (upper / "root/.ssh").mkdir(parents=True)
        (upper / "root/.ssh/authorized_keys").write_text(authorized)
        for relative, mode in {"": 0o755, "etc": 0o755, "etc/ssh": 0o755}.items():
            (upper / relative).chmod(mode)
        for relative in ("root", "root/.ssh"):
            (upper / relative).chmod(0o700)


def wait_ssh(
    lab: LabState,
    names: Sequence[str] | None = None,
    *,
    timeout_s: float = SSH_ANSWER_TIMEOUT_S,
) -> None:
    """Return when sshd on all nodes has said its banner; LabError names those that have not."""
    wanted = lab.names if names is None else list(names)
    deadline_ns = clock.monotonic_ns() + int(timeout_s * 1e9)

    def answers(index: int) -> bool:
        while clock.monotonic_ns() < deadline_ns:
            try:
                with socket.create_connection((lab.address(index), 22), timeout=1.0) as peer:
                    if peer.recv(4) == b"SSH-":
                        return True
            except OSError:
                pass
            clock.sleep_s(0.03)
        return False

    answered = host.each(answers, [lab.names.index(name) + 1 for name in wanted])
    silent = [name for name, ok in zip(wanted, answered, strict=True) if not ok]
    if silent:
        raise LabError(
            f"no SSH answer from {', '.join(silent)} within {timeout_s:g} s",
            remedy="run `dstest doctor`: often it is a host firewall",
        )
