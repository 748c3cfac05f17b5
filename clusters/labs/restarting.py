"""Labs on a bridge that can stop and start single nodes: what they do alike."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol

from clusters.labs.bridged import BridgedLab
from clusters.labs.guard import Guard
from clusters.labs.leftovers import Machines
from clusters.labs.state import LabState
from dstest.core.errors import LabError


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
