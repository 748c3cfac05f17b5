"""Nodes of a real etcd that can open no connection to one another, while datagrams still arrive."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from runs import (
    deployed,
    fault_tables,
    killed_in_mid_fault,
    landed_and_healed,
    not_proven,
    run_here,
)

from dstest.core.evidence import LandingRecord
from dstest.core.node import LabInfo
from dstest.core.protocols import NemesisContext
from nemeses.network.new_connections import NEMESIS, Openings
from nemeses.tools import nft

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]

OPTIONS = ("fault_s=6", "quiet_s=8")
BOTH = (*OPTIONS, "shape=halves", "direction=both")


@pytest.mark.parametrize(
    ("shape", "direction", "action"), [("halves", "both", "drop"), ("one", "in", "reject")]
)
def test_none_can_be_opened(
    lab: LabInfo, tmp_path: Path, shape: str, direction: str, action: str
) -> None:
    options = (*OPTIONS, f"shape={shape}", f"direction={direction}", f"action={action}")
    fault = landed_and_healed(run_here(lab, tmp_path, nemesis=NEMESIS, options=options))
    cuts = fault["facts"]["cuts"]
    for path, (opened4, opened6, arrived4, arrived6) in fault["control"]["during"].items():
        assert (opened4, opened6) == ((0, 0) if path in cuts else (1, 1)), path
        assert min(arrived4, arrived6) > 0, path
    assert all(pair[:2] == [1, 1] for pair in fault["victim"]["after"].values())
    assert sum(fault["facts"]["stood"]["reset"].values()) > 0


def test_standing_connections_go_on(lab: LabInfo, tmp_path: Path) -> None:
    """etcd opens a connection to each peer every few seconds, to see whether it can."""
    done = run_here(lab, tmp_path, nemesis=NEMESIS, options=(*BOTH, "reset=false"))
    fault = landed_and_healed(done)
    assert not any(fault["facts"]["stood"]["reset"].values())
    assert all(fault["facts"]["stood"]["kept"].values()), "each path still carries something"


def test_rules_in_the_wrong_chain(lab: LabInfo, tmp_path: Path) -> None:
    fault = not_proven(run_here(lab, tmp_path, nemesis=Openings(hook="forward"), options=BOTH))
    assert fault["landed"] == "no"


class NothingArrives(Openings):
    """Cuts all packets: a partition, not this fault."""

    def rules(
        self, ctx: NemesisContext, record: LandingRecord, name: str, sources: Sequence[str]
    ) -> str:
        infos = [ctx.node(source).info for source in sources]
        return nft.fault_rules(infos, ctx.lab, "drop")


def test_a_partition_is_another_fault(lab: LabInfo, tmp_path: Path) -> None:
    fault = not_proven(run_here(lab, tmp_path, nemesis=NothingArrives(), options=BOTH))
    assert "datagrams are lost" in fault["control"]["detail"]


def test_kill_9_of_ours_in_mid_fault(lab: LabInfo, tmp_path: Path) -> None:
    async def all_serve(deployment: Any) -> bool:
        return None not in (await deployment.revisions()).values()

    args = ("--nemesis", "new-connections", "-o", "fault_s=30")
    killed_in_mid_fault(
        lab,
        tmp_path,
        args,
        lambda: not fault_tables(lab) and deployed(lab, all_serve),
        15,
    )
