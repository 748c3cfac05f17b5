"""What is kept on disk of a plan's execution, its steps, and what they came to by the runs they
left.

    store/<slug>/<utc>/  plan.md, execution.json, session-log.md, logs/<step>.txt,
                         artifacts/<step>/ (runs and sessions), findings/

Every run is held to its sums (`runner/integrity.py`). A run that did less than the plan's budget
makes its pass worth less (V13 and V14), and a pass is none before its test has failed where there
is something to find (Beck, "Test-Driven Development: By Example", 2002): in a build with a known
bug, whose step runs first, or in broken copies of its own histories (`launch.Red`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from dstest.campaign.launch import Arm, Budget, Red
from dstest.campaign.session_check import arm_evidence
from dstest.campaign.steps.commands import differences, results_in, state_of
from dstest.core import clock, registry
from dstest.core.check import kinds_of
from dstest.core.errors import ConfigError, EvidenceError
from dstest.core.evidence import Evidence
from dstest.core.fingerprint import showing
from dstest.core.near import meant
from dstest.core.run_record import RunMeta
from dstest.core.verdict import State
from dstest.history.layout import (
    RunDir,
    link_latest,
    new_directory,
    read_verdict,
    whole,
    write_file,
)
from dstest.judge.session import evidence_among
from dstest.plans.model import BUDGETS, Plan, Scenario
from dstest.runner.integrity import is_finished
from dstest.runner.session_file import SessionDir, is_session

_FILE: Final = "execution.json"
StepStatus = Literal["pending", "running", "done"]

Side = Literal["green", "red"]
"""What is tested, or the same with a known bug."""

RED_SUFFIX: Final = ".red"
"""Behind the id of an arm; no name of an arm has a full stop."""

_CODE: Final = re.compile(r"`([a-z0-9-]+)`")
_LESS: Final = {State.PASS_HARDENING: State.PASS_SMOKE, State.PASS_SMOKE: State.PARTIAL_MODEL}
NEVER: Final = "never seen red"
Answer = Literal["red", "never", "unnamed"]


class Capability(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the capability matrix: what is needed, whether it is there (None: it can only be
    looked for on a node that is up, and every run does), and what helps where it is not."""

    needs: str
    present: bool | None
    version: str
    source: str
    scenarios: list[str]
    install: str = ""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the timeline."""

    utc: str
    step: str
    event: str
    notes: str = ""


class Step(msgspec.Struct, kw_only=True):
    """One arm of a scenario. `argv` are the words behind `dstest`; `result` is the run or session
    directory that counts, relative to the execution's, and `earlier` those that died before it.
    `state` is one of the ten verdicts, `reason` why it is no better; `blocked` names what it lacks.
    Of its `red` side a failure is what is wanted (`outcome.py`).
    """

    id: str
    scenario: str
    arm: str
    argv: list[str]
    status: StepStatus = "pending"
    tries: int = 0
    started: str = ""
    ended: str = ""
    exit_code: int | None = None
    result: str = ""
    earlier: list[str] = msgspec.field(default_factory=list)
    state: str = ""
    reason: str = ""
    blocked: str = ""
    side: Side = "green"

    @property
    def of(self) -> str:
        """The id of the arm, whichever side of it this is."""
        return self.id.removesuffix(RED_SUFFIX) if self.side == "red" else self.id


class Execution(msgspec.Struct, kw_only=True):
    """A plan's execution. `budget` is the one that its scenarios were run with."""

    schema: Literal["dstest.plan-execution/1"] = "dstest.plan-execution/1"
    slug: str
    plan_sha256: str
    plan_path: str
    budget: str
    system: str
    lab_id: str | None
    commit: str
    started: str
    ended: str = ""
    pid: int = 0
    pid_start_time: int | None = None
    allow_missing: bool = False
    capabilities: list[Capability] = msgspec.field(default_factory=list)
    toolbox: dict[str, list[str]] = msgspec.field(default_factory=dict)
    steps: list[Step] = msgspec.field(default_factory=list)
    events: list[Event] = msgspec.field(default_factory=list)
    outcome: str = ""

    def note(self, step: str, event: str, notes: str = "") -> None:
        """Add a line to the timeline."""
        self.events.append(Event(utc=clock.utc_stamp(), step=step, event=event, notes=notes))


