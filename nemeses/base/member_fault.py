"""The common part of faults that reach into the system itself: what they need, what they prove.

A nemesis of this kind requires capabilities of a deployment (`dstest.core.protocols`,
`administration`) and gives its own three signals; whom it hits and the proof of the heal are those
of `process_fault.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

from dstest.core.evidence import FaultDetails, LandingRecord, Signal
from dstest.core.protocols import NemesisContext, Option
from nemeses.base.process_evidence import all_ok, with_clients
from nemeses.base.process_fault import ProcessFault
from nemeses.base.schedule import WINDOW_OPTIONS
from nemeses.observe.processes import replacements, running

WITHOUT_TARGETS: Final[Mapping[str, Option]] = {
    k: v for k, v in WINDOW_OPTIONS.items() if k != "targets"
}
"""Options of a fault that chooses its targets by what it is."""

RESTART_S: Final = 20.0
"""A server that was started serves by then; one that led waits for an election first."""

ASK_TRIES: Final = 3


class MemberFault(ProcessFault):
    """Servers go on, or start again; `observe` says what they show."""

    scope: ClassVar[str] = "one"
    options: Mapping[str, Option] = WINDOW_OPTIONS

    def plan_options(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Options that it does not declare are meant for others."""
        own = {"scope": self.scope, "targets": ""}
        return {**options, **{k: v for k, v in own.items() if k not in self.options}}

    def patience_s(self, record: LandingRecord) -> float:
        return RESTART_S


async def patiently(
    ask: Callable[[], Awaitable[dict[str, Any]]], unresponsive: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """What `ask` finds. It asks up to three times while somebody is `unresponsive`: a machine may
    be busy."""
    found = await ask()
    for _ in range(ASK_TRIES - 1):
        if not unresponsive(found):
            break
        found = await ask()
    return found


def signal(
    name: str,
    before: Mapping[str, Any],
    during: Mapping[str, Any],
    problems: Sequence[str],
    good: str,
) -> Signal:
    """A signal that moved unless something speaks against it."""
    return Signal(
        signal=name,
        before=dict(before),
        during=dict(during),
        moved=bool(during) and not problems,
        detail="; ".join(problems) or good,
    )


async def bystanders(ctx: NemesisContext, record: LandingRecord, hit: Sequence[str] = ()) -> Signal:
    """Control: the other servers are the processes they were, and clients of them are answered.

    `hit` are reasons of the nemesis's own to say that others were hit as well.
    """
    processes, now = await running(ctx), ctx.traffic.by_node()
    before = FaultDetails.of(record).traffic_at_inject
    others = [n for n in ctx.nodes if n not in record.targets]
    problems = [f"{n} has another process" for n in replacements(record, processes, others)]
    own = with_clients(ctx, record)
    answered = {n: all_ok(now[n]) - all_ok(before[n]) for n in others if n in own}
    problems += [f"clients of {n} are not answered" for n, k in answered.items() if not k]
    problems += hit
    return Signal(
        signal="answers to clients of the other servers",
        before=dict.fromkeys(others, 0),
        during=answered,
        moved=bool(problems),
        detail="; ".join(problems) or ("untouched" if others else "no server was left out"),
    )
