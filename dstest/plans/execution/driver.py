"""From a plan to its verdicts: looks for what its scenarios need, executes one step after the
other, can go on, and tells people in session-log.md, written anew at each step.

Each step is a command of dstest in a process of its own, which heals and seals when this one dies;
`resume` then begins with the step that was running. A step's verdict is read out of what its run
left (`state.py`), never out of what its command said.
"""

from __future__ import annotations

import os
import platform
import signal
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from clusters.labs.hostcheck import host_rows
from dstest import __version__
from dstest.campaign.steps.commands import last_words, results_in, start
from dstest.core import clock, registry
from dstest.core.errors import ConfigError, DstestError, Exit
from dstest.core.node import FEATURES, remedy_of
from dstest.core.run_record import RunMeta, RunSpec
from dstest.core.run_words import lab_id_words
from dstest.core.verdict import State
from dstest.history.layout import RunDir
from dstest.plans.execution.state import (
    Capability,
    Execution,
    ExecutionDir,
    Outcome,
    Step,
    held_to_red,
    judges_of,
    outcome_of,
    red_side_of,
    select_steps,
)
from dstest.plans.lint import lint, require_sound
from dstest.plans.model import Plan
from dstest.plans.reader import read_plan
from dstest.report.review.model import md, table
from dstest.runner.integrity import is_finished
from dstest.runner.session import process_start_time
from dstest.runner.session_file import SessionDir, is_session, runs_of

_GROUP_OF: Final = {
    "lab": "labs",
    "system": "systems",
    "workload": "workloads",
    "nemesis": "nemeses",
    "checker": "checkers",
}
"""The word of a requirement -> the group of plug-ins."""

Say = Callable[[str], None]
OnStart = Callable[[Path], object]
"""Is given the directory of an execution before its first step."""


def capabilities_of(plan: Plan) -> list[Capability]:
    """The matrix: this host first, then what the labs of the scenarios lack on it, then the rows of
    section 6b.

    Asked before anything is started or touched. A plug-in is there or not; a program or right of
    this host is tried by `clusters/labs/hostcheck.py`; what only a node can tell (a feature of its
    kernel, a package) is looked for by every run before its load, and stands here as not known yet.
    """
    every = [scenario.id for scenario in plan.scenarios]
    by_lab: dict[str, list[str]] = {}
    for scenario in plan.scenarios:
        kind = RunSpec().lab if scenario.run is None else scenario.run.lab or RunSpec().lab
        by_lab.setdefault(kind, []).append(scenario.id)
    made_here = by_lab.get(RunSpec().lab, [])
    rows = [
        Capability(
            needs="python",
            present=True,
            version=platform.python_version(),
            source="this process",
            scenarios=every,
        ),
        Capability(
            needs="dstest",
            present=True,
            version=__version__,
            source="this process",
            scenarios=every,
        ),
    ]
    rows += [
        Capability(
            needs=row.name,
            present=row.ok,
            version="",
            source=row.detail,
            scenarios=made_here,
            install=row.remedy or "",
        )
        for row in (host_rows() if made_here else ())
        if not row.optional
    ]
    rows += [row for kind, ids in by_lab.items() for row in _of_lab(kind, ids)]
    rows += [_row(r.needs, r.floor, list(r.scenarios), r.install) for r in plan.requirements]
    return rows


def _of_lab(kind: str, scenarios: list[str]) -> list[Capability]:
    """What a kind of labs lacks on this host."""
    try:
        lacks = dict(registry.load("labs", kind).missing())
    except DstestError as error:
        lacks = {f"lab {kind}": error.remedy or error.message}
    return [
        Capability(
            needs=what,
            present=False,
            version="",
            source=f"asked of the lab {kind}",
            scenarios=scenarios,
            install=remedy,
        )
        for what, remedy in lacks.items()
    ]


