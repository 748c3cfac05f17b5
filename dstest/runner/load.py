"""The load plane seen from the control process: start workers, watch them, stop them.

The load phase ends when its time is up and the cluster has recovered, when a look at the run so far
has proved a violation, or when a node or a worker is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from dstest.core import clock
from dstest.core.clock import RunClock
from dstest.core.errors import HarnessError, LabError
from dstest.core.history import Recovery
from dstest.core.protocols import Endpoint
from dstest.core.run_record import RunMeta
from dstest.history.layout import RunDir, disk_full
from dstest.runner import recovery
from dstest.runner.adoption import Guard
from dstest.runner.board import (
    FINISHING,
    LOADING,
    STOPPING,
    TROUBLE_CRASH,
    TROUBLE_DISK,
    WAITING,
    Board,
)
from dstest.runner.epochs import Journal
from dstest.runner.nemesis_loop import NemesisLoop
from dstest.runner.plugins import Plugins
from dstest.runner.screen import Progress
from dstest.runner.streaming import watch_for_violation
from dstest.runner.worker_config import CATCH_UP, STACK_SIGNAL, WorkerConfig

_READY_TIMEOUT_S: Final = 30.0
_SILENCE_S: Final = 5.0
_LOOK_S: Final = 1.0
_SAID_NS: Final = 10_000_000_000
_STACK_LOOKS: Final = 50
_STACK_LOOK_S: Final = 0.02
_FRAME: Final = re.compile(r'  File "(?:.*/)?([^/"]+)", line (\d+) in (\S+)')
_PROCESSES_PER_WORKER: Final = 10
_WORKERS_MAX: Final = 4


KINDS: Final = ("invoked", "ok", "fail", "unknown")


class NoTraffic:
    """The Traffic of a cluster without load."""

    def by_node(self) -> dict[str, dict[str, int]]:
        return {}


class LoadTraffic:
    """Live counts per member, over all of its endpoints: zeros of one that has none.

    `names` has the node of each endpoint, as the board counts them.
    """

    def __init__(self, board: Board, names: Sequence[str], members: Sequence[str]) -> None:
        self._board = board
        self._names = list(names)
        self._members = list(dict.fromkeys([*members, *names]))

    def by_node(self) -> dict[str, dict[str, int]]:
        rows = self._board.by_node()
        found = {name: dict.fromkeys(rows[0], 0) for name in self._members}
        for name, row in zip(self._names, rows, strict=True):
            found[name] = {kind: found[name][kind] + count for kind, count in row.items()}
        return found

    def counted(self) -> dict[str, dict[str, int]]:
        """By the node of the client, wherever an operation went."""
        return {
            name: {kind: row[kind] + row.get(f"{kind}_elsewhere", 0) for kind in KINDS}
            for name, row in self.by_node().items()
        }

    def total(self) -> dict[str, int]:
        """Sums over all nodes."""
        rows = self.counted().values()
        return {kind: sum(row[kind] for row in rows) for kind in KINDS}


class Load:
    """The workers of one run."""

    def __init__(self, plugins: Plugins, endpoints: Sequence[Endpoint], run: RunDir) -> None:
        spec = plugins.spec
        self._plugins = plugins
        self._final_s = plugins.workload.final_s
        self._run = run
        self._endpoints = list(endpoints)
        n = len(endpoints)
        self.workers = self._fitting(int(spec.options["workers"]), spec.concurrency, n)
        self.board = Board(run.path / ".board", self.workers, n, create=True)
        self.traffic = LoadTraffic(self.board, [one.node for one in endpoints], plugins.members)
        self._processes: list[asyncio.subprocess.Process] = []

    def _fitting(self, wanted: int, concurrency: int, endpoints: int) -> int:
        fitting = min(_WORKERS_MAX, os.cpu_count() or 1, concurrency // _PROCESSES_PER_WORKER)
        # Every worker's processes must reach all nodes: its keys are its own.
        return max(1, min(wanted or fitting, concurrency // endpoints))

    def _config(self, worker: int) -> WorkerConfig:
        spec, n = self._plugins.spec, len(self._endpoints)
        slots = [
            (slot, slot % n)
            for slot in range(spec.concurrency)
            if slot // n % self.workers == worker
        ]
        return WorkerConfig(
            worker=worker,
            workers=self.workers,
            board=str(self._run.path / ".board"),
            segment=str(self._run.segments / f"worker-{worker}.seg"),
            system=spec.system,
            workload=spec.workload,
            capability=self._plugins.workload.capability,
            seed=spec.seed,
            options=spec.options,
            endpoints=self._endpoints,
            slots=slots,
            concurrency=spec.concurrency,
            rate=spec.rate,
            catch_up=self._catches_up(),
            attach=spec.attach,
            op_timeout_s=float(spec.options["op_timeout_s"]),
            final_s=self._final_s,
            parent_pid=os.getpid(),
        )

    def _catches_up(self) -> bool:
        given = self._plugins.spec.options.get(CATCH_UP)
        return self._plugins.lab.catch_up if given is None else bool(given)

    async def start(self) -> None:
        """Start the workers and wait until each is ready to load."""
        for worker in range(self.workers):
            data = msgspec.json.encode(self._config(worker))
            path = self._run.write(f"workers/worker-{worker}.json", data)
            with (path.with_suffix(".log")).open("wb") as log:
                self._processes.append(
                    await asyncio.create_subprocess_exec(
                        *(sys.executable, "-m", "dstest.runner.worker", str(path)),
                        stdin=asyncio.subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )
                )
        deadline_ns = clock.monotonic_ns() + int(_READY_TIMEOUT_S * 1e9)
        while not all(self.board.heartbeats()):
            self.check()
            if clock.monotonic_ns() > deadline_ns:
                raise HarnessError("load workers did not get ready", remedy=self._see_logs())
            await asyncio.sleep(0.02)

    def _see_logs(self) -> str:
        return f"see {self._run.path}/workers/worker-*.log"

    def begin(self) -> RunClock:
        """Start the run's clock and let the load begin."""
        origin_ns = clock.monotonic_ns()
        self.board.origin_ns = origin_ns
        self.board.state = LOADING
        return RunClock(origin_ns)

    def check(self, now_ns: int | None = None) -> None:
        """Raise where a worker is in trouble, dead or silent."""
        self._check_disk()
        troubles = self.board.troubles()
        ended = [i for i, p in enumerate(self._processes) if p.returncode is not None]
        if TROUBLE_CRASH in troubles or ended:
            which = ended or [troubles.index(TROUBLE_CRASH)]
            raise HarnessError(
                f"load worker {which[0]} died: {self._last_words(which[0])}",
                remedy=self._see_logs(),
            )
        if now_ns is not None:
            self._check_silence(now_ns)

    def _check_disk(self) -> None:
        """Raise where a worker could not record."""
        if TROUBLE_DISK in self.board.troubles():
            raise disk_full(self._run.path, OSError(errno.ENOSPC, "no space left"))

    def _check_silence(self, now_ns: int) -> None:
        """Raise where a worker runs and gives no sign of life."""
        beats = zip(self._processes, self.board.heartbeats(), strict=True)
        for worker, (process, beat_ns) in enumerate(beats):
            if process.returncode is None and now_ns - beat_ns > _SILENCE_S * 1e9:
                raise self._hangs(worker, process)

    def _hangs(self, worker: int, process: asyncio.subprocess.Process) -> HarnessError:
        """Where its only thread for all operations is, as far as the worker says so."""
        before = len(self._log_text(worker))
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(STACK_SIGNAL)
        frames: list[tuple[str, str]] = []
        for _ in range(_STACK_LOOKS):
            time.sleep(_STACK_LOOK_S)
            text = self._log_text(worker)[before:]
            if "worker.py" in text:
                frames = [(m[3], f"{m[1]}, line {m[2]}") for m in _FRAME.finditer(text)]
                break
        own = {Path(path).name for path in self._plugins.spec.files}
        theirs = next((f for f in frames if f[1].partition(",")[0] in own), None)
        if theirs is None:
            return HarnessError(f"load worker {worker} hangs", remedy=self._see_logs())
        inner, where = frames[0]
        waits = "" if frames[0] == theirs else f" waits in {inner} ({where})"
        return HarnessError(
            f"load worker {worker} hangs: {theirs[0]} ({theirs[1]}){waits}",
            remedy="a call that blocks holds up all operations of its worker: a BlockingClient of"
            " clusters.supervise makes it in a thread of its own (docs/reference/system-bases.md);"
            f" the whole stack is in {self._log_of(worker)}",
        )

    def _log_of(self, worker: int) -> Path:
        return self._run.path / "workers" / f"worker-{worker}.log"

    def _log_text(self, worker: int) -> str:
        path = self._log_of(worker)
        return path.read_text(errors="replace") if path.is_file() else ""

    def _last_words(self, worker: int) -> str:
        lines = self._log_text(worker).strip().splitlines()
        return lines[-1][:300] if lines else "no message"

    async def finish(self, run_clock: RunClock, say: Callable[[str], None]) -> None:
        """End the load, then let each worker read the final state; waits until all are done, or
        one of them hangs. Says now and then how far they are."""
        self.board.state = FINISHING
        op_timeout_s = float(self._plugins.spec.options["op_timeout_s"])
        patience_s = 2 * op_timeout_s + self._final_s + 4.0
        end_ns = run_clock.now_ns() + int(patience_s * 1e9)
        began = self.traffic.total()["invoked"]
        said_ns = run_clock.now_ns()
        waits = [asyncio.create_task(process.wait()) for process in self._processes]
        try:
            while not all(wait.done() for wait in waits) and run_clock.now_ns() < end_ns:
                await asyncio.wait(waits, timeout=_LOOK_S)
                now_ns = run_clock.now_ns()
                self._check_silence(now_ns)
                if now_ns - said_ns > _SAID_NS:
                    said_ns, asked = now_ns, self.traffic.total()["invoked"] - began
                    left_s = (end_ns - now_ns) / 1e9
                    say(f"{asked:,} operations; at most {left_s:.0f} s more")
        finally:
            for wait in waits:
                wait.cancel()

    async def stop(self) -> None:
        """Stop loading, let operations in flight end, end the processes. Never raises."""
        waiting = self.board.state == WAITING
        self.board.state = STOPPING
        patience_s = 1.0 if waiting else float(self._plugins.spec.options["op_timeout_s"]) + 4.0
        for process in self._processes:
            try:
                async with asyncio.timeout(patience_s):
                    await process.wait()
            except TimeoutError:
                process.send_signal(signal.SIGKILL)
                await process.wait()

    def exits(self) -> list[int | None]:
        """How each worker ended: its exit status, below 0 for a signal, None while it runs."""
        return [process.returncode for process in self._processes]

    def figures(self) -> dict[str, int]:
        """Offered operations, lateness and loop lag."""
        return self.board.lateness()

    def close(self) -> None:
        """Unmap the board and remove its file."""
        self.board.close()
        Path(self._run.path / ".board").unlink(missing_ok=True)


