"""The canaries of transactions against the slow oracle, which shares no code with our checkers.

Every mutant is a violation of the model that it is made for; and a kind that is said to tell this
model from a weaker one is allowed by the weaker one.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from checkers.second.elle import check as oracle
from checkers.txn import models
from dstest.core import registry
from dstest.core.check import Budget
from dstest.core.history import Header, History
from dstest.core.op import Op, Outcome
from dstest.history.generator.histories import Spec, events, lines
from dstest.judge.mutants.families import NO_CYCLES, canaries, family_of
from dstest.judge.mutants.transactions import anomalies_of

pytestmark = pytest.mark.slow

WORKLOADS = ("list-append", "rw-register")
STRONGEST = (
    "strict-serializable",
    "strong-session-serializable",
    "strong-snapshot-isolation",
    "serializable",
    "snapshot-isolation",
    "repeatable-read",
    "update-serializable",
    "parallel-snapshot-isolation",
    "prefix",
    "consistent-view",
    "cursor-stability",
    "read-atomic",
    "strong-read-committed",
    "read-committed",
    "read-uncommitted",
)


def clean(workload: str, seed: int, txns: int = 50, level: str = "strict-serializable") -> History:
    spec = Spec(
        workload=workload, txns=txns, seed=seed, level=level, concurrency=4, active_keys=3,
        writes_per_key=4, fail_share=0.04, info_share=0.02,
    )  # fmt: skip
    header, *rows = lines(events(spec), spec, "jsonl")
    return History(
        header=msgspec.json.decode(header, type=Header),
        ops=[msgspec.json.decode(row, type=Op) for row in rows],
    )


def op_maps(history: History) -> list[dict[str, Any]]:
    """The history as the oracle reads it. At one instant an invocation comes first."""
    rows = []
    for op in history.ops:
        base = {"process": op.process_id, "f": "txn"}
        rows.append((op.invoke_ts, 0, {**base, "type": "invoke", "value": op.input}))
        if op.complete_ts is not None:
            ok = op.outcome is Outcome.OK
            value = op.output if ok else op.input
            rows.append(
                (op.complete_ts, 1, {**base, "type": "ok" if ok else "fail", "value": value})
            )
    ordered = sorted(rows, key=lambda row: row[:2])
    return [{"index": i, **row} for i, (_, _, row) in enumerate(ordered)]


def said(history: History, workload: str, model: str) -> Any:
    return oracle(op_maps(history), workload, [model])["valid"]


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("model", STRONGEST)
def test_mutants_are_violations_and_tell_models_apart(workload: str, model: str) -> None:
    checker = registry.load("checkers", workload)
    made: Counter[str] = Counter()
    for seed in (1, 2):
        history = clean(workload, seed)
        family = family_of(checker, model, history)
        for mutant in family.make(history, seed, 4):
            made[mutant.kind] += 1
            assert said(mutant.history, workload, model) is False, mutant[:2]
            for weaker, kinds in family.tells.items():
                if weaker in models.MODELS and mutant.kind in kinds:
                    assert said(mutant.history, workload, weaker) is not False, (weaker, mutant[:2])
        for weaker, kinds in family.tells.items():
            assert kinds & made.keys(), f"nothing tells {model} from {weaker}"
    assert made


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("model", ["strict-serializable", "strong-session-serializable"])
def test_planted_kinds_hold_what_they_say(workload: str, model: str) -> None:
    """The oracle finds the very anomalies, and nothing that more models forbid."""
    checker = registry.load("checkers", workload)
    history = clean(workload, 5)
    held = anomalies_of(workload == "list-append")
    for mutant in family_of(checker, model, history).make(history, 5, 0):
        found = set(oracle(op_maps(mutant.history), workload, [model])["found"])
        assert held[mutant.kind] & found, (mutant.kind, found)
        out = {m for m in models.MODELS if models.proscribed(m) & held[mutant.kind]}
        assert {m for m in models.MODELS if models.proscribed(m) & found} <= out, mutant.kind


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("level", ["strict-serializable", "serializable", "snapshot-isolation"])
def test_all_are_killed_in_longer_histories(workload: str, level: str) -> None:
    checker = registry.load("checkers", workload)
    for seed in range(2):
        history = clean(workload, seed, 600, level)
        assert checker.check(history, level, Budget()).valid is True
        found = canaries(checker, level, history, seed, lambda h: checker.check(h, level, Budget()))
        assert [row for row in found.details if row["valid"] is not False] == []
        assert found.undistinguished == []
        assert all(row["caught"] for row in found.details)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_without_cycle_search_the_canary_survives(workload: str) -> None:
    """Every demanded model above read-uncommitted has copies that only a cycle gives away."""
    checker = registry.load("checkers", workload)
    history = clean(workload, 3)
    for model in STRONGEST[:-1]:
        assert NO_CYCLES in family_of(checker, model, history).tells, model


@pytest.mark.parametrize("workload", WORKLOADS)
def test_plants_stand_on_keys_of_the_run(workload: str) -> None:
    checker = registry.load("checkers", workload)
    history = clean(workload, 9, 600)
    known = {m[1] for op in history.ops for m in op.input}
    on_own = total = 0
    for mutant in family_of(checker, "strict-serializable", history).make(history, 1, 0):
        ours = [op for op in mutant.history.ops if str(op.op_id).startswith("canary")]
        keys = {m[1] for op in ours for m in op.input}
        total += len(keys)
        on_own += len(keys & known)
        assert all(op.complete_ts is None or op.invoke_ts < op.complete_ts for op in ours)
    assert on_own >= 0.7 * total
