"""Who leads, and did that change? For systems with and without epochs, of one group or several.

Leader and epoch (a raft term, a configuration epoch) come from the same views: those at the highest
epoch. A failover is proven by members that the fault left alone: at an epoch that has risen, or at
none where a system counts none, most of them name a new leader, or it claims to lead itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Any, Final

import msgspec

from dstest.core.evidence import LeadDetails
from dstest.core.protocols import Leadership, LeaderView, NemesisContext
from nemeses.observe.servers import leaders_of

POLL_S: Final = 0.1


class Lead(msgspec.Struct, frozen=True):
    """Who leads a group at the highest epoch that is told of it, as most members there have it."""

    leader: str | None = None
    epoch: int | None = None
    group: str = ""

    def facts(self) -> dict[str, Any]:
        """As a record has it before its fault."""
        found = {"leader_before": self.leader, "term_before": self.epoch}
        return {**found, "group": self.group} if self.group else found


def _newest(views: Sequence[LeaderView], group: str) -> tuple[list[LeaderView], int | None]:
    """(The views of this group at the highest epoch, that epoch); all where no epochs are told."""
    mine = [view for view in views if view.group == group]
    epoch = max((view.epoch for view in mine if view.epoch is not None), default=None)
    return [view for view in mine if view.epoch == epoch], epoch


def lead_of(views: Sequence[LeaderView], group: str) -> Lead:
    """What these views of a group come to; nobody leads where two claim to at one epoch."""
    newest, epoch = _newest(views, group)
    if len({view.member for view in newest if view.leader == view.member}) > 1:
        return Lead(None, epoch, group)
    named = [view.leader for view in newest if view.leader]
    leader = max(sorted(set(named)), key=named.count) if named else None
    return Lead(leader, epoch, group)


def _draw_group(views: Sequence[LeaderView], seed: int) -> str:
    """The group that a fault is about: of several, the seed decides."""
    groups = sorted({view.group for view in views}) or [""]
    return groups[seed % len(groups)]


async def lead(ctx: NemesisContext, group: str | None = None, *, seed: int = 0) -> Lead:
    """Who leads `group`, or the one that `seed` draws; nobody where the system has no leaders."""
    led = ctx.offered(Leadership)
    if led is None:
        return Lead()
    views = await leaders_of(ctx, led)
    return lead_of(views, _draw_group(views, seed) if group is None else group)


async def leading(ctx: NemesisContext) -> set[str]:
    """Who leads any group."""
    views = await leaders_of(ctx, ctx.need(Leadership))
    found = {lead_of(views, group).leader for group in {view.group for view in views}}
    return {name for name in found if name is not None}


async def lead_when_known(ctx: NemesisContext, *, wanted: bool = True, seed: int = 0) -> Lead:
    """As `lead`; where a leader is `wanted`, wait until two looks in a row find the same one.

    Nobody leads where none was found in the time that a failover takes: a leader that changes
    without a fault proves nothing by changing under one.
    """
    found = await lead(ctx, seed=seed)
    if not wanted or ctx.offered(Leadership) is None:
        return found
    deadline_ns = ctx.clock.now_ns() + int(ctx.deployment.timing.failover_s * 1e9)
    while ctx.clock.now_ns() < deadline_ns:
        await asyncio.sleep(POLL_S)
        earlier, found = found, await lead(ctx, seed=seed)
        if found.leader and found == earlier:
            return found
    return msgspec.structs.replace(found, leader=None)


def moved_to(
    before: Lead, views: Sequence[LeaderView], voting: Collection[str], away: Collection[str]
) -> Lead | None:
    """The lead that the group has moved to since `before`, None where it has not.

    `away` are the members that the fault has cut off or hit: what they say does not count, and none
    of them is a new leader. Who led before and was not hit may lead
    again at a higher epoch.
    """
    if before.leader is None and before.epoch is None:
        return None
    others, epoch = _newest([v for v in views if v.member not in away], before.group)
    if before.epoch is not None and (epoch is None or epoch <= before.epoch):
        return None
    old = {*away, before.leader} if before.epoch is None else {*away}
    left = set(voting) - {*away}
    for name in sorted({v.leader for v in others if v.leader} - old):
        naming = {v.member for v in others if v.leader == name}
        if name in naming or 2 * len(naming & left) > len(left):
            return Lead(name, epoch, before.group)
    return None


def voters(ctx: NemesisContext) -> list[str]:
    """The members that count for a majority."""
    members = ctx.deployment.members
    return [name for name in ctx.nodes if members[name].votes]


async def new_lead(ctx: NemesisContext, lead: LeadDetails, away: Collection[str]) -> dict[str, Any]:
    """What a record says of the new leader; {} where the lead is as it was before."""
    before = Lead(lead.leader_before, lead.term_before, lead.group)
    found = moved_to(before, await leaders_of(ctx, ctx.need(Leadership)), voters(ctx), away)
    return {} if found is None else {"new_term": found.epoch, "new_leader": found.leader}


def no_failover(lead: LeadDetails) -> str:
    """What speaks against a failover that `new_lead` has not found."""
    if lead.term_before is not None:
        return f"no new term after {lead.term_before}"
    return f"nobody else leads than {lead.leader_before}"


def agreement(views: Sequence[LeaderView], members: Collection[str]) -> list[str]:
    """What is missing for all members to follow one leader in each group; nothing: they do.

    Members of a system that names no leader to its followers (`tells` is false) need not name one.
    """
    silent = [name for name in members if name not in {view.member for view in views}]
    missing = [f"no view of the leader from {', '.join(silent)}"] if silent else []
    for group in sorted({view.group for view in views}):
        mine = [view for view in views if view.group == group]
        named = {(view.leader, view.epoch) for view in mine if view.leader or view.tells}
        of = f" of {group}" if group else ""
        if len(named) > 1 or any(leader is None for leader, _ in named):
            missing.append(f"members disagree on leader and term{of}: {sorted(map(str, named))}")
        elif not named:
            missing.append(f"nobody leads{of}")
        elif not any(view.leader == view.member for view in mine):
            missing.append(f"nobody takes itself for the leader{of}")
    return missing
