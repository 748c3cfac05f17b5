"""The clock nemesis without a cluster: the program on a process of ours, plans, slopes."""

from __future__ import annotations

import asyncio
import platform
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from polling import wait_for

from dstest.core.errors import ConfigError, FaultRefused, LabError
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.protocols import Process
from nemeses.clock import clock
from nemeses.clock import clock as lease_clock
from nemeses.clock.clock import NEMESIS, End
from nemeses.clock.clock_evidence import slopes
from nemeses.tools.clock_tool import build

pytestmark = pytest.mark.slow

NODES = ["n1", "n2", "n3", "n4", "n5"]

VICTIM = """
import sys, time
for line in sys.stdin:
    print(time.time(), time.monotonic(), flush=True)
"""


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if platform.machine() != "x86_64":
        pytest.skip("x86-64 only")
    path = tmp_path_factory.mktemp("tool") / "clockshift"
    try:
        path.write_bytes(asyncio.run(build()))
    except FaultRefused as error:
        pytest.skip(str(error))
    path.chmod(0o755)
    return path


class Victim:
    """A child process that tells its time when asked, and the program pointed at it."""

    def __init__(self, tool: Path) -> None:
        self._tool = tool
        self.child = subprocess.Popen(
            [sys.executable, "-u", "-c", VICTIM], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        stat = Path(f"/proc/{self.child.pid}/stat").read_text()
        self.start_time = int(stat.rpartition(")")[2].split()[19])
        self.clocks()

    def clocks(self) -> tuple[float, float]:
        """(wall, monotonic) of the child."""
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self.child.stdin.write(b"\n")
        self.child.stdin.flush()
        wall, mono = self.child.stdout.readline().split()
        return float(wall), float(mono)

    def tool(self, *words: str, start_time: int | None = None) -> dict[str, int]:
        start = self.start_time if start_time is None else start_time
        done = subprocess.run(
            [self._tool, str(self.child.pid), str(start), *words],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
        return {k: int(v) for k, v in (part.split("=") for part in done.stdout.split())}


@pytest.fixture
def victim(tool: Path) -> Iterator[Victim]:
    found = Victim(tool)
    try:
        found.tool("read")
    except subprocess.CalledProcessError as error:
        found.child.kill()
        found.child.communicate()
        pytest.skip(f"processes cannot be patched here: {error.stderr}")
    yield found
    found.child.kill()
    found.child.communicate()


def ahead_s(victim: Victim) -> tuple[float, float]:
    """How far the child's clocks are ahead of ours: wall, monotonic."""
    wall, mono = victim.clocks()
    return wall - time.time(), mono - time.monotonic()


@pytest.mark.parametrize("offset_s", [30, -5, 3600, -86400])
def test_an_offset(victim: Victim, offset_s: int) -> None:
    row = victim.tool("set", str(offset_s * 1_000_000_000), "0", "0", "0")
    assert row["patched"] == 1
    assert row["offset_ns"] == offset_s * 1_000_000_000
    wall, mono = ahead_s(victim)
    assert abs(wall - offset_s) < 0.5
    assert abs(mono) < 0.5, "monotonic time is another clock"
    assert victim.tool("read")["hits"] > 0


def test_updates_and_the_way_back(victim: Victim) -> None:
    for offset_s in (10, -20, 30):
        victim.tool("set", str(offset_s * 1_000_000_000), "0", "0", "0")
        assert abs(ahead_s(victim)[0] - offset_s) < 0.5
    assert victim.tool("off")["patched"] == 0
    assert abs(ahead_s(victim)[0]) < 0.5
    assert victim.tool("off")["patched"] == 0
    victim.tool("set", "7000000000", "0", "0", "0")
    assert abs(ahead_s(victim)[0] - 7) < 0.5


def test_monotonic_as_an_option(victim: Victim) -> None:
    victim.tool("set", "60000000000", "0", "1", "0")
    wall, mono = ahead_s(victim)
    assert abs(wall - 60) < 0.5
    assert abs(mono - 60) < 0.5


def test_a_rate(victim: Victim) -> None:
    victim.tool("set", "0", "1000000", "0", "0")
    wall, began = victim.clocks()[0], time.monotonic()
    wait_for(lambda: victim.clocks()[0] - wall > 0.8)
    ran_s, own_s = victim.clocks()[0] - wall, time.monotonic() - began
    assert abs(ran_s / own_s - 2.0) < 0.2


def test_a_strobe(victim: Victim) -> None:
    victim.tool("set", "30000000000", "0", "0", "100000000")
    told: list[int] = []

    def to_and_fro() -> bool:
        told.append(round(ahead_s(victim)[0]))
        return sum(a != b for a, b in pairwise(told)) >= 4

    wait_for(to_and_fro)
    assert set(told) == {0, 30}


def test_another_process_is_left_alone(victim: Victim) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        victim.tool("set", "1000000000", "0", "0", "0", start_time=1)
    assert caught.value.returncode == 3
    assert victim.tool("read")["patched"] == 0


def options(**changed: object) -> dict[str, object]:
    return {key: option.default for key, option in NEMESIS.options.items()} | changed


def test_plans() -> None:
    plans = NEMESIS.plan(random.Random(1), NODES, 200.0, options())
    assert {plan.facts["rate"] for plan in plans} == {1.0}
    assert len({plan.facts["skew_s"] for plan in plans}) > 1
    (plan,) = NEMESIS.plan(random.Random(1), NODES, 50.0, options(rate=1.05, fault_s=36.0))
    assert (plan.facts["rate"], plan.facts["skew_s"]) == (1.05, 0.0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"skew_s": 0.1},
        {"rate": 1.05},
        {"rate": 1.001, "fault_s": 40.0},
        {"rate": 3.0},
        {"strobe_ms": 5},
    ],
)
def test_what_cannot_be_proven_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        NEMESIS.plan(random.Random(1), NODES, 100.0, options(**wrong))


