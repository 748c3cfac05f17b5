"""A million operations of each model by concurrent clients, some of unknown outcome, on one object:
true as they are, and false with one violation of each kind among them, which is named by a witness
of at most eight operations.

Left out of `make test`, whose own small edition is test_model_canaries.py.
"""

from __future__ import annotations

import os
import resource
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple

import pytest
from canary_tried import REGISTERS
from lin_generator import MODELS, generate

from checkers.lin import catalogue
from checkers.linearizable import CHECKER
from dstest.core.check import Budget
from dstest.core.clock import monotonic_ns

OPS = int(os.environ.get("DSTEST_OPS", "1000000"))
CRASH = 0.0005
FEWER: dict[str, float] = {"counter": 0.00005}
"""A counter with hundreds of unknown increments is beyond the search."""
SHORTER: dict[str, int] = {"deque": 1_000}
"""No monitor decides these, and the search remembers every state."""
WITNESS_MAX = 8
MEMORY_MAX_MB = 4096
SEED = 1
BUDGET = Budget(time_s=300)

_TAKEN = {"phantom-value", "taken-twice", "lost-put", "swapped-takes", "false-empty"}
_REGISTER = {"phantom-value", "lost-write", "stale-read", "swapped-reads"}
KINDS = {
    "register": _REGISTER,
    "cas-register": _REGISTER,
    "kv-map": _REGISTER,
    "multi-register": {"phantom-value", "lost-write", "stale-value", "torn-write"},
    "mutex": {"stolen-lock", "lost-release"},
    "reentrant-mutex": {"stolen-lock", "lost-release"},
    "fencing-lock": {"stolen-lock", "lost-release", "swapped-tokens"},
    "semaphore": {"too-many-permits", "crowded"},
    "fifo-queue": _TAKEN,
    "priority-queue": _TAKEN,
    "stack": _TAKEN,
    "deque": _TAKEN - {"swapped-takes"},
    "set": {"wrong-contains", "lost-add"},
    "counter": {"wrong-total", "wrong-count"},
    "log": {"offset-twice", "swapped-offsets", "changed-entry", "lost-append", "hidden-entry"},
}

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


def size_of(model: str) -> int:
    """How many operations."""
    return min(OPS, SHORTER.get(model, OPS))


class Proof(NamedTuple):
    """`kinds`: what was seeded, with the largest witness, 0 where it was missed."""

    valid: object
    reason: str | None
    seconds: float
    kinds: dict[str, int]
    peak_mb: float


def prove(model: str) -> Proof:
    """Generates, judges and breaks a history; meant for a process of its own."""
    history = generate(
        model, SEED, min(OPS, SHORTER.get(model, OPS)), crash=FEWER.get(model, CRASH)
    )
    started = monotonic_ns()
    clean = CHECKER.check(history, model, BUDGET)
    seconds = (monotonic_ns() - started) / 1e9
    kinds: dict[str, int] = {}
    wanted = KINDS[model]
    for mutant in REGISTERS.make(history, SEED, 3 * len(wanted), model=model):
        if mutant.kind in kinds:
            continue
        result = CHECKER.check(mutant.history, model, BUDGET)
        found = result.anomalies.get("nonlinearizable", []) if result.valid is False else []
        kinds[mutant.kind] = max((len(a.ops) for a in found), default=0)
        if len(kinds) == len(wanted):
            break
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Proof(clean.valid, clean.reason, seconds, kinds, peak_mb)


def test_every_model_is_proved() -> None:
    assert set(KINDS) == set(MODELS) == set(catalogue.MODELS)


@pytest.mark.parametrize("model", list(MODELS))
def test_a_million_operations_and_one_violation(model: str) -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        proof = pool.submit(prove, model).result()
    longest = max(proof.kinds.values(), default=0)
    print(  # noqa: T201
        f"{model}: {size_of(model):,} ops valid in {proof.seconds:.1f} s; "
        f"{len(proof.kinds)} seeded kinds, "
        f"witnesses <= {longest}; peak {proof.peak_mb:,.0f} MB"
    )
    assert proof.valid is True, proof.reason
    assert set(proof.kinds) == KINDS[model]
    assert all(0 < size <= WITNESS_MAX for size in proof.kinds.values()), proof.kinds
    assert proof.peak_mb < MEMORY_MAX_MB
