"""What every checker costs per operation, from operations in memory to its answer.

The linearizability checker stands there once for each of its models: many small objects, the
encoding of their operations and the witnesses of none (all are right). CPU time, best of three.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

import dstest.judge.checker_answers as answers
from checkers.lin.catalogue import MODELS
from dstest.core import registry
from dstest.core.check import Budget, CheckResult
from dstest.core.history import Header, History
from dstest.core.op import Op

COUNT = 20_000
"""Operations of a history."""

FEW = 1_500
"""Operations of a history for linearizability, in objects of seven at most: another checker finds
by brute force which of them are right."""

BUDGET = Budget(time_s=300, memory_mb=4096)


def say(name: str, value: str) -> None:
    sys.stdout.write(f"  {name:<56} {value}\n")
    sys.stdout.flush()


def measure(name: str, history: History, judge: Callable[[], CheckResult]) -> None:
    times = []
    for _ in range(3):
        started = time.process_time()
        result = judge()
        times.append(time.process_time() - started)
    each_ns = min(times) / len(history.ops) * 1e9
    say(name, f"{each_ns:,.0f} ns/op, {result.valid}, {len(history.ops):,} operations")


def apart(op: Op, number: int) -> Op:
    """The same on registers of its own, where an operation names some."""
    named = [[f, f"{number}:{key}", value] for f, key, value in op.input or ()]
    told = op.output and [[f, f"{number}:{key}", value] for f, key, value in op.output]
    return replace(op, input=named, output=told)


def objects(model: str) -> History:
    """Right histories of one model, an object each, one after the other."""
    from lin_oracle import (
        PERMITS,
        explains,
        random_history,
    )

    dice, ops = random.Random(model), list[Op]()
    for number in range(FEW):
        one = random_history(model, dice, 7, f"log{number}" if model == "log" else f"k{number}")
        if explains(model, one):
            ops += [apart(op, number) for op in one] if model == "multi-register" else one
        if len(ops) >= FEW:
            break
    ordered = sorted(ops, key=lambda op: op.invoke_ts)
    named = [replace(op, op_id=number) for number, op in enumerate(ordered)]
    return History(header=Header(options={"permits": PERMITS}), ops=named)


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parents[1] / "oracles"))
    from dstest.history.generator.true_histories import KINDS
    from dstest.history.generator.true_histories import history as true_history

    for name, kind in KINDS.items():
        history = true_history(name, 1, COUNT, processes=10, unknown=0, fail=0)
        checker = registry.load("checkers", kind.checker)

        def judge(checker=checker, history=history, model=kind.model):  # type: ignore[no-untyped-def]
            return answers.ask_checker(checker, history, model, BUDGET)

        measure(f"{kind.checker}, {kind.model} ({name})", history, judge)
    linearizable = registry.load("checkers", "linearizable")
    for model in MODELS:
        made = objects(model)
        measure(
            f"linearizable, {model}",
            made,
            lambda made=made, model=model: answers.ask_checker(linearizable, made, model, BUDGET),  # type: ignore[misc]
        )


if __name__ == "__main__":
    main()