def _row(needs: str, floor: str, scenarios: list[str], install: str) -> Capability:
    kind, _, name = needs.partition(" ")
    name = name.strip("`")
    if kind in _GROUP_OF and name:
        there = all(part in registry.names(_GROUP_OF[kind]) for part in name.split(","))
        source = f"dstest list: {_GROUP_OF[kind]}" if there else f"no {kind} of that name"
        return Capability(
            needs=needs,
            present=there,
            version=__version__ if there else "",
            source=source,
            scenarios=scenarios,
            install=install or f"`dstest new {kind} {name}` writes one",
        )
    feature = needs.strip("`")
    return Capability(
        needs=needs,
        present=None,
        version=floor,
        source="looked for on each node before its run",
        scenarios=scenarios,
        install=install or (remedy_of(feature) if feature in FEATURES else ""),
    )


def lacking(rows: Iterable[Capability]) -> list[Capability]:
    """Those that are known not to be there."""
    return [row for row in rows if row.present is False]


def toolbox() -> dict[str, list[str]]:
    """Every plug-in that there is, by group."""
    return {group: sorted(registry.names(group)) for group in registry.GROUPS}


def _there(present: bool | None) -> str:
    return {True: "yes", False: "NO", None: "asked on the nodes"}[present]


def session_log(
    directory: ExecutionDir, execution: Execution, metas: dict[str, list[RunMeta]]
) -> str:
    """The page. `metas` are the run.json of each step's runs, by its id."""
    head = [
        f"# Session log: {md(execution.slug)}",
        "",
        f"- Plan: {md(execution.plan_path)}, sha256 {execution.plan_sha256[:16]}",
        f"- Directory: {md(directory.path)}",
        f"- System: {md(execution.system)}",
        f"- Commit under test: {md(execution.commit or 'not told')}",
        f"- Budget: {execution.budget}",
        f"- Started {execution.started}, ended {execution.ended or 'not yet'}",
        f"- Outcome: {execution.outcome or 'open'}",
        "",
    ]
    return "\n".join(
        [
            *head,
            "## Toolbox discovered",
            "",
            *(f"- {group}: {', '.join(names)}" for group, names in execution.toolbox.items()),
            "",
            "## Environment capability matrix",
            "",
            *table(
                ("Requirement", "Present", "Version", "Source", "Scenarios"),
                (
                    (r.needs, _there(r.present), r.version or "-", r.source, ", ".join(r.scenarios))
                    for r in execution.capabilities
                ),
            ),
            "## Preconditions",
            "",
            *_preconditions(execution, metas),
            "## Scenario timeline",
            "",
            *table(
                ("UTC", "Scenario", "Event", "Notes"),
                ((e.utc, e.step or "-", e.event, e.notes or "-") for e in execution.events),
            ),
            "## Scenario verdicts",
            "",
            *table(
                ("Arm", "Budget asked for", "Verdict", "Notes"),
                (
                    (s.id, execution.budget, s.state or "pending", s.reason or "-")
                    for s in execution.steps
                ),
            ),
            "## Artifacts",
            "",
            *(_artifact(directory, step) for step in execution.steps),
            "",
        ]
    )


def _preconditions(execution: Execution, metas: dict[str, list[RunMeta]]) -> list[str]:
    """What each run had found before its load, as it wrote that down itself."""
    rows = []
    for step in execution.steps:
        for meta in metas.get(step.id, []):
            healthy = meta.healthy or {}
            up = [name for name, well in healthy.items() if well]
            rows.append(
                (
                    step.id,
                    f"{len(up)} of {len(meta.members or meta.nodes)} members well"
                    if healthy
                    else "not recorded",
                    meta.system_version or "not told",
                    f"{meta.faults_planned} faults planned"
                    if meta.faults_planned
                    else "no fault planned",
                    "logs and processes watched" if meta.processes else "processes not watched",
                )
            )
    if not rows:
        return ["No run has begun yet.", ""]
    return table(("Step", "Cluster at the end", "Version", "Fault plane", "Observability"), rows)


def _artifact(directory: ExecutionDir, step: Step) -> str:
    log = directory.log_of(step)
    said = f", `{directory.relative(log)}`" if log.exists() else ""
    return f"- {md(step.id)}: {f'`{step.result}`' if step.result else 'nothing'}{said}"


