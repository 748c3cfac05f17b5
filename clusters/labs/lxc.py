"""The `lxc` lab: overlay containers with systemd on this machine, a subnet of their own per lab.

info = LAB.up("demo", 5, packages=("etcd-server",))   # about three seconds with a cached image
LAB.down("demo")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from clusters.labs import container, host, identity, image, state
from clusters.labs.bridged import BridgedLab, Progress
from clusters.labs.guard import Guard
from clusters.labs.leftovers import Machines
from clusters.labs.state import LabState
from dstest.core.errors import LabError
from dstest.core.node import NodeInfo

__all__ = ["LAB", "LxcLab"]


class LxcLab(BridgedLab):
    """Implements `dstest.core.node.Lab`, `Inspects` and `Restarts`."""

    name = "lxc"
    doc = "LXC containers with systemd on this machine (Linux, root); five nodes in seconds"
    tools: ClassVar[Mapping[str, str]] = host.TOOLS
    machines: ClassVar[Machines] = container

    def base(self, packages: Sequence[str], say: Progress) -> str:
        return str(image.ensure(packages, say))

    def lacks(self, lab: LabState) -> list[str]:
        gone = not Path(lab.image, "image.json").exists() or not Path(lab.image, "rootfs").is_dir()
        return [f"its image {lab.image} is gone"] if gone else []

    def start(self, lab: LabState, say: Progress) -> None:
        container.prepare(lab)
        container.start(lab)
        identity.wait_ssh(lab)

    def node_info(self, lab: LabState, index: int, name: str) -> NodeInfo:
        folder = state.lab_dir(lab.lab_id)
        return NodeInfo(
            name=name,
            address=lab.address(index),
            address6=lab.address6(index),
            key_path=str(folder / "id_ed25519"),
            known_hosts_path=str(folder / "known_hosts"),
            lab_id=lab.lab_id,
        )

    def boots(self, lab_id: str) -> dict[str, str | None]:
        """See `Restarts.boots`."""
        return container.boots(self._known(lab_id))

    def cut(self, lab_id: str, names: Sequence[str]) -> None:
        """See `Restarts.cut`."""
        container.cut(self._known(lab_id), names)

    def boot(self, lab_id: str, names: Sequence[str]) -> None:
        """See `Restarts.boot`."""
        container.boot(self._known(lab_id), names)

    def attach(self, lab_id: str, name: str, argv: Sequence[str]) -> None:
        """See `Guarded.attach`."""
        container.attach(self._known(lab_id), name, argv)

    def guard(self, lab_id: str, healing: Mapping[str, Sequence[str]]) -> Guard:
        """See `Restarts.guard`."""
        return Guard(self.name, lab_id, healing)

    def missing(self) -> Mapping[str, str]:
        """See `Lab.missing`."""
        lacks = dict(super().missing())
        if "overlay" not in Path("/proc/filesystems").read_text():
            lacks["overlay"] = "load the kernel module: modprobe overlay"
        return lacks

    def _known(self, lab_id: str) -> LabState:
        lab = self.load(lab_id)
        if lab is None:
            raise LabError(f"there is no lab {lab_id}")
        return lab


LAB = LxcLab()
