"""A session: the same test over several seeds and cluster sizes, an arm each, and one verdict.

Every arm is an ordinary run in a directory of its own. Arms of one size share a lab. A session that
was stopped or killed goes on with the arms that are not done (`dstest resume`); the run that died
with it is judged first, because a violation that it saw must not be lost.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from clusters.labs.image import packages_for
from dstest.campaign.session_check import (
    SessionFinished,
    arm_evidence,
    contradicts,
    once,
    reread,
    unlisted,
    verify,
)
from dstest.core import clock, registry
from dstest.core.errors import ConfigError, DstestError, Exit, Interrupted, LabError
from dstest.core.evidence import Tier
from dstest.core.run_record import RunSpec
from dstest.core.verdict import State
from dstest.history.layout import VERDICT, RunDir, link_latest, read_verdict
from dstest.history.sums import SIGNATURE, require_key
from dstest.judge.facts import SHAPES, TIER_NEEDS
from dstest.judge.session import SessionVerdict, judge_session
from dstest.runner.integrity import is_finished
from dstest.runner.plugins import Plugins, resolve
from dstest.runner.replay import replay
from dstest.runner.screen import Progress, progress_for
from dstest.runner.session import (
    Finished,
    alive,
    of_size,
    process_start_time,
    recover,
    require_packages,
    run_session,
)
from dstest.runner.session_file import ArmState, SessionDir, SessionFile
from dstest.runner.simulated_fit import check_lab, check_tier
from dstest.runner.transport import simulates

_AROUND_S = 75.0
"""Set-up, recovery and judging of an arm on a small host, about."""

_AGAIN: Final = frozenset({State.INCONCLUSIVE_FAULT, State.INCONCLUSIVE_ENV, State.NOT_RUN})
"""States in which the test has not taken place: such an arm is tried again."""


def lasts_s(arms: int, time_limit_s: float) -> float:
    """About how long a session of so many arms lasts, in seconds."""
    return arms * (time_limit_s + _AROUND_S)


def shortfalls(
    tier: Tier, arms: Sequence[tuple[int, int]], time_limit_s: float, faults: int
) -> list[str]:
    """What the tier asks for and these arms (size, seed) cannot give, a sentence each.

    `faults` is the smallest number of faults planned for an arm.
    """
    need, sizes = TIER_NEEDS[tier], {size for size, _ in arms}
    seeds = max(len({seed for s, seed in arms if s == size}) for size in sizes)
    given = {
        "seconds of load": (need["duration_s"], time_limit_s),
        "nodes": (need["nodes"], max(sizes)),
        "faults in each arm": (need["faults"], faults),
        "seeds": (need["seeds"], seeds),
        "cluster sizes": (len(SHAPES[tier].sizes), len(sizes)),
    }
    return [
        f"the {tier} budget asks for {wanted:g} {what}, this session has {has:g}"
        for what, (wanted, has) in given.items()
        if has < wanted
    ]


class ArmsPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a session is asked for: (size, seed) of each arm, the load of each, and the tier."""

    arms: list[tuple[int, int]]
    tier: Tier
    time_limit_s: float
    attempts_max: int


def plan_arms(
    *,
    tier: Tier | None,
    seeds: Sequence[int] | None,
    count: int | None,
    sizes: Sequence[int] | None,
    time_limit_s: float | None,
    first_seed: int,
) -> ArmsPlan:
    """The arms that the flags of `dstest run` ask for.

    Named seeds and sizes are run in all combinations. What is left out comes from the tier: its
    seeds at its first size, and the first seed at each of its other sizes.
    """
    shape = SHAPES[tier or "smoke"]
    wanted = list(seeds or [first_seed])
    if len(wanted) == 1:
        wanted = [wanted[0] + i for i in range(count or shape.seeds)]
    elif count and len(wanted) != count:
        raise ConfigError(
            f"--seed names {len(wanted)} seeds, --seeds asks for {count}", remedy="give one of them"
        )
    for what, given in (("--seed", wanted), ("--nodes", list(sizes or []))):
        if len(set(given)) < len(given):
            raise ConfigError(
                f"{what}: {', '.join(map(str, given))} names one twice", remedy="name each once"
            )
    if sizes:
        arms = [(size, seed) for size in sizes for seed in wanted]
    elif tier is None:
        arms = [(shape.sizes[0], seed) for seed in wanted]
    else:
        first, *others = shape.sizes
        arms = [(first, seed) for seed in wanted] + [(size, wanted[0]) for size in others]
    return ArmsPlan(
        arms=arms,
        tier=tier or "smoke",
        time_limit_s=shape.time_limit_s if time_limit_s is None else time_limit_s,
        attempts_max=2 if len(arms) > 1 else 1,
    )


