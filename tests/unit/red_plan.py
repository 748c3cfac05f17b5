"""The small plan with a red side, and the directory of its execution with runs of both sides."""

from __future__ import annotations

from pathlib import Path

from executed_plan import PLAN, stale
from made_runs import made, registers

from dstest.plans.execution.state import Execution, ExecutionDir
from dstest.plans.execution.steps import steps_of
from dstest.plans.reader import read_plan

__all__ = ["BUILD", "CANARY", "ONE", "directory_of", "with_red"]

_BLOCK = 'nemesis = "partition"\nconcurrency = 8\n'
BUILD = '\n[red]\noptions = { shape = "one" }\nanomalies = ["nonlinearizable"]\n'
CANARY = "\n[red]\ncanary = true\n"
ONE = PLAN[: PLAN.index("### S2:")] + PLAN[PLAN.index("## 7b.") : PLAN.index("| C2 | a: part")]
"""With one scenario alone."""


def with_red(red: str, plan: str = ONE) -> str:
    """The plan whose S1 has this red side."""
    assert _BLOCK in plan
    return plan.replace(_BLOCK, _BLOCK + red, 1)


def directory_of(folder: Path, plan_text: str, *, fails: bool, fails_green: bool = False) -> Path:
    """Its execution with the budget `smoke`; with `fails` the run of the red side has seen a
    violation, with `fails_green` the other one."""
    path = folder / "plan.md"
    path.write_text(plan_text)
    plan = read_plan(path)
    directory = ExecutionDir.create(folder / "store", plan)
    execution = Execution(
        slug=plan.slug,
        plan_sha256=plan.sha256,
        plan_path=str(path),
        budget="smoke",
        system="etcd",
        lab_id=None,
        commit="",
        started="20261127T000000Z",
        ended="20261127T000100Z",
        steps=steps_of(plan, "smoke"),
    )
    for number, step in enumerate(execution.steps, 1):
        if not step.argv:
            continue
        bad = fails if step.side == "red" else fails_green
        ops = registers(seed=number)
        given = ["shape=one"] if step.side == "red" else []
        run, verdict = made(
            directory.artifacts_of(step) / "etcd-register-partition" / "run",
            stale(ops) if bad else ops,
            "register",
            given=given,
        )
        step.result = directory.relative(run.path)
        step.status, step.state = "done", verdict.verdict.value
    directory.save(execution)
    return directory.path
