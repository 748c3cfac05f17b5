"""Containers that are made to look like machines of somebody else: six of them, made by hand.

Five take logins of `ops` alone, whose sudo asks for a password, and only from the sixth, the jump
host; one of them listens at another port, one is reached by IPv6. They have a firewall table and a
file of their own.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

import msgspec

from clusters.labs.lxc import LAB
from clusters.labs.state import LabState, load
from dstest.core.node import LabInfo

__all__ = ["OTHER_PORT", "PASSWORD", "Machines"]

PASSWORD: Final = "s3cret pass"
OTHER_PORT: Final = 2222
JUMP: Final = 5

MACHINE: Final = r"""
set -eu
useradd -m -s /bin/bash ops
echo "ops:$1" | chpasswd
mkdir -m 700 /home/ops/.ssh
echo "$2" >/home/ops/.ssh/authorized_keys
chown -R ops: /home/ops/.ssh
echo 'ops ALL=(ALL) ALL' >/etc/sudoers.d/ops
rm -f /etc/dstest-lab
printf '127.0.0.1 localhost\n::1 localhost' >/etc/hosts  # its last line has no end
echo "AllowUsers ops@$3 ops@$4" >>/etc/ssh/sshd_config
[ -z "$5" ] || echo "Port $5" >>/etc/ssh/sshd_config
nft add table inet site
nft 'add chain inet site in { type filter hook input priority 0; policy accept; }'
nft 'add rule inet site in tcp dport 9 counter drop'
systemctl restart ssh
"""

JUMP_HOST: Final = r"""
set -eu
useradd -m -s /bin/bash -p '*' jump
mkdir -m 700 /home/jump/.ssh
echo "$1" >/home/jump/.ssh/authorized_keys
chown -R jump: /home/jump/.ssh
rm -f /etc/dstest-lab
"""


class Machines:
    """Made when this is, as the lab `bed`; `folder` has the keys and the list of machines."""

    def __init__(self, folder: Path, packages: tuple[str, ...], bed: str = "bed") -> None:
        self.folder, self.bed = folder, bed
        self.info: LabInfo = LAB.up(bed, 6, packages=sorted({*packages, "sudo"}))
        state = load(bed)
        assert state is not None
        self.state: LabState = state
        for name in ("ops", "jump", "stranger"):
            path = folder / name
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
        jump = self.info.nodes[JUMP]
        self.on(JUMP, JUMP_HOST, (folder / "jump.pub").read_text())
        for i in range(5):
            key = (folder / "ops.pub").read_text()
            port = str(OTHER_PORT) if i == 2 else ""
            self.on(i, MACHINE, PASSWORD, key, jump.address, str(jump.address6), port)
        self.known = folder / "known_hosts"
        self.known.write_text(self._known())
        self.password = folder / "password"
        self.password.touch(0o600)
        self.password.write_text(PASSWORD + "\n")

    def on(self, index: int, script: str, *words: str) -> str:
        """What a script prints on the machine with this index, run from outside."""
        pid = self.pid(index)
        argv = ["nsenter", "-t", str(pid), "-a", "sh", "-c", script, "sh", *words]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def pid(self, index: int) -> int:
        """Of the machine's process 1."""
        name = self.state.container(self.info.nodes[index].name)
        path = f"/var/lib/dstest/labs/{self.bed}/nodes"
        path = (
            path if os.path.isdir(path) else f"{os.environ['DSTEST_LAB_DIR']}/labs/{self.bed}/nodes"
        )
        said = subprocess.run(
            ["lxc-info", "-P", path, "-n", name, "-p", "-H"],
            capture_output=True,
            text=True,
            check=True,
        )
        return int(said.stdout)

    def _known(self) -> str:
        text = Path(self.info.nodes[0].known_hosts_path).read_text()
        node = self.info.nodes[2]
        for line in text.splitlines():
            names, key = line.split(" ", 1)
            if node.address in names.split(","):
                text += f"[{node.address}]:{OTHER_PORT} {key}\n"
        return text

    def list(self, **changes: str) -> Path:
        """A list of the machines, with settings changed."""
        jump = self.info.nodes[JUMP]
        way = {"host": jump.address, "user": "jump", "key": str(self.folder / "jump")}
        settings = {
            "user": "ops",
            "key": str(self.folder / "ops"),
            "known_hosts": str(self.known),
            "jump": way,
            "sudo_password": {"file": str(self.password)},
            "node": [
                {
                    "name": f"db-{i}",
                    "address": node.address,
                    "address6": node.address6,
                    **({"ssh": node.address6} if i == 2 else {}),
                    **({"port": OTHER_PORT} if i == 3 else {}),
                }
                for i, node in enumerate(self.info.nodes[:5], 1)
            ],
        }
        path = self.folder / "nodes.toml"
        path.write_bytes(msgspec.toml.encode({**settings, **changes}))
        return path

    def down(self) -> None:
        LAB.down(self.bed)
