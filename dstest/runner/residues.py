"""What earlier runs may have left on the nodes: looked for, taken away where it is ours, said.

The list is what all plug-ins declare as `residues` (`dstest.core.residue`), whichever of them this
run uses: the run that died may have used the others.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec

from clusters.remote import connect_all
from clusters.remote.residues import LEASES
from dstest.core import registry
from dstest.core.errors import DstestError, LabError
from dstest.core.node import LabInfo, Node
from dstest.core.protocols import Nemesis, NemesisTraits, System, SystemTraits
from dstest.core.residue import GUARD_LEASES, Found, Residue, marked_only, read_found

LOOK_TIMEOUT_S: Final = 30.0
REMOVE_TIMEOUT_S: Final = 35.0
"""Leases that have run out may take so long to heal."""

_MARK: Final = "== status "

_GUARDS: Final = {f"lease {lease_id}" for lease_id in GUARD_LEASES}

ByNode = dict[str, list[Found]]
AsFound = Mapping[str, Sequence[str]]


def _all(group: str) -> list[Any]:
    return [registry.load(group, name) for name in registry.names(group)]


def residues(
    system: System | None = None, nemesis: Nemesis | None = None, *, lab: LabInfo | None = None
) -> list[Residue]:
    """All kinds, in the order of their removal; of these two as well, registered or not. On nodes
    of a `lab` that dstest has not made, only what lies in directories that it has made."""
    traits: list[SystemTraits | NemesisTraits] = [
        *(SystemTraits.of(one) for one in [*_all("systems"), system] if one is not None),
        *(NemesisTraits.of(one) for one in [*_all("nemeses"), nemesis] if one is not None),
    ]
    found = [LEASES, *(kind for one in traits for kind in one.residues)]
    # Systems on one base share kinds; two of one name that differ are looked for both.
    kinds = sorted(dict.fromkeys(found), key=lambda kind: kind.rank)
    if lab is None or lab.made is not None:
        return kinds
    return [marked_only(kind, lab.lab_id) for kind in kinds]


async def look(nodes: Mapping[str, Node], kinds: Sequence[Residue]) -> ByNode:
    """What is found of these kinds, by node. Raises LabError where a node cannot tell."""

    script = "\n".join(f"sh -c {shlex.quote(kind.look)}; echo {_MARK}$?" for kind in kinds)

    async def one(node: Node) -> list[Found]:
        done = await node.run(["sh", "-c", script], timeout_s=LOOK_TIMEOUT_S, check=False)
        parts = done.stdout.split(_MARK)
        things: list[Found] = []
        for index, kind in enumerate(kinds):
            # A part begins with the status of the one before.
            status = parts[index + 1].split()[0] if index + 1 < len(parts) else "none"
            if status != "0":
                raise LabError(
                    f"{node.name}: nobody can tell what earlier runs have left there"
                    f" ({kind.name}, status {status}): {done.stderr.strip()[-300:]}",
                    remedy="`dstest lab down`, then `dstest lab up`, makes the nodes anew",
                )
            message = parts[index].splitlines()
            things += read_found(kind, message[1:] if index else message)
        return things

    rows = await asyncio.gather(*map(one, nodes.values()))
    return dict(zip(nodes, rows, strict=True))


async def remove(nodes: Mapping[str, Node], kinds: Iterable[Residue]) -> None:
    """Take away what is ours of these kinds, one kind after the other. Failing shows in a look."""
    for kind in kinds:
        argv = ["sh", "-c", kind.remove]
        await asyncio.gather(
            *(n.run(argv, timeout_s=REMOVE_TIMEOUT_S, check=False) for n in nodes.values())
        )


async def begin_clean(
    nodes: Mapping[str, Node], kinds: Sequence[Residue], as_found: AsFound = MappingProxyType({})
) -> dict[str, list[str]]:
    """Before a run: what was found on each node and removed.

    Raises LabError, naming node and thing, where something is not ours or does not go; but not for
    what was `as_found` by us, by node, when the machines were adopted.
    """
    first = _without(await look(nodes, kinds), as_found)
    _refuse({name: [f for f in found if not f.ours] for name, found in first.items()}, "not ours")
    dirty = {f.residue for found in first.values() for f in found}
    if not dirty:
        return {}
    await remove(nodes, [kind for kind in kinds if kind.name in dirty])
    left = _without(await look(nodes, kinds), as_found)
    _refuse(left, "still there after its removal")
    return {name: [f.what for f in found] for name, found in first.items() if found}


async def clean_beside(lab: LabInfo, kinds: Sequence[Residue]) -> dict[str, list[str]]:
    """The same on the nodes of the lab that a run leaves out: a server that a larger cluster has
    left there would find its old peers again."""
    if not lab.beside:
        return {}
    nodes = await connect_all(msgspec.structs.replace(lab, nodes=lab.beside))
    try:
        return await begin_clean(nodes, kinds, lab.as_found)
    finally:
        await asyncio.gather(*(node.close() for node in nodes.values()))


def _without(found: ByNode, as_found: AsFound) -> ByNode:
    """What is ours, and what is not and was not there before us."""
    return {
        name: [f for f in row if f.ours or f.what not in as_found.get(name, ())]
        for name, row in found.items()
    }


def _refuse(left: ByNode, why: str) -> None:
    problems = [f"{name}: {found.what}" for name, row in left.items() for found in row]
    if problems:
        raise LabError(
            f"the nodes are not clean: {'; '.join(problems)} ({why}); nothing was started",
            remedy="remove it there (`dstest lab ssh NODE`; a server of the machine's own by "
            "`systemctl disable --now`), or, unless they are machines of yours, make the nodes "
            "anew: `dstest lab down`, then `dstest lab up`",
        )


def left_on(lab: LabInfo) -> ByNode:
    """What there is on the nodes of a lab that no run uses, by node. Raises LabError."""

    async def ask() -> ByNode:
        nodes = await connect_all(lab)
        try:
            return _without(await look(nodes, residues(lab=lab)), lab.as_found)
        finally:
            await asyncio.gather(*(node.close() for node in nodes.values()))

    return {name: row for name, row in asyncio.run(ask()).items() if row}


async def leaks(
    nodes: Mapping[str, Node], kinds: Sequence[Residue], as_found: AsFound = MappingProxyType({})
) -> dict[str, list[str]]:
    """At the end of a run, its system stopped: what is left of it on each node.

    What always stays behind, such as tools, is taken away first, but not from under something that
    may need it to go: whoever cleans up takes both.
    """
    routine = [kind for kind in kinds if kind.routine]
    try:
        left = await look(nodes, [kind for kind in kinds if not kind.routine])
        left = {name: [f for f in row if f.what not in _GUARDS] for name, row in left.items()}
        clean = {name: node for name, node in nodes.items() if not left[name]}
        await remove(clean, routine)
        left = _without(left | await look(clean, routine), as_found)
    except DstestError as error:
        return {"cluster": [f"cannot be audited: {error.message}"]}
    return {
        name: [f.what if f.ours else f"{f.what} (not ours)" for f in row]
        for name, row in left.items()
    }
