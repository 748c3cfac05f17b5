"""Sessions on real nodes: arms add up, one that was killed goes on, a sabotaged seed is no pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from busy import assert_code
from runs import CALM, RATE, SHORT, SHORT_S, dstest, start, verdict_of, wait_for

from dstest.campaign.session import ArmsPlan, begin
from dstest.core.errors import Exit
from dstest.core.node import LabInfo
from dstest.core.protocols import Nemesis
from dstest.core.run_record import RunSpec
from dstest.core.verdict import State
from dstest.runner.plugins import Plugins, resolve
from dstest.runner.screen import Quiet
from nemeses.network.partition import NEMESIS

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(400)]


def session_of(store: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((store / "latest" / "session.json").read_text())
    return loaded


def test_a_session_that_was_killed_goes_on(lab: LabInfo, tmp_path: Path) -> None:
    """kill -9 in the second arm: what the dead run left is judged and said, its arm is run again,
    the first arm is not. It runs a queue with its guards on, and that passes."""
    log, store = tmp_path / "log", tmp_path / "store"
    options = [word for pair in SHORT for word in ("-o", pair)]
    limits = ("--time-limit", str(SHORT_S), *options)
    common = (*CALM, "--workload", "queue", *limits, "--lab-id", lab.lab_id)
    process = start(log, *common, "--seed", "21,22", "--store", store)
    try:
        wait_for("the second arm's fault", lambda: log.read_text().count("landed yes") == 2, 150)
    finally:
        process.kill()
        process.wait(timeout=10)
    wait_for("the dead run's workers", lambda: process.returncode is not None, 5)
    first = session_of(store)
    assert [arm["done"] for arm in first["arms"]] == [True, False]
    done = dstest("resume", store / "latest", timeout_s=240.0)
    found = session_of(store)
    runs = [store / "latest" / arm["attempts"][-1] for arm in found["arms"]]
    assert_code(done.returncode, runs, done.stderr + done.stdout)
    assert found["verdict"]["state"] == "PASS-smoke"
    assert found["verdict"]["seeds_agreeing"] == 2
    one, two = found["arms"]
    assert one["attempts"] == first["arms"][0]["attempts"]
    assert len(two["attempts"]) == 2
    (earlier,) = found["verdict"]["arms"][1]["earlier"]
    assert not earlier.startswith("PASS")
    judged = verdict_of(runs[-1])
    assert all(result["valid"] is True for result in judged["checkers"].values())
    canary = judged["evidence"]["checker"]
    assert canary["canary_killed"] == canary["canary_total"] > 0
    again = dstest("resume", store / "latest", timeout_s=60.0)
    assert again.returncode == Exit.PASS
    assert session_of(store)["verdict"] == found["verdict"]


class NoRules(type(NEMESIS)):  # type: ignore[misc]
    """Injects nothing in what it says is a partition."""

    async def apply(self, *_: Any, **__: Any) -> None:
        return


@pytest.mark.selftest
def test_a_sabotaged_seed_is_no_pass(lab: LabInfo, tmp_path: Path) -> None:
    plan = ArmsPlan(arms=[(5, 31), (5, 32)], tier="smoke", time_limit_s=SHORT_S, attempts_max=2)

    def plugins_of(spec: RunSpec, given: list[str]) -> Plugins:
        sabotaged: Nemesis | None = NoRules() if spec.seed == 32 else None
        return resolve(spec, given, nemesis=sabotaged)

    done = begin(
        RunSpec(rate=RATE),
        [*SHORT, "shape=one"],
        plan,
        store=tmp_path,
        lab_id=lab.lab_id,
        ui=Quiet(),
        plugins_of=plugins_of,
    )
    assert done.verdict is not None
    good, bad = done.verdict.arms
    assert good.state is State.PASS_SMOKE, good.reason
    assert bad.state is State.INCONCLUSIVE_FAULT
    assert len(bad.earlier) == 1
    assert (done.verdict.state, done.exit_code) == (State.INCONCLUSIVE_FAULT, Exit.NOT_PROVEN)
    assert 'type="INCONCLUSIVE-fault-not-proven"' in (done.path / "junit.xml").read_text()
