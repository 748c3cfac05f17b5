"""What the workers of a run are told, and when they are given up."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from dstest.core.clock import RunClock
from dstest.core.errors import HarnessError
from dstest.core.run_record import RunSpec
from dstest.runner.load import Load
from dstest.runner.plugins import resolve

pytestmark = pytest.mark.slow


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


def _load(path: Path, *files: str) -> Load:
    plugins = resolve(RunSpec(system="etcd", workload="register", nemesis="none"), [])
    spec = msgspec.structs.replace(plugins.spec, files=list(files))
    plugins = msgspec.structs.replace(plugins, spec=spec)
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


WORKER = """\
import faulthandler, runpy, signal
faulthandler.register(signal.SIGUSR1)
print("began", flush=True)
runpy.run_path({client!r})
"""


def test_a_worker_that_hangs_is_told_by_the_call_that_blocks(tmp_path: Path) -> None:
    client = tmp_path / "blocks.py"
    client.write_text("import time\ndef do_read():\n    time.sleep(60)\ndo_read()\n")
    program = tmp_path / "worker.py"
    program.write_text(WORKER.format(client=str(client)))
    load = _load(tmp_path, str(client))
    log = tmp_path / "workers" / "worker-0.log"
    log.parent.mkdir(exist_ok=True)
    with log.open("wb") as out:
        process: Any = subprocess.Popen([sys.executable, str(program)], stdout=out, stderr=out)
    try:
        while b"began" not in log.read_bytes():
            assert process.poll() is None
            time.sleep(0.02)
        time.sleep(0.2)
        error = load._hangs(0, process)
    finally:
        process.kill()
        process.wait()
    assert error.message == "load worker 0 hangs: do_read (blocks.py, line 3)"
    assert "BlockingClient" in (error.remedy or "")
    assert "line 4 in <module>" in log.read_text()
