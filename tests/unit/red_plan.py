"""The small plan with a red side, and the directory of its execution with runs of both sides."""

from __future__ import annotations

from pathlib import Path

from executed_plan import PLAN, begun, stale
from made_runs import made, registers

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
    directory, execution = begun(folder, plan_text)
    execution.ended = "20261127T000100Z"
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
