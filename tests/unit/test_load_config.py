"""What the workers of a run are told, and when they are given up."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dstest.core.clock import RunClock
from dstest.core.errors import HarnessError
from dstest.core.spec import RunSpec
from dstest.runner.load import Load
from dstest.runner.plugins import resolve


@pytest.mark.parametrize(("workload", "final_s"), [("work-queue", 120.0), ("register", 20.0)])
def test_the_final_phase_takes_as_long_as_the_workload_says(
    tmp_path: Path, workload: str, final_s: float
) -> None:
    system = "rabbitmq" if workload == "work-queue" else "etcd"
    plugins = resolve(RunSpec(system=system, workload=workload, nemesis="none"), [])
    run: Any = SimpleNamespace(path=tmp_path, segments=tmp_path)
    endpoints: Any = [SimpleNamespace(node=node) for node in plugins.members]
    load = Load(plugins, endpoints, run)
    told = [load._config(worker).final_s for worker in range(load.workers)]
    assert told == [final_s] * load.workers
    load.board.close()


def _load(path: Path) -> Load:
    plugins = resolve(RunSpec(system="etcd", workload="register", nemesis="none"), [])
    run: Any = SimpleNamespace(path=path, segments=path)
    endpoints: Any = [SimpleNamespace(node=node) for node in plugins.members]
    return Load(plugins, endpoints, run)


@pytest.mark.parametrize(("ends_s", "hangs"), [("0.2", False), ("30", True)])
def test_a_worker_that_hangs_in_the_final_phase_is_noticed_at_once(
    tmp_path: Path, ends_s: str, hangs: bool
) -> None:
    """The one that has ended gives no sign of life either."""
    load = _load(tmp_path)

    async def finish() -> None:
        load._processes = [
            await asyncio.create_subprocess_exec("sleep", wait) for wait in ("0", ends_s)
        ]
        try:
            # The last sign of life was long ago.
            await load.finish(RunClock(time.monotonic_ns() - int(60e9)), print)
        finally:
            await load.stop()

    began = time.monotonic()
    if hangs:
        with pytest.raises(HarnessError, match="load worker 1 hangs"):
            asyncio.run(finish())
    else:
        asyncio.run(finish())
    assert time.monotonic() - began < 20
    load.close()


def test_a_worker_that_is_about_to_end_does_not_hang(tmp_path: Path) -> None:
    """Its disk, or threads of its client, may keep it for longer than its silence may last."""
    load = _load(tmp_path)

    async def finish() -> None:
        load._processes = [await asyncio.create_subprocess_exec("sleep", "2") for _ in range(2)]
        for worker in range(load.workers):
            load.board.done(worker)
        await load.finish(RunClock(time.monotonic_ns() - int(60e9)), print)
        assert load.exits() == [0, 0]

    asyncio.run(finish())
    load.close()
