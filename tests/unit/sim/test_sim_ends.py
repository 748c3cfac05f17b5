"""What nobody planned is told: ends of servers, errors, a cluster that does not serve, seeds that
are not the same twice. The system is one of a file of the user's own."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dstest.core import registry
from dstest.core.errors import ConfigError
from dstest.core.registry import FILES
from dstest.core.run_record import RunSpec
from dstest.runner.plugins import resolve
from dstest.runner.screen import Progress
from dstest.runner.session import run_session
from dstest.sim.simulate import SimResult, sim_spec_of, simulate
from dstest.sim.sweep import Unlike, seed_result, sweep
from dstest.sim.world import Fault, Host, Profile, World

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]


async def _returns(world: World) -> None:
    return


async def _cancels(world: World) -> None:
    raise asyncio.CancelledError


async def _raises(world: World) -> None:
    raise KeyError("planted")


async def _exits(world: World) -> None:
    raise SystemExit(0)


KEPT = list[Any]()


async def _beside(what: Callable[[World], Any], world: World) -> None:
    KEPT.append(asyncio.ensure_future(what(world)))
    await asyncio.Event().wait()


async def _dies(world: World) -> None:
    process = world.hosts["a"].process
    assert process is not None
    world.die(process, "ended with 1")


ENDS: dict[str, tuple[Callable[[World], Any], str]] = {
    "returns": (_returns, "its main returned"),
    "cancelled": (_cancels, "its main was cancelled"),
    "raises": (_raises, "it ended with an error: KeyError('planted')"),
    "exits": (_exits, "sys.exit(0)"),
    "dies": (_dies, "it ended itself: ended with 1"),
    "a task raises": (
        lambda world: _beside(_raises, world),
        "a task of it ended with KeyError('planted'), which nobody saw",
    ),
    "a task exits": (lambda world: _beside(_exits, world), "sys.exit(0)"),
}


def failures_of(what: Callable[[World], Any], kill: bool = False) -> list[str]:
    async def main(world: World, host: Host) -> None:
        await asyncio.sleep(1)
        await what(world)

    async def story(world: World) -> None:
        await asyncio.sleep(0.5)
        if kill:
            world.kill("a")
        await asyncio.sleep(5)

    made = World(1, ["a"], main)
    made.start("a")
    try:
        made.run(story(made), "client")
    finally:
        made.close()
    return made.loop.failures


@pytest.mark.parametrize("end", ENDS)
def test_an_end_that_no_fault_asked_for_is_a_failure(end: str) -> None:
    what, told = ENDS[end]
    (failure,) = failures_of(what)
    assert failure.startswith("a/1 at ")
    assert failure.endswith(f" s: {told}")
    assert failures_of(what, kill=True) == [], "a fault was there first"


def test_what_a_server_looks_at_itself_is_none() -> None:
    async def seen(world: World) -> None:
        task = asyncio.ensure_future(_raises(world))
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.Event().wait()

    assert failures_of(seen) == []


def test_a_tick_of_a_server_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from clusters.systems.toykv.agents.leading import Leading

    def on_tick(self: Leading, now: float) -> None:
        raise KeyError("planted")

    monkeypatch.setattr(Leading, "on_tick", on_tick)
    done = simulate(sim_spec_of("toykv", "register", [], time_s=2.0), 1)
    assert any("ended itself: ended with 1" in one for one in done.failures), done.failures


FILE = """
import asyncio, itertools, os, random, sys
from clusters.systems.toykv.simulated import SimulatedToykv
from clusters.systems.toykv.system import {base}

PLANT = os.environ.get("PLANT", "")

class Client:
    def __init__(self, of): self.of = of
    def __getattr__(self, name): return getattr(self.of, name)
    async def invoke(self, op, timeout_s): raise KeyError("planted")

class Planted(SimulatedToykv):
    async def main(self, world, host, options):
        task = asyncio.ensure_future(super().main(world, host, options))
        await asyncio.sleep(2.5)
        if PLANT == "exit":
            sys.exit(0)
        if PLANT == "chance":
            world.log.say(str(random.SystemRandom().random()))
        await task

    async def serves(self, world):
        return PLANT != "deaf" and await super().serves(world)

class Mine({base}):
    name = "mine"
    simulable = Planted()

    def client(self, *given):
        made = super().client(*given)
        return Client(made) if PLANT == "client" else made

SYSTEM = Mine()
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    base = type(registry.load("systems", "toykv")).__name__
    path = tmp_path / "mine.py"
    path.write_text(FILE.replace("{base}", base))
    monkeypatch.setenv(FILES, str(path))
    monkeypatch.delenv("PLANT", raising=False)
    return path


def command(plant: str, *more: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "dstest", "sim", "--system", "mine", "--workload", "register"]
    words += ["--seeds", "1", "--faults", "none", "--time-limit", "3", *more]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PLANT": plant}
    return subprocess.run(
        words, env=env, capture_output=True, text=True, check=False, timeout=100, cwd=ROOT
    )


def test_a_system_of_a_file_is_simulated(mine: Path) -> None:
    done = command("")
    assert done.returncode == 0, done.stderr
    assert "no violation in these seeds" in done.stdout


@pytest.mark.parametrize(
    ("plant", "told"),
    [
        ("exit", "n1/1 at 2.500 s: sys.exit(0)"),
        ("client", "client 0 ended with KeyError('planted')"),
        ("deaf", "the cluster did not serve before the load and after the load"),
        ("chance", "seed 1 gave two simulations"),
    ],
)
def test_the_command_shows_nothing_then(mine: Path, plant: str, told: str) -> None:
    done = command(plant)
    assert done.returncode == 3, done.stdout + done.stderr
    assert told in done.stdout + done.stderr
    assert "no violation" not in done.stdout