def folder_of(step: str) -> str:
    """The name of a step's folder: `S5/api` is `S5-api`."""
    return step.replace("/", "-")


class ExecutionDir:
    """Paths and atomic writes of one execution."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.artifacts = path / "artifacts"
        self.findings = path / "findings"
        self.plan = path / "plan.md"

    @classmethod
    def create(cls, store: Path, plan: Plan) -> ExecutionDir:
        """A new directory with a copy of the plan; `store/latest` points to it."""
        path = new_directory(store, plan.slug, 0)
        found = cls(path)
        text = Path(plan.path).read_bytes()
        with whole(store, path):
            for folder in (found.artifacts, found.findings, path / "logs"):
                folder.mkdir()
            found.write("plan.md", text)
            link_latest(store, path)
        return found

    @classmethod
    def open(cls, path: Path) -> ExecutionDir:
        """An existing one; ConfigError where `path` is none."""
        if not (path / _FILE).is_file():
            raise ConfigError(
                f"{path} is not the directory of a plan's execution",
                remedy=f"give the directory that holds {_FILE}, such as store/latest",
            )
        return cls(path.resolve())

    def read(self) -> Execution:
        """Raises ConfigError where it cannot be read."""
        try:
            return msgspec.json.decode((self.path / _FILE).read_bytes(), type=Execution)
        except (msgspec.DecodeError, OSError) as error:
            raise ConfigError(
                f"{self.path / _FILE} cannot be read: {error}",
                remedy="the runs below artifacts/ stand by themselves: `dstest report RUN`",
            ) from None

    def save(self, execution: Execution) -> None:
        """Replace the file."""
        text = msgspec.json.format(msgspec.json.encode(execution), indent=2)
        self.write(_FILE, text + b"\n")

    def write(self, name: str, data: bytes | str) -> Path:
        """Write a file atomically."""
        return write_file(self.path, name, data.encode() if isinstance(data, str) else data)

    def artifacts_of(self, step: Step) -> Path:
        """Where its runs go."""
        return self.artifacts / folder_of(step.id)

    def log_of(self, step: Step) -> Path:
        """What its command said, of all tries."""
        return self.path / "logs" / f"{folder_of(step.id)}.txt"

    def relative(self, path: Path) -> str:
        return os.path.relpath(path, self.path)

    def result_of(self, step: Step) -> Path | None:
        """The run or session directory that counts."""
        return self.path / step.result if step.result else None


def not_its_own(directory: ExecutionDir, step: Step) -> str:
    """Why the runs that a step names are not those that it has left; empty where they are."""
    folder = directory.artifacts_of(step).resolve()
    for name in filter(None, [step.result, *step.earlier]):
        if not (directory.path / name).resolve().is_relative_to(folder):
            return f"{name} lies outside of {directory.relative(folder)}"
    strange = unlisted(directory, step)
    if strange:
        return f"{directory.relative(strange[0])} is there, and execution.json does not name it"
    return ""


def unlisted(directory: ExecutionDir, step: Step) -> list[Path]:
    """Run and session directories of a step that is done, of which it does not know."""
    if step.status != "done":
        return []
    known = {(directory.path / name).resolve() for name in [step.result, *step.earlier] if name}
    found = results_in(directory.artifacts_of(step))
    return [path for path in found if path.resolve() not in known]


def select_steps(plan: Plan, budget: str, only: Sequence[str]) -> list[Step]:
    """All steps of a plan; those of scenarios that are not among `only`, if any are named, are not
    run. Raises ConfigError as `steps_of` does, and for a scenario that there is not."""
    known = {scenario.id: scenario for scenario in plan.scenarios}
    if strange := [name for name in only if name not in known]:
        raise ConfigError(
            f"--scenario {strange[0]}: the plan has none of that id",
            remedy=f"it has {', '.join(known)}",
        )
    steps = steps_of(plan, budget)
    return [step if not only or step.scenario in only else skip(step) for step in steps]


def skip(step: Step) -> Step:
    """The step as one that nobody wanted to be run."""
    if not step.argv:
        return step
    return Step(
        id=step.id,
        scenario=step.scenario,
        arm=step.arm,
        argv=[],
        status="done",
        state=State.NOT_RUN.value,
        reason="it was not asked for",
        side=step.side,
    )


def steps_of(plan: Plan, budget: str) -> list[Step]:
    """The arms to execute. Raises ConfigError for a budget that there is not, and for a plan
    without scenarios."""
    if budget not in BUDGETS:
        raise ConfigError(f"--budget {budget}: no such budget", remedy=meant(budget, BUDGETS))
    steps: list[Step] = []
    for scenario in plan.scenarios:
        steps += steps_of_scenario(scenario, budget)
    if not steps:
        raise ConfigError(f"{plan.path}: no scenario to run", remedy="section 7 describes them")
    return steps


def steps_of_scenario(scenario: Scenario, budget: str) -> list[Step]:
    """One step for each arm, behind that of its red side, where it has one that is run; what the
    plan does not run stands there with its reason."""
    if scenario.run is None:
        said = "it has no run block"
        return [_not_run(scenario.id, scenario, said)]
    if budget not in scenario.budgets:
        said = scenario.reasons.get(budget, "the plan gives no numbers for this budget")
        return [_not_run(scenario.id, scenario, said)]
    steps: list[Step] = []
    for arm in scenario.arms:
        if red := scenario.red_arguments(arm):
            steps.append(_step(scenario, arm, red, "red"))
        steps.append(_step(scenario, arm, scenario.arguments(budget, arm), "green"))
    skipped = [arm for arm in scenario.run.arms if not arm.runs]
    return steps + [
        _not_run(scenario.arm_id(arm), scenario, f"{arm.expected}: {arm.reason}", arm.name)
        for arm in skipped
    ]


def _step(scenario: Scenario, arm: Arm, argv: list[str], side: Side) -> Step:
    id = scenario.arm_id(arm) + (RED_SUFFIX if side == "red" else "")
    return Step(id=id, scenario=scenario.id, arm=arm.name, argv=argv, side=side)


def _not_run(id: str, scenario: Scenario, reason: str, arm: str = "") -> Step:
    return Step(
        id=id,
        scenario=scenario.id,
        arm=arm,
        argv=[],
        status="done",
        state=State.NOT_RUN.value,
        reason=reason,
    )


class RunOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a step. `evidence` is None where it has no verdict; `kinds` are the
    anomalies that each checker found."""

    path: Path
    state: State
    rule: str
    reason: str
    meta: RunMeta | None = None
    evidence: Evidence | None = None
    kinds: dict[str, frozenset[str]] = {}


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A step: its state, the rule that gave it, why it is no better, and its runs.

    `missed` says which numbers of the declared budget were not reached.
    """

    state: State
    rule: str
    reason: str
    runs: list[RunOutcome]
    missed: list[str]


def outcome_of(
    path: Path | None,
    budget: Budget | None,
    checkers: Iterable[str],
    *,
    wanted: Sequence[str] = (),
) -> Outcome:
    """What a run or session directory is worth against what the plan declared.

    `checkers` are those that the plan expects to judge it, `wanted` the words of the command that
    it has to be a run of. Evidence that was changed, that cannot be read, or that is of another
    command, is worth nothing: the answer is inconclusive and says why.
    """
    if path is None:
        return Outcome(state=State.NOT_RUN, rule="V01", reason="never run", runs=[], missed=[])
    try:
        state, rule, reason = state_of(path)
        runs = _runs(path)
        _require_own(runs, wanted)
    except (EvidenceError, ConfigError) as error:
        return Outcome(
            state=State.INCONCLUSIVE_ORACLE,
            rule="V05",
            reason=f"its evidence does not hold: {error.message}",
            runs=[],
            missed=[],
        )
    lacking = sorted({*checkers} - {name for run in runs for name in _judges(run)})
    if lacking and not state.failed and state is not State.NOT_RUN:
        state, rule = State.PARTIAL_SURFACE, "V07"
        reason = f"the plan names {', '.join(lacking)}, which judged none of its runs"
    missed = [] if budget is None else _missed(runs, budget)
    if missed and (less := _LESS.get(state)) is not None:
        state, rule = less, "V13" if less is State.PARTIAL_MODEL else "V14"
        reason = f"the budget that the plan declares was not met: {'; '.join(missed)}"
    return Outcome(state=state, rule=rule, reason=reason, runs=runs, missed=missed)


def _require_own(runs: Iterable[RunOutcome], wanted: Sequence[str]) -> None:
    """Raises EvidenceError where a run is not one of this command."""
    for run in runs:
        wrong = [] if run.meta is None else differences(run.meta, wanted)
        if wrong:
            raise EvidenceError(f"{run.path} is a run of something else: {', '.join(wrong)}")


def judges_of(scenario: Scenario) -> tuple[str, ...]:
    """The checkers that the plan counts on: those that its oracle names as code, and those of its
    run block."""
    named = _CODE.findall(scenario.field("oracle"))
    known = [name for name in named if name in registry.names("checkers")]
    run = scenario.run
    asked = [] if run is None else [*run.checker, *run.checkers]
    asked = [name for name in asked if not name.endswith(".py")]
    return tuple(dict.fromkeys([*known, *asked]))


def _runs(path: Path) -> list[RunOutcome]:
    """The runs; those of a session with the evidence that they have among each other."""
    if not is_session(path):
        return [_run(path)]
    directory = SessionDir.open(path)
    file = directory.read()
    among = evidence_among([arm_evidence(directory, arm) for arm in file.arms], file.tier)
    runs = {arm.id: _run(path / arm.attempts[-1]) for arm in file.arms if arm.attempts}
    return [msgspec.structs.replace(run, evidence=among.get(id)) for id, run in runs.items()]


def _run(path: Path) -> RunOutcome:
    """A run that has just been read, or that never was."""
    run = RunDir.open(path)
    meta = run.read_meta()
    if not is_finished(run):
        return RunOutcome(
            path=path, state=State.NOT_RUN, rule="V01", reason="it was not judged", meta=meta
        )
    verdict = read_verdict(run.path)
    return RunOutcome(
        path=path,
        state=verdict.verdict,
        rule=verdict.rule,
        reason=verdict.reason,
        meta=meta,
        evidence=verdict.evidence,
        kinds={name: frozenset(kinds_of(plain)) for name, plain in verdict.checkers.items()},
    )


def _judges(run: RunOutcome) -> list[str]:
    return [] if run.evidence is None else list(run.evidence.checker.ran)


def _missed(runs: list[RunOutcome], budget: Budget) -> list[str]:
    """Numbers of the declared budget that these runs have not reached, in words."""
    said = []
    with_nodes = {run.meta.spec.get("nodes") for run in runs if run.meta is not None}
    said += [f"no run had {size} nodes" for size in sorted({*budget.nodes} - with_nodes)]
    short = [
        run
        for run in runs
        if run.meta is not None
        and (run.meta.ended_by or float(run.meta.spec.get("time_limit_s", 0)) < budget.duration_s)
    ]
    if short:
        said.append(f"{len(short)} of {len(runs)} runs had less than {budget.duration_s:g} s")
    landed = [
        sum(fault.landed == "yes" for fault in run.evidence.faults)
        for run in runs
        if run.evidence is not None
    ]
    if landed and min(landed) < budget.faults:
        said.append(f"a run had {min(landed)} landed faults of {budget.faults}")
    seeds = {run.meta.spec.get("seed") for run in runs if run.meta is not None}
    if len(seeds) < budget.seeds:
        said.append(f"{len(seeds)} seeds of {budget.seeds}")
    return said


class RedSide(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the red side of an arm (`of`: its id). `answer` is `red` where it failed as
    the plan says, `never` where it did not, `unnamed` where the plan names none; `said` is why.
    `under` is what it was to be red under. Of a build `state` is what its `result`, a run or a
    session, came to."""

    of: str
    under: str
    answer: Answer
    said: str
    state: State | None = None
    result: Path | None = None


