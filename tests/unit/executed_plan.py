"""A small plan, and the directory of its execution with runs that were really judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from made_runs import made, registers

from dstest.core.op import Op, Outcome
from dstest.plans.execution.state import Execution, ExecutionDir, steps_of
from dstest.plans.reader import read_plan

PLAN = """\
---
slug: small-register-plan
date: 2026-11-27
mode: project-wide
sut: a store of registers
system: etcd
author: somebody
status: reviewed
---

# A small plan

## 1b. Claims

| ID | Claim | Category | Source | Inferred? |
|---|---|---|---|---|
| C1 | a read sees the newest write | safety | manual 1 | no |
| C2 | a write that was acknowledged stays | durability | manual 2 | no |

## 4. Hypotheses

| ID | Category | Hypothesis | Falsifies | Suspected because | Subsystem |
|---|---|---|---|---|---|
| H1 | correctness | a partition shows an old value | C1 | pitfall 2 | replication |
| H2 | durability | a kill loses a write | C2 | pitfall 5 | log |
| H3 | liveness | nobody closes this one | C2 | pitfall 14 | elections |

## 7. Scenarios

### S1: register_is_linearizable_under_partition

- **Falsifies:** C1
- **Closes:** H1
- **Oracle:** `linearizable` finds no violation
- **Smoke budget:** nodes 3; duration 28 s; faults 1; seeds 1
- **Hardening budget:** nodes 5, 3; duration 305 s; faults 10; seeds 3
- **Release budget:** not provided: no machine for a day. Revisit when: there is one.

```toml run
system = "etcd"
workload = "register"
nemesis = "partition"
concurrency = 8
```

### S2: writes_stay_under_partition

- **Falsifies:** C1, C2
- **Closes:** H2
- **Oracle:** `linearizable` finds no violation
- **Smoke budget:** nodes 3; duration 28 s; faults 1; seeds 1
- **Hardening budget:** nodes 5, 3; duration 305 s; faults 10; seeds 3
- **Release budget:** nodes 5, 3; duration 3605 s; faults 100; seeds 10

```toml run
system = "etcd"
workload = "register"
nemesis = "partition"
concurrency = 8

[[arms]]
name = "near"
surface = "clients of one node"

[[arms]]
name = "far"
surface = "clients of a proxy"
expected = "NOT-RUN"
reason = "there is no proxy"
```

#### 7.M.S

- **Surfaces:** near; far
- **Scenario arms:** near; far (NOT-RUN: there is no proxy)

## 7b. Adequacy

| Claim | Threats | Scenarios | Why sufficient |
|---|---|---|---|
| C1 | a: partition of one node | a: S1, S2 | what is promised is about partitions |
| C2 | a: partition of one node | a: S2 | acknowledged writes are read again |
"""


def stale(ops: list[Op]) -> list[Op]:
    """With one read of a value that had been replaced before it began."""
    wrote: dict[Any, list[Op]] = {}
    for at, op in enumerate(ops):
        if op.outcome is not Outcome.OK:
            continue
        if op.op_type == "write":
            wrote.setdefault(op.key, []).append(op)
        ended = [w for w in wrote.get(op.key, []) if (w.complete_ts or 0) < op.invoke_ts]
        if op.op_type == "read" and len(ended) > 8 and op.output != ended[0].input:
            changed = msgspec.structs.replace(op, output=ended[0].input)
            return [*ops[:at], changed, *ops[at + 1 :]]
    raise AssertionError("no read could be made stale")


def begun(folder: Path, plan_text: str) -> tuple[ExecutionDir, Execution]:
    """The execution of a plan with its budget `smoke`, none of whose steps has run."""
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
        steps=steps_of(plan, "smoke"),
    )
    return directory, execution


def executed(folder: Path, *, fail: bool = False) -> ExecutionDir:
    """The plan above with its budget `smoke`: S1 and S2/near have run, S2/far is not run. With
    `fail` S1 has seen a violation."""
    directory, execution = begun(folder, PLAN)
    for number, step in enumerate(execution.steps, 1):
        if not step.argv:
            continue
        ops = registers(seed=number)
        run, verdict = made(
            directory.artifacts_of(step) / "etcd-register-partition" / "run",
            stale(ops) if fail and number == 1 else ops,
            "register",
        )
        step.result = directory.relative(run.path)
        step.status, step.state = "done", verdict.verdict.value
    directory.save(execution)
    return directory
