"""Removing labs, whole or in pieces, and finding what dead ones left behind.

A lab is dead when none of its owners lives, unless it is persistent, complete and has a running
node; or when nothing readable says whose it is. Everything here may be repeated and works on
half-built labs.
"""

from __future__ import annotations

from typing import Protocol

from clusters.labs import host, image, network, state
from clusters.labs.state import LabState
from dstest.core.errors import LabError


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
