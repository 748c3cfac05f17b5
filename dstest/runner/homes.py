"""Directories of systems on machines that dstest has not made: each carries our mark from its first
moment on, so that a release removes nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dstest.core.errors import LabError
from dstest.core.node import LabInfo, Node
from dstest.core.protocols import SystemTraits
from dstest.core.residue import HOME_MARK

__all__ = ["COMMON_HOMES", "homes_of", "lay_homes"]

COMMON_HOMES: Final = ("/opt/dstest", "/opt/dstest-services")
"""Of tools and services, whatever the system. The first comes and goes as a whole, as a residue."""

LAY_S: Final = 20.0

_LAY: Final = f"""\
lab=$0
for home; do
    if [ -L "$home" ] || [ -e "$home" ]; then
        [ ! -L "$home" ] && [ "$(cat "$home/{HOME_MARK}" 2>/dev/null)" = "$lab" ] || echo "$home"
    fi
done | grep . && exit 0
set -e
new=
trap '[ -z "$new" ] || rm -rf "$new"' EXIT
for home; do
    [ ! -e "$home" ] || continue
    new=$(mktemp -d "$home.dstest.XXXXXX")
    chmod 755 "$new"
    echo "$lab" | cat >"$new/{HOME_MARK}"
    mv -T "$new" "$home"
    new=
done
"""
"""Prints those that are there and not ours; where there are none, makes those that are missing."""


def homes_of(systems: Sequence[Any]) -> list[str]:
    """Directories of a node in which systems keep what is theirs."""
    return list(dict.fromkeys(h for s in systems for h in SystemTraits.of(s).homes))


async def lay_homes(lab: LabInfo, nodes: Mapping[str, Node], system: Any) -> None:
    """Make and mark the directories that a run of the system writes into, where the machines are
    not of our making. Raises LabError where somebody else has one of them."""
    if lab.made is not None:
        return
    homes = [COMMON_HOMES[1], *homes_of([system])]

    async def one(node: Node) -> list[str]:
        argv = ["sh", "-c", _LAY, lab.lab_id, *homes]
        return (await node.run(argv, timeout_s=LAY_S)).stdout.split()

    rows = dict(zip(nodes, await asyncio.gather(*map(one, nodes.values())), strict=True))
    if there := {name: row for name, row in rows.items() if row}:
        raise LabError(
            "what dstest has not made stands where the system would write: "
            + "; ".join(f"{name} has {', '.join(row)}" for name, row in there.items()),
            remedy="move it away there, and run again",
        )
