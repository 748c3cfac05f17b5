"""The `vm` lab: small virtual machines on this machine, with a kernel and a clock of their own.

    info = LAB.up("demo", 3, packages=("etcd-server",))   # half a minute where guests are emulated
    LAB.down("demo")

Nodes are made from the same packages as those of the `lxc` lab, and a kernel. KVM is used where a
guest was seen to run under it; else they are emulated, which is some ten times slower.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from clusters.labs import host, state, vm_boot, vm_machines
from clusters.labs.bridged import Progress, RestartableMachines, RestartingLab
from clusters.labs.state import LabState
from dstest.core.errors import LabError
from dstest.core.node import NodeInfo

SLOWNESS: Final = {"kvm": 1.5, "tcg": 4.0}
"""By accelerator; of emulated nodes as measured, with three of them busy on two processors."""


class VmLab(RestartingLab):
    """Implements `dstest.core.node.Lab`, `Inspects`, `Restarts` and `OwnClocks`."""

    name = "vm"
    doc = "small virtual machines on this machine (Linux, root): kernels and clocks of their own"
    tools: ClassVar[Mapping[str, str]] = {
        "mmdebstrap": "mmdebstrap",
        "mke2fs": "e2fsprogs",
        "ip": "iproute2",
        "ssh": "openssh-client",
        "ssh-keygen": "openssh-client",
        "qemu-img": "qemu-utils",
        vm_machines.QEMU: "qemu-system-x86",
    }
    machines: ClassVar[RestartableMachines] = vm_machines

    def base(self, packages: Sequence[str], say: Progress) -> str:
        return str(vm_boot.ensure(packages, say))

    def lacks(self, lab: LabState) -> list[str]:
        gone = not (vm_boot.folder_of(Path(lab.image)) / "disk").exists()
        return [f"its image {lab.image} is gone"] if gone else []

    def start(self, lab: LabState, say: Progress) -> None:
        _check_memory(lab.nodes)
        what = f"{lab.nodes} virtual machines take"
        vm_boot.room(state.root_dir(), lab.nodes * vm_boot.WRITES_BYTES, what)
        trial = vm_machines.accelerator(Path(lab.image))
        vm_machines.write_trial(lab, trial)
        say(f"guests run by {trial.accelerator}: {trial.why}")
        vm_machines.prepare(lab)
        vm_machines.start(lab, lab.names)

    def node_info(self, lab: LabState, index: int, name: str) -> NodeInfo:
        slowness = SLOWNESS[vm_machines.accelerator_of(lab)]
        return msgspec.structs.replace(super().node_info(lab, index, name), slowness=slowness)

    def facts(self, lab: LabState) -> dict[str, Any]:
        facts = super().facts(lab)
        if (trial := vm_machines.read_trial(lab)) is not None:
            facts["accelerator"] = trial.accelerator
            facts["accelerator_why"] = trial.why
            facts["guest_kernel"] = trial.guest_kernel
        return facts

    def set_clocks(self, lab_id: str, names: Sequence[str]) -> None:
        """See `OwnClocks.set_clocks`."""
        lab = self._known(lab_id)
        host.each(lambda name: vm_machines.set_true(lab, name), names)


def _check_memory(nodes: int) -> None:
    """Raises LabError where the host has not enough free memory for so many machines."""
    rows = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    free = int(rows["MemAvailable"].split()[0]) << 10
    needed = nodes * vm_machines.NODE_BYTES
    if free < needed:
        raise LabError(
            f"{nodes} virtual machines take {needed / 1e9:.1f} GB of memory, and {free / 1e9:.1f}"
            " GB are free",
            remedy="fewer --nodes, or end what takes memory on this host",
        )


LAB = VmLab()
