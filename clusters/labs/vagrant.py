"""The `vagrant` lab: nodes that Vagrant makes, by its provider lxc, from a box of our own.

    info = LAB.up("demo", 5, packages=("etcd-server",))   # half a minute, the box once a minute
    LAB.down("demo")

The box is packed from the same Debian packages as an image of the `lxc` lab. Each lab has a copy of
`vagrant/Vagrantfile` with what it reads, and a bridge, subnet and routes as there: a node has no
way out.
"""

from __future__ import annotations

import json
import shutil
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import msgspec

from clusters.labs import host, image, state, vagrant_machines
from clusters.labs.bridged import BridgedLab, Machines, Progress
from clusters.labs.state import LabState
from clusters.labs.vagrant_machines import home, vagrant
from clusters.remote.chores import parse_ssh_config
from dstest.core.errors import LabError
from dstest.core.node import NodeInfo

BOX_S = 300.0
UP_S = 600.0
LOOK_S = 120.0
USER = "vagrant"
MORE_PACKAGES = ("sudo",)


class VagrantLab(BridgedLab):
    """Implements `dstest.core.node.Lab` and `Inspects`."""

    name = "vagrant"
    doc = "nodes that Vagrant makes on this machine, by its provider lxc, from a box of our own"
    tools: ClassVar[Mapping[str, str]] = {
        **host.TOOLS,
        "vagrant": "vagrant vagrant-lxc",
        "lxc-destroy": "lxc",
        "ssh-keyscan": "openssh-client",
    }
    machines: ClassVar[Machines] = vagrant_machines

    def base(self, packages: Sequence[str], say: Progress) -> str:
        """The name of the box."""
        base = image.ensure(sorted({*packages, *MORE_PACKAGES}), say)
        with state.lock("vagrant"):
            _have_key()
            name = f"dstest-{base.name}"
            if not _box(name).is_dir():
                say(f"packing the Vagrant box {name} (once)")
                _pack(base, name)
        return name

    def lacks(self, lab: LabState) -> list[str]:
        return [] if _box(lab.image).is_dir() else [f"its box {lab.image} is gone"]

    def start(self, lab: LabState, say: Progress) -> None:
        folder = state.lab_dir(lab.lab_id)
        for name in ("Vagrantfile", "provision.sh"):
            shutil.copy(_files() / name, folder / name)
        hook = image.write_hook(lab)
        (folder / "vagrant.json").write_text(json.dumps(_facts(lab, hook)))
        say("vagrant up (about half a minute)")
        vagrant(folder, "up", "--provider", "lxc", timeout_s=UP_S)
        image.wait_ssh(lab)
        (folder / "ssh_config").write_text(vagrant(folder, "ssh-config", timeout_s=LOOK_S))
        addresses = [lab.address(i) for i in range(1, lab.nodes + 1)]
        (folder / "known_hosts").write_text(_host_keys(addresses))

    def node_info(self, lab: LabState, index: int, name: str) -> NodeInfo:
        """As Vagrant says; before it has come to that, as it will."""
        folder = state.lab_dir(lab.lab_id)
        known = str(folder / "known_hosts")
        try:
            text = (folder / "ssh_config").read_text()
        except FileNotFoundError:
            return NodeInfo(name=name, address=lab.address(index), user=USER, lab_id=lab.lab_id)
        nodes = parse_ssh_config(text, lab_id=lab.lab_id, known_hosts_path=known)
        for node in nodes:
            if node.name == name:
                return msgspec.structs.replace(node, address6=lab.address6(index))
        raise LabError(f"vagrant ssh-config knows no {name}", remedy=f"see {folder}/ssh_config")

    def gc(self, *, images: bool = False) -> Sequence[str]:
        """As for every lab, and what a packing that was killed left; with `images` the boxes
        without a lab, too."""
        removed = [*super().gc(images=images)]
        with state.lock("vagrant"):
            for left in home().glob("*.box*"):
                if left.is_dir():
                    removed += host.remove_tree(left)
                else:
                    left.unlink()
                    removed.append(f"file {left}")
        if images:
            labs = [lab for i in state.lab_ids(self.name) if (lab := state.load(i)) is not None]
            used = {lab.image for lab in labs}
            for box in (home() / "boxes").glob("dstest-*"):
                if box.name not in used:
                    removed += host.remove_tree(box)
        return removed

    def missing(self) -> Mapping[str, str]:
        """See `Lab.missing`."""
        lacks = dict(super().missing())
        if not lacks:
            home().mkdir(parents=True, exist_ok=True, mode=0o700)
            known = vagrant(home(), "plugin", "list", timeout_s=LOOK_S, check=False)
            if "vagrant-lxc" not in known:
                lacks["vagrant-lxc"] = host.apt_remedy(["vagrant-lxc"])
        return lacks


def _files() -> Path:
    """Where `Vagrantfile`, `provision.sh` and `box.sh` are: in a checkout, or as installed."""
    checkout = Path(__file__).parents[2] / "vagrant"
    if (checkout / "Vagrantfile").exists():
        return checkout
    return Path(sysconfig.get_path("data")) / "share" / "dstest" / "vagrant"


def _key() -> Path:
    return home() / "id_ed25519"


def _have_key() -> None:
    """The key that lets us into all boxes that are packed here."""
    if not _key().exists():
        home().mkdir(parents=True, exist_ok=True, mode=0o700)
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "dstest", "-f", str(_key())]
        host.run(argv)


def _box(name: str) -> Path:
    """Where Vagrant keeps a box that it knows."""
    return home() / "boxes" / name / "0" / "lxc"


def _pack(base: Path, name: str) -> None:
    file = home() / f"{name}.box"
    public = _key().with_suffix(".pub")
    try:
        argv = [str(_files() / "box.sh"), str(base / "rootfs"), str(public), str(file)]
        host.run(["sh", *argv], timeout_s=BOX_S)
        words = ("box", "add", "--name", name, "--provider", "lxc", "--force", str(file))
        vagrant(home(), *words, timeout_s=BOX_S)
    finally:
        file.unlink(missing_ok=True)


def _facts(lab: LabState, hook: Path) -> dict[str, object]:
    """What the Vagrantfile reads."""
    nodes = []
    for index, name in enumerate(lab.names, 1):
        settings = {
            "uts.name": name,
            "net.0.type": "veth",
            "net.0.flags": "up",
            "net.0.name": "eth0",
            "net.0.link": lab.bridge,
            "net.0.veth.pair": f"{lab.tag}{name}",
            "net.0.hwaddr": image.hwaddr(lab, index),
            "hook.version": "1",
            "hook.start-host": str(hook),
        }
        nodes.append(
            {
                "name": name,
                "address": lab.address(index),
                "container": lab.container(name),
                "lxc": settings,
            }
        )
    return {
        "lab_id": lab.lab_id,
        "box": lab.image,
        "key": str(_key()),
        # They are in the box.
        "packages": [],
        "nodes": nodes,
    }


def _host_keys(addresses: Sequence[str]) -> str:
    """Lines for `known_hosts`, asked over a bridge on which nobody else is. Raises LabError."""
    argv = ["ssh-keyscan", "-T", "10", "-t", "ed25519", *addresses]
    lines = host.run(argv, timeout_s=60.0, check=False).stdout.splitlines()
    found = {line.split()[0]: line for line in lines if line and not line.startswith("#")}
    if silent := [address for address in addresses if address not in found]:
        raise LabError(f"no host key of {', '.join(silent)}", remedy="bring the lab up again")
    return "".join(f"{found[address]}\n" for address in addresses)


LAB = VagrantLab()
