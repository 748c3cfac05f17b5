"""One run whose nodes are simulated: what `dstest.runner.run` does on nodes, in one process.

Workload, plans, the order of a fault, the load phase, segments and judge are those of any run; what
is another one is the loop in which all of it goes, on a clock that jumps from event to event
(`dstest.sim`). What only a machine has is not asked for: logs, clocks and leftovers of nodes.
"""

from __future__ import annotations

import asyncio
import hashlib
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import msgspec

from dstest.core.clock import RunClock, wall_ns
from dstest.core.contained import quit_by
from dstest.core.errors import DstestError, Exit, Interrupted
from dstest.core.history import ClockSource
from dstest.core.node import CLIENTS_HOST, LabInfo
from dstest.core.protocols import (
    Administers,
    Endpoint,
    NemesisContext,
    ServesByHost,
    Simulable,
    SystemTraits,
    Timing,
)
from dstest.core.run_meta import RunMeta
from dstest.runner import host
from dstest.runner.declared_path import declared
from dstest.runner.epochs import Journal, RunEpochs
from dstest.runner.failures import failure_of
from dstest.runner.guard import Guard
from dstest.runner.live import LiveRun
from dstest.runner.load_phase import LoadPhase
from dstest.runner.nemesis_loop import NemesisLoop
from dstest.runner.plugins import Plugins
from dstest.runner.recovery import Recovery
from dstest.runner.requirements import deployment_of
from dstest.runner.simulated_fit import simulated_nemesis
from dstest.runner.simulated_load import SimulatedLoad
from dstest.runner.simulated_samples import SimulatedSampler
from dstest.runner.simulated_stop import Stop
from dstest.sim.simulate import SETTLE_S
from dstest.sim.world import World
from dstest.store.events import Writer
from dstest.store.layout import EVENTS, RunDir
from dstest.store.segment import SegmentWriter

LOOK_S: Final = 0.1

FAILURES_SHOWN: Final = 3
"""Of what ended servers, in the words of an error."""


class NotServing(DstestError):
    """The simulated cluster has not come to serve: nothing was shown of it."""

    exit_code = Exit.NOT_PROVEN


class _Unasked:
    """Stands for a deployment where nothing can be asked of the simulated system."""