def one(**more: Any) -> SimResult:
    return simulate(sim_spec_of("toykv", "register", [], **more), 1)


def test_faults_that_were_never_planned_show_nothing() -> None:
    assert seed_result(one(time_s=0.9)).vacuous == "no fault landed"
    assert seed_result(one(time_s=0.9, profile=Profile(kinds=()))).vacuous is None


def test_one_checker_that_cannot_decide_is_enough_to_show_nothing() -> None:
    import msgspec

    seen = seed_result(one(time_s=2.0, plan=()))
    assert seen.vacuous is None
    half = msgspec.structs.replace(seen, valid={"a": "unknown", "b": True})
    assert half.vacuous == "undecided: a"


@pytest.mark.parametrize("workload", ["bank", "bank-replicas"])
def test_checkers_are_told_the_options_of_the_workload(workload: str) -> None:
    seen = seed_result(simulate(sim_spec_of("toykv", workload, []), 1))
    assert set(seen.valid.values()) == {True}


@pytest.mark.parametrize("time_s", [float("inf"), float("nan"), 1e12, 0.0])
def test_a_time_without_end_is_refused(time_s: float) -> None:
    with pytest.raises(ConfigError, match="seconds of load"):
        sim_spec_of("toykv", "register", [], time_s=time_s)


def test_the_first_seed_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = iter(range(1, 100))
    monkeypatch.setattr(
        "dstest.sim.sweep.simulate", lambda wanted, seed: simulate(wanted, next(seeds))
    )
    with pytest.raises(Unlike, match="seed 1 gave two simulations"):
        next(sweep(sim_spec_of("toykv", "register", [], time_s=1.0), [1]))


def test_a_fault_that_kills_is_no_failure() -> None:
    plan = (Fault(kind="kill", at_s=1.0, stands_s=1.0, hosts=("n1", "n2")),)
    assert one(time_s=4.0, plan=plan).failures == []


def children_of(pid: int) -> set[int]:
    tasks = Path(f"/proc/{pid}/task")
    return {int(c) for t in tasks.iterdir() for c in (t / "children").read_text().split()}


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


SIMULATES_S = 0.8
"""A worker that has computed for so long has imported all that it needs, and is at its seeds."""


def cpu_s(pid: int) -> float:
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_their_parent(number: signal.Signals) -> None:
    words = [sys.executable, "-m", "dstest", "sim", "--seeds", "1000", "--workers", "2", "--json"]
    parent = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=ROOT)
    found = set[int]()
    try:
        until = time.monotonic() + 60
        while len(found) < 3 and time.monotonic() < until:
            time.sleep(0.2)
            found |= children_of(parent.pid)
        assert len(found) >= 3, "two workers, and the tracker of multiprocessing"
        while sum(cpu_s(pid) > SIMULATES_S for pid in found) < 2 and time.monotonic() < until:
            time.sleep(0.1)
        parent.send_signal(number)
        parent.wait(60)
        until = time.monotonic() + 60
        while any(map(lives, found)) and time.monotonic() < until:
            time.sleep(0.2)
        assert not [pid for pid in found if lives(pid)]
    finally:
        for pid in found:
            if lives(pid):
                os.kill(pid, signal.SIGKILL)
        if parent.poll() is None:
            parent.kill()
            parent.wait()


def test_failures_are_in_the_object(mine: Path) -> None:
    done = command("exit", "--json")
    told = json.loads(done.stdout)
    assert told["failed"] == [1]
    assert len(told["seeds"][0]["failures"]) == 3


FAKE = """
from clusters.systems.toykv.clients import CLIENTS
from clusters.systems.toykv.system import {base}
from dstest.core.protocols import Reply

class Fake(CLIENTS["register"]):
    kept = {}
    async def invoke(self, op, timeout_s):
        self.calls += 1
        if op.op_type == "write":
            self.kept[str(op.key)] = op.input
        return Reply(self.kept.get(str(op.key)), self.at.node)

class Faked({base}):
    name = "faked"
    clients = {**CLIENTS, "register": Fake}

SYSTEM = Faked()
"""


def test_a_client_that_asks_no_server_is_the_one_that_is_tested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers from its own memory: no request is on the wire, and no kill is met by one."""
    base = type(registry.load("systems", "toykv")).__name__
    (tmp_path / "fake.py").write_text(FAKE.replace("{base}", base))
    monkeypatch.setenv(FILES, str(tmp_path / "fake.py"))
    spec = RunSpec(
        system="faked", lab="sim", nodes=3, concurrency=6, time_limit_s=25.0, seed=1, nemesis="kill"
    )
    done = run_session(resolve(spec, ["fault_s=4"]), store=tmp_path, ui=Progress(io.StringIO()))
    assert done.verdict is not None and not done.verdict.verdict.passed
    assert {fault.landed for fault in done.verdict.evidence.faults} == {"ambiguous"}
    wire = done.verdict.evidence.weak_audit["WO8"]
    assert wire.status == "short" and wire.evidence.startswith("0 requests on the wire for ")
    wanted = sim_spec_of("faked", "register", [], time_s=6.0, hosts=3, clients=4)
    failures = simulate(wanted, 1).failures
    assert any("clients sent" in failure for failure in failures), failures
