"""A whole `dstest run`: lab, run directory, run, judgement, and what the process exits with."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from clusters.labs.image import absent, packages_for, strange
from dstest.core import clock, registry
from dstest.core.errors import ConfigError, DstestError, Exit, HarnessError, LabError
from dstest.core.evidence import Tier
from dstest.core.live import forget_live
from dstest.core.node import LabInfo
from dstest.core.processes import quit_by
from dstest.core.protocols import Tapped
from dstest.core.run_record import SCHEMA, RunMeta
from dstest.core.verdict import Verdict, exit_code
from dstest.history.layout import PLUGINS, RunDir, disk_full, link_latest, whole
from dstest.history.sums import require_key
from dstest.runner import host
from dstest.runner.adoption import alone
from dstest.runner.attached_run import AttachedRun
from dstest.runner.fault_plans import SCHEDULE
from dstest.runner.integrity import (
    code_of,
    is_finished,
    judged_aside,
    judging,
    not_better,
    verify_run,
)
from dstest.runner.judgement import judge_reported
from dstest.runner.live import LiveRun
from dstest.runner.logs import fetch_left
from dstest.runner.plugins import Plugins, schedule_of
from dstest.runner.run import Run
from dstest.runner.screen import LOG, Progress, progress_for
from dstest.runner.session_file import SessionFile
from dstest.runner.simulated_fit import check_lab, check_tier
from dstest.runner.simulated_run import SimulatedRun, stopping
from dstest.runner.transport import declared, simulates

DEFAULT_LAB: Final = "default"


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """What a run came to. `verdict` is None where nothing could be judged, `report` where none was
    drawn or kept: it holds the history."""

    path: Path
    exit_code: int
    verdict: Any = None
    failure: Any = None
    report: Any = None


def process_start_time(pid: int) -> int | None:
    """Kernel start time of a process in clock ticks, None where there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return int(text.rsplit(")", 1)[1].split()[19])


def alive(wrote: RunMeta | SessionFile) -> bool:
    """Does the process that wrote this run.json or session.json still live?"""
    started = process_start_time(wrote.pid or 0)
    return started is not None and started == wrote.pid_start_time


def _initial(plugins: Plugins, tier: Tier) -> RunMeta:
    spec = plugins.spec
    return RunMeta(
        schema=SCHEMA,
        spec=msgspec.to_builtins(spec),
        options_given=plugins.given,
        model=plugins.model,
        checkers=[c.name for c in plugins.checkers],
        nodes=[f"n{i + 1}" for i in range(spec.nodes)],
        faults_planned=len(plugins.plans),
        claims=sorted(plugins.claims),
        plugin_files=registry.digests(spec.files),
        lab=spec.lab,
        transport=declared(plugins.lab, plugins.system),
        clock=host.clock_source(),
        started=clock.utc_stamp(),
        pid=os.getpid(),
        pid_start_time=process_start_time(os.getpid()),
        tier_wanted=tier,
    )


def of_size(lab: LabInfo, nodes: int) -> LabInfo:
    """Of machines that were adopted the first so many: a tier asks for clusters of more than one
    size, and a machine is in one lab alone. Any other lab as it is."""
    if lab.adopted is None or len(lab.nodes) <= nodes:
        return lab
    return msgspec.structs.replace(lab, nodes=lab.nodes[:nodes], beside=lab.nodes[nodes:])


def _fitting(plugins: Plugins, lab_id: str | None) -> LabInfo | None:
    """The named or the default lab where it is up. Raises ConfigError for what is no name, LabError
    where it has another size or lacks what the system needs."""
    whole: LabInfo | None = plugins.lab.status(lab_id or DEFAULT_LAB)
    lab = None if whole is None else of_size(whole, plugins.spec.nodes)
    if lab is not None and len(lab.nodes) != plugins.spec.nodes:
        raise LabError(
            f"lab {lab.lab_id} has {len(lab.nodes)} nodes, the run wants {plugins.spec.nodes}",
            remedy=f"--nodes {len(lab.nodes)}, or another lab with --lab-id NAME",
        )
    if lab is not None:
        require_packages(lab, plugins)
    return lab


def require_packages(lab: LabInfo, plugins: Plugins) -> None:
    """Raises LabError where the lab was made without packages of the system, without its build or
    with another one, and says so."""
    system, builds = plugins.system, plugins.spec.builds
    wanted = {*system.packages, *builds}
    if builds and lab.made is None:
        raise LabError(
            f"lab {lab.lab_id} was not made by dstest, which lays no builds over its machines",
            remedy="install the build there, and run without --system-version",
        )
    there = lab.made.packages if lab.made is not None else system.packages
    down = f"`dstest lab down --lab-id {lab.lab_id}`, then up again with `--system` {system.name}"
    if lacks := absent(wanted, there):
        raise LabError(
            f"lab {lab.lab_id} is up without {', '.join(lacks)}, which {system.name} needs",
            remedy=f"--lab-id NAME for a lab with it, which the run makes; or {down} or its file"
            + (" and the `--system-version`" if builds else ""),
        )
    if odd := strange(builds, there):
        raise LabError(
            f"lab {lab.lab_id} is up with {', '.join(odd)}, which is not what is to be tested",
            remedy=f"--lab-id NAME for a lab without it, which the run makes; or {down}",
        )


