"""Run a run again: same spec, same seed, same fault schedule; does it come to the same violation?

What is not the same is the interleaving. That is why a violation is called reproducible only after
a re-run has shown it again, and why the count of re-runs is part of the evidence. A violation that
a simulation has shown is looked for on nodes by the run's own schedule, workload and options
(`carry`), executed there as any run is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from dstest.core import registry
from dstest.core.errors import ConfigError, Exit, Interrupted
from dstest.core.evidence import Rerun
from dstest.core.node import Secluded
from dstest.core.protocols import FaultPlan
from dstest.core.run_record import RunMeta, RunSpec
from dstest.core.verdict import Verdict
from dstest.core.words import shell_word
from dstest.history.layout import VERDICT, RunDir
from dstest.history.sums import SIGNATURE, SUMS, require_key
from dstest.judge.decide import decide
from dstest.judge.symptom import all_fingerprints
from dstest.report.model import load_report
from dstest.runner.fault_plans import SCHEDULE, Schedule, read_schedule
from dstest.runner.integrity import code_of, verify_run
from dstest.runner.judgement import judge
from dstest.runner.plugins import Plugins, resolve
from dstest.runner.screen import Progress
from dstest.runner.session import Finished, run_session
from dstest.runner.session_file import is_session
from dstest.runner.simulated_fit import only_on_nodes
from dstest.runner.transport import simulates


def spec_of(meta: RunMeta) -> RunSpec:
    """With the files that are in use now: those of the run, or the copies that it kept."""
    spec = msgspec.convert(meta.spec, RunSpec)
    files = registry.unchanged(meta.plugin_files or {}) if spec.files else ()
    return msgspec.structs.replace(spec, options={}, files=files)


def still_there(plugins: Plugins, lab_id: str | None) -> str | None:
    """The run's own lab, where it stands."""
    return lab_id if lab_id and plugins.lab.status(lab_id) is not None else None


def check_times(times: int) -> None:
    """Raises ConfigError where that is not once."""
    if times < 1:
        raise ConfigError(f"--times {times}: at least 1", remedy="--times 1 is the default")


def replay(
    path: Path,
    times: int,
    *,
    store: Path,
    lab_id: str | None = None,
    ui: Progress | None = None,
    sign_key: Path | None = None,
) -> list[Finished]:
    """Run it `times` times; the last element is the original, with the outcome.

    An arm of a session that is over stays as the session has summed it up; what its re-runs come to
    is told. Without a violation in the original there is nothing to reproduce, and its verdict
    stays: but
    the exit code is a pass only if all runs passed. A run that was interrupted is not counted; what
    interrupted it is raised. Raises EvidenceError where the original's files are not what it left
    behind.
    """
    require_key(sign_key)
    check_times(times)
    run = RunDir.open(path)
    meta = _meta_of_judged(run)
    original = verify_run(run)
    wanted = original.verdict.evidence.violation_fingerprint
    signed = (run.path / SIGNATURE).exists() and not _sealed_in_a_session(run.path)
    if wanted is not None and signed and sign_key is None:
        raise ConfigError(
            f"{path} is signed, and a replay adds to it", remedy="give --sign-key to sign it again"
        )
    planned = run.path / SCHEDULE
    schedule = read_schedule(planned) if planned.exists() else None
    runs, reproduced, interrupted = [], 0, None
    for _ in range(times):
        given = list(meta.options_given or [])
        plugins = resolve(spec_of(meta), given, schedule=schedule)
        there = lab_id or still_there(plugins, meta.lab_id)
        done = run_session(plugins, store=store, lab_id=there, ui=ui, sign_key=sign_key)
        if isinstance(done.failure, Interrupted):
            interrupted = done.failure  # it says nothing of the violation
            break
        runs.append(msgspec.structs.replace(done, report=None))  # not all histories at once
        fingerprint = None if done.verdict is None else done.verdict.evidence.violation_fingerprint
        reproduced += wanted is not None and fingerprint == wanted
    if interrupted is not None and (wanted is None or not runs):
        raise interrupted
    if wanted is None:
        code = together(original.exit_code, [done.exit_code for done in runs])
        return [*runs, Finished(path=run.path, exit_code=code, verdict=original.verdict)]
    earlier = meta.rerun or Rerun()
    meta.rerun = Rerun(
        same_seed_runs=earlier.same_seed_runs + len(runs),
        reproduced=earlier.reproduced + reproduced,
        identical=_identical(meta, earlier, runs),
    )
    if _sealed_in_a_session(run.path):
        return [*runs, _told(run, original.verdict, meta.rerun, runs, interrupted)]
    # Without its sums it counts as not judged yet: whatever stops us here, `recover` goes on.
    (run.path / SUMS).unlink(missing_ok=True)
    run.write_status("replayed, and not judged again yet: `dstest recover` does it")
    run.write_meta(meta)
    verdict, failure = judge(run)
    run.write_sums(sign_key)
    run.write_status(f"verdict: {verdict.verdict.value}")
    if interrupted is not None:
        raise interrupted
    code = together(code_of(verdict, meta), [done.exit_code for done in runs])
    return [*runs, Finished(path=run.path, exit_code=code, verdict=verdict, failure=failure)]


