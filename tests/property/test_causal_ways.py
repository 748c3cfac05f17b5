"""Causal consistency with few sessions (vector clocks) and with many (going back from many
transactions at once): the same histories are judged the same by both."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from checkers._findings import Start
from checkers.txn.sessions import plume
from checkers.txn.weak_models import decide
from dstest.core.check import Budget

pytestmark = pytest.mark.slow

MODELS = ("strong-session-causal", "causal-cerone", "strong-session-read-atomic", "read-atomic")
IDLE = 80
"""Sessions that do nothing which others see, so many that there are many of them."""


def history(seed: int) -> list[str]:
    """A store whose transactions see a snapshot that is old, and now and then too old."""
    dice = random.Random(seed)
    txns, keys, sessions = dice.choice([60, 400, 900]), dice.choice([3, 30, 200]), 12
    lag, wrong = dice.choice([2, 20, 60]), dice.choice([0, 0, 0.001, 0.01])
    versions: list[list[tuple[int, int]]] = [[(-1, 0)] for _ in range(keys)]
    last = [-1] * sessions
    lines: list[list[str]] = [[] for _ in range(sessions)]
    value = 0
    for now in range(txns):
        own = dice.randrange(sessions)
        seen = max(now - 1 - dice.randrange(lag), last[own])
        mops = []
        written: dict[int, int] = {}
        for key in dice.sample(range(keys), min(3, keys)):
            if dice.random() < 0.5:
                value += 1
                written[key] = value
                mops.append(("w", key, value))
            else:
                until = seen - 200 if dice.random() < wrong else seen
                shown = [v for at, v in versions[key] if at <= until] or [0]
                mops.append(("r", key, shown[-1]))
        if any(versions[key][-1][0] > seen for key in written):
            continue
        for key, new in written.items():
            versions[key].append((now, new))
        last[own] = now
        lines[own] += [f"{f}({key},{v},{own},{now})" for f, key, v in mops]
    return [line for session in lines for line in session]


def decisions(lines: list[str]) -> dict[str, str]:
    columns = plume.read("\n".join(lines).encode(), 1 << 26).columns(Start(0, None))
    return {model: decide(columns, [model], Budget()).decisions[model] for model in MODELS}


def test_clocks_and_ways_agree() -> None:
    seen: Counter[str] = Counter()
    for seed in range(150):
        lines = history(seed)
        idle = [f"w({1000 + i},{10**6 + i},{100 + i},{10**6 + i})" for i in range(IDLE)]
        few, many = decisions(lines), decisions([*lines, *idle])
        assert few == many, seed
        seen.update(few.values())
    assert set(seen) == {"valid", "violated"}
    assert min(seen.values()) > 60, seen
