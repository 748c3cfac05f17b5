"""list-append judged as it is read, against the checker that sees it all and every order."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dstest.check.stream import judge_stream
from dstest.check.transactions import judge_transactions
from dstest.core.check import Budget, Valid
from dstest.core.errors import HistoryError
from dstest.history.generator.histories import GADGETS, LEVELS, Spec, events, lines

pytestmark = pytest.mark.slow

Records = list[dict[str, Any]]
BUDGET = Budget(time_s=60, memory_mb=64)
ALL = 1 << 30
WEAK = ("serializable", "snapshot-isolation", "read-committed", "strong-session-serializable")


def drawn(dice: random.Random, seed: int) -> Records:
    """Transactions of a store at some level, or of one that executes them one by one."""
    level = dice.choice([*LEVELS, *["strict-serializable"] * 6])
    spec = Spec(
        txns=dice.choice([4, 8, 40]),
        concurrency=dice.choice([1, 2, 3, 6]),
        level=level,
        seed=seed,
        fail_share=dice.choice([0.0, 0.2]),
        info_share=dice.choice([0.0, 0.1, 0.4]),
        active_keys=dice.choice([1, 2, 4]),
        writes_per_key=dice.choice([2, 5, 32]),
        inject={dice.choice(sorted(GADGETS["list-append"])): 1} if dice.random() < 0.2 else {},
    )
    return [json.loads(line) for line in list(lines(events(spec), spec, "jsonl"))[1:]]


def spoiled(dice: random.Random, records: Records) -> None:
    """Changes one of them."""
    one = dice.choice(records)
    reads = [mop for mop in one["output"] or () if mop[0] == "r"]
    match dice.randrange(8):
        case 0 if reads and reads[0][2]:
            reads[0][2].pop()
        case 1 if reads:
            reads[0][2] = [*(reads[0][2] or []), dice.choice([1, 2, 99])]
        case 2 if reads and reads[0][2]:
            dice.shuffle(reads[0][2])
        case 3:
            one |= {"timeout_marker": True, "complete_ts": None, "output": None, "error": None}
        case 4:
            records.remove(one)
        case 5:
            one["invoke_ts"] = max(0, one["invoke_ts"] - dice.randrange(100_000))
        case 6:
            one["op_id"] = dice.choice(records)["op_id"]
        case 7 if one["complete_ts"] is not None:
            one["complete_ts"] += dice.randrange(200_000)
    if dice.random() < 0.8:
        records.sort(key=lambda record: int(record["invoke_ts"]))


def written(path: Path, records: Records) -> Path:
    head = {"schema": "dstest.history/1", "workload": "list-append"}
    path.write_text("".join(json.dumps(row) + "\n" for row in (head, *records)))
    return path


def executed(state: dict[Any, list[Any]], record: dict[str, Any]) -> dict[Any, list[Any]] | None:
    """The lists after a transaction; None where it read something else."""
    after = {key: list(value) for key, value in state.items()}
    for f, key, value in record["output"] or record["input"]:
        if f == "append":
            after.setdefault(key, []).append(value)
        elif record["output"] is not None and after.get(key, []) != (value or []):
            return None
    return after


def in_some_order(records: Records, state: dict[Any, list[Any]] | None = None) -> bool:
    """Has a store that tries every order of real time one? Unknown transactions may be left out."""
    ok = [r for r in records if not r["timeout_marker"]]
    if not ok:
        return True
    first_end = min(r["complete_ts"] for r in ok)
    for at, record in enumerate(records):
        if record["invoke_ts"] > first_end:
            continue
        after = executed(state or {}, record)
        if after is not None and in_some_order(records[:at] + records[at + 1 :], after):
            return True
    return False


def answer(judged: Any) -> tuple[Valid | str, str]:
    try:
        result = judged()
    except HistoryError as error:
        return "refused", str(error)
    return result.valid, str(result.reason)


@pytest.mark.parametrize("first", range(0, 160, 40))
def test_answers_are_those_of_the_checker_that_sees_it_all(tmp_path: Path, first: int) -> None:
    seen: Counter[Valid | str] = Counter()
    for seed in range(first, first + 40):
        dice = random.Random(seed)
        records = drawn(dice, seed)
        for _ in range(dice.choice([0, 1, 1, 2])):
            spoiled(dice, records)
        path = written(tmp_path / "history.jsonl", records)
        model = dice.choice([None, "strict-serializable", *WEAK])
        whole, _ = answer(
            lambda p=path, m=model: judge_transactions(p, "auto", "list-append", m, BUDGET, {})
        )
        for window in (0, dice.choice([200, 2000]), ALL):
            piece = dice.choice([400, 4000, 1 << 20])
            found, why = answer(
                lambda p=path, m=model, w=window, n=piece: judge_stream(
                    p, m, BUDGET, {}, window_bytes=w, piece_bytes=n
                )
            )
            seen[found] += 1
            assert found in (whole, "unknown"), (seed, window, why)
            strict = model in (None, "strict-serializable") and "no transaction read" not in why
            if window == ALL and strict and whole is True:
                assert found is True, (seed, why)
    assert min(seen[True], seen[False], seen["refused"]) > 0, seen


def test_small_histories_are_executed_where_some_order_is_one(tmp_path: Path) -> None:
    seen: Counter[Valid | str] = Counter()
    for seed in range(150):
        dice = random.Random(seed)
        spec = Spec(txns=5, concurrency=3, seed=seed, fail_share=0.0, info_share=0.3, active_keys=2)
        rows = list(lines(events(spec), spec, "jsonl"))[1:]
        records = [json.loads(line) for line in rows]
        for record in records[: dice.choice([0, 1, 1])]:
            for mop in record["output"] or ():
                if mop[0] == "r":
                    mop[2] = dice.choice([[1], [2, 1], []])
        path = written(tmp_path / "history.jsonl", records)
        possible = in_some_order(records)
        for window in (0, 300, ALL):
            found, why = answer(
                lambda p=path, w=window: judge_stream(
                    p, None, BUDGET, {}, window_bytes=w, piece_bytes=300
                )
            )
            seen[found] += 1
            assert found in (possible, "unknown"), (seed, window, why)
            if window == ALL and possible and "no transaction read" not in why:
                assert found is True, (seed, why)
    assert min(seen[True], seen[False]) > 20, seen
