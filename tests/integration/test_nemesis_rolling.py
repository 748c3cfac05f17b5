"""Rolling restarts across leaders on a real etcd: each step elects a new one, or none landed."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest
from busy import assert_passed
from runs import (
    CALM,
    assert_not_proven,
    deployed,
    dstest,
    faults_of,
    latest,
    run_here,
    start,
    verdict_of,
    wait_for,
)

from dstest.core.errors import Exit
from dstest.core.node import LabInfo
from dstest.core.protocols import NemesisContext
from nemeses.base.leadership import lead_when_known
from nemeses.process.rolling import NEMESIS, Rolling

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]

OPTIONS = ("fault_s=6", "quiet_s=8")


def test_three_leaders_in_turn(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, nemesis=NEMESIS, options=OPTIONS, time_limit_s=24.0)
    (fault,) = faults_of(done.path)
    assert fault["landed"] == "yes", fault
    assert fault["heal_verified"], fault["notes"]
    assert_passed(done)
    steps = fault["facts"]["steps"]
    assert len(steps) == 3
    terms = [term for step in steps for term in (step["term"], step["new_term"])]
    assert terms == sorted(terms)
    assert all(step["new_term"] > step["term"] for step in steps)
    assert all(step["new_pid"] != step["pid"] for step in steps)


class Followers(Rolling):
    """Restarts a member that does not lead: the order that tests nothing."""

    async def next_target(self, ctx: NemesisContext) -> str | None:
        leader = (await lead_when_known(ctx)).leader
        return next(n for n in ctx.nodes if n != leader)


def test_followers_instead_of_leaders(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, nemesis=Followers(), options=OPTIONS, time_limit_s=24.0)
    assert "no new term" in assert_not_proven(done)["victim"]["detail"]


class Nobody(Rolling):
    """Nothing is killed."""

    async def kill(self, ctx: NemesisContext, name: str) -> None:
        return None


def test_nobody_is_restarted(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, nemesis=Nobody(), options=OPTIONS, time_limit_s=24.0)
    fault = assert_not_proven(done)
    assert fault["landed"] == "no"
    assert "was not killed and replaced" in fault["injector"]["detail"]


def test_kill_9_of_ours_between_the_kill_and_the_start(lab: LabInfo, tmp_path: Path) -> None:
    log, store = tmp_path / "log", tmp_path / "store"
    process: subprocess.Popen[bytes] = start(
        log,
        *(*CALM, "--nemesis", "rolling", "--time-limit", "60", "-o", "fault_s=30"),
        *("--lab-id", lab.lab_id, "--store", store),
    )

    async def struck(deployment: Any) -> bool:
        for _ in range(3000):
            if len(await deployment.processes()) < len(lab.nodes):
                process.kill()
                return True
            await asyncio.sleep(0.01)
        return False

    async def serving(deployment: Any) -> bool:
        return all((await deployment.healthy()).values())

    try:
        wait_for("a load", lambda: "load  " in log.read_text(), 60)
        assert deployed(lab, struck)
        assert not deployed(lab, serving)
    finally:
        process.kill()
        process.wait(timeout=10)
    wait_for("healing without us", lambda: bool(deployed(lab, serving)), 20)
    assert dstest("recover", latest(store)).returncode == Exit.NOT_PROVEN
    assert not verdict_of(latest(store))["verdict"].startswith("PASS")
