"""What tells one node of a lab from the others: keys, names, the lab's marker.

All of it is files that are laid over the root of a node, in a directory per node on this host.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final
from uuid import uuid4

from clusters.labs import host, recipe, state
from clusters.labs.state import LabState
from dstest.core import clock
from dstest.core.errors import LabError

__all__ = ["SSH_ANSWER_TIMEOUT_S", "hwaddr", "wait_ssh", "write_files", "write_keys"]

SSH_ANSWER_TIMEOUT_S: Final = 30.0
"""Cold caches and a busy host included; normally two seconds."""

HOST_KEY: Final = "etc/ssh/ssh_host_ed25519_key"

RootOf = Callable[[str], Path]
"""Node name -> what is laid over its root."""


def hwaddr(lab: LabState, index: int) -> str:
    """The same after a restart: what the others remember of a node stays right."""
    return f"02:64:73:74:{lab.octet:02x}:{index:02x}"


def write_keys(lab: LabState, root_of: RootOf) -> None:
    """The lab's client key, a host key for each node, and `known_hosts` that pins them."""
    folder = state.lab_dir(lab.lab_id)
    paths = [folder / "id_ed25519"]
    for name in lab.names:
        path = root_of(name) / HOST_KEY
        path.parent.mkdir(parents=True, mode=0o755)
        paths.append(path)
    host.each(lambda path: _keygen(path, f"dstest-{lab.lab_id}"), paths)
    lines = []
    for index, name in enumerate(lab.names, 1):
        public = (root_of(name) / f"{HOST_KEY}.pub").read_text().split()
        hosts = f"{lab.address(index)},{lab.address6(index)},{name}"
        lines.append(f"{hosts} {public[0]} {public[1]}\n")
    (folder / "known_hosts").write_text("".join(lines))


def _keygen(path: Path, comment: str) -> None:
    host.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)])


def write_files(lab: LabState, root_of: RootOf) -> None:
    """Names, who may log in and whose node it is; after `write_keys`."""
    authorized = (state.lab_dir(lab.lab_id) / "id_ed25519.pub").read_text()
    hosts = ["127.0.0.1 localhost", "::1 localhost ip6-localhost"]
    for index, name in enumerate(lab.names, 1):
        hosts += [f"{lab.address(index)} {name}", f"{lab.address6(index)} {name}"]
    for name in lab.names:
        root = root_of(name)
        files = {
            "etc/hostname": f"{name}\n",
            "etc/hosts": "\n".join(hosts) + "\n",
            "etc/machine-id": f"{uuid4().hex}\n",
            recipe.MARKER_PATH.lstrip("/"): f"{lab.lab_id}\n",
        }
        for relative, text in files.items():
            (root / relative).write_text(text)
            (root / relative).chmod(0o644)
        (root / "root/.ssh").mkdir(parents=True)
        (root / "root/.ssh/authorized_keys").write_text(authorized)
        for relative, mode in {"": 0o755, "etc": 0o755, "etc/ssh": 0o755}.items():
            (root / relative).chmod(mode)
        for relative in ("root", "root/.ssh"):
            (root / relative).chmod(0o700)


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