_WATCH_S: Final = 1.0
_RECOVERY_S: Final = 8.0
_PING_TIMEOUT_S: Final = 5.0


class LoadPhase:
    """What it finds goes into `meta`; when the cluster has recovered, `recovered` knows."""

    def __init__(
        self,
        plugins: Plugins,
        run: RunDir,
        meta: RunMeta,
        ui: Progress,
        *,
        nodes: Mapping[str, Any],
        guard: Guard,
        loop: NemesisLoop,
        recovered: recovery.Recovery,
    ) -> None:
        self._plugins = plugins
        self._run = run
        self._meta = meta
        self._ui = ui
        self._nodes = nodes
        self._guard = guard
        self._loop = loop
        self._recovery = recovered

    async def run(self, clock: RunClock, load: Load, journal: Journal) -> None:
        """Load until the time is up; a lost node or worker ends it early."""
        end_ns = int(self._plugins.spec.time_limit_s * 1e9)
        watch = asyncio.create_task(self._watch(clock, load, journal))
        faults = asyncio.create_task(self._loop.run(self._plugins.plans))
        stream = asyncio.create_task(self._stream(clock))
        tasks: set[asyncio.Task[Any]] = {watch, faults, stream}
        try:
            while not faults.done() and not stream.done():
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            healed_ns, told = clock.now_ns(), False
            while (now_ns := clock.now_ns()) < self._end_ns(end_ns, healed_ns):
                if now_ns > end_ns and not told:
                    self._ui.say(recovery.GOES_ON)
                    told = True
                if stream.done():
                    self._meta.stopped_by = stream.result()
                    break
                wait_s = min(0.5, (self._end_ns(end_ns, healed_ns) - now_ns) / 1e9)
                await asyncio.wait({watch, stream}, timeout=wait_s)
                if watch.done():
                    watch.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self._meta.settled_ns = self._recovery.settled_ns
        self._meta.recoveries = [
            Recovery(healed_ns=healed_ns, settled_ns=settled_ns)
            for healed_ns, settled_ns in self._recovery.heals
        ]
        self._meta.load_s = round(clock.now_ns() / 1e9, 3)

    async def _stream(self, clock: RunClock) -> str:
        """What a look at the run so far has proved; for ever, where nobody asked for looks."""
        plugins = self._plugins
        names = [c.name for c in plugins.checkers if c.prefix_closed]
        if not plugins.spec.stop_on_violation or not names:
            await asyncio.Event().wait()
        violation = await watch_for_violation(
            self._run.segments, names, plugins.model, plugins.spec.options, clock
        )
        self._ui.say(f"violation: {violation}; the run ends here")
        return violation

    def _end_ns(self, limit_ns: int, healed_ns: int) -> int:
        """When the load may end, as things stand: the cluster has recovered and was measured."""
        if not self._plugins.plans:
            return limit_ns
        settled_ns = self._recovery.settled_ns
        wanted_ns = healed_ns + int(recovery.GIVE_UP_S * 1e9)
        if settled_ns is not None:
            tail_ns = int(recovery.TAIL_S * 1e9)
            wanted_ns = max(settled_ns + tail_ns, healed_ns + int(_RECOVERY_S * 1e9))
        return max(limit_ns, wanted_ns)

    async def _watch(self, clock: RunClock, load: Load, journal: Journal) -> None:
        """Each second: are workers and nodes alive, and what are the figures?"""
        last, last_ns = load.traffic.total(), clock.now_ns()
        while True:
            await asyncio.sleep(_WATCH_S)
            load.check(clock.now_ns())
            if journal.refused is not None:
                raise disk_full(self._run.path, journal.refused)
            await asyncio.gather(*map(self._ping, self._nodes.values()))
            await self._guard.check()
            now, now_ns = load.traffic.total(), clock.now_ns()
            rate = (now["ok"] - last["ok"]) / ((now_ns - last_ns) / 1e9)
            standing = list(self._loop.standing)
            fault = f"fault {' and '.join(standing)}" if standing else "no fault stands"
            if now_ns > self._plugins.spec.time_limit_s * 1e9:
                fault += ", load goes on until its recovery is measured"
            self._ui.figures(
                f"load {now_ns / 1e9:5.1f}s  {rate:6.0f} ok/s  ok {now['ok']}  fail {now['fail']}"
                f"  unknown {now['unknown']}  {fault}"
            )
            last, last_ns = now, now_ns
            served = [row["ok"] for row in load.traffic.counted().values()]
            self._recovery.look(now_ns, served, now["unknown"], whole=not standing)

    async def _ping(self, node: Any) -> None:
        if node.away:
            return
        try:
            await node.call("ping", timeout_s=_PING_TIMEOUT_S)
        except LabError as error:
            if node.away:
                return
            raise LabError(
                f"{node.name} is lost: {error.message}",
                remedy="`dstest lab status` tells whether it runs; `dstest lab down`, then again",
            ) from None
