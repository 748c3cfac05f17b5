"""The probes of blame that need a cluster: the same run again, and through a second client.

The same seed and the same faults; what is not the same is the interleaving, so that the runs are as
many as the rate of the violation asks for. The run in question is not touched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from dstest.core.errors import ConfigError, DstestError, Interrupted
from dstest.core.evidence import BlameProbe
from dstest.core.run_record import RunMeta
from dstest.history.layout import RunDir, write_file
from dstest.judge.blame import (
    HOST_EVENTS,
    NOT_SIMULATED,
    PROBES_FILE,
    UNKNOWN_RATE,
    Again,
    Asked,
    BlameFile,
    aside_of,
    blame,
    digest_of,
    enough,
    probes_of,
    read_blame,
    results,
)
from dstest.judge.host_events import events_of
from dstest.runner.blame_probes import read_samples
from dstest.runner.fault_plans import SCHEDULE, read_schedule
from dstest.runner.integrity import verify_run
from dstest.runner.plugins import Plugins, resolve
from dstest.runner.replay import spec_of, still_there
from dstest.runner.screen import Progress
from dstest.runner.session import Finished, run_session
from dstest.runner.worker_config import RAW, has_raw_client

RUNS_MAX: Final = 20
"""Of one kind, however rare the violation is."""

Runs = Callable[[Asked], Finished]


def blame_run(
    path: Path, times: int, *, lab_id: str | None = None, ui: Progress | None = None
) -> BlameFile:
    """Make the runs that are still missing, and say whose fault it is.

    Raises ConfigError where there is no violation, EvidenceError where the run's files are not what
    it left behind.
    """
    if times < 1:
        raise ConfigError(f"--times {times}: at least 1", remedy="--times 5")
    run = RunDir.open(path)
    verdict = verify_run(run).verdict
    wanted = verdict.evidence.violation_fingerprint
    meta = run.read_meta()
    if wanted is None or meta is None:
        raise ConfigError(f"{path} has no violation", remedy="there is nobody to blame")
    file = read_blame(run.path, times) or BlameFile(
        run=run.path.name, history_sha256=digest_of(run.path), fingerprint=wanted
    )
    file = msgspec.structs.replace(file, times=times)
    suspect = verdict.evidence.probes.get(HOST_EVENTS, BlameProbe()).fired is True
    made = _Made(run, meta, lab_id, ui)
    try:
        for kind in ("again", "swap"):
            if verdict.evidence.transport != "network":
                # The same seed is the same simulation, which shows what this one did.
                file = _without(file, kind, NOT_SIMULATED.said)
            else:
                file = _of_kind(file, made, kind, suspect)
    finally:
        told = probes_of(file.runs, wanted, times, file.why_not)
        told = {name: results(verdict.evidence, told)[name] for name in told}
        whose = blame(verdict.evidence, told)
        file = msgspec.structs.replace(file, probes=told, blame=whose)
        _write(run.path, file, told)
    return file


class _Made:
    """Makes a run of a kind, below the directory beside the run."""

    def __init__(self, run: RunDir, meta: RunMeta, lab_id: str | None, ui: Progress | None) -> None:
        self.run, self.meta, self._lab_id, self._ui = run, meta, lab_id, ui

    def plugins(self, kind: Asked) -> Plugins:
        """Raises ConfigError where there is no second client."""
        planned = self.run.path / SCHEDULE
        schedule = read_schedule(planned) if planned.exists() else None
        given = list(self.meta.options_given or [])
        given += [f"client={RAW}"] if kind == "swap" else []
        return resolve(spec_of(self.meta), given, schedule=schedule)

    def make(self, kind: Asked) -> tuple[Again, Finished]:
        plugins = self.plugins(kind)
        there = self._lab_id or still_there(plugins, self.meta.lab_id)
        store = aside_of(self.run.path) / kind
        done = run_session(plugins, store=store, lab_id=there, ui=self._ui)
        place = done.path.relative_to(aside_of(self.run.path).resolve()).as_posix()
        if done.verdict is None:
            return Again(kind=kind, path=place), done
        evidence = done.verdict.evidence
        events = events_of(read_samples(RunDir(done.path)))
        seen = evidence.probes.get(HOST_EVENTS, BlameProbe())
        shown = seen.said if seen.fired else ""
        if not evidence.violation and events:
            shown = events[0].said
        return Again(
            kind=kind,
            path=place,
            judged=done.failure is None and evidence.checker_ran,
            fingerprint=evidence.violation_fingerprint,
            disturbed=shown,
        ), done


def _of_kind(file: BlameFile, made: _Made, kind: Asked, suspect: bool) -> BlameFile:
    """With as many runs of this kind as are needed, as far as they can be made. `suspect`: the
    host may be to blame."""
    try:
        system = made.plugins("again").system
        work = made.plugins("again").workload
    except ConfigError as error:
        return _without(file, kind, error.message)
    if kind == "swap" and not has_raw_client(system, work):
        return _without(file, kind, f"{system.name} has no second {work.capability} client")
    while len(_counted(file.runs, kind)) < _wanted(file, kind, suspect):
        if len([run for run in file.runs if run.kind == kind]) >= RUNS_MAX:
            return _without(file, kind, f"{RUNS_MAX} runs were not enough")
        try:
            found, done = made.make(kind)
        except DstestError as error:
            return _without(file, kind, f"a run could not be made: {error.message}")
        file = msgspec.structs.replace(file, runs=[*file.runs, found])
        _write(made.run.path, file, file.probes)
        if isinstance(done.failure, Interrupted):
            raise done.failure
    return file


def _wanted(file: BlameFile, kind: Asked, suspect: bool) -> int:
    """How many runs of a kind it takes. One that shows it again through the second client is
    enough; one that is gone where the host is quiet is gone by chance as long as few say so."""
    times = file.times
    if kind == "again":
        came = any(run.fingerprint == file.fingerprint for run in _counted(file.runs, "again"))
        return enough(UNKNOWN_RATE, times) if suspect and not came else times
    if any(run.fingerprint == file.fingerprint for run in _counted(file.runs, "swap")):
        return 0
    again = _counted(file.runs, "again")
    seen = sum(run.fingerprint == file.fingerprint for run in again)
    return min(RUNS_MAX, enough(seen / len(again), times)) if seen else times


def _counted(runs: Sequence[Again], kind: Asked) -> list[Again]:
    return [run for run in runs if run.kind == kind and run.judged]


def _without(file: BlameFile, kind: Asked, why: str) -> BlameFile:
    return msgspec.structs.replace(file, why_not={**file.why_not, kind: why})


def _write(run: Path, file: BlameFile, told: dict[str, BlameProbe]) -> None:
    """`probes.json`, and `findings.md` with what the probes came to."""
    from dstest.report.findings import render_findings
    from dstest.report.model import load_report

    aside = aside_of(run)
    data = msgspec.json.format(msgspec.json.encode(file), indent=2)
    write_file(aside, PROBES_FILE, data + b"\n")
    write_file(aside, "findings.md", render_findings(load_report(run), told).encode())
