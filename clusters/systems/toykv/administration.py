"""What members of toykv are asked, and how one is removed: on nodes and simulated alike."""

from __future__ import annotations

import abc
import asyncio
from collections.abc import Mapping
from typing import Any, Final

from dstest.core.errors import LabError
from dstest.core.protocols import LeaderView

__all__ = ["Administration"]

REMOVAL_TRIES: Final = 40
AGAIN_S: Final = 0.2


class Administration(abc.ABC):
    """Base of those who can ask members, and end their servers."""

    members: Any
    """name -> `Member`."""

    last_errors: dict[str, str]
    """Of members that did not answer when last asked: why not."""

    @abc.abstractmethod
    async def asked(self, name: str, op: str, **given: Any) -> Any:
        """What a member answers; None of one that refuses, is late or is not there."""

    @abc.abstractmethod
    async def remember(self, name: str, member: int) -> None:
        """That the member of this name and id is to go, where its own host finds it."""

    @abc.abstractmethod
    async def end(self, name: str) -> None:
        """End a member's server and wipe its data."""

    async def statuses(self) -> dict[str, Any]:
        """What each says of itself; None of one that does not answer."""
        names = list(self.members)
        found = await asyncio.gather(*(self.asked(name, "status") for name in names))
        return dict(zip(names, found, strict=True))

    async def leaders(self) -> list[LeaderView]:
        """The view of each member that answers."""
        status = {name: said for name, said in (await self.statuses()).items() if said}
        names = {m[0]: m[1] for said in status.values() for m in said["members"]}
        return [
            LeaderView(member=n, leader=names.get(said["leader"]), epoch=said["term"])
            for n, said in status.items()
        ]

    async def claims(self, name: str, group: str) -> bool:
        """Does this member say that it leads?"""
        said = await self.asked(name, "status")
        return bool(said and said["leads"])

    async def listed(self) -> dict[str, dict[int, tuple[str, bool]] | None]:
        """Who is a member, as each one has it."""
        return {
            n: {m[0]: (m[1], not m[3]) for m in said["members"]} if said else None
            for n, said in (await self.statuses()).items()
        }

    async def doom(self, name: str) -> int:
        """From now on `rejoin` replaces this member, whose id is returned, by a new one."""
        for other, listed in (await self.listed()).items():
            for member, (known, _) in (listed or {}).items():
                if known == name and other != name:
                    await self.remember(name, member)
                    return member
        raise LabError(f"{name} is not a member")

    async def expel(self, name: str) -> None:
        """Remove a member, end its server, wipe its data."""
        member = await self.doom(name)
        others = [n for n in self.members if n != name]
        for _ in range(REMOVAL_TRIES):
            await self.asked(others[0], "remove", value=member)
            if _gone(await self.listed(), member, others):
                await self.end(name)
                return
            others = [*others[1:], others[0]]
            await asyncio.sleep(AGAIN_S)
        raise LabError(f"{name} stays a member: {self.last_errors}")


def _gone(
    listed: Mapping[str, Mapping[int, tuple[str, bool]] | None], member: int, others: list[str]
) -> bool:
    """Does each of the others list members, and not this one?"""
    return all(listed[n] and member not in (listed[n] or ()) for n in others)
