"""Members of a real etcd go back to a copy of their data: one is borne, all lose promises."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from runs import (
    deployed,
    etcd,
    faults_of,
    healed_by_all,
    killed_in_mid_fault,
    landed_and_healed,
    not_proven,
    on_nodes,
    run_here,
)

from clusters.systems.etcd.on_node import REMOVED
from dstest.core.errors import Exit
from dstest.core.node import LabInfo
from dstest.core.protocols import NemesisContext
from nemeses.member.backup import NEMESIS, Backup

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]

OPTIONS = ("fault_s=6", "quiet_s=8")


def test_one_member_goes_back(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, nemesis=NEMESIS, options=OPTIONS, time_limit_s=26.0)
    landed_and_healed(done)


def test_all_go_back_and_the_loss_is_found(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(
        lab, tmp_path, nemesis=NEMESIS, options=(*OPTIONS, "scope=all"), time_limit_s=26.0
    )
    (fault,) = faults_of(done.path)
    assert fault["landed"] == "yes", fault
    assert fault["heal_verified"], fault["notes"]
    assert done.exit_code == Exit.FAIL, done.verdict and done.verdict.reason


class Elsewhere(Backup):
    """The copies lie beside the data; the servers are started on what they had."""

    async def put_back(
        self, ctx: NemesisContext, names: Sequence[str]
    ) -> dict[str, tuple[str, str]]:
        for name in names:
            await etcd(ctx).bounce(name)
        return {}


def test_a_restore_into_another_directory(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(
        lab, tmp_path, nemesis=Elsewhere(), options=(*OPTIONS, "scope=all"), time_limit_s=26.0
    )
    assert not_proven(done)["landed"] != "yes"


@pytest.mark.parametrize("scope", ["one", "all"])
def test_kill_9_of_ours_in_mid_fault(lab: LabInfo, tmp_path: Path, scope: str) -> None:
    async def ask(nodes: dict[str, Any]) -> bool:
        # The node is to join anew for as long as the file is there.
        found = [await node.call("stat", path=REMOVED) for node in nodes.values()]
        return not any(row["exists"] for row in found)

    def healed() -> bool:
        return bool(on_nodes(lab, ask)) if scope == "one" else healed_by_all(lab)

    args = ("--nemesis", "backup", "-o", "fault_s=30", "-o", f"scope={scope}")
    # What a rollback lost may be read before our death: then it is found.
    judged = (Exit.NOT_PROVEN,) if scope == "one" else (Exit.NOT_PROVEN, Exit.FAIL)
    killed_in_mid_fault(lab, tmp_path, args, healed, 45, judged)
    healthy = deployed(lab, lambda deployment: deployment.healthy())
    assert all(healthy.values())
