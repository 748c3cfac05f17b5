"""Memory and file limits without a cluster: what counts as landed, refused, left behind."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dstest.core.errors import FaultRefused
from dstest.core.evidence import LandingRecord
from nemeses.observe.processes import ProcessSnapshot
from nemeses.process import descriptors, memory
from nemeses.process.descriptors import Files, descriptor_leaks, parse
from nemeses.process.memory import group_leaks
from nemeses.tools.groups import Group

NODES = ["n1", "n2", "n3", "n4", "n5"]
SERVING = frozenset({100})
GONE, RUNS = ProcessSnapshot(lost=(100,)), ProcessSnapshot(left=(100,), listening=SERVING)
REPLACED = ProcessSnapshot(lost=(100,), listening=frozenset({101}))
NO_LIMIT = 9223372036854771712


def record(nemesis: str, **facts: Any) -> LandingRecord:
    known = {
        "pids": {"n1": [100, 7], "n2": [200, 7]},
        "processes": {"n1": [["toy", 100, 7, True]], "n2": [["toy", 200, 7, True]]},
        "listening_before": {"n1": [100]},
    }
    return LandingRecord(
        fault_id="f1", nemesis=nemesis, targets=["n1"], scheduled_at=0, epoch="f1",
        facts={**known, **facts},
    )  # fmt: skip


@pytest.mark.parametrize("nemesis", [memory.NEMESIS, descriptors.NEMESIS], ids=lambda n: n.name)
def test_plans_come_from_the_seed(nemesis: Any) -> None:
    options = {key: option.default for key, option in nemesis.options.items()}
    plans = nemesis.plan(random.Random(3), NODES, 100.0, options)
    assert plans == nemesis.plan(random.Random(3), NODES, 100.0, options)
    assert len(plans) == 9
    if nemesis.name == "memory":
        assert {plan.facts["mode"] for plan in plans} == {"oom"}


FREE = {"limit_in_bytes": NO_LIMIT, "usage_in_bytes": 900, "failcnt": 3, "oom_kill": 1, "pid100": 1}
HIT = {"limit_in_bytes": 900, "usage_in_bytes": 900, "failcnt": 40, "oom_kill": 1, "under_oom": 1}


def squeezed(mode: str, now: dict[str, int], before: dict[str, int] | None = None) -> LandingRecord:
    return record(
        "memory", mode=mode, memory_before={"n1": before or FREE}, memory={"n1": {**FREE, **now}}
    )


@pytest.mark.parametrize(
    ("mode", "now", "sight", "moved"),
    [
        ("oom", {**HIT, "oom_kill": 2}, GONE, True),
        ("oom", {**HIT, "oom_kill": 2}, RUNS, False),
        ("oom", {**HIT, "oom_kill": 2}, REPLACED, False),
        ("oom", HIT, GONE, False),
        ("oom", {**HIT, "oom_kill": 2, "limit_in_bytes": NO_LIMIT}, GONE, False),
        ("oom", {**HIT, "oom_kill": 2, "failcnt": 3}, GONE, False),
        ("stall", HIT, RUNS, True),
        ("stall", {**HIT, "under_oom": 0}, RUNS, False),
        ("stall", {**HIT, "failcnt": 3}, RUNS, False),
        ("stall", {**HIT, "under_oom": 0}, GONE, True),
        ("stall", {**HIT, "failcnt": 3, "under_oom": 0}, GONE, False),
    ],
    ids=[
        "killed", "another was killed", "another serves", "killed by somebody else", "no limit",
        "limit not met", "waits", "goes on", "limit not met, waits", "refused and ended", "ended",
    ],
)  # fmt: skip
def test_what_counts_as_out_of_memory(
    mode: str, now: dict[str, int], sight: ProcessSnapshot, moved: bool
) -> None:
    looks = {"n1": (sight, sight)}
    assert memory.limit_signal(squeezed(mode, now), looks).moved is moved


def test_a_server_outside_its_group_proves_nothing() -> None:
    outside = {key: value for key, value in FREE.items() if key != "pid100"}
    hit = squeezed("oom", {**HIT, "oom_kill": 2}, outside)
    signal = memory.limit_signal(hit, {"n1": (GONE, GONE)})
    assert not signal.moved
    assert "was not in its group" in signal.detail


def test_a_limit_of_version_2_goes_below_what_the_server_has_made(tmp_path: Path) -> None:
    """There the kernel drops what was read from files and reads it again, and kills nobody."""
    group = {"max": "max", "current": "4000000", "stat": "anon 1000000\nfile 3000000"}
    for name, text in group.items():
        (tmp_path / f"memory.{name}").write_text(f"{text}\n")
    limits = []
    for _ in range(3):
        subprocess.run(["sh", "-c", memory._SQUEEZE, tmp_path, "0"], check=True)
        limits.append((tmp_path / "memory.max").read_text().strip())
        (tmp_path / "memory.current").write_text(limits[-1])
    assert limits == ["4000000", "750000", "750000"]


def test_what_a_limit_leaves_behind() -> None:
    assert group_leaks(FREE) == group_leaks({}) == []
    assert group_leaks({**FREE, "limit_in_bytes": 4096}) == ["its memory is limited to 4,096 bytes"]
    assert group_leaks({**FREE, "oom_kill_disable": 1}) == ["its group lets tasks wait"]


class Bare:
    """A node without the controller."""

    name = "n1"

    async def run(self, argv: list[str], **_: Any) -> SimpleNamespace:
        ok = "mount -t cgroup" not in " ".join(argv)
        return SimpleNamespace(status=0 if ok else 32, stdout="", stderr="unknown file system")


def test_a_host_without_the_controller_is_refused() -> None:
    with pytest.raises(FaultRefused, match="memory: n1 has no control group with the memory"):
        asyncio.run(Group("memory").make(cast(Any, Bare()), "memory"))


FULL = Files(4, 20000, (0, 1, 2, 3, 9))
WIDE = Files(20000, 20000, (0, 1, 2, 3, 9))


def test_the_node_tells_limits_and_files() -> None:
    assert parse("4   20000   files\n0\n1\n10\n2\n") == Files(4, 20000, (0, 1, 2, 10))
    assert parse("4 20000 files\n0\n1\n2\n10") == Files(4, 20000, (0, 1, 2, 10))
    assert parse("") is None
    assert FULL.spare == 0
    assert Files(10, 20000, (0, 1, 2, 3, 9)).spare == 5


def test_what_a_lowered_limit_leaves_behind() -> None:
    assert descriptor_leaks(FULL) == ["its server may open 0 more files: its limit is 4"]
    assert descriptor_leaks(Files(6, 20000, (0, 1, 2, 3, 9)))
    assert descriptor_leaks(WIDE) == []
    assert descriptor_leaks(Files(1024, 20000, (0, 1, 2))) == [], "usual limits of other programs"


BEFORE = {"n1": 20000, "n2": 20000}


@pytest.mark.parametrize(
    ("found", "ended", "listening", "moved"),
    [
        ([FULL], [], [100], True),
        ([WIDE], [], [100], False),
        ([FULL, WIDE], [], [100], False),
        ([FULL, FULL], [], [100], True),
        ([Files(19999, 20000, (0, 1))], [], [100], False),
        ([FULL], [], [101], False),
        ([], [], [100], False),
        ([], ["n1"], [100], True),
    ],
    ids=[
        *("full", "untouched", "a child is not", "children as well", "far above", "wrapper"),
        *("gone", "gone for lack of files"),
    ],
)
def test_what_counts_as_full(
    found: Any, ended: list[str], listening: list[int], moved: bool
) -> None:
    hit = record(
        "fds", limit_before=BEFORE, spare_before=BEFORE, listening_before={"n1": listening}
    )
    assert descriptors._injector(hit, {"n1": found, "n2": [WIDE]}, ended).moved is moved


@pytest.mark.parametrize(
    ("before", "now", "moved"),
    [
        ({"control->n1": 1, "n2->n1": 1}, {"control->n1": 0, "n2->n1": 0}, True),
        ({"control->n1": 1, "n2->n1": 0}, {"control->n1": 0, "n2->n1": 0}, True),
        ({"control->n1": 0, "n2->n1": 0}, {"control->n1": 0, "n2->n1": 0}, False),
        ({"control->n1": 1, "n2->n1": 1}, {"control->n1": 0, "n2->n1": 1}, False),
    ],
    ids=["silent", "one way was cut before", "silent before", "still answers"],
)
def test_who_is_not_answered_any_more(
    before: dict[str, int], now: dict[str, int], moved: bool
) -> None:
    assert descriptors._victim(record("fds", asked_before=before), now).moved is moved


def test_others_must_keep_their_limits() -> None:
    hit = record("fds", limit_before=BEFORE, asked_before={"control->n2": 1})
    other = ProcessSnapshot(left=(200,), listening=frozenset({200}))
    looks = {"n2": (other, other)}
    asked = {"control->n1": 0, "control->n2": 1}
    assert not descriptors._spared(hit, {"n1": [FULL], "n2": [WIDE]}, asked, looks).moved
    assert descriptors._spared(hit, {"n1": [FULL], "n2": [FULL]}, asked, looks).moved
    silent = {**asked, "control->n2": 0}
    assert descriptors._spared(hit, {"n1": [FULL], "n2": [WIDE]}, silent, looks).moved


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a process of another user")
@pytest.mark.parametrize("user", [0, 65534])
def test_a_limit_is_set_by_the_user_of_the_process(user: int) -> None:
    """Root may not set that of others where it lacks CAP_SYS_RESOURCE."""
    child = subprocess.Popen(["sleep", "60"], user=user, group=user, extra_groups=[])
    try:
        stat = Path(f"/proc/{child.pid}/stat").read_text()
        start = stat.rpartition(")")[2].split()[19]
        pid = str(child.pid)
        assert _sh(descriptors._EXHAUST, pid, start) == 0
        assert _soft(child.pid) == 3
        assert _sh(descriptors._EXHAUST, pid, "1") == 1, "another process"
        assert _sh(descriptors._RESTORE, "1000", pid, "999999999") == 0
        assert _soft(child.pid) == 1000
    finally:
        child.kill()
        child.wait()


def _sh(script: str, *words: str) -> int:
    return subprocess.run(["sh", "-c", script, *words], timeout=60, check=False).returncode


def _soft(pid: int) -> int:
    (row,) = (
        line
        for line in Path(f"/proc/{pid}/limits").read_text().splitlines()
        if line.startswith("Max open files")
    )
    return int(row.split()[3])
