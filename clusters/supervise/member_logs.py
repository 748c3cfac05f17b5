"""`MemberLogs`: the logs of a system's services, on the members that have the service."""

from __future__ import annotations

import base64
from typing import Final

from clusters.supervise.member_set import MemberSet
from dstest.core.errors import LabError
from dstest.core.protocols import LogFiles, ServerLogs

LOG_BYTES_MAX: Final = 1 << 20


class MemberLogs(MemberSet, ServerLogs, LogFiles):
    """Each service writes one log."""

    async def log_sizes(self, service: str = "") -> dict[str, int]:
        """Bytes of a service's log on each member that has it; of the first service without a
        name."""
        rows = await self.each(
            self.members_with(service),
            lambda node: node.call("stat", path=self.service_of(node.name, service).log),
        )
        return {name: int(row.get("size", 0)) for name, row in rows.items()}

    async def log_since(self, name: str, offset: int, service: str = "") -> str:
        """What a service has logged since, up to a mebibyte."""
        path = self.service_of(name, service).log
        try:
            grown = await self.nodes[name].call(
                "read", path=path, offset=offset, bytes_max=LOG_BYTES_MAX
            )
        except LabError:
            return ""
        return base64.b64decode(grown["data"]).decode("utf-8", "replace")

    def log_files(self) -> dict[str, list[str]]:
        """Per member the logs of its services."""
        return {
            name: list(dict.fromkeys(service.log for service in member.services))
            for name, member in self.members.items()
        }

    async def log_tail(self, name: str, log: str) -> str:
        """The end of a log."""
        return (await self.nodes[name].get(log, bytes_max=600)).decode("utf-8", "replace")