def _meta_of_judged(run: RunDir) -> RunMeta:
    meta = run.read_meta()
    if meta is None or not (run.path / VERDICT).exists():
        raise ConfigError(
            f"{run.path} was never judged: it has no {VERDICT}",
            remedy=f"`dstest recover {shell_word(run.path)}` first",
        )
    return meta


def _sealed_in_a_session(path: Path) -> bool:
    """Is it an arm of a session that is over, and has summed up its runs as they are?"""
    session = path.parent.parent.parent
    return is_session(session) and (session / SUMS).is_file()


def _told(
    run: RunDir,
    verdict: Verdict,
    rerun: Rerun,
    runs: Sequence[Finished],
    interrupted: Interrupted | None,
) -> Finished:
    """What the original comes to by its re-runs; its files stay as the session has them."""
    if interrupted is not None:
        raise interrupted
    evidence = msgspec.structs.replace(verdict.evidence, rerun=rerun)
    known = decide(evidence, verdict.checkers, blame=verdict.blame)
    known = msgspec.structs.replace(known, bug=verdict.bug, canary=verdict.canary)
    code = together(Exit.FAIL, [done.exit_code for done in runs])
    shown = msgspec.structs.replace(load_report(run.path), verdict=known, evidence=evidence)
    return Finished(path=run.path, exit_code=code, verdict=known, report=shown)


def _identical(meta: RunMeta, earlier: Rerun, runs: Sequence[Finished]) -> int | msgspec.UnsetType:
    """How many of all re-runs are this simulation, byte for byte; unset where it is none."""
    unknown = earlier.same_seed_runs and earlier.identical is msgspec.UNSET
    if meta.transport == "network" or unknown:
        return msgspec.UNSET
    found = [RunDir.open(done.path).read_meta() for done in runs]
    same = sum(again is not None and again.digest == meta.digest for again in found)
    return same + (0 if earlier.identical is msgspec.UNSET else earlier.identical)


def together(original: int, again: Sequence[int]) -> int:
    """The exit code of a replay: a violation that only a re-run showed is one all the same, and
    runs that proved nothing make no pass."""
    codes = [original, *again]
    for code in (Exit.FAIL, Exit.INTERRUPTED, Exit.HARNESS, Exit.NOT_PROVEN):
        if code in codes:
            return code
    return max(codes)


class ReplayOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. `wanted` is the fingerprint of the simulated violation, `found` counts the
    runs on nodes by each fingerprint that they show; `again` of `runs` show the wanted one, and
    `unproven` neither passed nor failed. `told` is how it was translated, a sentence by topic."""

    simulated: str
    lab: str
    wanted: str
    runs: int
    again: int
    unproven: int
    found: dict[str, int]
    told: dict[str, str]

    @property
    def words(self) -> str:
        """Did it come again?"""
        if self.again:
            return f"came again in {self.again} of {self.runs}: {self.wanted}"
        others = ", ".join(sorted(self.found))
        more = f"; another one did: {others}" if others else ""
        more += f"; {self.unproven} of them proved nothing" if self.unproven else ""
        return f"did not come again in {self.runs}: {self.wanted}{more}"


class Carrying(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be run on nodes, the fingerprint that is looked for, and how it was translated."""

    path: Path
    plugins: Plugins
    wanted: str
    told: dict[str, str]


def carrying(path: Path, lab: str, rate: float | None) -> Carrying:
    """The run at `path` as one on nodes of this lab. `rate`: operations per second there, None as
    the lab has it.

    Raises ConfigError where it was not simulated, shows no violation, or cannot be run on that lab;
    EvidenceError where its files are not what it left behind.

    Faults are planned as they were, to the letter; a second of the simulated clock is a second. A
    fault for whoever leads strikes whoever leads there; any other one strikes the hosts of the same
    names. What one of the two sides alone has is told.
    """
    run = RunDir.open(path)
    meta = run.read_meta()
    if meta is None or not (run.path / VERDICT).exists():
        raise ConfigError(
            f"{path} was never judged: it has no {VERDICT}",
            remedy=f"`dstest recover {shell_word(path)}` first",
        )
    spec, by_hand = spec_of(meta), f"dstest run --schedule {shell_word(run.path / SCHEDULE)}"
    if not simulates(registry.load("labs", spec.lab)):
        raise ConfigError(
            f"{path} was not simulated: it had nodes of {spec.lab}",
            remedy=f"without --lab it is run again there; on other nodes: `{by_hand}`",
        )
    _check_lab(lab, by_hand)
    wanted = verify_run(run).verdict.evidence.violation_fingerprint
    if wanted is None:
        raise ConfigError(
            f"{path} shows no violation that could be looked for on nodes",
            remedy=f"a run that failed; or `{by_hand} --lab {lab}`",
        )
    schedule = read_schedule(run.path / SCHEDULE)
    there = msgspec.structs.replace(
        spec, lab=lab, rate=rate, schedule=str((run.path / SCHEDULE).resolve())
    )
    plugins = resolve(there, list(meta.options_given or []), schedule=schedule)
    told = _translation(meta, spec.rate, schedule, plugins)
    return Carrying(path=run.path, plugins=plugins, wanted=wanted, told=told)


