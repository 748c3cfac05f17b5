"""One run, from nothing to a sealed history: the phases as one readable coroutine.

Whatever ends the run (its time, a violation of ours, a lost node, a full disk, Ctrl-C), the same
clean-up follows: heal, remove rules, audit for leaks, stop the load, keep the logs, stop the
system, release the nodes. Judging comes after that, in `dstest.runner.judgement`.
"""

from __future__ import annotations

import asyncio
import copy
import signal
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from clusters.remote.agent_groups import PREPARE_S
from dstest.core import registry
from dstest.core.answers import (
    ask_s,
    check_health,
    check_log_files,
    check_names,
    check_states,
    check_version,
    end_s,
    in_time,
    work_s,
)
from dstest.core.clock import RunClock
from dstest.core.errors import ConfigError, DstestError, FaultRefused, HarnessError, Interrupted
from dstest.core.log_lines import LOG_MB, LOG_OPTION
from dstest.core.node import LabInfo, Node
from dstest.core.protocols import (
    END,
    AppliedOrder,
    Deployment,
    LogFiles,
    Membership,
    NemesisContext,
    Prepares,
    Replicas,
    Withdraws,
)
from dstest.core.residue import RUN_NOTE, Residue
from dstest.core.run_record import RunMeta
from dstest.history.layout import RunDir, disk_full
from dstest.history.segment import SegmentWriter, Writer
from dstest.judge.facts import agree
from dstest.runner import adoption, answers, host
from dstest.runner.adoption import SERVE, Guard, lay_homes
from dstest.runner.before_load import (
    builds_in_use,
    check_features,
    check_free,
    check_installed,
    check_listeners,
    check_probes,
    held_by_others,
)
from dstest.runner.epochs import Journal, NoEpochs, RunEpochs
from dstest.runner.live import LiveRun
from dstest.runner.load import Load, LoadPhase, NoTraffic
from dstest.runner.logs import fetch_logs, fetch_settings_and_cores, log_settings, note_of
from dstest.runner.nemesis_loop import NemesisLoop
from dstest.runner.plugins import Plugins
from dstest.runner.recovery import Recovery
from dstest.runner.requirements import check_endpoints, deployed
from dstest.runner.samplers import HostSampler, NodeSampler, ProcessWatch, as_facts


def failure_of(error: Exception, run: RunDir, meta: RunMeta) -> DstestError:
    """What ended a run early, as the error to report. `meta` is told what was lacking, or where an
    error of nobody's came from."""
    if isinstance(error, FaultRefused):
        meta.missing_capability = [error.message]
    if isinstance(error, DstestError):
        return error
    if isinstance(error, OSError):
        return disk_full(run.path, error)
    meta.traceback = "".join(traceback.format_exception(error))
    return HarnessError(f"{registry.place_of(error)}: {type(error).__name__}: {error}")


_TRIES: Final = 10
_GAP_S: Final = 1.0


async def all_serve(deployment: Deployment) -> dict[str, bool]:
    """Once all faults are healed: per node whether it serves, as soon as all do, or as it is after
    some tries.

    Raises LabError where `healthy` never comes back."""
    healthy: dict[str, bool] = {}
    for _ in range(_TRIES):
        answer = in_time(deployment, "healthy", deployment.healthy(), ask_s(deployment.timing))
        healthy = check_health(deployment, await answer)
        if all(healthy.values()):
            break
        await asyncio.sleep(_GAP_S)
    return healthy


class Watches:
    """What looks at a run beside its load: the processes of the system, the control host, and
    samples of the nodes. They begin when this is made, in a loop that runs."""

    def __init__(
        self,
        plugins: Plugins,
        run: RunDir,
        run_clock: RunClock,
        members: Mapping[str, Any],
        deployment: Deployment,
        processes: ProcessWatch,
    ) -> None:
        spec, system = plugins.spec, plugins.system
        self._processes = processes
        self._host = HostSampler(run, run_clock)
        self._nodes: NodeSampler | None = None
        if spec.monitor:
            asks = system.asks
            self._nodes = NodeSampler(run, run_clock, members, deployment, asks, spec.time_limit_s)
        found = [one.run() for one in (self._processes, self._host, self._nodes) if one is not None]
        self._going: asyncio.Future[Any] = asyncio.gather(*found)

    async def finish(self, meta: RunMeta) -> None:
        """What became of the system's processes; they are stopped by us from here on."""
        self._going.cancel()
        await asyncio.gather(self._going, return_exceptions=True)
        meta.processes = as_facts(await self._processes.finish())

    async def last_samples(self, meta: RunMeta) -> None:
        """What the nodes still have."""
        if self._nodes is not None:
            meta.monitor = await self._nodes.finish()


