"""The `lxc` lab: overlay containers with systemd on this machine, a subnet of their own per lab.

info = LAB.up("demo", 5, packages=("etcd-server",))   # about three seconds with a cached image
LAB.down("demo")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from clusters.labs import container, host, image
from clusters.labs.bridged import Progress, RestartableMachines, RestartingLab
from clusters.labs.state import LabState


class LxcBased(RestartingLab):
    """Nodes that are LXC containers over the root directory of an image."""

    machines: ClassVar[RestartableMachines] = container

    def base(self, packages: Sequence[str], say: Progress) -> str:
        return str(image.ensure(packages, say))

    def lacks(self, lab: LabState) -> list[str]:
        gone = not Path(lab.image, "image.json").exists() or not Path(lab.image, "rootfs").is_dir()
        return [f"its image {lab.image} is gone"] if gone else []


class LxcLab(LxcBased):
    """Implements `dstest.core.node.Lab`, `Inspects` and `Restarts`."""

    name = "lxc"
    doc = "LXC containers with systemd on this machine (Linux, root); five nodes in seconds"
    tools: ClassVar[Mapping[str, str]] = host.TOOLS

    def start(self, lab: LabState, say: Progress) -> None:
        image.write_keys(lab)
        image.write_hook(lab)
        image.write_files(lab)
        container.prepare(lab)
        container.start(lab)
        image.wait_ssh(lab)

    def missing(self) -> Mapping[str, str]:
        """See `Lab.missing`."""
        lacks = dict(super().missing())
        if "overlay" not in Path("/proc/filesystems").read_text():
            lacks["overlay"] = "load the kernel module: modprobe overlay"
        return lacks


LAB = LxcLab()
