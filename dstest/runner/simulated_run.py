"""One run whose nodes are simulated: what `dstest.runner.run` does on nodes, in one process.

Workload, plans, the order of a fault, the load phase, segments and judge are those of any run; what
is another one is the loop in which all of it goes, on a clock that jumps from event to event
(`dstest.sim`). What only a machine has is not asked for: logs, clocks and leftovers of nodes.
"""

from __future__ import annotations

import asyncio
import hashlib
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any, Final

import msgspec

from clusters.remote.agent_readings import Readings, numbers_of
from dstest.core.clock import RunClock, wall_ns
from dstest.core.errors import DstestError, Exit, HarnessError, Interrupted
from dstest.core.history import ClockSource
from dstest.core.node import CLIENTS_HOST, LabInfo
from dstest.core.processes import quit_by
from dstest.core.protocols import (
    Administers,
    Client,
    Endpoint,
    NemesisContext,
    ServesByHost,
    Simulable,
    System,
    Timing,
)
from dstest.core.protocols.systems import Asks
from dstest.core.run_record import RunMeta
from dstest.debug.monitor.client import Sample, encode_rows, unit_of
from dstest.history.layout import EVENTS, RunDir, disk_full
from dstest.history.segment import SegmentWriter, Writer
from dstest.runner import host
from dstest.runner.adoption import Guard
from dstest.runner.board import FINISHING, LOADING, STOPPING
from dstest.runner.epochs import Journal, RunEpochs
from dstest.runner.live import LiveRun
from dstest.runner.load import Load, LoadPhase
from dstest.runner.nemesis_loop import NemesisLoop
from dstest.runner.plugins import Plugins
from dstest.runner.recovery import Recovery
from dstest.runner.requirements import deployment_of
from dstest.runner.run import failure_of
from dstest.runner.samplers import every_s, metrics_file, rows_of
from dstest.runner.simulated_fit import simulated_nemesis
from dstest.runner.tap import Tap
from dstest.runner.worker import Worker
from dstest.runner.worker_config import WorkerConfig
from dstest.sim.simulate import SETTLE_S, client_of
from dstest.sim.world import World

_SLACK_S: Final = 4.0


class SimulatedClock(RunClock, frozen=True):
    """Run time in a simulation; `loop` is its `VirtualLoop`."""

    loop: Any = None

    def now_ns(self) -> int:
        now: int = self.loop.time_ns
        return now - self.origin_ns


class _Tap(Tap):
    def address_of(self, number: int) -> str:
        return f"tap{number}"


class _Worker(Worker):
    """In the process of the run."""

    def __init__(self, config: WorkerConfig) -> None:
        numbers = count()

        def make(
            system: System,
            capability: str,
            at: Endpoint,
            every: Sequence[Endpoint],
            options: Mapping[str, Any],
        ) -> Client:
            return client_of(system, capability, at, every, options, f"c{next(numbers)}")

        super().__init__(config, make, _Tap)

    def begin(self, clock: RunClock) -> None:
        """Times count from here."""
        self._clock = clock

    def end(self) -> None:
        super().end()
        self._board.close()


class SimulatedLoad(Load):
    """As `Load`, for who watches it.

    One worker, which is the one of any run, in the loop that simulates: its clients are those of
    the system on simulated connections, its clock is that of the simulation, and its taps listen
    within the simulated network.
    """

    def __init__(
        self,
        plugins: Plugins,
        endpoints: Sequence[Endpoint],
        run: RunDir,
        loop: Any,
    ) -> None:
        super().__init__(plugins, endpoints, run)
        self._loop = loop
        config = msgspec.structs.replace(self._config(0), parent_pid=0)
        self._worker = _Worker(config)
        self._clients: list[Client] = []
        self._task: asyncio.Task[None] | None = None

    def _fitting(self, wanted: int, concurrency: int, endpoints: int) -> int:
        return 1

    async def start(self) -> None:
        self._clients = await self._worker.open_clients()

    def begin(self) -> RunClock:
        clock = SimulatedClock(self._loop.time_ns, self._loop)
        self._worker.begin(clock)
        self.board.origin_ns = clock.origin_ns
        self.board.state = LOADING
        self._task = asyncio.ensure_future(self._worker.load(self._clients))
        return clock

    def check(self, now_ns: int | None = None) -> None:
        """Raise where the worker could not record, or has ended: nobody has told it to."""
        self._check_disk()
        if self._task is None or not self._task.done():
            return
        error = None if self._task.cancelled() else self._task.exception()
        if isinstance(error, OSError):
            raise disk_full(self._run.path, error)
        why = "nobody had told it to" if error is None else f"{type(error).__name__}: {error}"
        raise HarnessError(f"the load ended early: {why}")

    async def finish(self, run_clock: RunClock, say: Callable[[str], None]) -> None:
        self.board.state = FINISHING
        await self._over(self._final_s)

    async def stop(self) -> None:
        if self.board.state != FINISHING:
            self.board.state = STOPPING
        await self._over(0.0)
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._worker.end()

    async def _over(self, more_s: float) -> None:
        timeout_s = 2 * float(self._plugins.spec.options["op_timeout_s"]) + more_s + _SLACK_S
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=timeout_s)

    def exits(self) -> list[int | None]:
        task = self._task
        if task is None or not task.done():
            return [None]
        return [1 if task.cancelled() or task.exception() is not None else 0]


