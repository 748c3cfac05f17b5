"""Drive the fault schedule: inject when due, look again in mid-window and at its end, heal.

Every stage is journalled, so that a run which dies at any moment can still say what was injected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from dstest.core.errors import DstestError
from dstest.core.evidence import LandingRecord
from dstest.core.protocols import FaultPlan, Nemesis, NemesisContext
from dstest.runner.epochs import Journal

__all__ = ["NemesisLoop", "describe"]


class NemesisLoop:
    """`records` holds the newest record of each fault; `standing` the one not healed yet."""

    def __init__(
        self,
        nemesis: Nemesis,
        ctx: NemesisContext,
        journal: Journal,
        tell: Callable[[str], None],
    ) -> None:
        self._nemesis = nemesis
        self._ctx = ctx
        self._journal = journal
        self._tell = tell
        self.records: dict[str, LandingRecord] = {}
        self.standing: LandingRecord | None = None

    def _keep(self, record: LandingRecord) -> LandingRecord:
        self.records[record.fault_id] = record
        self._journal.fault(record)
        return record

    async def run(self, plans: list[FaultPlan]) -> None:
        """All planned faults, one after the other. Raises LabError where a node is lost."""
        for plan in plans:
            await self._ctx.clock.until(plan.start_ns)
            await self._one(plan)

    async def _one(self, plan: FaultPlan) -> None:
        self._tell(f"{plan.fault_id}: injecting {_facts(plan)}")
        self.standing = self._stub(plan)
        record = self._keep(await self._nemesis.inject(self._ctx, plan))
        self.standing = record
        self._tell(f"{plan.fault_id}: landed {record.landed}; {describe(record)}")
        if record.injected_at is not None:
            # A fault that took long to land still stands for half its time afterwards.
            landed_ns = record.landed_at or record.injected_at
            half_ns = plan.duration_ns // 2
            end_ns = max(record.injected_at + plan.duration_ns, landed_ns + half_ns)
            for look_ns in (end_ns - half_ns, end_ns):
                await self._ctx.clock.until(look_ns)
                record = self._keep(await self._nemesis.recheck(self._ctx, record))
                self.standing = record
        await self.heal()

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
        """Heal the standing fault, if any."""
        record = self.standing
        if record is None:
            return
        opened = self._ctx.epochs.opened
        if record.injected_at is None and opened and opened.fault_id == record.fault_id:
            # Interrupted in mid-injection: the epoch's own record knows what was about to be done.
            record = opened
        record = self._keep(await self._nemesis.heal(self._ctx, record))
        self.standing = None
        state = "heal proven" if record.heal_verified else "HEAL NOT PROVEN"
        self._tell(f"{record.fault_id}: {state}")

    async def finish(self) -> list[str]:
        """After the load, whatever happened: heal, remove everything. Returns what went wrong."""
        problems: list[str] = []
        for step in (self.heal, lambda: self._nemesis.teardown(self._ctx)):
            try:
                async with asyncio.timeout(20.0):
                    await step()
            except (DstestError, TimeoutError, OSError) as error:
                problems.append(f"{type(error).__name__}: {error}")
        if self.standing is not None:
            note = "its heal failed; the node's own lease heals it"
            self._keep(msgspec.structs.replace(self.standing, notes=[*self.standing.notes, note]))
        return problems

    async def audit(self) -> dict[str, list[str]]:
        """Leaks per node; an audit that cannot be made is a leak as well."""
        try:
            async with asyncio.timeout(20.0):
                return await self._nemesis.audit(self._ctx)
        except (DstestError, TimeoutError, OSError) as error:
            return {"cluster": [f"leak audit failed: {error}"]}


def _facts(plan: FaultPlan) -> str:
    shown = {k: v for k, v in plan.facts.items() if k not in ("seed",) and v not in (False, [], "")}
    return f"{plan.nemesis} " + " ".join(f"{k}={v}" for k, v in shown.items())


def describe(record: LandingRecord) -> str:
    """The numbers of a landing, in a few words."""
    if record.injector is None or record.victim is None:
        return "; ".join(record.notes) or "nothing was injected"
    told = record.injector.detail
    if record.injector.signal.startswith("nft packets dropped"):
        packets = sum(v for v in record.injector.during.values() if isinstance(v, int))
        told = f"{packets} packets dropped by {len(record.injector.during)} rules ({told})"
    control = record.control.detail if record.control else "none"
    return f"{told}; {record.victim.detail}; control: {control}"
