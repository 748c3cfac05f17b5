"""The `lxc` lab: overlay containers with systemd on this machine, a subnet of their own per lab.

    info = LAB.up("demo", 5, packages=("etcd-server",))   # about three seconds with a cached image
    LAB.down("demo")

`up` reuses a whole running lab, rebuilds one of which nothing runs any more (the machine was
restarted), and refuses a half-dead one: what is left of it may explain what killed it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from clusters.labs import container, host, image, leftovers, network, state
from clusters.labs.guard import Guard
from clusters.labs.packages import absent, strange
from clusters.labs.state import LabState
from dstest.core import limits
from dstest.core.errors import ConfigError, LabError
from dstest.core.node import LabInfo, NodeInfo

__all__ = ["LAB", "LxcLab"]

Progress = Callable[[str], None]


class LxcLab:
    """Implements `dstest.core.node.Lab`."""

    name = "lxc"
    doc = "LXC containers with systemd on this machine (Linux, root); five nodes in seconds"

    def up(
        self,
        lab_id: str,
        nodes: int,
        *,
        packages: Sequence[str],
        progress: Progress | None = None,
        persistent: bool = False,
    ) -> LabInfo:
        """See `Lab.up`. A `persistent` lab is never taken for a leftover.

        `progress` is called with one line of text per step. Raises LabError with what is missing
        on this host, or with what a lab of this id lacks.
        """
        say = progress or _silent
        state.check_lab_id(lab_id)
        if not 1 <= nodes <= limits.NODES_MAX:
            raise ConfigError(
                f"{nodes} nodes cannot be made", remedy=f"ask for 1 to {limits.NODES_MAX}"
            )
        host.require_root()
        if tools := host.missing_tools():
            raise LabError(
                f"this host lacks {', '.join(tools)}, which lab lxc needs",
                remedy=host.apt_remedy(tools),
            )
        with state.lock(f"lab-{lab_id}"):
            if (known := _reusable(lab_id, nodes, packages)) is not None:
                say(f"lab {lab_id} is running: reused")
                return _info(_owned(known, persistent), nodes)
            base = image.ensure(packages, say)
            try:
                lab = _create(lab_id, nodes, packages, base, persistent, say)
            except BaseException:
                leftovers.remove_lab(lab_id)
                raise
            return _info(lab, nodes)

    def down(self, lab_id: str) -> list[str]:
        """See `Lab.down`. Raises LabError where something cannot be removed."""
        state.check_lab_id(lab_id)
        host.require_root()
        with state.lock(f"lab-{lab_id}"):
            return leftovers.remove_lab(lab_id)

    def status(self, lab_id: str) -> LabInfo | None:
        """See `Lab.status`: None unless all of it runs. `examine` tells what does not."""
        lab = state.load(lab_id)
        if lab is None or not lab.complete or faults(lab):
            return None
        return _info(lab, lab.nodes)

    def known(self, lab_id: str) -> LabInfo | None:
        """See `Inspects.known`."""
        lab = state.load(lab_id)
        return None if lab is None else _info(lab, lab.nodes)

    def examine(self, lab_id: str) -> list[str]:
        """See `Inspects.examine`."""
        lab = state.load(lab_id)
        return [] if lab is None else faults(lab)

    def users(self, lab_id: str) -> list[int]:
        """See `Inspects.users`."""
        lab = state.load(lab_id)
        owners = [] if lab is None else lab.owners
        return sorted(owner.pid for owner in owners if owner.alive and owner != state.me())

    def starting(self, lab_id: str) -> bool:
        """See `Inspects.starting`."""
        lab = state.load(lab_id)
        return lab is not None and not lab.complete and any(owner.alive for owner in lab.owners)

    def list(self) -> list[str]:
        """See `Lab.list`."""
        return sorted({*state.lab_ids(), *(owner for owner, _ in container.monitors().values())})

    def gc(self, *, images: bool = False) -> Sequence[str]:
        """Remove what dead labs left here, and unused `images`; returns what was removed."""
        host.require_root()
        return leftovers.collect(images=images)

    def boots(self, lab_id: str) -> dict[str, str | None]:
        """See `Restarts.boots`."""
        return container.boots(_known(lab_id))

    def cut(self, lab_id: str, names: Sequence[str]) -> None:
        """See `Restarts.cut`."""
        container.cut(_known(lab_id), names)

    def boot(self, lab_id: str, names: Sequence[str]) -> None:
        """See `Restarts.boot`."""
        container.boot(_known(lab_id), names)

    def guard(self, lab_id: str, healing: Mapping[str, Sequence[str]]) -> Guard:
        """See `Restarts.guard`."""
        return Guard(lab_id, healing)

    def missing(self) -> Mapping[str, str]:
        """See `Lab.missing`."""
        lacks = {tool: host.apt_remedy([tool]) for tool in host.missing_tools()}
        try:
            host.require_root()
        except LabError as error:
            lacks["root"] = error.remedy or ""
        if "overlay" not in Path("/proc/filesystems").read_text():
            lacks["overlay"] = "load the kernel module: modprobe overlay"
        return lacks


def _known(lab_id: str) -> LabState:
    lab = state.load(lab_id)
    if lab is None:
        raise LabError(f"there is no lab {lab_id}")
    return lab


def faults(lab: LabState) -> list[str]:
    """What is missing of a lab that should run."""
    found = [] if lab.complete else ["it was never completed"]
    running = container.states(lab)
    found += [f"node {name} does not run" for name, runs in running.items() if not runs]
    if lab.bridge not in network.lab_links():
        found.append(f"bridge {lab.bridge} is gone")
    if not Path(lab.image, "rootfs").is_dir():
        found.append(f"its image {lab.image} is gone")
    return found


def _silent(_: str) -> None:
    pass


def _reusable(lab_id: str, nodes: int, packages: Sequence[str]) -> LabState | None:
    """The lab where it can be used as it is, None where nothing of it runs; else LabError."""
    remedy = f"dstest lab down --lab-id {lab_id}"
    lab = state.load(lab_id)
    if lab is None:
        leftovers.remove_lab(lab_id)
        return None
    lacks = faults(lab)
    if lacks:
        if container.monitors(lab_id) and (lab.complete or any(o.alive for o in lab.owners)):
            raise LabError(f"lab {lab_id} is half dead: {'; '.join(lacks)}", remedy=remedy)
        leftovers.remove_lab(lab_id)
        return None
    if lab.nodes < nodes:
        raise LabError(f"lab {lab_id} runs with {lab.nodes} nodes, not {nodes}", remedy=remedy)
    if lacks := absent(packages, lab.packages):
        raise LabError(f"lab {lab_id} runs without {', '.join(lacks)}", remedy=remedy)
    if odd := strange(packages, lab.packages):
        raise LabError(f"lab {lab_id} runs with {', '.join(odd)}", remedy=remedy)
    return lab


def _owned(lab: LabState, persistent: bool) -> LabState:
    owners = [owner for owner in lab.owners if owner.alive and owner != state.me()]
    lab = msgspec.structs.replace(
        lab, owners=[*owners, state.me()], persistent=lab.persistent or persistent
    )
    state.save(lab)
    return lab


def _create(
    lab_id: str, nodes: int, packages: Sequence[str], base: Path, persistent: bool, say: Progress
) -> LabState:
    with state.subnets_lock():
        if not (base / "image.json").exists():
            raise LabError(f"image {base.name} was removed meanwhile", remedy="start again")
        lab = LabState(
            lab_id=lab_id,
            tag=state.tag_of(lab_id),
            octet=network.choose_octet(lab_id),
            nodes=nodes,
            packages=sorted(packages),
            image=str(base),
            persistent=persistent,
            owners=[state.me()],
        )
        state.save(lab)
        network.up(lab)
    say(f"starting {nodes} nodes on {lab.subnet}")
    container.write_keys(lab)
    container.prepare(lab)
    container.start(lab)
    container.wait_ssh(lab)
    lab = msgspec.structs.replace(lab, complete=True)
    state.save(lab)
    return lab


def _info(lab: LabState, nodes: int) -> LabInfo:
    folder = state.lab_dir(lab.lab_id)
    infos = [
        NodeInfo(
            name=name,
            address=lab.address(index),
            address6=lab.address6(index),
            key_path=str(folder / "id_ed25519"),
            known_hosts_path=str(folder / "known_hosts"),
            lab_id=lab.lab_id,
        )
        for index, name in enumerate(lab.names[:nodes], 1)
    ]
    facts: dict[str, Any] = {
        "containers": {name: lab.container(name) for name in lab.names[:nodes]},
        "bridge": lab.bridge,
        "subnet": lab.subnet,
        "subnet6": lab.subnet6,
        "image": Path(lab.image).name,
        "packages": lab.packages,
        "persistent": lab.persistent,
        "shared_kernel": True,
    }
    return LabInfo(
        lab_id=lab.lab_id,
        kind="lxc",
        nodes=infos,
        control=lab.control,
        control6=lab.control6,
        facts=facts,
    )


LAB = LxcLab()