def begin(
    spec: RunSpec,
    given: list[str],
    plan: ArmsPlan,
    *,
    store: Path,
    lab_id: str | None = None,
    confirm: int = 0,
    ui: Progress | None = None,
    plugins_of: Callable[[RunSpec, list[str]], Plugins] = resolve,
    sign_key: Path | None = None,
) -> SessionFinished:
    """Run all arms, and `confirm` times again what failed. Raises ConfigError where one of them
    cannot be planned, before a node exists.

    `plugins_of` is for tests that sabotage an arm.
    """
    spec = msgspec.structs.replace(spec, time_limit_s=plan.time_limit_s)
    arms = [ArmState(id=f"n{nodes}-s{seed}", nodes=nodes, seed=seed) for nodes, seed in plan.arms]
    file = SessionFile(
        spec=spec,
        options_given=given,
        tier=plan.tier,
        attempts_max=plan.attempts_max,
        arms=arms,
        started=clock.utc_stamp(),
        lab_id=lab_id,
        confirm=confirm,
    )
    ui, faults = ui or progress_for(), []
    for arm in arms:
        plugins = plugins_of(_spec_of(file, arm), given)
        if simulates(plugins.lab):
            check_lab(lab_id, keep_lab=False)
            check_tier(plan.tier)
        _named_lab(plugins, file, arm)
        faults.append(len(plugins.plans))
    require_key(sign_key)
    for said in shortfalls(plan.tier, plan.arms, plan.time_limit_s, min(faults)):
        ui.say(f"note: {said}")
    name = f"{spec.system}-{spec.workload}-{spec.nemesis.replace(',', '+')}"
    directory = SessionDir.create(store, name, arms[0].seed)
    return _Driver(directory, file, ui, plugins_of, sign_key).run()


def resume(
    path: Path,
    *,
    ui: Progress | None = None,
    plugins_of: Callable[[RunSpec, list[str]], Plugins] = resolve,
    sign_key: Path | None = None,
) -> SessionFinished:
    """Go on with a session whose process is gone. Raises ConfigError where it still runs."""
    directory = SessionDir.open(path)
    file = directory.read()
    if file.pid != os.getpid() and alive(file):
        raise ConfigError(f"{path} is still running (pid {file.pid})", remedy="wait for its end")
    if file.verdict is not None:
        return reread(path)
    for arm in file.arms:
        if arm.done:
            verify(directory, file, arm)
            if strange := list(unlisted(directory, arm)):
                raise contradicts(directory, f"session.json does not know {strange[0]}")
    once(directory, file)
    require_key(sign_key)
    return _Driver(directory, file, ui or progress_for(), plugins_of, sign_key).run()


def _named_lab(plugins: Plugins, file: SessionFile, arm: ArmState) -> tuple[str, bool]:
    """The lab of this arm by its name, and whether it is up: the user's own where it has the arm's
    size, else one named after it (after us without a name). Raises ConfigError for no name,
    LabError where it lacks what the system needs, or has too few machines that were adopted."""
    wanted = [f"{file.lab_id}-{arm.nodes}" if file.lab_id else f"s{os.getpid()}-{arm.nodes}"]
    for name in ([file.lab_id] if file.lab_id else []) + wanted:
        info = plugins.lab.status(name)
        if info is not None and len(of_size(info, arm.nodes).nodes) == arm.nodes:
            require_packages(info, plugins)
            return name, True
        if info is not None and info.adopted is not None:
            raise LabError(
                f"lab {name} has {len(info.nodes)} machines, this arm wants {arm.nodes}",
                remedy=f"dstest lab adopt with {arm.nodes}; arms of fewer nodes take the first",
            )
    return wanted[0], False


