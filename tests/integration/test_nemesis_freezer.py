"""pause by freezers of control groups: each version, none, another's group, left frozen."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from runs import (
    assert_not_proven,
    faults_of,
    frozen,
    landed_and_healed,
    on_nodes,
    run_here,
)

from dstest.core.errors import Exit
from dstest.core.evidence import LandingRecord
from dstest.core.node import LabInfo
from dstest.core.protocols import NemesisContext
from nemeses.process.kill import Kill
from nemeses.process.pause import Pause

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]

OPTIONS = ("fault_s=4", "quiet_s=8")


@contextlib.contextmanager
def without_groups(lab: LabInfo, *mounts: str) -> Iterator[None]:
    """Nodes on which these hierarchies of control groups cannot be written."""

    async def remount(nodes: dict[str, Any], flag: str) -> None:
        for node in nodes.values():
            for mount in mounts:
                argv = ["mount", "-o", f"remount,bind,{flag}", f"/sys/fs/cgroup/{mount}"]
                await node.run(argv)

    on_nodes(lab, lambda nodes: remount(nodes, "ro"))
    try:
        yield
    finally:
        on_nodes(lab, lambda nodes: remount(nodes, "rw"))


def test_the_freezer_of_version_2(lab: LabInfo, tmp_path: Path) -> None:
    """Its frozen processes read S; another hierarchy says that they are frozen."""
    options = (*OPTIONS, "scope=minority", "way=freezer")
    with without_groups(lab, "freezer"):
        done = run_here(lab, tmp_path, nemesis=Pause(), options=options)
    fault = landed_and_healed(done)
    assert all("unified" in path for rows in fault["facts"]["freezers"].values() for path in rows)
    assert frozen(lab) == []


def test_nodes_without_a_freezer(lab: LabInfo, tmp_path: Path) -> None:
    """They are refused; what needs no group is done there as well."""
    with without_groups(lab, "freezer", "unified"):
        frozen_one = (*OPTIONS, "way=freezer", "scope=one")
        done = run_here(lab, tmp_path / "pause", nemesis=Pause(), options=frozen_one)
        assert done.exit_code not in (Exit.PASS, Exit.FAIL)
        assert "no control group" in str(done.failure)
        killed = (*OPTIONS, "scope=minority")
        landed_and_healed(run_here(lab, tmp_path / "kill", nemesis=Kill(), options=killed))


GROUP = "/sys/fs/cgroup/freezer/of-a-test"
FREEZE = f"mkdir -p {GROUP} && echo FROZEN >{GROUP}/freezer.state"


class Another(Pause):
    """A process that we started ourselves is frozen instead of the server."""

    async def freeze(self, ctx: NemesisContext, names: Sequence[str], service: str) -> None:
        for name in names:
            other = await ctx.node(name).call("spawn", argv=["/bin/sleep", "60"])
            join = f"echo {other['pid']} >{GROUP}/cgroup.procs"
            await ctx.node(name).run(["sh", "-c", f"mkdir -p {GROUP} && {join} && {FREEZE}"])


class Unfrozen(Pause):
    """Nobody freezes anything."""

    async def freeze(self, ctx: NemesisContext, names: Sequence[str], service: str) -> None:
        return None


THAW = (
    f"echo THAWED >{GROUP}/freezer.state; for p in $(cat {GROUP}/cgroup.procs); do "
    "if [ $(cat /proc/$p/comm) = etcd ]; then "
    "echo $p >/sys/fs/cgroup/freezer/dstest-service-etcd/cgroup.procs; "
    f"else kill -9 $p; fi; done; sleep 0.2; rmdir {GROUP} || :"
)


@pytest.mark.parametrize("nemesis", [Another(), Unfrozen()], ids=lambda n: type(n).__name__)
def test_what_is_frozen_is_not_the_server(lab: LabInfo, tmp_path: Path, nemesis: Pause) -> None:
    options = (*OPTIONS, "scope=minority", "way=freezer")
    try:
        fault = assert_not_proven(run_here(lab, tmp_path, nemesis=nemesis, options=options))
    finally:
        on_nodes(lab, lambda nodes: _each(nodes, f"[ ! -d {GROUP} ] || {{ {THAW}; }}"))
    assert fault["landed"] == "no"
    assert "is not frozen" in fault["injector"]["detail"]
    assert frozen(lab) == []


async def _each(nodes: dict[str, Any], script: str) -> None:
    for node in nodes.values():
        await node.run(["sh", "-c", script])


class LeftFrozen(Pause):
    """Its heal thaws nothing."""

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
        return None


def test_a_server_that_is_left_frozen_is_a_leak(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(
        lab, tmp_path, nemesis=LeftFrozen(), options=(*OPTIONS, "scope=one", "way=freezer")
    )
    (fault,) = faults_of(done.path)
    assert fault["landed"] == "yes"
    assert not fault["heal_verified"]
    assert done.exit_code != Exit.PASS
    found = json.loads((done.path / "run.json").read_text())["residue"]
    ((name, residue),) = [(name, rows) for name, rows in found.items() if rows]
    assert name == fault["targets"][0]
    assert any("is frozen in" in row for row in residue)
    assert frozen(lab) == []
