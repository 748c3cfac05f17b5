"""Which service of a member a fault is about, and when a process that was killed writes no more."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest
from third_party import context

from dstest.core.errors import LabError
from dstest.core.protocols import Member, Probe, Process, Service
from nemeses.disk.disk_fault import owner
from nemeses.observe.processes import dying

pytestmark = pytest.mark.slow


def service(name: str, *data: str) -> Service:
    return Service(name=name, argv=(name,), probe=Probe(1), log=f"/{name}.log", data=data)


@pytest.mark.parametrize(
    ("services", "named"),
    [
        ([service("server", "/data")], "server"),
        ([service("database", "/data/db"), service("watcher")], "database"),
        ([service("database", "/data"), service("watcher", "/database")], "database"),
        ([service("database", "/data/db"), service("log", "/data/log")], ""),
        ([service("watcher")], ""),
    ],
)
def test_a_disk_fault_is_about_the_service_with_the_data(
    services: list[Service], named: str
) -> None:
    members = {name: Member(name, services) for name in ("n1", "n2")}
    assert owner(context(SimpleNamespace(members=members, data_dir=lambda: "/data"))) == named


class Here:
    """A node that is this machine."""

    name = "here"

    async def run(self, argv: list[str], timeout_s: float) -> None:
        try:
            await asyncio.to_thread(subprocess.run, argv, check=True, timeout=min(timeout_s, 0.5))
        except subprocess.TimeoutExpired:
            raise LabError("it took too long") from None


def await_dying(process: subprocess.Popen[bytes]) -> None:
    node: Any = Here()
    asyncio.run(dying(node, [Process("server", process.pid, 1)]))


def test_a_process_runs_until_it_was_killed() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        with pytest.raises(LabError):
            await_dying(process)
        process.kill()
        await_dying(process)  # nobody has waited for it yet: it is a zombie
        process.wait()
        await_dying(process)
    finally:
        process.kill()
        process.wait()


def test_one_that_is_stopped_by_another_signal_is_not_dying() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        process.send_signal(19)
        time.sleep(0.05)
        process.send_signal(15)  # pending while it is stopped
        with pytest.raises(LabError):
            await_dying(process)
    finally:
        process.kill()
        process.wait()