def begin(
    plan_path: Path,
    *,
    budget: str,
    only: Sequence[str],
    store: Path,
    lab_id: str | None,
    allow_missing: bool,
    commit: str,
    say: Say,
    began: OnStart = Path,
) -> int:
    """Execute a plan; the exit code. Raises ConfigError where the plan cannot be run as it is, or
    something that it needs is not there and `allow_missing` is not given: then nothing was touched.
    """
    plan = read_plan(plan_path)
    require_sound(plan)
    _require_change(plan)
    steps = select_steps(plan, budget, only)
    rows = capabilities_of(plan)
    absent = [row for row in lacking(rows) if _of(row.scenarios, steps)]
    if absent and not allow_missing:
        raise ConfigError(
            f"{plan_path}: missing: {', '.join(row.needs for row in absent)}",
            remedy="; ".join(f"{row.needs}: {row.install or row.source}" for row in absent)
            + "; or --allow-missing, which leaves out what needs it",
        )
    for row in absent:
        for step in _of(row.scenarios, steps):
            step.blocked = ", ".join(filter(None, [step.blocked, row.needs]))
    directory = ExecutionDir.create(store, plan)
    began(directory.path)
    execution = Execution(
        slug=plan.slug,
        plan_sha256=plan.sha256,
        plan_path=str(plan_path),
        budget=budget,
        system=plan.front.system,
        lab_id=lab_id,
        commit=commit,
        started=clock.utc_stamp(),
        allow_missing=allow_missing,
        capabilities=rows,
        toolbox=toolbox(),
        steps=steps,
    )
    return Driver(directory, execution, plan, say).run()


def resume(path: Path, *, say: Say) -> int:
    """Go on with an execution whose process is gone; the exit code. Raises ConfigError where it
    still runs, or where its plan is not the one that it began with."""
    directory = ExecutionDir.open(path)
    execution = directory.read()
    started = process_start_time(execution.pid)
    if started is not None and started == execution.pid_start_time and execution.pid != os.getpid():
        raise ConfigError(
            f"{path} is still running (pid {execution.pid})", remedy="wait for its end"
        )
    plan = read_plan(directory.plan)
    if plan.sha256 != execution.plan_sha256:
        raise ConfigError(
            f"{directory.plan} is not the plan that this began with",
            remedy="put the plan back, or `dstest plan run` the other one",
        )
    return Driver(directory, execution, plan, say).run()


def _require_change(plan: Plan) -> None:
    """Raises ConfigError where the plan is about a change that has no behaviour (L35)."""
    for finding in lint(plan):
        if finding.rule == "L35":
            raise ConfigError(
                f"{plan.path}:{finding.line}: L35: {finding.what}",
                remedy="nothing is to be run for such a change, and no plan is needed",
            )


def _of(scenarios: Sequence[str], steps: Sequence[Step]) -> list[Step]:
    return [step for step in steps if step.scenario in scenarios and step.argv]


