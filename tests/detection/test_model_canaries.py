"""Broken copies of clean histories, model by model: violations for certain, and rejected."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial

import pytest
from canary_tried import REGISTERS, canary
from lin_generator import MODELS, generate
from lin_oracle import explains, random_history

from checkers.linearizable import CHECKER
from dstest.core.check import Budget, CheckResult
from dstest.core.history import Header, History

pytestmark = pytest.mark.slow

KINDS = {
    "fifo-queue": 5, "stack": 5, "priority-queue": 5, "set": 2, "log": 5, "mutex": 2,
    "reentrant-mutex": 2, "fencing-lock": 3, "semaphore": 2, "counter": 2, "kv-map": 3,
    "multi-register": 4, "register": 4, "cas-register": 4, "deque": 4,
}  # fmt: skip
"""How many kinds of mutants a long history must offer."""

SLOW = "deque"
"""Long histories of it take seconds each."""


@pytest.mark.parametrize(
    "model", [pytest.param(m, marks=[pytest.mark.long] * (m == SLOW)) for m in MODELS]
)
@pytest.mark.sampled(4)
def test_mutants_of_clean_histories_are_rejected(model: str) -> None:
    def check(history: History) -> CheckResult:
        return CHECKER.check(history, model, Budget(time_s=20))

    made: Counter[str] = Counter()
    missed = []
    for seed in range(6):
        history = generate(
            model, seed, 2_000, keys=1 if model == "multi-register" else 4, crash=0.002
        )
        assert check(history).valid is True
        found = canary(history, check, seed, make=partial(REGISTERS.make, model=model))
        made.update(row["kind"] for row in found[2])
        missed += [row for row in found[2] if row["valid"] is not False]
    assert not missed
    assert len(made) >= KINDS[model], made
    assert made.total() >= 40


@pytest.mark.parametrize("model", list(MODELS))
@pytest.mark.sampled(5)
def test_mutants_of_small_histories_are_violations(model: str) -> None:
    """Judged by brute force."""
    dice, made = random.Random(model), 0
    for seed in range(1_500):
        ops = random_history(model, dice, 7)
        if not explains(model, ops):
            continue
        history = History(header=Header(options={"permits": 2}), ops=ops)
        for mutant in REGISTERS.make(history, seed, 3, model=model):
            made += 1
            assert not explains(model, mutant.history.ops), (mutant.kind, mutant.description, ops)
    assert made >= 15
