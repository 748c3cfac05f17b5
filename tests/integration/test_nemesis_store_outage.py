"""Members of Patroni that no longer reach etcd, on real nodes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runs import RATE, killed_in_mid_fault, landed_and_healed, not_proven, on_nodes

from clusters.labs.lxc import LAB
from dstest.core.node import LabInfo
from dstest.core.run_record import RunSpec
from dstest.runner.plugins import resolve
from dstest.runner.screen import Quiet
from dstest.runner.session import Finished, run_session
from nemeses.network.store_outage import NEMESIS, StoreOutage
from nemeses.tools import nft

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(400)]

SYSTEM = "patroni"


def run(lab_id: str, store: Path, nemesis: StoreOutage, *options: str) -> Finished:
    wanted = RunSpec(system=SYSTEM, workload="set", rate=RATE, time_limit_s=30.0, seed=11)
    plugins = resolve(wanted, ["fault_s=15", *options], nemesis=nemesis)
    return run_session(plugins, store=store, lab_id=lab_id, ui=Quiet())


@pytest.mark.parametrize("action", ["drop", "reject"])
def test_it_lands_and_heals(lab_for: Callable[[str], str], tmp_path: Path, action: str) -> None:
    finished = run(lab_for(SYSTEM), tmp_path, NEMESIS, "scope=one", f"action={action}")
    fault = landed_and_healed(finished)
    (target,) = fault["targets"]
    assert fault["injector"]["during"][target] > 0
    assert fault["control"]["during"].keys() == {f"n{i + 1}" for i in range(5)} - {target}


def test_a_leader_that_does_not_reach_it_leads_no_more(
    lab_for: Callable[[str], str], tmp_path: Path
) -> None:
    fault = landed_and_healed(run(lab_for(SYSTEM), tmp_path, NEMESIS, "scope=primaries"))
    assert fault["facts"]["leader_before"] in fault["targets"]
    assert fault["facts"]["new_leader"] not in fault["targets"]


def test_packets_of_nobody_are_stopped(lab_for: Callable[[str], str], tmp_path: Path) -> None:
    fault = not_proven(run(lab_for(SYSTEM), tmp_path, StoreOutage(user="games"), "scope=one"))
    assert "has not tried yet" in fault["injector"]["detail"]
    assert "may have reached it" in fault["victim"]["detail"]


def test_kill_9_of_ours_in_mid_fault(lab_for: Callable[[str], str], tmp_path: Path) -> None:
    lab = LAB.known(lab_for(SYSTEM))
    assert lab is not None
    words = ("--system", SYSTEM, "--workload", "set", "--nemesis", "store-outage")
    args = (*words, "-o", "fault_s=30", "-o", "scope=one")
    killed_in_mid_fault(lab, tmp_path, args, lambda: without_rules(lab), 30)


def without_rules(lab: LabInfo) -> bool:
    """Is there no table of the fault on any node?"""

    async def ask(nodes: dict[str, Any]) -> bool:
        return not any([nft.FAULT_TABLE in await nft.tables(node) for node in nodes.values()])

    found: bool = on_nodes(lab, ask)
    return found