_REPLICA_TRIES: Final = 10
_EFFECTS_S: Final = 120.0
LOG_MB_S: Final = 0.5
"""Seconds for a mebibyte of logs, fetched and compressed."""


class Run:
    """One run on a lab that is up. How it went goes into `meta`, apart from what the history
    says."""

    def __init__(
        self, plugins: Plugins, lab: LabInfo, run: RunDir, meta: RunMeta, live: LiveRun
    ) -> None:
        self._plugins = plugins
        # What a nemesis keeps between its calls is this run's, and no other's.
        self._nemesis = copy.deepcopy(plugins.nemesis)
        self._lab = lab
        self._run = run
        self._live, self._ui = live, live.ui
        self._nodes: dict[str, Any] = {}
        self._members: dict[str, Any] = {}
        self._deployment: Deployment | None = None
        self._load: Load | None = None
        self._loop: NemesisLoop | None = None
        self._journal: Journal | None = None
        self._guard: Guard | None = None
        self._clocks: dict[str, host.NodeClock] = {}
        self._watches: Watches | None = None
        self._kinds = self._residues()
        self._meta = meta
        meta.host = host.host_of(plugins.system.client_packages)

    async def execute(self) -> DstestError | None:
        """Run to the end. Raises nothing of ours: the error that ended it early is returned, None
        where it ran its time."""
        loop = asyncio.get_running_loop()
        body = asyncio.create_task(self._body())
        signals = (signal.SIGINT, signal.SIGTERM)
        stopped: list[str] = []

        def stop(name: str) -> None:
            if stopped:
                self._ui.say("already stopping: healing the nodes first, one moment")
                return
            stopped.append(name)
            self._ui.say(f"{name}: stopping; the nodes are healed and the history is sealed")
            body.cancel()

        for number in signals:
            loop.add_signal_handler(number, stop, signal.Signals(number).name)
        failure: DstestError | None = None
        try:
            await body
        except asyncio.CancelledError:
            failure = Interrupted(f"stopped by {stopped[0] if stopped else 'cancellation'}")
        except Exception as error:
            failure = failure_of(error, self._run, self._meta)
        try:
            await self._clean_up(failure)
        finally:
            for number in signals:
                loop.remove_signal_handler(number)
        return failure

    async def _body(self) -> None:
        plugins, ui = self._plugins, self._ui
        spec = plugins.spec
        deployment = await self._connect()
        members = self._members
        ui.phase("deploy", plugins.system.name)
        await check_free(deployment, members)
        await self._install(deployment)
        if isinstance(self._nemesis, Prepares):
            await self._nemesis.prepare(self._context(RunClock(0), NoEpochs()))
        await self._start(deployment)
        await check_probes(deployment, members)
        await self._guard_starts(deployment)
        self._meta.system_version = await self._version(deployment)
        self._meta.builds_in_use = await builds_in_use(spec.builds, deployment, members)
        endpoints = deployment.endpoints()
        answers.check_places(plugins.system, deployment, members, endpoints)
        check_endpoints(plugins.system, endpoints)
        await answers.check_relations(deployment)
        await check_listeners(deployment, members, endpoints)
        self._meta.members = plugins.members
        if isinstance(deployment, LogFiles):
            self._meta.log_files = check_log_files(deployment, deployment.log_files())
        self._meta.endpoints = list(endpoints)
        load = self._load = Load(plugins, endpoints, self._run)
        self._meta.workers = load.workers
        await load.start()
        # The clock starts with the load; the nemesis is set up first, on a clock of no meaning.
        await self._nemesis.setup(self._context(RunClock(0), NoEpochs()))
        await self._note_clocks()
        clock = load.begin()
        self._meta.origin_ns = clock.origin_ns
        writer = SegmentWriter(self._run.segments / "control.seg", Writer(control=True))
        journal = self._journal = Journal(writer, clock)
        journal.note(planned=[msgspec.to_builtins(plan) for plan in plugins.plans])
        context = self._context(clock, RunEpochs(load.board, clock, journal))
        processes = ProcessWatch(self._watched(deployment), members, clock)
        self._watches = Watches(plugins, self._run, clock, members, deployment, processes)
        recovered = Recovery(deployment.timing.failover_s)
        self._loop = NemesisLoop(
            self._nemesis,
            context,
            journal,
            ui.say,
            ready=lambda: recovered.settled_ns is not None,
            before=self._note_members,
        )
        ui.phase(
            "load",
            f"{spec.workload} for {spec.time_limit_s:g} s, {spec.concurrency} clients in"
            f" {load.workers} processes, {len(plugins.plans)} faults planned",
        )
        self._live.loads(load.traffic, clock, self._loop, plugins.plans)
        await self._load_phase(self._loop, recovered).run(clock, load, journal)
        if self._meta.stopped_by is not None:
            return
        healed = "faults healed; " if plugins.plans else ""
        ui.phase("settle", f"{healed}waiting for every node to serve")
        self._meta.healthy = await all_serve(deployment)
        self._meta.load_end_ns = clock.now_ns()
        if plugins.workload_finishes:
            ui.phase("final", "the load ends; the final state is read")
            await load.finish(clock, lambda text: ui.phase("final", text))

    async def _connect(self) -> Deployment:
        """Nodes that have what this run asks of them, and on which nothing of an earlier one is:
        the system there, of which nothing is laid or started yet."""
        from clusters.remote import connect_all

        self._ui.phase("connect", f"{len(self._lab.nodes)} nodes over SSH")
        self._nodes = await connect_all(self._lab)
        await check_installed(self._lab, self._nodes, self._plugins.system)
        await check_features(self._nodes, self._nemesis, self._plugins.plans)
        members = {name: self._nodes[name] for name in self._plugins.members}
        deployment = await self._deployed(list(members.values()))
        await self._lay(deployment)
        await self._begin_clean()
        # From here on its end is ours: before, what stands where it would be is somebody else's.
        self._members, self._deployment = members, deployment
        return deployment

    def _residues(self) -> list[Residue]:
        """What is looked for on the nodes before the run and after it."""
        return adoption.residues(self._plugins.system, self._plugins.nemesis, lab=self._lab)

    async def _deployed(self, nodes: Sequence[Node]) -> Deployment:
        """The system on these nodes, as slow as they are."""
        plugins = self._plugins
        deployment = deployed(plugins.system, nodes, plugins.spec.options)
        answers.check_timing(deployment)
        answers.allow_for_slowness(deployment, nodes)
        await self._look(deployment)
        answers.check_members(deployment, plugins.members)
        self._require_told_apart(deployment)
        return deployment

    async def _look(self, deployment: Deployment) -> None:
        """What there is to know of the nodes before the system says what its members are."""

    async def _lay(self, deployment: Deployment) -> None:
        """Make the directories that the system writes into, where the nodes are not ours."""
        await lay_homes(self._lab, self._nodes, self._plugins.system, deployment)

    async def _guard_starts(self, deployment: Deployment) -> None:
        """Nodes start the servers again should they have to sweep themselves."""
        await self._guard_of_run().serve(deployment)

    async def _note_run(self) -> None:
        """Write on the nodes whose logs those are that lie there from now on."""
        note = note_of(self._meta)
        await asyncio.gather(*(node.put(RUN_NOTE, note) for node in self._nodes.values()))

    def _watched(self, deployment: Deployment) -> Deployment:
        """Whom to ask which processes serve: nothing of what a nemesis knows is touched by it."""
        return self._plugins.system.deploy(list(self._members.values()), self._plugins.spec.options)

    async def _note_clocks(self) -> None:
        self._clocks = await host.node_clocks(self._nodes)
        self._meta.node_clocks_start_ns = {n: c.own_ns for n, c in self._clocks.items()}
        self._meta.node_offsets_start_ns = host.offsets(self._clocks)
        self._meta.clock_start_ns = host.wall_minus_mono_ns()

    async def _install(self, deployment: Deployment) -> None:
        limit_s = work_s(deployment.timing)
        await in_time(deployment, "install", deployment.install(), limit_s)

    async def _start(self, deployment: Deployment) -> None:
        members = deployment.members.values()
        commands = [sum(len(service.prepare) for service in one.services) for one in members]
        limit_s = work_s(deployment.timing) + max(commands, default=0) * PREPARE_S
        await in_time(deployment, "start", deployment.start(), limit_s)

    async def _version(self, deployment: Deployment) -> str:
        limit_s = ask_s(deployment.timing)
        answer = in_time(deployment, "version", deployment.version(), limit_s)
        return check_version(deployment, await answer)

    async def _stop(self, deployment: Deployment) -> None:
        await in_time(deployment, "stop", deployment.stop(), end_s(deployment.timing))

    def _load_phase(self, loop: NemesisLoop, recovered: Recovery) -> LoadPhase:
        return LoadPhase(
            self._plugins,
            self._run,
            self._meta,
            self._ui,
            nodes=self._nodes,
            guard=self._guard_of_run(),
            loop=loop,
            recovered=recovered,
        )

    async def _begin_clean(self) -> None:
        """Nothing of an earlier run is on the nodes, and nothing of this one will outlive it."""
        self._meta.cleaned = {
            **await adoption.clean_beside(self._lab, self._kinds),
            **await adoption.begin_clean(self._nodes, self._kinds, self._lab.as_found),
        }
        for name, found in self._meta.cleaned.items():
            self._ui.say(f"{name}: removed what an earlier run had left: {', '.join(found)}")
        self._guard = Guard(self._nodes, self._kinds)
        await self._guard.arm()
        await self._note_run()

    def _guard_of_run(self) -> Guard:
        assert self._guard is not None
        return self._guard

    def _context(self, clock: RunClock, epochs: RunEpochs | NoEpochs) -> NemesisContext:
        assert self._deployment is not None
        return NemesisContext(
            nodes=dict(self._members),
            lab=self._lab,
            deployment=self._deployment,
            clock=clock,
            traffic=self._load.traffic if self._load else NoTraffic(),
            epochs=epochs,
            options=self._plugins.spec.options,
            of_lab=self._plugins.lab,
        )

    async def _note_members(self, fault_id: str) -> None:
        """Who is a member as a fault is injected; the last that was told where nobody answers."""
        deployment = self._deployment
        if not isinstance(deployment, Membership):
            return
        known = self._meta.members_at = self._meta.members_at or {}
        limit_s = ask_s(deployment.timing)
        answer = in_time(deployment, "member_names", deployment.member_names(), limit_s)
        names = check_names(deployment, await answer)
        known[fault_id] = names or next(reversed(known.values()), [])
        if self._journal is not None:
            self._journal.note(members_at={fault_id: known[fault_id]})

    async def _compare_replicas(self) -> None:
        """Nobody writes any more: the members' states, once they agree or after some tries."""
        deployment = self._deployment
        if not isinstance(deployment, Replicas):
            return
        limit_s = ask_s(deployment.timing)
        for _ in range(_REPLICA_TRIES):
            answer = in_time(deployment, "replica_states", deployment.replica_states(), limit_s)
            states = self._meta.replicas = check_states(deployment, await answer)
            if agree(states):
                return
            await asyncio.sleep(0.5)

    async def _keep_effects(self, name: str) -> None:
        """What a member says that it has applied, where somebody has asked for that."""
        deployment, log = self._deployment, self._plugins.system.journals.effects
        if isinstance(deployment, AppliedOrder) and deployment.audited and log is not None:
            path = self._run.nodes / name / log.file
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                async for line in deployment.applied(name):
                    file.write(line)
                file.write(END)

    def _require_told_apart(self, deployment: Deployment) -> None:
        """An audit that could not judge anything is none."""
        log, workload = self._plugins.system.journals.effects, self._plugins.spec.workload
        audited = isinstance(deployment, AppliedOrder) and deployment.audited
        if audited and (log is None or not log.types_of(workload)):
            raise ConfigError(
                f"an audit cannot tell apart what the workload {workload} does",
                remedy="leave out -o audit=yes",
            )

    async def _step(self, name: str, action: Callable[[], Any], timeout_s: float = 30.0) -> None:
        """One step of the clean-up; its failure is noted and stops nothing."""
        try:
            async with asyncio.timeout(timeout_s):
                await action()
        except (Exception, SystemExit) as error:
            # Whatever a plug-in does here, the next step must be taken.
            said = f"{name}: {type(error).__name__}: {error}"
            self._meta.clean_up_problems = [*(self._meta.clean_up_problems or []), said]

    async def _clean_up(self, failure: DstestError | None) -> None:
        if failure is not None:
            self._ui.phase("stop", str(failure).splitlines()[0])
            self._run.give_up_ballast()
        if self._loop is not None:
            problems = await self._loop.finish()
            if problems:
                self._meta.heal_problems = problems
            self._meta.residue = await self._loop.audit()
        if self._journal is not None:
            self._journal.close()
        if self._load is not None:
            await self._load.stop()
            self._meta.worker_exits = self._load.exits()
            self._meta.load = self._load.figures()
            self._meta.traffic = self._load.traffic.counted()
            self._live.unload()
            self._load.close()
        self._meta.clock_end_ns = host.wall_minus_mono_ns()
        if self._nodes:
            clocks = await host.node_clocks(self._nodes)
            self._meta.node_offsets_end_ns = host.offsets(clocks)
            pairs = host.compared(self._clocks, clocks)
            self._meta.node_clocks_start_ns = {n: before for n, (before, _) in pairs.items()}
            self._meta.node_clocks_end_ns = {n: after for n, (_, after) in pairs.items()}
        self._meta.cpu_s = host.cpu_s()
        if (deployment := self._deployment) is not None:
            if failure is None and self._load is not None:
                compare_s = ask_s(deployment.timing) + 30.0
                await self._step("compare replicas", self._compare_replicas, compare_s)
                keep = {name: partial(self._keep_effects, name) for name in self._members}
                steps = [(f"what {name} has applied", one) for name, one in keep.items()]
                await asyncio.gather(*(self._step(*step, _EFFECTS_S) for step in steps))
            if (watches := self._watches) is not None:
                await self._step("processes", lambda: watches.finish(self._meta))
                await self._step("samples", lambda: watches.last_samples(self._meta))
            each_mb = int(self._plugins.spec.options.get(LOG_OPTION, LOG_MB))
            logs_s = 30.0 + each_mb * len(self._members) * LOG_MB_S
            await self._step("logs", self._collect_logs, logs_s)
            await self._step("settings and cores", self._collect_other, 60.0)
            await self._step("no more starts", lambda: self._guard_of_run().release(SERVE))
            stop_s = end_s(deployment.timing) + 5.0
            await self._step("stop system", lambda: self._stop(deployment), stop_s)
            await self._step("withdraw", self._withdraw)
        if self._guard is not None:
            await self._step("last look", self._last_look, 60.0)
        for node in self._nodes.values():
            await self._step(f"close {node.name}", node.close, 5.0)

    async def _last_look(self) -> None:
        """What the run has left; if that is something, the nodes' own leases stay to remove it."""
        guard = self._guard_of_run()
        await guard.release(SERVE)
        as_found = self._lab.as_found
        leaks = await adoption.leaks(self._nodes, self._kinds, as_found)
        if not any(leaks.values()):
            await guard.release()
        left = self._meta.residue = self._meta.residue or {}
        for name, row in leaks.items():
            left[name] = list(dict.fromkeys([*left.get(name, []), *row]))
        for name in guard.lost:
            left.setdefault(name, []).append("the node removed this run by itself, in its middle")
        if self._deployment is not None:
            for held in await held_by_others(self._deployment, self._members):
                left.setdefault(held.name, []).append(held.what)

    async def _withdraw(self) -> None:
        if isinstance(self._nemesis, Withdraws):
            await self._nemesis.withdraw(self._context(RunClock(0), NoEpochs()))

    async def _collect_logs(self) -> None:
        settings = log_settings(self._plugins.spec, self._plugins.system)
        self._meta.logs = await fetch_logs(self._run, self._members, self._deployment, **settings)

    async def _collect_other(self) -> None:
        if (deployment := self._deployment) is not None:
            cores = (self._meta.processes or {}).get("cores", {})
            self._meta.other_files = await fetch_settings_and_cores(
                self._run, self._members, deployment, cores
            )