class SimulatedRun:
    """As `dstest.runner.run.Run`. How it went goes into `meta`."""

    def __init__(
        self, plugins: Plugins, lab: LabInfo, run: RunDir, meta: RunMeta, live: LiveRun
    ) -> None:
        simulable = SystemTraits.of(plugins.system).simulable
        assert simulable is not None, "it was asked for when the run was planned"
        self._plugins, self._lab, self._run, self._meta = plugins, lab, run, meta
        self._ui = live.ui
        self._simulable: Simulable = simulable
        options = plugins.spec.options
        self._world = World(
            plugins.spec.seed,
            plugins.members,
            lambda world, host: simulable.main(world, host, options),
        )
        self._nemesis = simulated_nemesis(plugins.nemesis, self._world)
        timing = getattr(deployment_of(plugins.system), "timing", None)
        self._timing = timing if isinstance(timing, Timing) else Timing()
        self._load: SimulatedLoad | None = None
        self._loop: NemesisLoop | None = None
        self._journal: Journal | None = None
        self._going: asyncio.Task[Any] | None = None
        self._sampler: SimulatedSampler | None = None
        meta.host = host.host_of(SystemTraits.of(plugins.system).client_packages)
        meta.lab = lab.kind
        meta.transport = declared(plugins.lab, plugins.system)
        meta.clock = ClockSource(name="SIMULATED_MONOTONIC", resolution_ns=1, host="simulation")

    def execute(self, stop: Stop) -> DstestError | None:
        """Run to the end. Raises nothing of ours: the error that ended it early is returned."""
        failure: DstestError | None = None
        loop = self._world.loop
        stop.interrupt = partial(setattr, loop, "interrupted", True)
        try:
            self._world.run(self._body(), CLIENTS_HOST)
            stop.waits = True
        except KeyboardInterrupt:
            failure = Interrupted(f"stopped by {stop.by or 'SIGINT'}")
        except SystemExit as end:
            failure = quit_by(end)
        except Exception as error:
            failure = failure_of(error, self._run, self._meta)
        with stop.waiting():
            loop.interrupted = False
            try:
                self._world.run(self._clean_up(failure), CLIENTS_HOST)
            finally:
                self._world.close()
                left = self._keep()
        stop.interrupt = None  # what is left is no simulation
        return failure or left

    async def _body(self) -> None:
        plugins, ui, meta = self._plugins, self._ui, self._meta
        self._going = asyncio.current_task()
        ui.phase("deploy", f"{plugins.system.name}, simulated")
        for name in self._world.hosts:
            self._world.start(name)
        if not await self._served():
            ended = "".join(f"; {what}" for what in self._world.loop.failures[:FAILURES_SHOWN])
            raise NotServing(
                f"the simulated {plugins.system.name} did not serve within {SETTLE_S:g} s{ended}",
                remedy=f"{EVENTS} has what happened",
            )
        meta.system_version = simulated_version(self._simulable)
        meta.members = plugins.members
        meta.log_files = {}
        port = self._simulable.port
        meta.endpoints = [Endpoint(node=n, address=n, port=port) for n in plugins.members]
        load = self._load = SimulatedLoad(plugins, meta.endpoints, self._run, self._world.loop)
        meta.workers = load.workers
        self._run.write_meta(meta)  # one that dies before it asks has said what it was of
        await load.start()
        clock = load.begin()
        # When it was made, for people and for gates; within a simulation there is one clock.
        meta.origin_ns = clock.origin_ns
        meta.clock_start_ns = meta.clock_end_ns = wall_ns() - clock.origin_ns
        self._run.write_meta(meta)  # one that dies has said when, and by which path its load went
        if plugins.spec.monitor:
            asks = SystemTraits.of(plugins.system).asks
            limit_s = plugins.spec.time_limit_s
            self._sampler = SimulatedSampler(self._world, clock, asks, limit_s)
            self._sampler.start()
        await self._loaded(load, clock)
        if meta.stopped_by is None:
            await self._settled(load, clock)

    async def _loaded(self, load: SimulatedLoad, clock: RunClock) -> None:
        plugins, spec = self._plugins, self._plugins.spec
        writer = SegmentWriter(self._run.segments / "control.seg", Writer(control=True))
        journal = self._journal = Journal(writer, clock)
        journal.note(planned=[msgspec.to_builtins(plan) for plan in plugins.plans])
        journal.note(transport=self._meta.transport)
        context = self._context(load, clock, RunEpochs(load.board, clock, journal))
        recovered = Recovery(self._timing.failover_s)
        loop = self._loop = NemesisLoop(
            self._nemesis,
            context,
            journal,
            self._ui.say,
            ready=lambda: recovered.settled_ns is not None,
        )
        self._ui.phase(
            "load",
            f"{spec.workload} for {spec.time_limit_s:g} s of the simulated clock, "
            f"{spec.concurrency} clients, {len(plugins.plans)} faults planned",
        )
        phase = LoadPhase(
            plugins,
            self._run,
            self._meta,
            self._ui,
            nodes={},
            guard=Guard({}, []),
            loop=loop,
            recovered=recovered,
        )
        await phase.run(clock, load, journal)

    async def _settled(self, load: SimulatedLoad, clock: RunClock) -> None:
        self._ui.phase("settle", "waiting for the cluster to serve")
        serves = await self._served()
        self._meta.healthy = await self._healthy(serves)
        self._meta.load_end_ns = clock.now_ns()
        if self._plugins.workload_finishes:
            self._ui.phase("final", "the load ends; the final state is read")
            await load.finish(clock, lambda text: self._ui.phase("final", text))

    async def _served(self) -> bool:
        """Do all of them, before the time is up?"""
        loop = self._world.loop
        until_ns = loop.time_ns + int(SETTLE_S * 1e9)
        while not await self._simulable.serves(self._world):
            if loop.time_ns >= until_ns:
                return False
            await asyncio.sleep(LOOK_S)
        return True

    async def _healthy(self, serves: bool) -> dict[str, bool]:
        """Each member, as it says itself where the system can ask one."""
        members, simulable = self._plugins.members, self._simulable
        if not serves and isinstance(simulable, ServesByHost):
            told = await simulable.serving(self._world)
            found = {name: told.get(name, False) for name in members}
            if not all(found.values()):
                return found
        return dict.fromkeys(members, serves)

    def _context(self, load: SimulatedLoad, clock: RunClock, epochs: RunEpochs) -> NemesisContext:
        """What a nemesis of a simulation may ask for: it has no nodes, but their names."""
        simulable = self._simulable
        deployment: Any = _Unasked()
        if isinstance(simulable, Administers):
            deployment = simulable.administration(self._world)
        deployment.timing = self._timing
        hosts: Any = {name: self._world.hosts[name] for name in self._plugins.members}
        return NemesisContext(
            nodes=hosts,
            lab=self._lab,
            deployment=deployment,
            clock=clock,
            traffic=load.traffic,
            epochs=epochs,
            options=self._plugins.spec.options,
            of_lab=self._plugins.lab,
        )

    async def _clean_up(self, failure: DstestError | None) -> None:
        meta = self._meta
        if failure is not None:
            self._ui.phase("stop", str(failure).splitlines()[0])
            self._run.give_up_ballast()
        if self._going is not None and not self._going.done():
            self._going.cancel()
            await asyncio.gather(self._going, return_exceptions=True)
        if self._sampler is not None:
            self._sampler.stop()
        if self._loop is not None:
            meta.heal_problems = await self._loop.finish() or None
            meta.residue = {**self._standing(), **await self._loop.audit()}
            meta.records = [msgspec.to_builtins(r) for r in self._loop.records.values()]
        if self._journal is not None:
            self._journal.close()
        if self._load is not None:
            await self._load.stop()
            meta.worker_exits = self._load.exits()
            meta.load = self._load.figures()
            meta.traffic = self._load.traffic.counted()
            self._load.close()
        meta.cpu_s = host.cpu_s()

    def _standing(self) -> dict[str, list[str]]:
        return {name: self._world.standing(name) for name in self._world.hosts}

    def _keep(self) -> DstestError | None:
        """What happened, and what failed. The error where there was no place for it."""
        log = self._world.log
        self._meta.events, self._meta.digest = log.count, log.digest
        self._meta.failures = list(self._world.loop.failures)
        try:
            if self._sampler is not None:
                self._meta.monitor = self._sampler.keep(self._run)
            self._run.write(EVENTS, "\n".join([*log.lines, ""]))
            for (host_, name), lines in self._world.kept().items():
                self._run.write(f"nodes/{host_}/{name}", "\n".join([*lines, ""]))
                if lost := self._world.unkept[host_, name]:
                    self._ui.say(f"{host_}: {lost:,} lines of {name} are more than is kept")
        except DstestError as error:
            return error
        return None


def simulated_version(simulable: Simulable) -> str:
    """Of servers that are modules: by what stands in these."""
    found = hashlib.sha256()
    for name in sorted(simulable.modules):
        found.update(Path(str(import_module(name).__file__)).read_bytes())
    return f"simulated-{found.hexdigest()[:12]}"
