"""Labs whose nodes this host makes, on a bridge of its own: what they have in common.

`up` reuses a whole running lab, rebuilds one of which nothing runs any more (the machine was
restarted), and refuses a half-dead one: what is left of it may explain what killed it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from clusters.labs import host, leftovers, network, state
from clusters.labs.image import Progress
from clusters.labs.leftovers import Machines
from clusters.labs.packages import absent, strange
from clusters.labs.state import LabState
from dstest.core import limits
from dstest.core.errors import ConfigError, LabError
from dstest.core.node import LabInfo, Made, NodeInfo

__all__ = ["BridgedLab", "Progress"]


class BridgedLab(ABC):
    """Base of such a kind of lab; it implements `dstest.core.node.Lab` and `Inspects`."""

    name: ClassVar[str]
    doc: ClassVar[str]
    tools: ClassVar[Mapping[str, str]]
    """What it needs on this host: program -> the Debian package that has it."""

    machines: ClassVar[Machines]

    @abstractmethod
    def base(self, packages: Sequence[str], say: Progress) -> str:
        """Have what nodes with these packages are made from; returns its path or name."""

    @abstractmethod
    def start(self, lab: LabState, say: Progress) -> None:
        """Make the nodes and start them; returns when all of them answer SSH."""

    @abstractmethod
    def lacks(self, lab: LabState) -> list[str]:
        """What is missing of what this kind of lab stands on, in words."""

    def node_info(self, lab: LabState, index: int, name: str) -> NodeInfo:
        """How to reach the node with this number, from 1: as root, with the lab's key."""
        folder = state.lab_dir(lab.lab_id)
        return NodeInfo(
            name=name,
            address=lab.address(index),
            address6=lab.address6(index),
            key_path=str(folder / "id_ed25519"),
            known_hosts_path=str(folder / "known_hosts"),
            lab_id=lab.lab_id,
        )

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
        self._check(lab_id)
        if not 1 <= nodes <= limits.NODES_MAX:
            raise ConfigError(
                f"{nodes} nodes cannot be made", remedy=f"ask for 1 to {limits.NODES_MAX}"
            )
        self._require_tools()
        with state.lock(f"lab-{lab_id}"):
            self._check(lab_id)  # machines may have been adopted meanwhile
            if (known := self._reusable(lab_id, nodes, packages)) is not None:
                say(f"lab {lab_id} is running: reused")
                return self.info(_owned(known, persistent), nodes)
            base = self.base(packages, say)
            try:
                lab = self._create(lab_id, nodes, packages, base, persistent, say)
            except BaseException:
                leftovers.remove_lab(lab_id, self.machines)
                raise
            return self.info(lab, nodes)

    def prepare(self, packages: Sequence[str], *, progress: Progress | None = None) -> None:
        """See `Prepares.prepare`."""
        self._require_tools()
        self.base(packages, progress or _silent)

    def _require_tools(self) -> None:
        host.require_root()
        if tools := host.missing_tools(self.tools):
            raise LabError(
                f"this host lacks {', '.join(tools)}, which lab {self.name} needs",
                remedy=host.apt_remedy(tools, self.tools),
            )

    def _create(
        self,
        lab_id: str,
        nodes: int,
        packages: Sequence[str],
        base: str,
        persistent: bool,
        say: Progress,
    ) -> LabState:
        with state.subnets_lock():
            lab = LabState(
                lab_id=lab_id,
                kind=self.name,
                tag=state.tag_of(lab_id),
                octet=network.choose_octet(lab_id),
                nodes=nodes,
                packages=sorted(packages),
                image=base,
                persistent=persistent,
                owners=[state.me()],
            )
            if gone := self.lacks(lab):
                raise LabError(f"{'; '.join(gone)}: removed meanwhile", remedy="start again")
            state.save(lab)
            network.up(lab)
        say(f"starting {nodes} nodes on {lab.subnet}")
        self.start(lab, say)
        lab = msgspec.structs.replace(lab, complete=True)
        state.save(lab)
        return lab

    def _check(self, lab_id: str) -> None:
        """Raises ConfigError where the id cannot be one, or is that of another kind of lab."""
        state.check_lab_id(lab_id)
        if lab_id in state.adopted_ids():
            raise ConfigError(
                f"lab {lab_id} is made of machines of yours", remedy="choose another --lab-id"
            )
        lab = state.load(lab_id)
        if lab is not None and lab.kind != self.name:
            raise ConfigError(
                f"lab {lab_id} is of kind {lab.kind}",
                remedy=f"name it with --lab {lab.kind}, or choose another --lab-id",
            )

    def load(self, lab_id: str) -> LabState | None:
        """What is known of a lab of this kind."""
        lab = state.load(lab_id)
        return lab if lab is not None and lab.kind == self.name else None

    def down(self, lab_id: str) -> list[str]:
        """See `Lab.down`. Raises LabError where something cannot be removed."""
        self._check(lab_id)
        host.require_root()
        with state.lock(f"lab-{lab_id}"):
            return leftovers.remove_lab(lab_id, self.machines)

    def status(self, lab_id: str) -> LabInfo | None:
        """See `Lab.status`: None unless all of it runs. `examine` tells what does not."""
        lab = self.load(lab_id)
        if lab is None or not lab.complete or self.faults(lab):
            return None
        return self.info(lab, lab.nodes)

    def known(self, lab_id: str) -> LabInfo | None:
        """See `Inspects.known`."""
        lab = self.load(lab_id)
        return None if lab is None else self.info(lab, lab.nodes)

    def examine(self, lab_id: str) -> list[str]:
        """See `Inspects.examine`."""
        lab = self.load(lab_id)
        return [] if lab is None else self.faults(lab)

    def users(self, lab_id: str) -> list[int]:
        """See `Inspects.users`."""
        lab = self.load(lab_id)
        owners = [] if lab is None else lab.owners
        return sorted(owner.pid for owner in owners if owner.alive and owner != state.me())

    def starting(self, lab_id: str) -> bool:
        """See `Inspects.starting`."""
        lab = self.load(lab_id)
        return lab is not None and not lab.complete and any(owner.alive for owner in lab.owners)

    def gc(self, *, images: bool = False) -> Sequence[str]:
        """Remove what dead labs left here, and unused `images`; returns what was removed."""
        host.require_root()
        return leftovers.collect(self.name, self.machines, images=images)

    def missing(self) -> Mapping[str, str]:
        """See `Lab.missing`."""
        lacks = {t: host.apt_remedy([t], self.tools) for t in host.missing_tools(self.tools)}
        try:
            host.require_root()
        except LabError as error:
            lacks["root"] = error.remedy or ""
        return lacks

    def faults(self, lab: LabState) -> list[str]:
        """What is missing of a lab that should run."""
        found = [] if lab.complete else ["it was never completed"]
        running = self.machines.states(lab)
        found += [f"node {name} does not run" for name, runs in running.items() if not runs]
        if lab.bridge not in network.lab_links():
            found.append(f"bridge {lab.bridge} is gone")
        return found + self.lacks(lab)

    def _reusable(self, lab_id: str, nodes: int, packages: Sequence[str]) -> LabState | None:
        """The lab where it can be used as it is, None where nothing of it runs; else LabError."""
        remedy = f"dstest lab down --lab-id {lab_id}"
        lab = self.load(lab_id)
        if lab is None:
            leftovers.remove_lab(lab_id, self.machines)
            return None
        lacks = self.faults(lab)
        if lacks:
            runs = self.machines.monitors(lab_id)
            if runs and (lab.complete or any(o.alive for o in lab.owners)):
                raise LabError(f"lab {lab_id} is half dead: {'; '.join(lacks)}", remedy=remedy)
            leftovers.remove_lab(lab_id, self.machines)
            return None
        if lab.nodes < nodes:
            raise LabError(f"lab {lab_id} runs with {lab.nodes} nodes, not {nodes}", remedy=remedy)
        if lacks := absent(packages, lab.packages):
            raise LabError(f"lab {lab_id} runs without {', '.join(lacks)}", remedy=remedy)
        if odd := strange(packages, lab.packages):
            raise LabError(f"lab {lab_id} runs with {', '.join(odd)}", remedy=remedy)
        return lab

    def info(self, lab: LabState, nodes: int) -> LabInfo:
        """What the rest of dstest is told of a lab."""
        containers = {name: lab.container(name) for name in lab.names[:nodes]}
        return LabInfo(
            lab_id=lab.lab_id,
            kind=self.name,
            nodes=[self.node_info(lab, i, name) for i, name in enumerate(lab.names[:nodes], 1)],
            control=lab.control,
            control6=lab.control6,
            made=Made(packages=list(lab.packages)),
            facts={"containers": containers, **self.facts(lab)},
        )

    def facts(self, lab: LabState) -> dict[str, Any]:
        """What there is to know of its nodes, besides how to reach them."""
        return {
            "bridge": lab.bridge,
            "subnet": lab.subnet,
            "subnet6": lab.subnet6,
            "image": Path(lab.image).name,
            "packages": lab.packages,
            "persistent": lab.persistent,
        }

    def list(self) -> list[str]:
        """See `Lab.list`."""
        owners = {owner for owner, _ in self.machines.monitors().values()}
        return sorted({*state.lab_ids(self.name), *owners})


def _silent(_: str) -> None:
    pass


def _owned(lab: LabState, persistent: bool) -> LabState:
    owners = [owner for owner in lab.owners if owner.alive and owner != state.me()]
    lab = msgspec.structs.replace(
        lab, owners=[*owners, state.me()], persistent=lab.persistent or persistent
    )
    state.save(lab)
    return lab