@pytest.mark.parametrize(
    ("last_s", "seconds", "right"),
    [(1.75, 35, True), (1.0, 35, False), (0.0, 35, False), (0.5, 10, False)],
)
def test_slopes(last_s: float, seconds: int, right: bool) -> None:
    seen = [[0, 0.0], [seconds * 10**9, last_s]]
    record = LandingRecord(
        fault_id="f1",
        nemesis="clock",
        targets=["n1"],
        scheduled_at=0,
        epoch="f1",
        facts={"rate": 1.05, "skew_seen_s": seen},
    )
    assert (slopes(record)[0] is None) is right
    assert msgspec.to_builtins(record)


def leased(**facts: object) -> LandingRecord:
    before = {"leader": "n1", "term": 2, "ends_s": 5000.0, "doubt_s": 0.02}
    lease = {"id": 7, "before": before}
    base = {"skew_s": 30.0, "rate": 1.0, "lease": lease, "monotonic": True}
    return LandingRecord(
        fault_id="f1",
        nemesis="clock",
        targets=["n1"],
        scheduled_at=0,
        epoch="f1",
        injected_at=1,
        facts={**base, **facts},
    )


SIGNAL = Signal(signal="Date", before={}, during={}, moved=True, detail="off by +30.00 s on n1")


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (End("n1", 2, 4970.1, 0.6), ""),
        (End("n1", 2, 5000.0, 0.02), "+0.00 s off, +30.00 s wanted"),
        (End("n1", 2, 4985.0, 0.02), "+15.00 s off"),
        (End("n1", 2, 5030.0, 0.02), "-30.00 s off"),
        (End("n2", 3, 4970.0, 0.02), "n2 leads by now"),
        (End("n1", 4, 4970.0, 0.02), "n1 leads by now"),
        (None, "no lease time is told"),
    ],
)
def test_lease_times_tell_the_monotonic_clock(found: End | None, why: str) -> None:
    record = leased()
    proof, said = lease_clock.lease_ahead(record, found, 10**9)
    assert (proof is not None) is (why == "")
    assert why in said
    lease = {**record.facts["lease"], "proof": proof, "why": said}
    shown = lease_clock.with_lease(leased(lease=lease), SIGNAL)
    assert shown.moved is (why == "")
    assert "lease time of n1 off by +29.90 s" in shown.detail or why


def test_without_lease_times_no_monotonic_shift_has_landed() -> None:
    for lease, said in (
        ({}, "tells no lease times"),
        ({"id": 7, "before": None, "why": "no lease time was told before"}, "told before"),
    ):
        shown = lease_clock.with_lease(leased(lease=lease), SIGNAL)
        assert not shown.moved
        assert said in shown.detail
    other = {"leader": "n2", "term": 2, "ends_s": 5000.0, "doubt_s": 0.02}
    found = lease_clock.lease_ahead(leased(lease={"id": 7, "before": other}), None, 0)
    assert "n2 leads, whose clock is right" in found[1]


def test_a_lease_slow_to_tell_a_rate() -> None:
    slow = leased(skew_s=0.0, rate=1.05)
    assert lease_clock.lease_ahead(slow, End("n1", 2, 4999.5, 0.02), 10 * 10**9)[0] is None
    assert lease_clock.lease_ahead(slow, End("n1", 2, 4998.5, 0.02), 30 * 10**9)[0] is not None


def test_a_monotonic_shift_is_for_who_leads() -> None:
    (plan,) = NEMESIS.plan(random.Random(1), NODES, 20.0, options(monotonic=True))
    assert plan.facts["scope"] == "primaries"
    (plan,) = NEMESIS.plan(random.Random(1), NODES, 20.0, options(monotonic=True, targets="n2"))
    assert plan.facts["targets"] == ["n2"]
    with pytest.raises(ConfigError, match="no time that a lease has left"):
        values = options(monotonic=True, strobe_ms=200)
        NEMESIS.plan(random.Random(1), NODES, 20.0, values)


@pytest.mark.parametrize("ended", [True, False])
def test_a_child_that_ends_while_it_is_asked_is_no_process_that_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    main, child = (Process(pid=pid, start_time=1, main=pid == 7, service="s") for pid in (7, 8))
    lists = [[main, child], [main] if ended else [main, child]]

    async def running(ctx: Any, service: str = "") -> dict[str, list[Process]]:
        return {"n1": lists.pop(0)}

    async def ask(ctx: Any, name: str, process: Process, words: Any) -> Any:
        if process == child:
            raise LabError("no such process")
        return "patched"

    monkeypatch.setattr(clock, "running", running)
    monkeypatch.setattr(clock, "_ask", ask)
    ctx: Any = None
    found = asyncio.run(clock._patches(ctx, "n1"))
    assert found == ({main: "patched"} if ended else {main: "patched", child: None})
