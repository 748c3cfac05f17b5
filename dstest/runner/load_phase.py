"""The load phase of a run: it ends when its time is up and the cluster has recovered, when a look
at the run so far has proved a violation, or when a node or a worker is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from dstest.core.clock import RunClock
from dstest.core.errors import LabError
from dstest.core.protocols import CheckerTraits
from dstest.core.run_meta import Recovery, RunMeta
from dstest.runner import recovery
from dstest.runner.epochs import Journal
from dstest.runner.guard import Guard
from dstest.runner.load import Load
from dstest.runner.nemesis_loop import NemesisLoop
from dstest.runner.plugins import Plugins
from dstest.runner.progress import Progress
from dstest.runner.streaming import watch_for_violation
from dstest.store.layout import RunDir, disk_full

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
        names = [c.name for c in plugins.checkers if CheckerTraits.of(c).prefix_closed]
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
