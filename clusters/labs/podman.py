"""The `podman` lab: containers with systemd that podman makes, from an image of our own.

    info = LAB.up("demo", 5, packages=("etcd-server",))   # a few seconds with a cached image
    LAB.down("demo")

The image is imported from the root directory that the lab `lxc` uses; nothing is downloaded. Each
lab is a store of podman's of its own below the lab's directory, and a bridge, subnet and routes as
every lab has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from clusters.labs import image, podman_host, podman_machines, state
from clusters.labs.bridged import Progress, RestartableMachines, RestartingLab
from clusters.labs.state import LabState


class PodmanLab(RestartingLab):
    """Implements `dstest.core.node.Lab`, `Inspects` and `Restarts`."""

    name = "podman"
    doc = "containers with systemd that podman makes on this machine (Linux, root)"
    tools: ClassVar[Mapping[str, str]] = podman_host.TOOLS
    machines: ClassVar[RestartableMachines] = podman_machines

    def base(self, packages: Sequence[str], say: Progress) -> str:
        """The name of the image."""
        return podman_host.ensure(packages, say)

    def lacks(self, lab: LabState) -> list[str]:
        return [] if podman_host.exists(lab.image) else [f"its image {lab.image} is gone"]

    def start(self, lab: LabState, say: Progress) -> None:
        image.write_keys(lab)
        image.write_hook(lab)
        image.write_files(lab)
        podman_machines.prepare(lab)
        podman_machines.start(lab, lab.names)
        image.wait_ssh(lab)

    def gc(self, *, images: bool = False) -> Sequence[str]:
        """As for every lab, and what an import that was killed left; with `images` those without a
        lab, too."""
        removed = [*super().gc(images=images), *podman_host.remove_temporaries()]
        removed += podman_machines.stray_groups()
        if images:
            labs = [lab for i in state.lab_ids(self.name) if (lab := state.load(i)) is not None]
            removed += podman_host.remove_unused({lab.image for lab in labs})
        return removed

    def missing(self) -> Mapping[str, str]:
        """See `Lab.missing`."""
        return {**podman_host.missing(), **super().missing()}


LAB = PodmanLab()