def _spec_of(file: SessionFile, arm: ArmState) -> RunSpec:
    return msgspec.structs.replace(file.spec, nodes=arm.nodes, seed=arm.seed, options={})


class _Driver:
    """One process's part of a session."""

    def __init__(
        self,
        directory: SessionDir,
        file: SessionFile,
        ui: Progress,
        plugins_of: Callable[[RunSpec, list[str]], Plugins],
        sign_key: Path | None,
    ) -> None:
        self._sign_key = sign_key
        self._dir = directory
        self._file = file
        self._ui = ui
        self._plugins_of = plugins_of

    def run(self) -> SessionFinished:
        file = self._file
        self._down()
        file.pid, file.pid_start_time = os.getpid(), process_start_time(os.getpid())
        file.verdict = None
        self._dir.write(file)
        self._dir.write_text("status", "running\n")
        todo = sum(1 for arm in file.arms if not arm.done)
        minutes = lasts_s(todo, file.spec.time_limit_s) / 60
        self._ui.say(
            f"session {self._dir.path}: {len(file.arms)} arms, {todo} to run in about "
            f"{minutes:.0f} minutes, tier {file.tier}"
        )
        try:
            for size in dict.fromkeys(arm.nodes for arm in file.arms):
                self._of_size(size)
        except _Stopped as stopped:
            self._dir.write_text("status", f"stopped: `dstest resume {self._dir.path}` goes on\n")
            return SessionFinished(
                path=self._dir.path, exit_code=Exit.INTERRUPTED, failure=stopped.done.failure
            )
        finally:
            self._down()
        verdict = self._judged()
        file.verdict = msgspec.to_builtins(verdict)
        self._dir.write(file)
        self._report(verdict)
        self._dir.write_sums(self._sign_key)
        self._dir.write_text("status", f"{verdict.outcome}: {verdict.state.value}\n")
        return SessionFinished(path=self._dir.path, exit_code=verdict.exit_code, verdict=verdict)

    def _of_size(self, size: int) -> None:
        """The arms of one cluster size, in one lab."""
        for arm in self._file.arms:
            if arm.nodes != size:
                continue
            if not arm.done:
                self._arm(arm)
            elif (done := self._owed(arm)) is not None:
                plugins = self._plugins_of(_spec_of(self._file, arm), self._file.options_given)
                self._run_again(arm, done, self._lab(plugins, arm))
        self._down()

    def _owed(self, arm: ArmState) -> Finished | None:
        """The run of an arm that failed and was to be made again, where a process ended before."""
        if not self._file.confirm or not arm.attempts:
            return None
        path = self._dir.path / arm.attempts[-1]
        if not (path / VERDICT).is_file():
            return None  # an arm that could not be run has failed at nothing
        if not is_finished(RunDir.open(path)):
            recover(path, sign_key=self._sign_key)
        verdict = read_verdict(path)
        owed = verdict.verdict.failed and not verdict.evidence.rerun.same_seed_runs
        return Finished(path=path, exit_code=Exit.FAIL, verdict=verdict) if owed else None

    def _arm(self, arm: ArmState) -> None:
        self._bury(arm)
        # A run that a killed process left does not use up a try.
        arm.tries = 0
        while not arm.done:
            arm.tries += 1
            again = f", attempt {arm.tries}" if arm.tries > 1 else ""
            self._ui.say(f"arm {arm.id}{again}: {arm.nodes} nodes, seed {arm.seed}")
            state = self._attempt(arm)
            arm.done = state not in _AGAIN or arm.tries >= self._file.attempts_max
            self._dir.write(self._file)

    def _bury(self, arm: ArmState) -> None:
        """A run that died with the last process is judged: what it saw counts."""
        arm.attempts += [self._dir.relative(found) for found in unlisted(self._dir, arm)]
        path = self._dir.path / arm.attempts[-1] if arm.attempts else None
        if path is not None and not is_finished(RunDir.open(path)):
            self._ui.say(f"arm {arm.id}: its run died; judging what it left")
            try:
                done = recover(path, sign_key=self._sign_key)
            except DstestError as error:
                arm.why = f"its run died and cannot be judged: {error.message}"
            else:
                failed = done.verdict is not None and done.verdict.verdict.failed
                arm.done = failed
        self._dir.write(self._file)

    def _attempt(self, arm: ArmState) -> State:
        """Run it once. Raises _Stopped where the user stopped it."""
        plugins = self._plugins_of(_spec_of(self._file, arm), self._file.options_given)
        done: Finished | None = None
        try:
            lab_id = self._lab(plugins, arm)
            done = run_session(
                plugins,
                store=self._dir.arms,
                name=arm.id,
                lab_id=lab_id,
                tier=self._file.tier,
                ui=self._ui,
                sign_key=self._sign_key,
            )
        except LabError as error:
            arm.why = error.message
        arm.attempts += [self._dir.relative(state) for state in unlisted(self._dir, arm)]
        self._dir.write(self._file)
        if done is None:
            return State.NOT_RUN
        if isinstance(done.failure, Interrupted):
            raise _Stopped(done)
        if done.verdict is None:
            arm.why = "" if done.failure is None else done.failure.message
            return State.NOT_RUN
        state: State = done.verdict.verdict
        self._ui.say(f"arm {arm.id}: {state.value}")
        if state.failed and self._file.confirm:
            arm.done = True  # it has failed, whatever comes of this
            self._dir.write(self._file)
            self._run_again(arm, done, lab_id)
        return state

    def _run_again(self, arm: ArmState, done: Finished, lab_id: str | None) -> None:
        """Does its violation come again? Raises _Stopped where the user stopped it."""
        times = self._file.confirm
        self._ui.say(f"arm {arm.id}: run again, {times} time{'s' * (times > 1)}")
        store = self._dir.path.parent.parent
        try:
            *_, again = replay(
                done.path,
                times,
                store=store,
                lab_id=lab_id,
                ui=self._ui,
                sign_key=self._sign_key,
            )
        except Interrupted as error:
            raise _Stopped(msgspec.structs.replace(done, failure=error)) from None
        except DstestError as error:
            self._ui.say(f"arm {arm.id}: not run again: {error.message}")
            return
        finally:
            link_latest(store, self._dir.path)
        if again.verdict is not None:
            self._ui.say(f"arm {arm.id}: {again.verdict.verdict.value}")

    def _lab(self, plugins: Plugins, arm: ArmState) -> str | None:
        """The lab for this arm; one that is not up is brought up, and is ours to take down. None
        where its nodes come with the run."""
        if simulates(plugins.lab):
            return None
        name, up = _named_lab(plugins, self._file, arm)
        if not up:
            self._file.own_lab = name
            self._dir.write(self._file)
            message = f"bringing {arm.nodes} {plugins.spec.lab} nodes up, as lab {name}"
            self._ui.phase("lab", message)
            packages = packages_for([plugins.system], plugins.spec.builds)
            plugins.lab.up(name, arm.nodes, packages=packages, progress=self._ui.say)
        return name

    def _down(self) -> None:
        """Our own lab, or the one that a dead process of this session left."""
        own = self._file.own_lab
        if own is not None:
            registry.load("labs", self._file.spec.lab).down(own)
            self._file.own_lab = None
            self._dir.write(self._file)

    def _judged(self) -> SessionVerdict:
        return judge_session(
            [arm_evidence(self._dir, arm) for arm in self._file.arms], self._file.tier
        )

    def _report(self, verdict: SessionVerdict) -> None:
        from dstest.report.session import write_session

        write_session(self._dir.path, self._file.spec, self._file.options_given, verdict)
        self._draw_again({arm.id for arm in verdict.arms if arm.state.failed})

    def _draw_again(self, failed: set[str]) -> None:
        """The reports of arms that failed: only now it is known in how many arms that came."""
        from dstest.report.model import load_report
        from dstest.report.write import render

        runs = [RunDir(self._dir.path / a.attempts[-1]) for a in self._file.arms if a.id in failed]
        for run in runs:
            left_signed = self._sign_key is None and (run.path / SIGNATURE).exists()
            if left_signed or not (run.path / "report.html").is_file():
                continue
            if render(run.path, load_report(run.path)):
                run.write_sums(self._sign_key)


class _Stopped(Exception):
    """The user stopped an arm."""

    def __init__(self, done: Finished) -> None:
        super().__init__()
        self.done = done