class Driver:
    """One process's part of an execution."""

    def __init__(self, directory: ExecutionDir, execution: Execution, plan: Plan, say: Say) -> None:
        self._dir = directory
        self._execution = execution
        self._plan = plan
        self._say = say

    def run(self) -> int:
        """Execute what is left, and write the findings. Ctrl-C ends the step that runs, which heals
        and seals; the rest is left to `resume`."""
        execution = self._execution
        execution.pid, execution.pid_start_time = os.getpid(), process_start_time(os.getpid())
        self._save()
        self._say(f"plan {execution.slug}: {self._dir.path}")
        for step in execution.steps:
            if step.status != "done" and not self._step(step):
                execution.note(step.id, "stopped", "the rest is left to `dstest plan resume`")
                self._save()
                self._say(f"stopped: `dstest plan resume {self._dir.path}` goes on")
                return int(Exit.INTERRUPTED)
        return self._finish()

    def _finish(self) -> int:
        from dstest.plans.review.gather import write_report

        execution = self._execution
        execution.ended = execution.ended or clock.utc_stamp()
        self._save()
        report = write_report(self._dir)
        execution.outcome = report.outcome
        self._save()
        self._say(f"{report.outcome}: {self._dir.path / 'findings' / 'report.md'}")
        return report.exit_code

    def _save(self) -> None:
        self._dir.save(self._execution)
        metas = {}
        for step in self._execution.steps:
            path = self._dir.result_of(step)
            metas[step.id] = [] if path is None else _metas(path)
        self._dir.write("session-log.md", session_log(self._dir, self._execution, metas))

    def _step(self, step: Step) -> bool:
        """Execute one; False where the user stopped it."""
        execution = self._execution
        if step.blocked:
            self._end(step, State.INCONCLUSIVE_ENV, f"missing: {step.blocked}")
            return True
        argv = self._left(step) or [*step.argv, *self._where(step)]
        if step.status == "done":
            return True
        step.status, step.tries = "running", step.tries + 1
        step.started = step.started or clock.utc_stamp()
        execution.note(step.id, "starting", " ".join(argv))
        self._save()
        self._say(f"{step.id}: dstest {' '.join(argv)}")
        step.exit_code = self._command(step, [*argv, "--json"])
        if step.exit_code == Exit.INTERRUPTED:
            return False
        found = results_in(self._dir.artifacts_of(step))
        step.result = self._dir.relative(found[-1]) if found else ""
        if not found:
            lacks = step.exit_code == Exit.HARNESS
            state = State.INCONCLUSIVE_ENV if lacks else State.NOT_RUN
            self._end(step, state, last_words(self._dir.log_of(step), step.exit_code))
            return True
        outcome = self.outcome(step)
        never = outcome.state is State.NOT_RUN
        self._end(
            step,
            outcome.state,
            last_words(self._dir.log_of(step), step.exit_code) if never else outcome.reason,
        )
        return True

    def outcome(self, step: Step) -> Outcome:
        """What it came to, by its runs."""
        scenario = self._plan.scenario(step.scenario)
        assert scenario is not None
        red = step.side == "red"
        budget = None if red else scenario.budgets.get(self._execution.budget)
        judges = judges_of(scenario)
        done = outcome_of(self._dir.result_of(step), budget, judges, wanted=step.argv)
        if red:
            return done
        steps = self._execution.steps
        return held_to_red(done, red_side_of(self._dir, scenario, step, steps, done))

    def _end(self, step: Step, state: State, reason: str) -> None:
        from dstest.plans.review.gather import write_finding

        step.status, step.ended = "done", clock.utc_stamp()
        step.state, step.reason = state.value, reason
        self._execution.note(step.id, state.value, reason)
        self._save()
        # What a failure needs is written before the next scenario begins.
        write_finding(self._dir, self._plan, self._execution, step.scenario)
        wanted = ", as it has to" if step.side == "red" and state.failed else ""
        self._say(f"{step.id}: {state.value}{wanted}")

    def _where(self, step: Step) -> list[str]:
        named = lab_id_words(step.argv, self._execution.lab_id)
        return ["--store", str(self._dir.artifacts_of(step)), *named]

    def _left(self, step: Step) -> list[str] | None:
        """The command that goes on with what a dead process left of this step, None where it begins
        anew. A run that died is judged: where it has seen a violation, the step is done."""
        if step.status != "running":
            return None
        found = results_in(self._dir.artifacts_of(step))
        if not found:
            return None
        last = found[-1]
        whole = is_session(last)
        if whole and SessionDir.open(last).read().verdict is None:
            return ["resume", str(last)]
        if not whole and not is_finished(RunDir.open(last)):
            self._say(f"{step.id}: its run died; judging what it left")
            self._command(step, ["recover", str(last), "--json"])
        step.result = self._dir.relative(last)
        outcome = self.outcome(step)
        if whole or outcome.state.failed:
            self._end(step, outcome.state, outcome.reason)
        else:
            step.earlier.append(step.result)
            step.result = ""
        return None

    def _command(self, step: Step, argv: Sequence[str]) -> int:
        """Run a command of dstest to its end; its exit code. SIGINT and SIGTERM are passed on."""
        child = start(argv, self._dir.log_of(step))
        before = {
            number: signal.signal(number, lambda n, _: child.send_signal(n))
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            return child.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _metas(path: Path) -> list[RunMeta]:
    found = []
    for run in runs_of(path):
        try:
            meta = RunDir.open(run).read_meta()
        except DstestError:
            meta = None
        if meta is not None:
            found.append(meta)
    return found
