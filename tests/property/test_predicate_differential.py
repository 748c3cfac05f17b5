"""`closed-predicate` against the oracle that tries every order, on small histories of simulated
stores and broken copies of them."""

from __future__ import annotations

import random
from collections import Counter

import msgspec
import predicate_oracle as oracle
import pytest

from checkers.predicates.plugin import CHECKER
from dstest.core.check import Budget
from dstest.core.history import Header, History
from dstest.core.op import Op

pytestmark = pytest.mark.slow

SEEDS = 400
STORES = ("serializable", "snapshot-isolation", "read-committed")


def made(seed: int) -> oracle.History:
    """One history; nine of ten are broken in places, or of a weaker store."""
    dice = random.Random(seed)
    history = oracle.simulated(dice, dice.choice(STORES), dense=seed % 2 == 1)
    for _ in range(dice.choice([0, 0, 1, 1, 2, 3])):
        history = oracle.mutated(dice, history)
    return history


def said(history: oracle.History, model: str) -> tuple[object, bool]:
    """The checker's answer, and whether there was anything to test."""
    ops = [msgspec.convert(record, Op) for record in oracle.records(history)]
    whole = History(header=Header(options={"initial": history.initial}), ops=ops)
    result = CHECKER.check(whole, model, Budget(time_s=20))
    vacuous = "nothing was tested" in (result.reason or "")
    assert vacuous == (result.valid == "unknown"), result.reason
    return result.valid, not vacuous


@pytest.mark.parametrize("model", [*oracle.STRONG, *oracle.WEAK])
def test_the_answers_are_those_of_the_oracle(model: str) -> None:
    answers: Counter[object] = Counter()
    for seed in range(SEEDS if model in oracle.STRONG else SEEDS // 4):
        history = made(seed)
        try:
            allowed = oracle.allowed(history, model)
        except oracle.TooMany:
            continue
        valid, tested = said(history, model)
        assert valid is allowed if tested else allowed, (seed, model)
        answers[valid] += 1
    assert min(answers[True], answers[False]) > 10, answers


def test_statements_of_read_committed_see_another_moment() -> None:
    """Else nobody would notice that the weakest models let them."""
    again = 0
    for seed in range(SEEDS):
        for txn in oracle.simulated(random.Random(seed), "read-committed", dense=True).txns:
            mops = txn.mops if txn.outcome == "ok" else []
            mine = {m[1] for m in mops if m[0] not in ("r", "rp")}
            told = {(m[1], m[2]) for m in mops if m[0] == "r"}
            told |= {(key, value) for m in mops if m[0] == "rp" for key, value in m[2]}
            again += any(a == b and v != w and a not in mine for a, v in told for b, w in told)
    assert again > 5


@pytest.mark.parametrize("store", STORES)
def test_stores_satisfy_what_they_promise(store: str) -> None:
    for seed in range(SEEDS):
        history = oracle.simulated(random.Random(seed), store)
        try:
            assert oracle.allowed(history, store), seed
        except oracle.TooMany:
            continue
        assert said(history, store)[0] is not False, seed
