"""A run on servers that run already (`--attach`): they are looked for instead of laid and started,
and are left as they were."""

from __future__ import annotations

from typing import Final

from dstest.core.answers import ask_s, in_time
from dstest.core.errors import DstestError, FaultRefused
from dstest.core.protocols import Attached, Deployment
from dstest.core.residue import Residue
from dstest.runner.requirements import why_lacking
from dstest.runner.run import Run

LOOKS: Final = 6
"""Questions, one after the other, until it is known what runs there."""


class AttachedRun(Run):
    """Nothing is written on the nodes but what faults need while they stand."""

    def _residues(self) -> list[Residue]:
        """Who listens where servers of ours would is who is asked here."""
        return [kind for kind in super()._residues() if not kind.others]

    async def _look(self, deployment: Deployment) -> None:
        try:
            await self._find(deployment)
        except DstestError as error:
            error.message += "; nothing was touched"
            raise

    async def _find(self, deployment: Deployment) -> None:
        """What runs there, told and kept. LabError, FaultRefused where the run cannot go on."""
        assert isinstance(deployment, Attached)
        limit_s = LOOKS * ask_s(deployment.timing)
        await in_time(deployment, "look", deployment.look(), limit_s)
        self._meta.attached = deployment.found()
        for line in await in_time(deployment, "remarks", deployment.remarks(), limit_s):
            self._ui.say(line)
        if whys := [*why_lacking(deployment, self._nemesis, self._plugins.plans)]:
            raise FaultRefused(
                "; ".join(whys), remedy="-o start=COMMAND, a unit of systemd, or another --nemesis"
            )

    async def _lay(self, deployment: Deployment) -> None:
        """No directory is made."""

    async def _note_run(self) -> None:
        """Logs that lie there are not of this run."""

    async def _guard_starts(self, deployment: Deployment) -> None:
        """Whoever runs the servers may stop one meanwhile: only the lease of a fault starts it."""

    def _watched(self, deployment: Deployment) -> Deployment:
        """It alone knows where the servers are."""
        return deployment