def _check_lab(lab: str, by_hand: str) -> None:
    kind = registry.load("labs", lab)
    if simulates(kind):
        raise ConfigError(
            f"--lab {lab}: that is where it ran", remedy="leave --lab out to run it again there"
        )
    if isinstance(kind, Secluded):
        raise ConfigError(
            f"--lab {lab}: its nodes are within namespaces, where no run is replayed",
            remedy=f"`{by_hand} --lab {lab}`, and compare the fingerprints",
        )


def _translation(
    meta: RunMeta, rate: float | None, schedule: Schedule, plugins: Plugins
) -> dict[str, str]:
    spec, nemesis = plugins.spec, plugins.nemesis
    fixed = sorted(only_on_nodes(plugins.system, nemesis))
    options = [f"{key}={_value(key, plugins)}" for key in fixed if key in spec.options]
    default = plugins.lab.rate
    of_lab = " (--rate for another)" if spec.rate == default else ""
    return {
        "faults": _faults(plugins.plans),
        "load": f"{_rate(rate)} of the simulated clock there, {_rate(spec.rate)} here{of_lab}",
        "only here": f"{', '.join(options) or 'no option'}: without a meaning in a simulation",
        "only there": f"what seed {spec.seed} decides of messages, disks and elections; here it"
        " decides what is planned and what clients ask",
    }


def _value(key: str, plugins: Plugins) -> str:
    """As the schedule has fixed it, else as the options say."""
    fixed = sorted({str(plan.facts[key]) for plan in plugins.plans if key in plan.facts})
    return " or ".join(fixed) or str(plugins.spec.options[key])


def _faults(plans: Sequence[FaultPlan]) -> str:
    if not plans:
        return "none are planned"
    led = [plan.fault_id for plan in plans if _for_leader(plan)]
    other = [plan.fault_id for plan in plans if not _for_leader(plan)]
    parts = [f"{', '.join(led)} strike whoever leads"] if led else []
    parts += [f"{', '.join(other)} the hosts that were struck there"] if other else []
    first_s, last = plans[0].start_ns / 1e9, plans[-1]
    until_s = (last.start_ns + last.duration_ns) / 1e9
    return f"{len(plans)} at the same seconds, {first_s:g} to {until_s:g}; {'; '.join(parts)}"


def _for_leader(plan: FaultPlan) -> bool:
    return plan.facts.get("scope") == "primaries" or plan.facts.get("shape") == "leader"


def _rate(rate: float | None) -> str:
    return "a closed loop" if rate is None else f"{rate:g} operations a second"


def carry(
    asked: Carrying,
    times: int,
    *,
    store: Path,
    lab_id: str | None = None,
    ui: Progress | None = None,
    sign_key: Path | None = None,
) -> tuple[list[Finished], ReplayOutcome]:
    """Run it on nodes `times` times. The last one is whole, of the others no report is kept.

    Each is an ordinary run, with its own proof of each fault and its own verdict; the simulated one
    stays as it is.
    """
    require_key(sign_key)
    check_times(times)
    runs: list[Finished] = []
    for _ in range(times):
        runs = [msgspec.structs.replace(done, report=None) for done in runs]
        runs.append(
            run_session(asked.plugins, store=store, lab_id=lab_id, ui=ui, sign_key=sign_key)
        )
        if isinstance(runs[-1].failure, Interrupted):
            break
    shown = [[] if one.verdict is None else all_fingerprints(one.verdict) for one in runs]
    found = Counter(name for names in shown for name in names)
    carried = ReplayOutcome(
        simulated=str(asked.path),
        lab=asked.plugins.spec.lab,
        wanted=asked.wanted,
        runs=len(runs),
        again=found[asked.wanted],
        unproven=sum(one.exit_code not in (Exit.PASS, Exit.FAIL) for one in runs),
        found=dict(sorted(found.items())),
        told=asked.told,
    )
    code = together(runs[0].exit_code, [one.exit_code for one in runs[1:]])
    return [*runs[:-1], msgspec.structs.replace(runs[-1], exit_code=code)], carried
