"""Samples of threads inside a call: how they are taken, and what they say of slow syncs."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dstest.core.errors import RemoteTimeout
from dstest.core.evidence import LandingRecord
from dstest.core.node import Completed
from nemeses.disk import slow_disk
from nemeses.disk.slow_disk import NEMESIS as SLOW_DISK
from nemeses.tools.groups import SYNCS, WRITES, Samples, sample

pytestmark = pytest.mark.slow

SECOND = 1_000_000_000


class ThisHost:
    """A node that is this host."""

    def __init__(self, name: str = "n1") -> None:
        self.name = name

    async def run(self, argv: list[str], *, stdin: str, **rest: Any) -> Completed:
        done = await asyncio.to_thread(
            subprocess.run, argv, input=stdin, capture_output=True, text=True, timeout=20
        )
        return Completed(status=done.returncode, stdout=done.stdout, stderr=done.stderr)


def test_threads_inside_a_call_are_seen(tmp_path: Path) -> None:
    """Two threads that wait in a write to a full pipe."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    keeps = os.open(pipe, os.O_RDWR)
    code = (
        "import os, sys, threading\n"
        "def fill():\n"
        "    fd = os.open(sys.argv[1], os.O_WRONLY)\n"
        "    while True:\n"
        "        os.write(fd, b'x' * 65536)\n"
        "threading.Thread(target=fill).start()\n"
        "print(flush=True)\n"
        "fill()\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", code, str(pipe)], stdout=subprocess.PIPE)
    try:
        assert writer.stdout is not None
        writer.stdout.readline()

        def seen(pid: int, folder: Path, calls: tuple[int, ...]) -> Samples:
            node: Any = ThisHost()
            return asyncio.run(sample(node, [pid], str(folder), calls, 0.3))

        found = seen(writer.pid, tmp_path, WRITES)
        assert found.taken >= 5
        assert found.share > 0.5
        assert 0.3 < found.inside_s < 2.0
        assert found.threads > found.busy
        assert seen(writer.pid, tmp_path, SYNCS).busy == 0
        assert seen(writer.pid, tmp_path / "pip", WRITES).busy == 0
        assert seen(os.getpid(), tmp_path, WRITES).busy == 0
        assert seen(1 << 30, tmp_path, WRITES).busy == 0
    finally:
        writer.kill()
        writer.communicate()
        os.close(keeps)


@pytest.mark.parametrize("flags", [0, os.O_DSYNC, os.O_SYNC])
def test_a_write_counts_as_a_sync_where_its_file_is_open_for_that(
    tmp_path: Path, flags: int
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    keeps = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    code = (
        "import os, sys\n"
        "fd = os.open(sys.argv[1], os.O_WRONLY | int(sys.argv[2]))\n"
        "print(flush=True)\n"
        "while True: os.write(fd, bytes(65536))\n"
    )
    argv = [sys.executable, "-c", code, str(pipe), str(flags)]
    writer = subprocess.Popen(argv, stdout=subprocess.PIPE)
    try:
        assert writer.stdout is not None
        writer.stdout.readline()
        node: Any = ThisHost()
        found = asyncio.run(sample(node, [writer.pid], str(tmp_path), SYNCS, 0.3, synced=WRITES))
        assert (found.share > 0.5) is bool(flags), found
    finally:
        writer.kill()
        writer.communicate()
        os.close(keeps)


@pytest.mark.parametrize("busy", [False, True])
def test_a_node_that_cannot_sample_has_taken_none(busy: bool) -> None:
    class Broken(ThisHost):
        async def run(self, argv: list[str], **rest: Any) -> Completed:
            if busy:
                raise RemoteTimeout("n1: not within 5 s")
            return Completed(status=127, stdout="", stderr="no python3")

    node: Any = Broken()
    found = asyncio.run(sample(node, [1], "/data", SYNCS, 0.1))
    assert (found.share, found.inside_s) == (0.0, 0.0)


def slow_look(
    monkeypatch: pytest.MonkeyPatch, inside_s: dict[str, float], delayed: dict[str, int]
) -> LandingRecord:
    """Two looks at servers that do not measure their syncs: five in each second."""
    names = list(inside_s)

    async def taken(node: Any, *given: Any, **rest: Any) -> Samples:
        threads = int(inside_s[node.name] * 100)
        return Samples(taken=100, busy=1, threads=threads, ns=SECOND, syncs=5)

    async def readings(ctx: Any) -> Any:
        return {n: {"delayed": delayed[n], "sync_delay_us": 100_000} for n in names}

    monkeypatch.setattr(slow_disk, "sample", taken)
    monkeypatch.setattr(slow_disk, "readings", readings)
    ctx: Any = SimpleNamespace(
        nodes={n: ThisHost(n) for n in names},
        node=ThisHost,
        need=lambda capability: SimpleNamespace(data_dir=lambda: "/data"),
        offered=lambda capability: None,
    )
    record = LandingRecord(
        fault_id="f1", nemesis="slow-disk", targets=["n1"], scheduled_at=0, epoch="f1",
        facts={
            "pids": {n: [100, 7] for n in names},
            "processes": {n: [["server", 100, 7, True]] for n in names},
            "disk_before": {n: {"delayed": 0} for n in names},
            "delay_ms": 100,
        },
    )  # fmt: skip
    first = asyncio.run(SLOW_DISK.observed(ctx, record))
    assert first.landed != "yes"
    return asyncio.run(SLOW_DISK.observed(ctx, first))


def test_slow_syncs_of_a_server_that_does_not_measure_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Half a second inside five syncs are 100 ms for each."""
    hit = {"n1": 5, "n2": 0}
    found = slow_look(monkeypatch, {"n1": 0.5, "n2": 0.0}, hit)
    assert found.landed == "yes", found
    assert found.victim is not None
    assert found.victim.during == {"n1": 100.0}
    assert "samples" in found.victim.signal
    assert slow_look(monkeypatch, {"n1": 0.3, "n2": 0.0}, hit).landed == "ambiguous"
    assert slow_look(monkeypatch, {"n1": 0.0, "n2": 0.5}, hit).landed == "ambiguous"
    assert slow_look(monkeypatch, {"n1": 0.5, "n2": 0.2}, hit).landed == "ambiguous"
    assert slow_look(monkeypatch, {"n1": 0.5, "n2": 0.0}, {"n1": 0, "n2": 0}).landed == "ambiguous"
