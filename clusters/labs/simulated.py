"""The lab `sim`: no machines. Servers and clients run in the process of a run, on a network, clock
and disks that are simulated (`dstest.sim`). Its nodes come and go with the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dstest.core.evidence import Transport
from dstest.core.node import CLIENTS_HOST, Lab, LabInfo, Made, NodeInfo


class SimulatedLab(Lab):
    """Nothing is made, so that nothing is left behind."""

    name = "sim"
    doc = "no nodes: all in one process, on a simulated network, clock and disks; smoke at most"
    transport: Transport = "in-process"
    rate = 100.0
    """A closed loop of simulated clients would ask for thousands of operations in a second, each of
    which takes real time."""

    catch_up = True
    """Nobody is harmed by a burst there, and seeds that are known were found so."""

    def up(
        self,
        lab_id: str,
        nodes: int,
        *,
        packages: Sequence[str],
        progress: Any = None,
        persistent: bool = False,
    ) -> LabInfo:
        """The names of its nodes, which are their addresses as well."""
        names = [f"n{number + 1}" for number in range(nodes)]
        return LabInfo(
            lab_id=lab_id,
            kind=self.name,
            nodes=[NodeInfo(name=name, address=name, lab_id=lab_id) for name in names],
            control=CLIENTS_HOST,
            made=Made(packages=list(packages)),
        )

    def down(self, lab_id: str) -> list[str]:
        return []

    def status(self, lab_id: str) -> LabInfo | None:
        """It never stands by itself."""
        return None

    def list(self) -> list[str]:
        return []

    def missing(self) -> Mapping[str, str]:
        """Any host will do."""
        return {}


LAB: Final = SimulatedLab()
