"""`none`: no fault at all. A run with it can be a smoke pass and nothing better."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from dstest.core.errors import FaultRefused
from dstest.core.evidence import LandingRecord
from dstest.core.protocols import FaultPlan, Nemesis, NemesisContext, Option


class NoNemesis(Nemesis):
    """Plans nothing."""

    name = "none"
    doc = "no fault"
    faults: tuple[str, ...] = ()
    requires: tuple[type, ...] = ()
    injects = False
    options: Mapping[str, Option] = {}

    def plan(
        self,
        rng: random.Random,
        nodes: Sequence[str],
        time_limit_s: float,
        options: Mapping[str, Any],
    ) -> list[FaultPlan]:
        return []

    async def setup(self, ctx: NemesisContext) -> None:
        return None

    async def inject(self, ctx: NemesisContext, plan: FaultPlan) -> LandingRecord:
        raise FaultRefused(
            "the nemesis `none` injects nothing",
            remedy="another --nemesis: `dstest nemeses` lists them",
        )

    async def recheck(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        return record

    async def heal(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        return record

    async def teardown(self, ctx: NemesisContext) -> None:
        return None

    async def audit(self, ctx: NemesisContext) -> dict[str, list[str]]:
        return {}


NEMESIS = NoNemesis()
