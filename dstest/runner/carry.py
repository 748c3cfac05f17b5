"""A violation that a simulation has shown, looked for on nodes: the run's own schedule, workload
and options, executed there as any run is.

Faults are planned as they were, to the letter; a second of the simulated clock is a second. A fault
for whoever leads strikes whoever leads there; any other one strikes the hosts of the same names.
What one of the two sides alone has is told. What comes of it is an ordinary run, with its own proof
of each fault and its own verdict: the simulated one stays as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from dstest.core import registry
from dstest.core.errors import ConfigError, Exit, Interrupted
from dstest.core.node import Secluded
from dstest.core.protocols import FaultPlan, LabTraits
from dstest.core.run_meta import RunMeta
from dstest.core.words import shell_word
from dstest.judge.fingerprint import all_fingerprints
from dstest.runner.declared_path import simulates
from dstest.runner.integrity import verified
from dstest.runner.plugins import Plugins, resolve
from dstest.runner.progress import Progress
from dstest.runner.replay import check_times, spec_of, together
from dstest.runner.schedule_file import SCHEDULE, Schedule, read_schedule
from dstest.runner.session import Finished, run_session
from dstest.runner.simulated_fit import only_on_nodes
from dstest.store.layout import RunDir
from dstest.store.signing import require_key


class Carried(msgspec.Struct, frozen=True, kw_only=True):
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
    """
    run = RunDir.open(path)
    meta = run.read_meta()
    if meta is None or not (run.path / "evidence.json").exists():
        raise ConfigError(
            f"{path} was never judged", remedy=f"`dstest recover {shell_word(path)}` first"
        )
    spec, by_hand = spec_of(meta), f"dstest run --schedule {shell_word(run.path / SCHEDULE)}"
    if not simulates(registry.load("labs", spec.lab)):
        raise ConfigError(
            f"{path} was not simulated: it had nodes of {spec.lab}",
            remedy=f"without --lab it is run again there; on other nodes: `{by_hand}`",
        )
    _check_lab(lab, by_hand)
    wanted = verified(run).verdict.evidence.violation_fingerprint
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
    default = LabTraits.of(plugins.lab).rate
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
) -> tuple[list[Finished], Carried]:
    """Run it on nodes `times` times. The last one is whole, of the others no report is kept."""
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
    carried = Carried(
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