def _require_ready(plugins: Plugins, standing: LabInfo | None) -> None:
    """Raises LabError where another run holds the lab right now, or a cluster is to be found in a
    lab that is not there."""
    if standing is not None:
        with alone(standing):
            return
    if plugins.spec.attach:
        raise LabError(
            "--attach: there is no such lab, and nothing runs in one that is made now",
            remedy="`dstest lab adopt` the machines of the cluster, then --lab hosts with the"
            " --lab-id of the adoption",
        )


@contextmanager
def _lab(plugins: Plugins, lab_id: str | None, keep: bool, live: LiveRun) -> Iterator[LabInfo]:
    """A running lab: the named or the default one where it is up, else one of our own."""
    spec, lab = plugins.spec, plugins.lab
    if simulates(lab):
        live.phase("lab", f"{spec.nodes} simulated nodes")
        yield lab.up(f"run-{os.getpid()}", spec.nodes, packages=())
        return
    standing = _fitting(plugins, lab_id)
    if standing is not None:
        names = ", ".join(standing.shown(node.name) for node in standing.nodes)
        live.phase("lab", f"{standing.lab_id}, already up: {names}")
        with alone(standing):
            yield standing
        return
    own = lab_id or f"run-{os.getpid()}"
    live.phase("lab", f"bringing {spec.nodes} {spec.lab} nodes up")
    info = lab.up(
        own,
        spec.nodes,
        packages=packages_for([plugins.system], spec.builds),
        progress=live.say,
        persistent=keep,
    )
    try:
        with alone(info):
            yield info
    finally:
        if keep:
            live.ui.phase("lab", f"kept: `dstest lab down --lab-id {own}` removes it")
        else:
            lab.down(own)


def run_session(
    plugins: Plugins,
    *,
    store: Path,
    lab_id: str | None = None,
    keep_lab: bool = False,
    name: str | None = None,
    tier: Tier = "smoke",
    ui: Progress | None = None,
    sign_key: Path | None = None,
) -> Finished:
    """Run, judge, report. Raises ConfigError or LabError where a run could not even begin.

    The run directory is `store/name/<utc>-<seed>`; without a name `store/latest` points to it once
    it has a lab. `tier` is the budget that the user asked for.
    """
    ui = ui or progress_for()
    spec = plugins.spec
    if simulates(plugins.lab):
        check_lab(lab_id, keep_lab=keep_lab)
        check_tier(tier)
    missing = plugins.lab.missing()
    if missing:
        remedies = dict.fromkeys(missing.values())
        raise LabError(
            f"this host cannot run a {spec.lab} lab; it lacks {', '.join(missing)}",
            remedy="; ".join(remedies),
        )
    usual = f"{spec.system}-{spec.workload}-{spec.nemesis.replace(',', '+')}"
    # Before a run directory exists; the lab is taken below.
    _require_ready(plugins, _fitting(plugins, lab_id))
    kept = {f"{PLUGINS}/{path.name}": path.read_bytes() for path in map(Path, spec.files)}
    run = RunDir.create(store, name or usual, spec.seed)
    meta = _initial(plugins, tier)
    with whole(store, run.path):
        run.write_meta(meta)
        run.write_json(SCHEDULE, schedule_of(plugins))
        for path, data in kept.items():
            run.write(path, data)
    ui.keep_log(run.path / LOG)
    _begun(plugins, run, ui)
    live = LiveRun(run, ui, spec)
    live.publish()
    signals = ExitStack()
    try:
        with _lab(plugins, lab_id, keep_lab, live) as lab:
            meta.lab_id = lab.lab_id
            run.write_meta(meta)
            if name is None:
                link_latest(store, run.path)
            failure = _went(plugins, lab, run, meta, live, signals)
        live.close()
    except DstestError as error:
        run.write_status(f"error: {error.message.splitlines()[0]}")
        raise
    except KeyboardInterrupt:
        run.write_status("interrupted")
        raise
    else:
        return _finish(run, meta, failure, ui, sign_key)
    finally:
        live.close()
        ui.close_log()
        signals.close()


def _begun(plugins: Plugins, run: RunDir, ui: Progress) -> None:
    """Say where a run is, and what keeps it from passing, however it goes."""
    ui.say(f"run {run.path}")
    if not simulates(plugins.lab) and not isinstance(plugins.system, Tapped):
        ui.say(
            f"{plugins.spec.system} has no request_counter: nobody can tell whether its clients"
            " send twice, so that no run is better than PARTIAL (WO8). HttpRequests, LineRequests"
            " and FramedRequests of clusters.supervise count; `client_port` is where clients go"
        )


