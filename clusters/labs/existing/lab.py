"""The `hosts` lab: machines that exist already and that somebody has adopted.

dstest lab adopt nodes.toml --lab-id staging
dstest run --lab hosts --lab-id staging
dstest lab release --lab-id staging
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clusters.labs import state
from clusters.labs.existing import book
from clusters.labs.existing.book import Adopted
from dstest.core.errors import ConfigError
from dstest.core.node import LabInfo

UNTOUCHED = "its adoption was cut off before it touched a machine: dstest lab release --lab-id {0}"
HALF_ADOPTED = (
    "its adoption did not come to an end, so that not all machines are marked:"
    " dstest lab release --lab-id {0} takes back what was marked, then adopt them again"
)
HALF_RELEASED = (
    "its release did not come to an end, so that not all machines are marked any more:"
    " dstest lab release --lab-id {0} goes on, with --forget it gives up on those that are left;"
    " then adopt them again"
)


class HostsLab:
    """Implements `dstest.core.node.Lab` and `Inspects`. It makes nothing and removes nothing."""

    name = "hosts"
    doc = "machines of your own that `dstest lab adopt` has looked at and marked"

    def up(
        self,
        lab_id: str,
        nodes: int,
        *,
        packages: Sequence[str],
        progress: Any = None,
        persistent: bool = False,
    ) -> LabInfo:
        """The adopted machines, all of them. Raises ConfigError where there are none."""
        info = self.status(lab_id)
        if lacks := self.examine(lab_id):
            raise ConfigError(
                f"lab {lab_id} cannot be used: {lacks[0]}",
                remedy=f"dstest lab release --lab-id {lab_id}",
            )
        if info is None:
            there = ", ".join(self.list()) or "none"
            raise ConfigError(
                f"no machines are adopted as lab {lab_id}",
                remedy=f"dstest lab adopt FILE --lab-id {lab_id}; adopted: {there}",
            )
        return info

    def down(self, lab_id: str) -> list[str]:
        """Machines of the user's are not removed: raises ConfigError where they are adopted."""
        if book.load(lab_id) is None:
            return []
        raise ConfigError(
            f"lab {lab_id} is made of machines of yours, which are not taken down",
            remedy=f"`dstest lab release --lab-id {lab_id}` takes our marks away",
        )

    def status(self, lab_id: str) -> LabInfo | None:
        """See `Lab.status`; whether the machines run shows when they are connected to."""
        adopted = book.load(lab_id)
        return self._info(adopted) if adopted is not None and adopted.whole else None

    def known(self, lab_id: str) -> LabInfo | None:
        """See `Inspects.known`."""
        adopted = book.load(lab_id)
        return None if adopted is None else self._info(adopted)

    def examine(self, lab_id: str) -> list[str]:
        """See `Inspects.examine`."""
        adopted = book.load(lab_id)
        if adopted is None:
            what = UNTOUCHED if lab_id in self.list() else ""
        elif adopted.releasing:
            what = HALF_RELEASED
        else:
            what = "" if adopted.marked else HALF_ADOPTED
        return [what.format(lab_id)] if what else []

    def users(self, lab_id: str) -> list[int]:
        """See `Inspects.users`: nobody owns them."""
        return []

    def starting(self, lab_id: str) -> bool:
        """See `Inspects.starting`."""
        return False

    def list(self) -> list[str]:
        """See `Lab.list`."""
        return state.adopted_ids()

    def missing(self) -> Mapping[str, str]:
        """See `Lab.missing`: this host needs nothing."""
        return {}

    def _info(self, adopted: Adopted) -> LabInfo:
        return LabInfo(
            lab_id=state.check_lab_id(adopted.lab_id),
            kind=self.name,
            nodes=adopted.nodes,
            control=adopted.control,
            control6=adopted.control6,
            ssh_from=adopted.ssh_from,
            adopted=adopted.foreign,
            facts=adopted.facts,
        )


LAB = HostsLab()
