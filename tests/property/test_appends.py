"""Maps whose strings grow, against brute force and against real maps.

DSTEST_ROUNDS is the number of small histories (default 2,000; 20,000 for the record).
"""

from __future__ import annotations

import os
import random
from typing import Any

import pytest
from kv_load import falsified, kv_load
from lin_oracle import explains

from checkers.columns import ILLEGAL, OK, Limits
from checkers.lin import catalogue
from checkers.lin.maps import trace
from checkers.lin.search import UNTESTED, encode, search
from checkers.linearizable import CHECKER
from dstest.core.check import Budget
from dstest.core.history import Header, History
from dstest.core.op import Op

pytestmark = pytest.mark.slow

ROUNDS = int(os.environ.get("DSTEST_ROUNDS", "2000"))


def lie(output: Any, dice: random.Random, pieces: list[str]) -> Any:
    parts = [p + ";" for p in (output or "").split(";")[:-1]]
    what = dice.randrange(4)
    if what == 0 and parts:
        del parts[dice.randrange(len(parts))]
    elif what == 1 and len(parts) > 1:
        at = dice.randrange(1, len(parts))
        parts[at - 1], parts[at] = parts[at], parts[at - 1]
    elif what == 2 and parts:
        parts.append(dice.choice(parts))
    else:
        parts.append(dice.choice(pieces))
    return "".join(parts) or None


def small(dice: random.Random, key: str) -> list[Op]:
    """Up to eight operations of a real map; strings are new, or repeat, or one ends another."""
    names = dice.choice([["a;", "b;", "c;", "d;", "e;", "f;", "g;", "h;"], ["a;", "b;"],
                         ["a;", "ba;", "b;a;", ";"]])  # fmt: skip
    fresh = len(names) == 8
    spread, lies = dice.choice([1, 3, 8, 20]), dice.choice([0.0, 0.1, 0.3])
    doubt, wipes = dice.choice([0.0, 0.2]), dice.choice([0, 0, 1])
    state: str | None = None
    ops: list[Op] = []
    for i in range(dice.randint(1, 8)):
        kind = dice.choices(["get", "append", "put", "delete", "cas"], [5, 5, 2, wipes, wipes])[0]
        piece = names[i] if fresh else dice.choice(names)
        asked: Any = None if kind in ("get", "delete") else piece
        unknown = dice.random() < doubt
        output: Any = None
        effective = not unknown or dice.random() < 0.5
        if kind == "get":
            output = lie(state, dice, names[:4]) if dice.random() < lies else state
        elif kind == "cas":
            asked = [dice.choice([state, "a;", None]), piece]
            output = state == asked[0]
            state = piece if output and effective else state
        elif effective:
            state = (state or "") + piece if kind == "append" else asked
        at = 2 * i
        ops.append(
            Op(op_id=i, process_id=i, invoke_ts=at - dice.randint(0, spread),
               complete_ts=None if unknown else at + dice.randint(0, spread), op_type=kind, key=key,
               input=asked, output=None if unknown else output, timeout_marker=unknown)
        )  # fmt: skip
    return sorted(ops, key=lambda op: op.invoke_ts)


@pytest.mark.timeout(900)
def test_checker_and_search_agree_with_brute_force() -> None:
    dice = random.Random("appends")
    made = [small(dice, f"k{i}") for i in range(ROUNDS)]
    good = [explains("kv-map", ops) for ops in made]
    assert 0.3 < good.count(True) / len(good) < 0.9
    both = sorted((op for ops in made for op in ops), key=lambda op: op.invoke_ts)
    coded = encode(catalogue.make("kv-map", {}), both)
    found = search(coded, Limits(60 * 10**9, 2**30)).verdict.tolist()
    by_key = dict(zip(coded.keys, found, strict=True))
    for ops, wanted in zip(made, good, strict=True):
        assert by_key.get(ops[0].key, OK) == (OK if wanted else ILLEGAL), ops
        result = CHECKER.check(History(header=Header(), ops=ops), "kv-map", Budget())
        if wanted:
            assert result.valid is True or result.reason == UNTESTED, (ops, result.reason)
        else:
            assert result.valid is False, (ops, result.reason)
            (anomaly,) = result.anomalies["nonlinearizable"]
            assert not explains("kv-map", [op for op in ops if op.op_id in anomaly.ops]), ops
            assert anomaly.minimal, ops
            assert "no order explains" in anomaly.explanation.lower()
        assert result.ops.consumed + sum(result.ops.excluded.values()) == len(ops)
    traced = [trace(ops) for ops in made]
    assert sum(t[0] is not None for t in traced) > 0.4 * len(made)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("unknown", [0.0, 0.03])
def test_real_maps_are_accepted_and_lies_are_found(unknown: float) -> None:
    caught = 0
    for seed in range(6):
        history = kv_load(seed, 20, 10, 20, rounds=2, unknown=unknown)
        result = CHECKER.check(history, "kv-map", Budget(time_s=30))
        assert result.valid is True, (seed, result.reason)
        wrong = falsified(history, seed)
        result = CHECKER.check(wrong, "kv-map", Budget(time_s=30))
        caught += result.valid is False
        lied = [a.op_id for a, b in zip(wrong.ops, history.ops, strict=True) if a != b]
        for anomaly in result.anomalies.get("nonlinearizable", []):
            key = wrong.ops[int(lied[0])].key
            assert anomaly.key == key
    assert caught >= 5