class SimulatedSampler:
    """From `start` to `stop` it looks whenever a second of the simulated clock has passed.

    It keeps what a simulated server says of itself, and what its host has sent. Nothing is sent to
    ask for it and nothing random is drawn, so that a simulation is the same, byte for byte, whether
    it is sampled or not. There is no memory and no processor of a simulated host, and no sample
    says that there were.
    """

    def __init__(
        self, world: World, run_clock: RunClock, asks: Sequence[Asks], time_limit_s: float
    ) -> None:
        self._world = world
        self._clock = run_clock
        self._asks = [ask for ask in asks if ask.form == "json"]
        self._readings = {
            name: [Readings(rows_of(ask)) for ask in self._asks] for name in world.hosts
        }
        self._every_s = every_s(time_limit_s)
        self._due_ns = 0
        self._before_ns = 0
        self._rows: list[Sample] = []
        self._samples = dict.fromkeys(world.hosts, 0)
        self._sent = dict(world.net.sent_bytes)

    def start(self) -> None:
        """The first look is at once."""
        self._due_ns = self._clock.now_ns()
        self._world.loop.moved = self._moved
        self._moved()

    def stop(self) -> None:
        """No more looks."""
        self._world.loop.moved = lambda: None

    def _moved(self) -> None:
        now_ns = self._clock.now_ns()
        if now_ns >= self._due_ns:
            self._look(now_ns)
            self._due_ns += int(self._every_s * 1e9)
            self._due_ns = max(self._due_ns, now_ns)

    def _look(self, now_ns: int) -> None:
        units = {r.name: r.unit for ask in self._asks for r in ask.readings}
        for name, simulated in self._world.hosts.items():
            values = self._host(name, simulated, now_ns)
            self._samples[name] += 1
            self._rows += [
                Sample(
                    time_ns=now_ns,
                    node=name,
                    name=key,
                    value=round(value, 6),
                    unit=units.get(key) or unit_of(key),
                )
                for key, value in values.items()
            ]
        self._sent, self._before_ns = dict(self._world.net.sent_bytes), now_ns

    def _host(self, name: str, host: Any, now_ns: int) -> dict[str, float]:
        net = self._world.net
        found: dict[str, float] = {"answers": 0.0}
        if host.up and host.status is not None:
            said = {"ok": host.status()}
            found = {"answers": 1.0}
            for one in self._readings[name]:
                found |= one.of(numbers_of(said, one.places), now_ns)
        found["messages_sent"] = float(net.sent[name])
        if self._before_ns and now_ns > self._before_ns:
            grown = net.sent_bytes[name] - self._sent.get(name, 0)
            found["net_sent"] = grown / ((now_ns - self._before_ns) / 1e9)
        return found

    def keep(self, run: RunDir) -> dict[str, Any]:
        """Write them down; for run.json."""
        metrics_file(run).write_bytes(encode_rows(self._rows))
        return {
            "every_s": self._every_s,
            "nodes": {name: {"samples": n, "lost": 0} for name, n in self._samples.items()},
        }


SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

_PATIENCE_S: Final = 5.0
"""Of this process's time, for the turn in which the first signal comes."""


class Stop:
    """`by` is the signal that has ended the simulation, empty where none has: once there is one,
    none ends anything, until the run is judged. While it `waits` no first one does either: what is
    left to do has to be done. `interrupt` asks the simulation to raise KeyboardInterrupt between
    two of its turns: raised in the middle of one, its loop would lose a callback, and what waits
    for that waits for ever."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.by = ""
        self.waits = False
        self.interrupt: Callable[[], None] | None = None
        self._say = say

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """In which it waits."""
        self.waits = True
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        try:
            yield
        finally:
            self.waits = False

    def came(self, number: int, frame: Any) -> None:
        """A handler of signals. Raises KeyboardInterrupt where nothing can be asked to."""
        if self.by or self.waits:
            # It may have come in the middle of a line that is being written to the same place.
            with suppress(RuntimeError):
                self._say("already stopping: the history is sealed first, one moment")
            return
        self.by = signal.Signals(number).name
        if self.interrupt is None:
            raise KeyboardInterrupt
        self.interrupt()
        signal.setitimer(signal.ITIMER_VIRTUAL, _PATIENCE_S)

    def late(self, number: int, frame: Any) -> None:
        """A handler of the timer: the turn has not ended. Raises KeyboardInterrupt."""
        if not self.waits:
            raise KeyboardInterrupt


@contextmanager
def stopping(say: Callable[[str], None]) -> Iterator[Stop]:
    """SIGTERM ends the simulation as Ctrl-C does. In a thread, which gets no signals, neither.

    The loop of a simulation has no signals of its own: the first asks it to end between two turns,
    and where a server never waits it raises where the program is, some seconds of work later; what
    comes after the first is waited out, as on nodes.
    """
    stop = Stop(say)
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, stop.came) for number in SIGNALS}
    before[signal.SIGVTALRM] = signal.signal(signal.SIGVTALRM, stop.late)
    try:
        yield stop
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


LOOK_S: Final = 0.1

FAILURES_SHOWN: Final = 3
"""Of what ended servers, in the words of an error."""


class NotServing(DstestError):
    """The simulated cluster has not come to serve: nothing was shown of it."""

    exit_code = Exit.NOT_PROVEN


class _NoDeployment:
    """Stands for a deployment where nothing can be asked of the simulated system."""


class SimulatedRun:
    """As `dstest.runner.run.Run`. How it went goes into `meta`."""

    def __init__(
        self, plugins: Plugins, lab: LabInfo, run: RunDir, meta: RunMeta, live: LiveRun
    ) -> None:
        simulable = plugins.system.simulable
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
        meta.host = host.host_of(plugins.system.client_packages)
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
            asks = plugins.system.asks
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
        deployment: Any = _NoDeployment()
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
