"""What watching a run costs the process that controls it: a snapshot, its file and its picture.

    .venv/bin/python tests/bench/bench_live.py [LOOKS]

Forty load workers, five nodes and two faults, drawn through a pseudo terminal of 100 columns at the
pace of a run: a look a second. CPU time is that of the process over all looks, beside that of as
many seconds in which nobody looks.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import statistics
import struct
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

from dstest.core.clock import RunClock, monotonic_ns
from dstest.core.evidence import LandingRecord
from dstest.core.op import Outcome
from dstest.core.protocols import FaultPlan, NemesisContext, Ticks, Timing
from dstest.core.run_record import RunSpec
from dstest.history.layout import RunDir
from dstest.runner.board import Board
from dstest.runner.epochs import NoEpochs
from dstest.runner.live import LiveRun
from dstest.runner.load import LoadTraffic
from dstest.runner.nemesis_loop import NemesisLoop
from dstest.runner.screen import LiveView

__all__ = ["main"]

WORKERS: Final = 40
NODES: Final = ("n1", "n2", "n3", "n4", "n5")
LOOKS: Final = 60
OPS_PER_LOOK: Final = 3000


class _Cuts:
    name = "partition"

    async def ticks(self, ctx: NemesisContext, record: LandingRecord) -> Ticks:
        return Ticks("packets cut", ctx.clock.now_ns() // 1_000_000)


def _outcome(op: int) -> Outcome:
    return Outcome.FAIL if op % 97 == 0 else Outcome.OK


def _loop(run_clock: RunClock, traffic: LoadTraffic) -> NemesisLoop:
    deployment: Any = SimpleNamespace(timing=Timing())
    context = NemesisContext(
        nodes={}, lab=cast(Any, None), deployment=deployment, clock=run_clock, traffic=traffic,
        epochs=NoEpochs(),
    )  # fmt: skip
    loop = NemesisLoop(cast(Any, _Cuts()), context, cast(Any, None), lambda said: None)
    for name in ("f7", "f8"):
        loop.standing[name] = LandingRecord(
            fault_id=name, nemesis="partition", targets=["n3"], scheduled_at=0, epoch=name,
            injected_at=1, landed="yes",
        )  # fmt: skip
    return loop


def _terminal() -> tuple[Any, threading.Thread]:
    """A terminal whose other end is read, as by whoever looks at it."""
    outer, inner = os.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))

    def read() -> None:
        while os.read(outer, 65536):
            pass

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    return open(inner, "w", encoding="utf-8"), reader


async def _measure(live: LiveRun, loop: NemesisLoop, board: Board, looks: int) -> None:
    walls, cpus = [], []
    until_ns = loop.ticker._ctx.clock.now_ns() + (looks + 5) * 1_000_000_000
    ticking = asyncio.create_task(loop.ticker.until(until_ns, loop.standing))
    idle_s = time.process_time()
    await asyncio.sleep(5)
    idle_s = (time.process_time() - idle_s) / 5
    for look in range(looks):
        for op in range(OPS_PER_LOOK):
            worker, node = op % WORKERS, (op + look) % len(NODES)
            board.invoked(worker, node, 0)
            board.completed(worker, node, _outcome(op), elsewhere=False)
        cpu_s, wall_s = time.thread_time(), time.perf_counter()
        live.publish()
        cpus.append(time.thread_time() - cpu_s)
        walls.append(time.perf_counter() - wall_s)
        await asyncio.sleep(1.0)
    ticking.cancel()
    cpus.sort()
    walls.sort()
    sys.stdout.write(
        f"  {looks} looks, one a second: {statistics.mean(cpus) * 100:.2f} % of a core"
        f" (without looks {idle_s * 100:.2f} %)\n"
        f"  a look takes {statistics.median(cpus) * 1e3:.1f} ms of CPU, {cpus[-1] * 1e3:.1f} at"
        f" most; by the clock {statistics.median(walls) * 1e3:.1f} ms, {walls[-1] * 1e3:.1f} at"
        f" most\n"
    )


def main(looks: int = LOOKS) -> None:
    os.environ.setdefault("TERM", "xterm-256color")
    stream, _ = _terminal()
    with tempfile.TemporaryDirectory() as folder:
        board = Board(Path(folder, ".board"), WORKERS, len(NODES), create=True)
        run_clock = RunClock(monotonic_ns())
        traffic = LoadTraffic(board, NODES, NODES)
        loop = _loop(run_clock, traffic)
        ui = LiveView(stream)
        live = LiveRun(RunDir(Path(folder)), ui, RunSpec(nemesis="partition", time_limit_s=1200))
        for phase in ("lab", "connect", "deploy", "load"):
            ui.phase(phase)
        plan = FaultPlan(fault_id="f9", nemesis="partition", start_ns=10**12, duration_ns=10**9)
        live.loads(traffic, run_clock, loop, [plan])
        asyncio.run(_measure(live, loop, board, looks))
        live.close()
        board.close()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
