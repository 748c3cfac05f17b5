"""Who serves, leads and talks to whom, as the system tells it, and only where it can be so."""

from __future__ import annotations

from dstest.core.answers import check_health, check_leaders, check_links
from dstest.core.protocols import Leadership, LeaderView, Linked, NemesisContext


async def health_of(ctx: NemesisContext) -> dict[str, bool]:
    """Which members do what their role promises."""
    return check_health(ctx.deployment, await ctx.deployment.healthy())


async def leaders_of(ctx: NemesisContext, led: Leadership) -> list[LeaderView]:
    """The views of all members that answer."""
    return check_leaders(ctx.deployment, await led.leaders())


def links_of(ctx: NemesisContext, linked: Linked) -> list[tuple[str, str]] | None:
    """The paths on which members talk by themselves, None for all."""
    return check_links(ctx.deployment, linked.links())