def red_side_of(
    directory: ExecutionDir, scenario: Scenario, green: Step, steps: Iterable[Step], done: Outcome
) -> RedSide:
    """Of the arm of `green`, which came to `done`; `steps` are all of the execution."""
    arm = next((arm for arm in scenario.arms if arm.name == green.arm), None)
    red = None if arm is None else scenario.red_of(arm)
    if arm is None or red is None:
        return RedSide(of=green.id, under="-", answer="unnamed", said="the plan names no red side")
    if not red.builds:
        return _canary(green.id, done)
    step = next((one for one in steps if one.side == "red" and one.of == green.id), None)
    if step is None or not step.result:
        why = "" if step is None else step.reason
        return RedSide(of=green.id, under=_under(red), answer="never", said=why or "it never ran")
    found = red_outcome(directory, scenario, arm, step)
    seen, said = _failed_as_it_should(found, red, judges_of(scenario))
    return RedSide(
        of=green.id,
        under=_under(red),
        answer="red" if seen else "never",
        said=said,
        state=found.state,
        result=directory.result_of(step),
    )


def red_outcome(directory: ExecutionDir, scenario: Scenario, arm: Arm, step: Step) -> Outcome:
    """What the step of a red side came to by the words of the plan."""
    if wrong := not_its_own(directory, step):
        return Outcome(
            state=State.INCONCLUSIVE_ORACLE, rule="V05", reason=wrong, runs=[], missed=[]
        )
    return outcome_of(
        directory.result_of(step), None, judges_of(scenario), wanted=scenario.red_arguments(arm)
    )


