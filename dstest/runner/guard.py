"""The leases of a run as a whole: when it dies, its nodes take all of it away by themselves.

A fault has a lease of its own, which heals it. What a nemesis lays before and beside its faults
(a file system, control groups, tables that count, programs) has none: `run` stands from before the
first of these until after the last, and carries out what `residues` says once the faults' leases
are done. `run-serve` starts servers that had to be stopped for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from clusters.remote.residues import OTHERS_DONE
from dstest.core import limits
from dstest.core.errors import LabError
from dstest.core.protocols import Deployment, Restartable
from dstest.core.residue import GUARD_LEASES, Residue

RUN, SERVE = GUARD_LEASES
ALL: Final = "all"


class Guard:
    """Arms, tends and releases them on all nodes. `lost` names nodes that swept themselves."""

    def __init__(self, nodes: Mapping[str, Any], kinds: Sequence[Residue]) -> None:
        self._nodes = nodes
        wait = ["sh", "-c", OTHERS_DONE, "sh"]
        sweep = [["sh", "-c", kind.remove] for kind in kinds if kind.janitor]
        self._heal: dict[str, dict[str, list[list[str]]]] = {
            RUN: {ALL: [[*wait, RUN, SERVE], *sweep]}
        }
        self._wait = wait
        self.lost: set[str] = set()

    async def arm(self) -> None:
        """Before anything is laid. Raises LabError where a node does not take it."""
        await self.tend()

    async def serve(self, deployment: Deployment) -> None:
        """From now on servers run: they shall run again after a sweep."""
        if isinstance(deployment, Restartable):
            self._heal[SERVE] = {
                name: [[*self._wait, SERVE], list(deployment.restart_command(name))]
                for name in deployment.members
            }
            await self.tend()

    async def tend(self) -> None:
        """Arm what is missing, as on a node that was restarted; note what has run out."""

        async def one(name: str, node: Any) -> None:
            if node.away or name in self.lost:
                return
            for lease_id, heal in self._heal.items():
                if name not in heal and ALL not in heal:
                    continue
                if lease_id in node.lost_leases:
                    self.lost.add(name)
                elif not node.holds_lease(lease_id):
                    commands = heal.get(name) or heal[ALL]
                    try:
                        await node.arm_lease(lease_id, commands, ttl_s=limits.LEASE_TTL_S)
                    except LabError:
                        # It goes down on purpose just now: its next life gets one.
                        if not node.away:
                            raise

        await asyncio.gather(*(one(name, node) for name, node in self._nodes.items()))

    async def check(self) -> None:
        """`tend`. Raises LabError where a node has taken the run away while it was going on."""
        await self.tend()
        if self.lost:
            raise LabError(
                f"{', '.join(sorted(self.lost))} heard nothing of us for {limits.LEASE_TTL_S:g} s"
                " and removed all of this run",
                remedy="give the host less to do, and look at the network between it and the nodes",
            )

    async def release(self, *lease_ids: str) -> None:
        """Call these off (all of them without names): what they would remove is gone."""

        async def one(name: str, node: Any) -> None:
            for lease_id in wanted:
                if node.holds_lease(lease_id) or lease_id in node.lost_leases:
                    await node.release_lease(lease_id)
                if lease_id in node.lost_leases:
                    self.lost.add(name)

        wanted = [lease_id for lease_id in (lease_ids or GUARD_LEASES) if lease_id in self._heal]
        for lease_id in wanted:
            del self._heal[lease_id]
        await asyncio.gather(*(one(name, node) for name, node in self._nodes.items()))
