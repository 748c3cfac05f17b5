"""Faults reach every process of a server that forks, and of its sidecar, or have not landed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from runs import faults_of, on_nodes, run_here

from dstest.core import registry
from dstest.core.evidence import LandingRecord
from dstest.core.node import LabInfo
from dstest.core.protocols import Nemesis, NemesisContext, Process
from nemeses.clock.clock import Clock
from nemeses.observe.processes import processes_before, running, signal_command
from nemeses.process.descriptors import Descriptors
from nemeses.process.kill import Kill
from nemeses.process.pause import Pause
from nemeses.process.slow_follower import CPU, SlowFollower
from nemeses.tools import clock_tool

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]

SYSTEM = Path(__file__).with_name("forking_system.py")
OPTIONS = ("fault_s=6", "quiet_s=6")


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    registry.use([str(SYSTEM)])


def run(lab: LabInfo, store: Path, nemesis: Nemesis, *options: str) -> dict[str, Any]:
    """The landing record of a run's only fault."""
    done = run_here(
        lab, store, nemesis=nemesis, options=(*OPTIONS, *options), system="forking", rate=200.0,
        time_limit_s=22.0, files=[str(SYSTEM)],
    )  # fmt: skip
    (fault,) = faults_of(done.path)
    return fault


LANDS: dict[str, tuple[Nemesis, str, str]] = {
    "kill": (Kill(), "scope=minority", "targets=n2,n3"),
    "kill-one-service": (Kill(), "service=server", "targets=n2"),
    "pause": (Pause(), "scope=one", "targets=n2"),
    "freeze": (Pause(), "way=freezer", "targets=n2"),
    "pause-one-service": (Pause(), "service=server", "targets=n2,n4"),
    "clock": (Clock(), "skew_s=40", "targets=n2"),
    "fds": (Descriptors(), "scope=one", "targets=n3"),
    "slow-follower": (SlowFollower(), "cpu_percent=2", ""),
}


@pytest.mark.parametrize("case", LANDS)
def test_every_process_is_reached(lab: LabInfo, tmp_path: Path, case: str) -> None:
    nemesis, option, targets = LANDS[case]
    fault = run(lab, tmp_path, nemesis, option, *([targets] if targets else []))
    assert fault["landed"] == "yes", (fault["notes"], fault)
    assert fault["heal_verified"], fault["notes"]
    rows = fault["facts"]["processes"][fault["targets"][0]]
    services = {row[0] for row in rows}
    assert services == ({"server"} if option == "service=server" else {"server", "sidecar"})
    assert len([row for row in rows if row[0] == "server"]) == 10, "main, follower, eight workers"
    assert shifted(lab) == []


def shifted(lab: LabInfo) -> list[str]:
    """Processes of any node whose clock is not the kernel's."""

    async def ask(nodes: dict[str, Any]) -> list[str]:
        look = ["sh", "-c", clock_tool.RESIDUE.look]
        return [(await node.run(look, timeout_s=20.0)).stdout for node in nodes.values()]

    return [text for text in on_nodes(lab, ask) if text]


def mains(rows: Sequence[Process]) -> list[Process]:
    return [process for process in rows if process.main]


class MainKilled(Kill):
    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        for name in record.targets:
            rows = mains((await running(ctx, "server"))[name])
            await ctx.node(name).run(signal_command(rows, "KILL"))


class MainPaused(Pause):
    async def pause(self, ctx: NemesisContext, names: Sequence[str], service: str) -> None:
        for name in names:
            rows = mains((await running(ctx))[name])
            await ctx.node(name).run(signal_command(rows, "STOP"))


class MainShifted(Clock):
    async def shift(
        self, ctx: NemesisContext, record: LandingRecord, name: str, words: Sequence[str | int]
    ) -> None:
        for main in mains(processes_before(record, name)):
            await clock_tool.shift(ctx.node(name), main.pid, main.start_time, words)


class MainSlowed(SlowFollower):
    async def enter(self, ctx: NemesisContext, record: LandingRecord) -> None:
        (name,) = record.targets
        main = mains(processes_before(record, name))
        await CPU.enter(ctx.node(name), [p.pid for p in main])


class MainLimited(Descriptors):
    async def exhaust(self, ctx: NemesisContext, record: LandingRecord, name: str) -> None:
        for main in mains(processes_before(record, name)):
            argv = ["prlimit", "--pid", str(main.pid), "--nofile=3:"]
            await ctx.node(name).run(argv, check=False)


@pytest.mark.parametrize(
    ("nemesis", "options"),
    [
        (MainKilled(), ("targets=n2",)),
        (MainPaused(), ("targets=n2",)),
        (MainShifted(), ("targets=n2", "skew_s=40")),
        (MainSlowed(), ()),
        (MainLimited(), ("targets=n2",)),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_main_process_alone_is_not_the_server(
    lab: LabInfo, tmp_path: Path, nemesis: Nemesis, options: tuple[str, ...]
) -> None:
    fault = run(lab, tmp_path, nemesis, *options)
    assert fault["landed"] != "yes", fault
    assert not fault["injector"]["moved"], fault["injector"]
    assert shifted(lab) == []
