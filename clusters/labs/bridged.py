"""Labs whose nodes this host makes, on a bridge of its own: what they do alike, with those that can
stop and start single nodes, and how labs are removed and dead ones found.

`up` reuses a whole running lab, rebuilds one of which nothing runs any more (the machine was
restarted), and refuses a half-dead one: what is left of it may explain what killed it.

A lab is dead when none of its owners lives, unless it is persistent, complete and has a running
node; or when nothing readable says whose it is. Removal may be repeated and works on half-built
labs. Run as a program this file is the process behind `Guard`.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

import msgspec

from clusters.labs import host, image, network, state
from clusters.labs.image import Progress, absent, strange
from clusters.labs.state import LabState
from dstest.core import limits, registry
from dstest.core.errors import ConfigError, LabError
from dstest.core.node import Lab, LabInfo, Made, NodeInfo

__all__ = [
    "BridgedLab",
    "Progress",
]

ARMED = b"armed\n"
RELEASED = b"released\n"
END_TIMEOUT_S = 10.0


class Machines(Protocol):
    """How one kind of lab finds its nodes on this host, and ends them."""

    def monitors(self, lab_id: str | None = None) -> dict[int, tuple[str, str]]:
        """Processes of nodes, of one lab or of all: pid -> (lab id, the machine's name)."""
        ...

    def states(self, lab: LabState) -> dict[str, bool]:
        """Node name -> does it run?"""
        ...

    def stop(self, lab_id: str) -> list[str]:
        """End a lab's nodes and remove them; returns what was there. LabError where one stays."""
        ...


def remove_lab(lab_id: str, machines: Machines) -> list[str]:
    """Remove everything of a lab; call it with the lab's lock held. Returns what was removed.

    Nodes go first, routes last. Raises LabError where something is left.
    """
    lab = state.load(lab_id)
    removed = machines.stop(lab_id)
    if lab is not None:
        removed += network.down(lab)
    else:
        removed += network.remove_links(state.tag_of(lab_id))
    removed += host.remove_tree(state.lab_dir(lab_id))
    if left := leftovers_of(lab_id, machines, lab):
        raise LabError(
            f"lab {lab_id} is not gone: {', '.join(left)}",
            remedy="try `dstest lab gc`; if that does not help, remove these by hand",
        )
    return removed


def leftovers_of(lab_id: str, machines: Machines, lab: LabState | None = None) -> list[str]:
    """What is on this host of a lab: nodes, links, routes, mounts, directory."""
    tag = state.tag_of(lab_id)
    folder = state.lab_dir(lab_id)
    left = [f"node {name}" for _, name in machines.monitors(lab_id).values()]
    left += [f"link {name}" for name in network.lab_links() if name.startswith(tag)]
    left += [f"mount {point}" for point in host.mounts_below(folder)]
    if lab is not None:
        left += [f"route unreachable {route}" for route in network.stray_routes({lab.octet})]
    if folder.exists():
        left.append(f"directory {folder}")
    return left


def collect(
    kind: str, machines: Machines, *, images: bool = False, keep: frozenset[str] = frozenset()
) -> list[str]:
    """Remove dead labs of a kind, links and routes that belong to no lab of any, and broken-off
    image builds.

    With `images` also base images that no lab stands on. Labs in `keep` are not dead.
    """
    removed = []
    running = {lab_id for lab_id, _ in machines.monitors().values()}
    for lab_id in sorted({*state.lab_ids(kind), *running} - keep):
        with state.lock(f"lab-{lab_id}"):
            if _dead(lab_id, machines):
                removed += [f"{lab_id}: {what}" for what in remove_lab(lab_id, machines)]
    with state.subnets_lock():
        labs = [lab for lab_id in state.lab_ids() if (lab := state.load(lab_id)) is not None]
        removed += network.remove_orphans({lab.tag: lab.octet for lab in labs})
        if images:
            removed += image.remove_unused({lab.image for lab in labs})
    removed += [f"directory {path}" for path in image.remove_temporaries()]
    return removed


def _dead(lab_id: str, machines: Machines) -> bool:
    lab = state.load(lab_id)
    running = bool(machines.monitors(lab_id))
    if lab is None:
        return True
    if any(owner.alive for owner in lab.owners):
        return False
    return not (lab.persistent and lab.complete and running)


class BridgedLab(Lab, ABC):
    """Base of such a kind of lab; it implements `dstest.core.node.Lab` and `Inspects`."""

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
                return self.info(_own(known, persistent), nodes)
            base = self.base(packages, say)
            try:
                lab = self._create(lab_id, nodes, packages, base, persistent, say)
            except BaseException:
                remove_lab(lab_id, self.machines)
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
            return remove_lab(lab_id, self.machines)

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
        return collect(self.name, self.machines, images=images)

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
            remove_lab(lab_id, self.machines)
            return None
        lacks = self.faults(lab)
        if lacks:
            runs = self.machines.monitors(lab_id)
            if runs and (lab.complete or any(o.alive for o in lab.owners)):
                raise LabError(f"lab {lab_id} is half dead: {'; '.join(lacks)}", remedy=remedy)
            remove_lab(lab_id, self.machines)
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


def _own(lab: LabState, persistent: bool) -> LabState:
    owners = [owner for owner in lab.owners if owner.alive and owner != state.me()]
    lab = msgspec.structs.replace(
        lab, owners=[*owners, state.me()], persistent=lab.persistent or persistent
    )
    state.save(lab)
    return lab


class Guard:
    """A process of the control host that starts nodes again when the run that stopped them is gone.

    A node's own leases end with the node. The process holds one end of a pipe: where the other end
    closes without a word, nobody is left to start the nodes, and it does that, and runs on each of
    them the command that brings its server back. It has a session of its own and outlives us.

    Making one starts the process and returns when it watches. Raises LabError where it does not.
    """

    def __init__(self, lab_id: str, healing: Mapping[str, Sequence[str]]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "clusters.labs.bridged", lab_id, json.dumps(healing)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd=Path(__file__).parents[2],
        )
        assert self._process.stdout is not None
        with self._process.stdout as answer:
            armed = answer.readline() == ARMED
        if not armed:
            self._process.kill()
            raise LabError(f"nobody would start the nodes of lab {lab_id} again: no guard")

    def release(self) -> bool:
        """The nodes run again. False where the guard was gone before."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(RELEASED)
            self._process.stdin.close()
        except (OSError, ValueError):
            return False
        try:
            return self._process.wait(END_TIMEOUT_S) == 0
        except subprocess.TimeoutExpired:
            self._process.kill()
            return False


def main(lab_id: str, healing: Mapping[str, Sequence[str]]) -> int:
    """Wait for a word or for the end of who started us; 1 where nodes had to be started."""
    sys.stdout.buffer.write(ARMED)
    sys.stdout.buffer.flush()
    if sys.stdin.buffer.readline() == RELEASED:
        return 0
    if (lab := state.load(lab_id)) is not None:
        registry.load("labs", lab.kind).bring_back(lab_id, healing)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], json.loads(sys.argv[2])))


class RestartableMachines(Machines, Protocol):
    """Machines that can be stopped and started one by one."""

    def boots(self, lab: LabState) -> dict[str, str | None]:
        """Node name -> pid and start time of what runs it, None while it does not run."""
        ...

    def cut(self, lab: LabState, names: Sequence[str]) -> None:
        """Kill all that runs on these nodes at once. LabError where one does not end."""
        ...

    def boot(self, lab: LabState, names: Sequence[str]) -> None:
        """Start those of the nodes that do not run; return when their sshd answers."""
        ...

    def attach(self, lab: LabState, name: str, argv: Sequence[str]) -> None:
        """Run a program on a node from outside, without its sshd."""
        ...


class RestartingLab(BridgedLab):
    """Base of such a kind of lab; it implements `Lab`, `Inspects` and `Restarts`."""

    machines: ClassVar[RestartableMachines]

    def boots(self, lab_id: str) -> dict[str, str | None]:
        """See `Restarts.boots`."""
        return self.machines.boots(self._known(lab_id))

    def cut(self, lab_id: str, names: Sequence[str]) -> None:
        """See `Restarts.cut`."""
        self.machines.cut(self._known(lab_id), names)

    def boot(self, lab_id: str, names: Sequence[str]) -> None:
        """See `Restarts.boot`."""
        self.machines.boot(self._known(lab_id), names)

    def guard(self, lab_id: str, healing: Mapping[str, Sequence[str]]) -> Guard:
        """See `Restarts.guard`."""
        return Guard(lab_id, healing)

    def bring_back(self, lab_id: str, healing: Mapping[str, Sequence[str]]) -> None:
        """Boot the nodes and run on each the program that is named for it.

        One that does not come up keeps nothing from the others.
        """
        lab = self._known(lab_id)
        with contextlib.suppress(LabError):
            self.machines.boot(lab, list(healing))
        for name, argv in healing.items():
            with contextlib.suppress(LabError):
                self.machines.attach(lab, name, argv)

    def _known(self, lab_id: str) -> LabState:
        lab = self.load(lab_id)
        if lab is None:
            raise LabError(f"there is no lab {lab_id}")
        return lab
