"""Two builds of etcd in one cluster. `DSTEST_OTHER_ETCD` names the second: there is one in Debian's
next release (`apt-get download etcd-server` there, then `dpkg-deb -x`)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from runs import (
    deployed,
    etcd,
    healed_by_all,
    killed_in_mid_fault,
    landed_and_healed,
    not_proven,
    on_nodes,
    run_here,
)

from clusters.supervise.member_set import override_of
from dstest.core.errors import Exit
from dstest.core.node import LabInfo
from dstest.core.protocols import NemesisContext
from nemeses.member.versions import MIXED, UPGRADE, MixedVersions, Upgrade

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]

OTHER = os.environ.get("DSTEST_OTHER_ETCD", "")
OPTIONS = ("fault_s=6", "quiet_s=8", f"other_build={OTHER}")
needs_other = pytest.mark.skipif(not OTHER, reason="DSTEST_OTHER_ETCD names no second build")


def test_the_same_build_is_refused(lab: LabInfo, tmp_path: Path) -> None:
    async def fetch(nodes: dict[str, Any]) -> bytes:
        data: bytes = await nodes["n1"].get("/usr/bin/etcd")
        return data

    same = tmp_path / "another-name"
    same.write_bytes(on_nodes(lab, fetch))
    options = ("fault_s=6", "quiet_s=8", f"other_build={same}")
    done = run_here(lab, tmp_path, nemesis=MIXED, options=options, time_limit_s=24.0)
    assert done.exit_code not in (Exit.PASS, Exit.FAIL)
    assert "already" in str(done.failure)


@needs_other
def test_a_mixture_lands_and_goes_back(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, nemesis=MIXED, options=OPTIONS, time_limit_s=30.0)
    facts = landed_and_healed(done)["facts"]
    assert len(set(facts["versions"].values())) == 2
    assert set(facts["versions"].values()) > set(facts["versions_before"].values())


@needs_other
def test_an_upgrade_of_all(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, nemesis=UPGRADE, options=OPTIONS, time_limit_s=30.0)
    facts = landed_and_healed(done)["facts"]
    assert set(facts["versions"].values()) == {facts["other"]}
    assert set(facts["cluster"].values()).isdisjoint(facts["cluster_before"].values())


class OnlyRestarted(MixedVersions):
    """The members are restarted as what they were."""

    async def change(self, ctx: NemesisContext, name: str) -> None:
        await etcd(ctx).bounce(name)


class AllButOne(Upgrade):
    """The last one is forgotten."""

    async def change(self, ctx: NemesisContext, name: str) -> None:
        if name == list(ctx.nodes)[-1]:
            await etcd(ctx).bounce(name)
        else:
            await super().change(ctx, name)


@needs_other
@pytest.mark.parametrize("nemesis", [OnlyRestarted(), AllButOne()], ids=["mixed", "upgrade"])
def test_a_build_that_stays_the_same(lab: LabInfo, tmp_path: Path, nemesis: Any) -> None:
    done = run_here(lab, tmp_path, nemesis=nemesis, options=OPTIONS, time_limit_s=30.0)
    not_proven(done)


@needs_other
def test_kill_9_of_ours_in_mid_fault(lab: LabInfo, tmp_path: Path) -> None:
    async def ask(nodes: dict[str, Any]) -> bool:
        found = [await node.call("stat", path=override_of("etcd")) for node in nodes.values()]
        return not any(row["exists"] for row in found)

    args = ("--nemesis", "mixed-versions", "-o", "fault_s=30", "-o", f"other_build={OTHER}")
    killed_in_mid_fault(lab, tmp_path, args, lambda: on_nodes(lab, ask), 45)


@needs_other
def test_kill_9_of_ours_after_an_upgrade(lab: LabInfo, tmp_path: Path) -> None:
    """Nothing goes back; all serve, as one build or the other."""
    args = ("--nemesis", "upgrade", "-o", "fault_s=30", "-o", f"other_build={OTHER}")
    killed_in_mid_fault(lab, tmp_path, args, lambda: healed_by_all(lab), 45)
    healthy = deployed(lab, lambda deployment: deployment.healthy())
    assert all(healthy.values())
