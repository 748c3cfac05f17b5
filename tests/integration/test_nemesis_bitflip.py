"""Flipped bytes in the files of a real etcd: found in its log, unnoticed in its database.

Without its log's end a follower panics, because its leader counts on what it has lost; who led is
fed anew by the next leader.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from runs import (
    deployed,
    etcd,
    killed_in_mid_fault,
    landed_and_healed,
    not_proven,
    on_nodes,
    run_here,
    wait_for,
)

from clusters.systems.etcd.system import SYSTEM as ETCD
from dstest.core.evidence import LandingRecord
from dstest.core.node import LabInfo
from dstest.core.protocols import FaultPlan, NemesisContext
from nemeses.member.bitflip import NEMESIS, BitFlip

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
        await etcd(ctx).put_text("/dstest/bit-flip-spare", spare)
        await etcd(ctx).flip_in_store(name, spare, spare[:-1] + "y")


def test_bytes_that_nobody_reads(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(
        lab, tmp_path, nemesis=Unread(), options=(*OPTIONS, "what=store"), time_limit_s=24.0
    )
    assert "holds" in not_proven(done)["victim"]["detail"]


class AtAFollower(BitFlip):
    """Not the leader's log."""

    async def inject(self, ctx: NemesisContext, plan: FaultPlan) -> LandingRecord:
        leader = (await etcd(ctx).leaders())[0].leader
        chosen = next(n for n in ctx.nodes if n != leader)
        facts = {**plan.facts, "targets": [chosen], "scope": "given"}
        return await super().inject(ctx, msgspec.structs.replace(plan, facts=facts))


class AtTheLeader(BitFlip):
    """The leader's log."""

    scope = "primaries"


TAIL = (*OPTIONS, "what=tail")


@pytest.mark.parametrize("nemesis", [AtAFollower(), AtTheLeader()], ids=["follower", "leader"])
def test_the_end_of_a_log_is_cut_off(lab: LabInfo, tmp_path: Path, nemesis: BitFlip) -> None:
    done = run_here(lab, tmp_path, nemesis=nemesis, options=TAIL, time_limit_s=26.0)
    fault = landed_and_healed(done)
    (state,) = fault["facts"]["flipped"].values()
    assert state["end"] > state["at"]
    assert state["last"] > state["kept"] > 0
    (name,) = fault["targets"]
    assert fault["facts"]["starts"][name][0] == state["kept"]
    (back,) = fault["facts"]["put_back"].values()
    led = name == fault["facts"]["leader_before"]
    assert led is isinstance(nemesis, AtTheLeader)
    if led:
        assert not back["put_back"], "the next leader has fed it: it has acknowledged more since"
    else:
        assert any("out of range" in line for line in fault["facts"]["corruption_lines"][name])
        assert back["put_back"]
        assert back["sha256_now"] == back["sha256"]


class CutsNothingOff(BitFlip):
    """Only what is preallocated behind the log's end goes."""

    async def flip(self, ctx: NemesisContext, record: LandingRecord, name: str) -> None:
        await etcd(ctx).cut_log(name, 0.0, record.facts["value"])


def test_what_is_cut_off_held_nothing(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, nemesis=CutsNothingOff(), options=TAIL, time_limit_s=26.0)
    fault = not_proven(done)
    assert fault["landed"] == "no"
    assert "held nothing" in fault["injector"]["detail"]
    (state,) = fault["facts"]["flipped"].values()
    assert state["size_now"] != state["size"]


class OnlyRestarted(BitFlip):
    """Nothing is flipped."""

    async def flip(self, ctx: NemesisContext, record: LandingRecord, name: str) -> None:
        await etcd(ctx).bounce(name)


@pytest.mark.parametrize("what", ["log", "tail"])
def test_nothing_is_flipped(lab: LabInfo, tmp_path: Path, what: str) -> None:
    options = (*OPTIONS, f"what={what}")
    done = run_here(lab, tmp_path, nemesis=OnlyRestarted(), options=options, time_limit_s=26.0)
    assert not_proven(done)["landed"] == "no"


@pytest.mark.parametrize("what", ["log", "store", "tail"])
def test_kill_9_of_ours_in_mid_fault(lab: LabInfo, tmp_path: Path, what: str) -> None:
    async def all_right(deployment: Any) -> bool:
        names = [f"n{i}" for i in range(1, 6)]
        left = [await deployment.flipped(n) or await deployment.doomed(n) for n in names]
        values = await deployment.own_values()
        return len(set(values.values())) == 1 and None not in values.values() and not any(left)

    args = ("--nemesis", "bit-flip", "-o", "fault_s=30", "-o", f"what={what}")
    killed_in_mid_fault(lab, tmp_path, args, lambda: deployed(lab, all_right), 45)


def test_nobody_is_left_when_the_log_of_the_leader_is_cut(lab: LabInfo) -> None:
    """The lease replaces a member that has acknowledged more since its log was cut."""

    async def cut(nodes: dict[str, Any]) -> tuple[str, int]:
        deployment = ETCD.deploy(list(nodes.values()), {})
        await deployment.start()
        await deployment.make_history(2000)
        name = (await deployment.leaders())[0].leader
        assert name is not None
        member = await deployment.member_id(name)
        commands = [deployment.unflip_command(), *[deployment.rejoin_command(False)] * 3]
        await nodes[name].arm_lease("cut", commands, ttl_s=6.0)
        await deployment.cut_log(name, 0.5, "value")
        await deployment.wait_healthy([name])
        assert (await deployment.flipped(name))["member"] == str(member)
        return name, member

    name, member = on_nodes(lab, cut)

    async def replaced(deployment: Any) -> bool:
        left = await deployment.flipped(name) or await deployment.doomed(name)
        members = (await deployment.listed())[name] or {}
        new = len(members) == 5 and member not in members and name in dict(members.values())
        leases = await deployment.nodes[name].call("lease_list")
        ended = not left and not leases["firing"]
        return new and ended and all((await deployment.healthy()).values())

    wait_for("healing without us", lambda: deployed(lab, replaced), 45)
    values = deployed(lab, lambda deployment: deployment.own_values())
    assert set(values.values()) == {"value"}
    deployed(lab, lambda deployment: deployment.stop())
