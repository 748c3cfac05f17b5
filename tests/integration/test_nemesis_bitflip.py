"""Flipped bytes in the files of a real etcd: found in its log, unnoticed in its database."""

from __future__ import annotations

from pathlib import Path

import pytest
from runs import deployed, killed_in_mid_fault, landed_and_healed, not_proven, run_here

from dstest.core.evidence import LandingRecord
from dstest.core.node import LabInfo
from dstest.core.protocols import NemesisContext
from nemeses.bitflip import NEMESIS, BitFlip

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]

OPTIONS = ("fault_s=4", "quiet_s=8")


@pytest.mark.parametrize("what", ["log", "store"])
def test_it_lands_and_heals(lab: LabInfo, tmp_path: Path, what: str) -> None:
    options = (*OPTIONS, f"what={what}")
    done = run_here(lab, tmp_path, nemesis=NEMESIS, options=options, time_limit_s=24.0)
    fault = landed_and_healed(done)
    (state,) = fault["facts"]["flipped"].values()
    assert state["what"] == what
    (back,) = fault["facts"]["put_back"].values()
    if what == "log":  # in the store, pages have moved meanwhile
        assert back["sha256_now"] == back["sha256"]
        assert [row["now"] for row in back["bytes"]] == [row["old"] for row in back["bytes"]]


class Unread(BitFlip):
    """Flips a value that the server has replaced in its log, not in the place that it reads."""

    async def flip(self, ctx: NemesisContext, record: LandingRecord, name: str) -> None:
        spare = f"{record.facts['value']}x"
        await ctx.deployment.write_value("/dstest/bit-flip-spare", spare)
        await ctx.deployment.flip_in_store(name, spare, spare[:-1] + "y")


def test_bytes_that_nobody_reads(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(
        lab, tmp_path, nemesis=Unread(), options=(*OPTIONS, "what=store"), time_limit_s=24.0
    )
    assert "holds" in not_proven(done)["victim"]["detail"]


class OnlyRestarted(BitFlip):
    """Nothing is flipped."""

    async def flip(self, ctx: NemesisContext, record: LandingRecord, name: str) -> None:
        await ctx.deployment.bounce(name)


def test_nothing_is_flipped(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, nemesis=OnlyRestarted(), options=OPTIONS, time_limit_s=24.0)
    assert not_proven(done)["landed"] == "no"


@pytest.mark.parametrize("what", ["log", "store"])
def test_kill_9_of_ours_in_mid_fault(lab: LabInfo, tmp_path: Path, what: str) -> None:
    async def all_right(deployment: object) -> bool:
        values = await deployment.own_values("/dstest/bit-flip")  # type: ignore[attr-defined]
        return len(set(values.values())) == 1 and None not in values.values()

    args = ("--nemesis", "bit-flip", "-o", "fault_s=30", "-o", f"what={what}")
    killed_in_mid_fault(lab, tmp_path, args, lambda: deployed(lab, all_right), 30)
