"""aimed on a system of C with several processes, as its package has it: PostgreSQL; and what is not
landed there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runs import RATE, assert_not_proven, faults_of

from dstest.core import registry
from dstest.core.evidence import LandingRecord
from dstest.core.protocols import NemesisContext
from dstest.core.run_record import RunSpec
from dstest.runner.plugins import resolve
from dstest.runner.screen import Quiet
from dstest.runner.session import Finished, run_session
from nemeses.process.aimed import Aimed
from nemeses.tools import aim

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(400)]

SYSTEM = "postgresql"
OPTIONS = ("fault_s=4", "quiet_s=8", "scope=one")


@pytest.fixture
def made(lab_for: Callable[[str], str], tmp_path: Path) -> Callable[..., Finished]:
    def run(*options: str, nemesis: Aimed | None = None) -> Finished:
        capable = registry.load("systems", SYSTEM).capabilities
        every = dict.fromkeys(["register", *registry.names("workloads")])
        work = next(n for n in every if registry.load("workloads", n).capability in capable)
        spec = RunSpec(
            system=SYSTEM, workload=work, nemesis="aimed", time_limit_s=21.0, seed=11, rate=RATE
        )
        plugins = resolve(spec, [*OPTIONS, *options], nemesis=nemesis)
        return run_session(plugins, store=tmp_path, lab_id=lab_for(SYSTEM), ui=Quiet())

    return run


@pytest.mark.parametrize("then", ["kill", "pause", "errno:EIO"])
def test_it_lands_and_heals(made: Callable[..., Finished], then: str) -> None:
    (fault,) = faults_of(made("at=syscall:fdatasync", f"then={then}").path)
    told = (fault["notes"], fault["injector"], fault["victim"], fault["control"])
    assert fault["landed"] == "yes", told
    assert fault["heal_verified"], fault["notes"]


@pytest.mark.parametrize(
    ("at", "why"),
    [
        ("syscall:fdatasync:*.nonesuch", "never reached in 2 s"),
        ("function:nonesuch", "none is nonesuch"),
    ],
)
def test_a_point_that_is_not_met(made: Callable[..., Finished], at: str, why: str) -> None:
    fault = assert_not_proven(made(f"at={at}", "reach_s=2"))
    assert fault["landed"] == "no" and why in str(fault["notes"]) + str(fault["injector"])


class LetGo(Aimed):
    """Somebody else ends the tracer before the point is met."""

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> dict[str, Any]:
        facts = await super().apply(ctx, record)
        for name in record.targets:
            await ctx.node(name).run([aim.OFF])
        return dict(facts)


class Elsewhere(Aimed):
    """Aims at a process of our own, and not at the server."""

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> dict[str, Any]:
        loop = "import os\nf = open('/tmp/dstest-elsewhere', 'w')\nwhile 1: os.fdatasync(f)"
        for name in record.targets:
            other = await ctx.node(name).call("spawn", argv=["python3", "-c", loop])
            record.facts["sights"][name]["biases"] = {str(other["pid"]): "0"}
        return dict(await super().apply(ctx, record))

    async def teardown(self, ctx: NemesisContext) -> None:
        await super().teardown(ctx)
        for name in ctx.nodes:
            argv = ["sh", "-c", "pkill -9 -f dstest-elsewhere; rm -f /tmp/dstest-elsewhere"]
            await ctx.node(name).run(argv, check=False)


@pytest.mark.parametrize("nemesis", [LetGo, Elsewhere])
def test_what_somebody_else_does(made: Callable[..., Finished], nemesis: type[Aimed]) -> None:
    hit = "hit=100000" if nemesis is LetGo else "hit=1"
    done = made("at=syscall:fdatasync", hit, "reach_s=2", nemesis=nemesis())
    assert assert_not_proven(done)["landed"] == "no"
