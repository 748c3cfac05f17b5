"""Drive the fault schedule: inject when due, look again in mid-window and at its end, heal.

Faults that are due at the same time stand together: injected one after the other, each once the one
before has landed, and the network is healed first. The next ones wait until the cluster has
recovered from those before: a fault on a system that is down proves nothing. Every stage is
journalled, so that a run which dies at any moment can still say what was injected.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from itertools import groupby
from typing import Final

import msgspec

from dstest.core import limits
from dstest.core.answers import check_record
from dstest.core.errors import HarnessError
from dstest.core.evidence import LandingRecord, contradiction
from dstest.core.processes import quit_by
from dstest.core.protocols import (
    FaultPlan,
    Foresees,
    Nemesis,
    NemesisContext,
)
from dstest.core.recordable import legible, not_json
from dstest.runner.epochs import Journal
from dstest.runner.stand_watch import Ticker
from nemeses.base import moment
from nemeses.base.driver import demote, with_facts

_LOOK_S: Final = 0.2
_TEARDOWN_S: Final = 20.0
_AHEAD_NS: Final = 1_000_000_000
_FORESEE_S: Final = 5.0
_STEP_S: Final = 120.0
"""A nemesis gets this long for a step, and besides what the system takes for each of its members to
be restarted, to rejoin and to elect, in turn: then it does not come back."""
_PATIENCE_S: Final = 15.0
"""A cluster that has not recovered by then gets its next fault all the same."""


class NemesisLoop:
    """`records` holds the newest record of each fault; `standing` those not healed yet, in the
    order of their healing; `healing` names the one that is about to be healed. `ready` says whether
    the cluster has recovered; `before` is called with the id of each fault before it is injected.
    """

    def __init__(
        self,
        nemesis: Nemesis,
        ctx: NemesisContext,
        journal: Journal,
        tell: Callable[[str], None],
        ready: Callable[[], bool] = lambda: True,
        before: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self._nemesis = nemesis
        self._ctx = ctx
        self._journal = journal
        self._tell = tell
        self._ready = ready
        self._before = before
        self.records: dict[str, LandingRecord] = {}
        self.standing: dict[str, LandingRecord] = {}
        self.ticker = Ticker(nemesis, ctx)
        self.healing: str | None = None
        self._ranks: dict[str, int] = {}
        self._unproven: dict[str, str] = {}

    def _keep(self, record: LandingRecord) -> LandingRecord:
        self.records[record.fault_id] = record
        self._journal.fault(record)
        return record

    def _stand(self, record: LandingRecord) -> LandingRecord:
        self.standing[record.fault_id] = self._keep(record)
        return record

    async def run(self, plans: list[FaultPlan]) -> None:
        """All planned faults. Raises LabError where a node is lost."""
        if plans:
            await self._foresee(plans[0].start_ns - _AHEAD_NS)
        for start_ns, group in groupby(plans, key=lambda plan: plan.start_ns):
            await self._ctx.clock.until(start_ns)
            if self.records:
                await self._recovered()
            await self._together(list(group))

    async def _foresee(self, at_ns: int) -> None:
        """Say under load, before the first fault, what will keep faults from being proven."""
        if isinstance(self._nemesis, Foresees):
            await self._ctx.clock.until(at_ns)
            with contextlib.suppress(Exception, SystemExit):  # it only says something
                async with asyncio.timeout(_FORESEE_S):
                    if said := await self._nemesis.foresee(self._ctx):
                        self._tell(said)

    async def _recovered(self) -> None:
        wait_s = max(_PATIENCE_S, self._ctx.deployment.timing.rejoin_s)
        patience_ns = self._ctx.clock.now_ns() + int(wait_s * 1e9)
        for at_ns in range(self._ctx.clock.now_ns(), patience_ns, int(_LOOK_S * 1e9)):
            if self._ready():
                return
            await self._ctx.clock.until(at_ns)

    async def _together(self, plans: list[FaultPlan]) -> None:
        end_ns = half_ns = 0
        for plan in plans:
            self._ranks[plan.fault_id] = plan.heal_rank
            record = await self._inject(plan)
            if record.injected_at is not None:
                # A fault that took long to land still stands for half its time afterwards.
                half_ns = plan.duration_ns // 2
                landed_ns = record.landed_at or record.injected_at
                end_ns = max(end_ns, record.injected_at + plan.duration_ns, landed_ns + half_ns)
        if end_ns:
            for look_ns in (end_ns - half_ns, end_ns):
                await self.ticker.until(look_ns, self.standing)
                for record in list(self.standing.values()):
                    if record.injected_at is not None:
                        look = self._nemesis.recheck(self._ctx, record)
                        again = self._stand(await self._in_time(record.fault_id, "recheck", look))
                        if again.landed != record.landed:
                            self._tell(
                                f"{record.fault_id}: looked at again, landed {again.landed};"
                                f" {describe(again)}"
                            )
        for record in list(self.standing.values()):
            self._stand(self._for_its_window(record))
        await self.heal()

    def _for_its_window(self, record: LandingRecord) -> LandingRecord:
        """The record with the share of its window in which the fault stood; one that did not stand
        for nearly all of it is in doubt, whatever the looks have found."""
        stood = self.ticker.watch.stood(record.fault_id)
        if stood is None or not (stood.watched_s or stood.failed):
            return record
        record = with_facts(record, {"stood": {**msgspec.to_builtins(stood), "share": stood.share}})
        if stood.share >= limits.STOOD_MIN:
            return record
        why = (
            f"it stood without a break for {stood.share:.0%} of the {stood.watched_s:.1f} s in "
            f"which it was watched ({stood.looks} looks): it was taken away and put back on "
            f"{', '.join(stood.away)}"
        )
        self._tell(f"{record.fault_id}: {why}")
        return demote(record, why)

    async def _inject(self, plan: FaultPlan) -> LandingRecord:
        self._tell(f"{plan.fault_id}: injecting {_facts(plan)}")
        if self._before is not None:
            await self._before(plan.fault_id)
        self.standing[plan.fault_id] = self._stub(plan)
        ctx = msgspec.structs.replace(self._ctx, trigger=moment.moment_of(self._ctx, plan))
        injected = self._nemesis.inject(ctx, plan)
        record = self._stand(await self._in_time(plan.fault_id, "inject", injected))
        self._tell(f"{plan.fault_id}: landed {record.landed} so far; {describe(record)}")
        return record

    async def _in_time(
        self, fault_id: str, step: str, record: Awaitable[LandingRecord]
    ) -> LandingRecord:
        timing, members = self._ctx.deployment.timing, len(self._ctx.nodes)
        limit_s = _STEP_S + members * (timing.restart_s + timing.rejoin_s + timing.failover_s)
        try:
            async with asyncio.timeout(limit_s):
                answer = await record
        except SystemExit as end:
            raise quit_by(end) from end
        except TimeoutError:
            raise HarnessError(
                f"{fault_id}: {step}() of {self._nemesis.name} did not come back in {limit_s:g} s"
            ) from None
        return self._looked_at(step, check_record(self._nemesis, step, answer, fault_id))

    def _looked_at(self, step: str, record: LandingRecord) -> LandingRecord:
        """The record; a fault that gave a figure which is none is not proven, whatever comes."""
        if odd := not_json(record):
            why = f"{step}() of {record.nemesis} gave {odd}, which proves nothing"
            self._unproven.setdefault(record.fault_id, why)
            record = msgspec.convert(legible(msgspec.to_builtins(record)), LandingRecord)
        if record.landed == "yes" and (wrong := contradiction(record)):
            why = f"{step}() of {record.nemesis} gave a record that contradicts itself: {wrong}"
            self._unproven.setdefault(record.fault_id, why)
        if note := self._unproven.get(record.fault_id):
            notes = record.notes if note in record.notes else [*record.notes, note]
            record = msgspec.structs.replace(record, landed="no", notes=notes)
        return record

    def _stub(self, plan: FaultPlan) -> LandingRecord:
        return LandingRecord(
            fault_id=plan.fault_id,
            nemesis=plan.nemesis,
            targets=[],
            scheduled_at=plan.start_ns,
            epoch=plan.fault_id,
            facts={**plan.facts, "rechecks": []},
            notes=["interrupted while it was being injected"],
        )

    async def heal(self) -> None:
        """Heal what stands; the first failure is raised once every heal was tried."""
        failure: BaseException | None = None
        for fault_id in sorted(self.standing, key=lambda name: self._ranks.get(name, 0)):
            try:
                await self._heal(self.standing[fault_id])
            except (Exception, SystemExit) as error:
                failure = failure or error
        if failure is not None:
            raise failure

    async def _heal(self, record: LandingRecord) -> None:
        opened, self.healing = self._ctx.epochs.opened, record.fault_id
        if record.injected_at is None and opened and opened.fault_id == record.fault_id:
            # Interrupted in mid-injection: the epoch's own record knows what was about to be done.
            record = self.standing[record.fault_id] = self._looked_at("inject", opened)
        healed = self._nemesis.heal(self._ctx, record)
        record = self._keep(await self._in_time(record.fault_id, "heal", healed))
        del self.standing[record.fault_id]
        self.healing = None
        state = "heal proven" if record.heal_verified else "HEAL NOT PROVEN"
        if record.injected_at is None and record.heal_verified:
            state = "never injected, nothing to heal"
        self._tell(f"{record.fault_id}: {state}")

    async def finish(self) -> list[str]:
        """After the load, whatever happened: heal, remove everything. Returns what went wrong."""
        problems: list[str] = []
        timing = self._ctx.deployment.timing
        heal_s = (timing.restart_s + timing.rejoin_s) * max(1, len(self.standing))
        steps = ((self.heal, heal_s), (lambda: self._nemesis.teardown(self._ctx), _TEARDOWN_S))
        for step, wait_s in steps:
            try:
                async with asyncio.timeout(wait_s):
                    await step()
            except (Exception, SystemExit) as error:
                problems.append(f"{type(error).__name__}: {error}")
        for record in self.standing.values():
            note = "its heal failed; the node's own lease heals it"
            self._keep(msgspec.structs.replace(record, notes=[*record.notes, note]))
        return problems

    async def audit(self) -> dict[str, list[str]]:
        """Leaks per node; an audit that cannot be made is a leak as well."""
        try:
            async with asyncio.timeout(_TEARDOWN_S):
                found = await self._nemesis.audit(self._ctx)
                return msgspec.convert(found, dict[str, list[str]])
        except (Exception, SystemExit) as error:
            return {"cluster": [f"leak audit failed: {type(error).__name__}: {error}"]}


def _facts(plan: FaultPlan) -> str:
    shown = {k: v for k, v in plan.facts.items() if k not in ("seed",) and v not in (False, [], "")}
    return f"{plan.nemesis} " + " ".join(f"{k}={v}" for k, v in shown.items())


def describe(record: LandingRecord) -> str:
    """The numbers of a landing, in a few words."""
    if record.injector is None or record.victim is None:
        return "; ".join(record.notes) or "nothing was injected"
    control = record.control.detail if record.control else "none"
    signals = f"{record.injector.detail}; {record.victim.detail}; control: {control}"
    return "; ".join([*(record.notes if record.landed == "no" else ()), signals])