def _went(
    plugins: Plugins,
    lab: LabInfo,
    run: RunDir,
    meta: RunMeta,
    live: LiveRun,
    signals: ExitStack,
) -> DstestError | None:
    """The run to its end, on nodes or simulated. `signals` are as they were once it is judged."""
    if not simulates(plugins.lab):
        kind = AttachedRun if plugins.spec.attach else Run
        return _executed(kind(plugins, lab, run, meta, live), live)
    stop = signals.enter_context(stopping(live.ui.say))
    return SimulatedRun(plugins, lab, run, meta, live).execute(stop)


def _executed(run: Run, live: LiveRun | None = None) -> DstestError | None:
    """The run to its end. SystemExit of a plug-in comes out here, when all tasks have been
    cancelled and the run has cleaned up."""

    async def watched() -> DstestError | None:
        if live is None:
            return await run.execute()
        watch = asyncio.create_task(live.watch())
        try:
            return await run.execute()
        finally:
            watch.cancel()

    try:
        return asyncio.run(watched())
    except SystemExit as end:
        return quit_by(end)


def _finish(
    run: RunDir, meta: RunMeta, failure: DstestError | None, ui: Progress, sign_key: Path | None
) -> Finished:
    run.give_up_ballast()
    ui.phase("judge", "sealing the history, checking it")
    try:
        meta.ended_by = None if failure is None else failure.message
        run.write_meta(meta)
        verdict, report_failure, report = judge_reported(run)
        failure = failure or report_failure
        code = _code(verdict, failure)
        ui.close_log()  # what comes now is in no check sum
        run.write_sums(sign_key)
        run.write_status(
            f"verdict: {verdict.verdict.value}"
            if failure is None
            else f"ended early: {verdict.verdict.value}"
        )
    except OSError as error:
        failure = failure or disk_full(run.path, error)
        return Finished(path=run.path, exit_code=failure.exit_code, failure=failure)
    except DstestError as error:
        return Finished(path=run.path, exit_code=error.exit_code, failure=failure or error)
    except (Exception, SystemExit):
        run.write_status("error: judging failed; `dstest recover` judges again")
        raise
    return Finished(path=run.path, exit_code=code, verdict=verdict, failure=failure, report=report)


def _code(verdict: Verdict, failure: DstestError | None) -> int:
    """A violation outranks everything; a run that ended early is never a pass."""
    if verdict.verdict.failed:
        return Exit.FAIL
    if failure is not None:
        return failure.exit_code
    return exit_code(verdict.verdict)


def recover(path: Path, *, sign_key: Path | None = None) -> Finished:
    """Seal and judge a run whose process is gone; nobody proved its heals, so never a pass.

    A run that is over is judged again aside: it is shown as it is, or becomes worse, never better.
    Raises EvidenceError where its files are not what it left behind.
    """
    require_key(sign_key)
    run = RunDir.open(path)
    meta = run.read_meta()
    if meta is None:
        raise ConfigError(f"{path} has no run.json", remedy="nothing was recorded in it")
    with judging(run):
        if run.status() == "running" and alive(meta):
            raise ConfigError(
                f"{path} is still running (pid {meta.pid})", remedy="wait for its end"
            )
    if is_finished(run):
        judged_again = verify_run(run, "all")
        kept = run.read_json("verdict.json")["verdict"]
        if kept == judged_again.verdict.verdict.value:
            failure = HarnessError(meta.ended_by) if meta.ended_by else None
            return Finished(
                path=run.path,
                exit_code=judged_again.exit_code,
                verdict=judged_again.verdict,
                failure=failure,
            )
    run.give_up_ballast()
    try:
        (run.path / ".board").unlink(missing_ok=True)
        forget_live(run.path)
    except OSError as error:
        raise disk_full(run.path, error) from None
    with judging(run):
        kind, _, said = run.status().partition(": ")
        if meta.ended_by is msgspec.UNSET:
            meta.ended_by = said if kind == "error" and said else "the process died"
    earlier = None if is_finished(run) else run.read_json("verdict.json")
    run.write_meta(meta)
    if earlier is not None:
        with judging(run), judged_aside(run) as (judged, _):
            not_better(run, msgspec.convert(earlier, Verdict), judged.verdict)
    failure = HarnessError(meta.ended_by) if meta.ended_by else None
    if earlier is None and not alive(meta) and (said := fetch_left(run, meta)):
        progress_for().say(said)
        run.write_meta(meta)
    try:
        with judging(run):
            verdict, report_failure, report = judge_reported(run)
        failure = failure or report_failure
        run.write_sums(sign_key)
        run.write_status(f"recovered: {verdict.verdict.value}")
    except OSError as error:
        raise disk_full(run.path, error) from None
    code = code_of(verdict, meta)
    return Finished(path=run.path, exit_code=code, verdict=verdict, failure=failure, report=report)