def held_to_red(done: Outcome, side: RedSide) -> Outcome:
    """What an arm came to: a pass is none where its red side was named and never red."""
    if not done.state.passed or side.answer != "never":
        return done
    reason = f"{NEVER} under {side.under}: {side.said}; so nothing shows that it could have failed"
    return msgspec.structs.replace(done, state=State.INCONCLUSIVE_ORACLE, rule="V10", reason=reason)


def _under(red: Red) -> str:
    """The build, in words."""
    parts = [
        *([] if red.system is None else [f"system {red.system}"]),
        *(f"plug-in {path}" for path in red.plugin),
        *(f"build {path}" for path in red.system_version),
        *(f"{key}={value}" for key, value in red.options.items()),
    ]
    return ", ".join(parts)


def _canary(of: str, done: Outcome) -> RedSide:
    """Each run had broken copies of its history, and its checkers rejected all of them."""
    counts = [
        (run.evidence.checker.canary_killed, run.evidence.checker.canary_total)
        for run in done.runs
        if run.evidence is not None
    ]
    killed, total = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0)
    seen = bool(counts) and all(0 < some == each for some, each in counts)
    said = f"{killed} of {total} broken copies were rejected"
    return RedSide(
        of=of, under="broken copies of its histories", answer="red" if seen else "never", said=said
    )


def _failed_as_it_should(done: Outcome, red: Red, judges: tuple[str, ...]) -> tuple[bool, str]:
    """Did one of the runs fail by an anomaly of the known bug, told by a checker that the plan
    counts on, while a fault had landed if any was planned? And what is to be said of it."""
    if not done.runs:
        return False, done.reason
    misses = [_miss(run, red, judges) for run in done.runs]
    seen = misses.count("")
    if not seen:
        return False, "; ".join(dict.fromkeys(misses))
    kinds = {kind for run in done.runs for kind in _kinds(run, judges)} & {*red.anomalies}
    return True, f"{', '.join(sorted(kinds))} in {seen} of {len(done.runs)} runs"


def _miss(run: RunOutcome, red: Red, judges: tuple[str, ...]) -> str:
    """Why a run does not show the known bug; empty where it does."""
    if not run.state.failed or run.evidence is None:
        return f"it came to {run.state.value}"
    found, evidence = {*_kinds(run, judges)}, run.evidence
    how = showing(
        found,
        red.anomalies,
        None,
        planned=evidence.fault_planned,
        landed=sum(fault.landed == "yes" for fault in evidence.faults),
    )
    if how == "missed":
        named = ", ".join(sorted(found)) or "nothing that its judges name"
        return f"it failed by {named}, and its bug shows as {', '.join(red.anomalies)}"
    return "it failed, and none of its faults is proven to have landed" if how != "shown" else ""


def _kinds(run: RunOutcome, judges: tuple[str, ...]) -> Iterator[str]:
    for name, kinds in run.kinds.items():
        if not judges or name in judges:
            yield from kinds
