"""Every model against brute force: the search, the monitors, the reductions, the whole checker.

DSTEST_ROUNDS is the number of histories per model (default 2,000; 20,000 for the record).
"""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest
from lin_oracle import MODELS, PERMITS, explains, loosened, random_history

from checkers.columns import ILLEGAL, OK, Limits
from checkers.columns import encode as encode_history
from checkers.lin import catalogue, monitor, objects, registers, tables
from checkers.lin.model import Model
from checkers.lin.search import UNTESTED, encode, search
from checkers.linearizable import CHECKER
from dstest.core.check import Budget
from dstest.core.history import Header, History
from dstest.core.op import Op

pytestmark = pytest.mark.slow

ROUNDS = int(os.environ.get("DSTEST_ROUNDS", "2000"))
WHOLE = max(150, ROUNDS // 10)
OPTIONS = {"permits": PERMITS}
LIMITS = Limits(60 * 10**9, 2**30)


def histories(model: str, count: int, seed: str = "") -> list[list[Op]]:
    dice = random.Random(f"{model}{seed}")
    prefix = "log" if model == "log" else "k"
    return [random_history(model, dice, 7, f"{prefix}{i}") for i in range(count)]


def together(made: list[list[Op]]) -> History:
    ops = sorted((op for ops in made for op in ops), key=lambda op: op.invoke_ts)
    return History(header=Header(options=OPTIONS), ops=ops)


def by_key(keys: list[Any], verdict: Any) -> dict[Any, int]:
    return dict(zip(keys, verdict.tolist(), strict=True))


def disagreements(made: list[list[Op]], wanted: list[bool], got: dict[Any, int]) -> list[list[Op]]:
    return [
        ops
        for ops, good in zip(made, wanted, strict=True)
        if got[ops[0].key] != (OK if good else ILLEGAL)
    ]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("model", list(MODELS))
def test_search_and_monitor_agree_with_brute_force(model: str) -> None:
    made = histories(model, ROUNDS)
    wanted = [explains(model, ops) for ops in made]
    assert 0.05 < wanted.count(True) / len(wanted) < 0.95
    coded = encode(catalogue.make(model, OPTIONS), together(made).ops)
    assert not coded.blocked
    found = search(coded, LIMITS)
    wrong = disagreements(made, wanted, by_key(coded.keys, found.verdict))
    assert not wrong, f"search: {len(wrong)} differ, first {wrong[0]}"
    if model == "log":
        findings = [objects.decide_log(coded, key) for key in range(len(coded.keys))]
        for key, finding in enumerate(findings):
            if finding.legal is not None:
                assert finding.legal == (found.verdict[key] == OK), coded.keys[key]
        assert sum(f.legal is not None for f in findings) > 0.5 * len(findings)
    parts = monitor.parts_of(coded)
    if parts is not None:
        verdict = monitor.verdicts(coded, parts, 2**30)
        assert (verdict != monitor.UNFIT).mean() > 0.5
        settled = np.where(verdict == monitor.UNFIT, found.verdict, verdict)
        wrong = disagreements(made, wanted, by_key(coded.keys, settled))
        assert not wrong, f"monitor: {len(wrong)} differ, first {wrong[0]}"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("model", ["register", "cas-register", "kv-map", "set"])
def test_registers_in_other_words_agree_with_brute_force(model: str) -> None:
    """A set's elements are keys of their own there; its history is good where they all are."""
    made = [
        ops
        for ops in histories(model, ROUNDS)
        if not any(op.op_type in ("append", "txn") for op in ops)
        and not (model == "set" and any(op.op_type == "read" for op in ops))
    ]
    history = together(made)
    if model not in catalogue.REGISTERS:
        same = tables.to_register(model, history)
        assert same is not None
        history = same
    columns = encode_history(history, "register" if model == "register" else "cas-register")
    assert not columns.blocked
    decision = registers.decide(columns, Budget())
    got = {ops[0].key: OK for ops in made}
    zones = registers.zones(columns, 2**30)
    for key, verdict, zone in zip(columns.keys, decision.verdict, zones, strict=True):
        key = key[0] if model == "set" else key
        got[key] = max(got[key], int(verdict))
        assert zone in (monitor.UNFIT, verdict), f"zones: {key}"
    if model == "register":
        assert (zones != monitor.UNFIT).mean() > 0.3
    wanted = [explains(model, ops) for ops in made]
    wrong = disagreements(made, wanted, got)
    assert not wrong, f"{len(wrong)} differ, first {wrong[0]}"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("model", list(MODELS))
def test_whole_checker_agrees_with_brute_force(model: str) -> None:
    for ops in histories(model, WHOLE, "whole"):
        result = CHECKER.check(together([ops]), model, Budget())
        if not explains(model, ops):
            assert result.valid is False, ops
            for anomaly in result.anomalies["nonlinearizable"]:
                assert_sound(model, ops, anomaly.ops)
                assert anomaly.minimal
                assert "no order explains" in anomaly.explanation.lower()
        else:
            assert result.valid is True or result.reason == UNTESTED, (ops, result.reason)
        assert result.ops.consumed + sum(result.ops.excluded.values()) == len(ops)


def inner_pairs(ops: list[Op], named: list[Any]) -> set[Any]:
    """Acquires that are not named, with the releases that undo them, neither named nor unknown:
    without such a pair everybody holds what he held, so each linearization stays one."""
    pairs: set[Any] = set()
    held: dict[Any, list[Op]] = {}
    for op in sorted(ops, key=lambda op: op.invoke_ts):
        got = op.timeout_marker or (op.error is None and op.output is not False)
        if op.op_type == "acquire" and got:
            held.setdefault(op.process_id, []).append(op)
        elif op.op_type == "release" and op.error is None and held.get(op.process_id):
            both = (held[op.process_id].pop(), op)
            if not any(o.op_id in named or o.timeout_marker for o in both):
                pairs |= {o.op_id for o in both}
    return pairs


def assert_sound(model: str, ops: list[Op], named: list[Any]) -> None:
    """The witness contradicts itself. Where it was found by loosening, the other operations do not
    resolve that, whenever they took effect."""
    witness = [op for op in ops if op.op_id in named]
    assert not explains(model, witness), (ops, named)
    if model in ("reentrant-mutex", "fencing-lock", "semaphore", "counter", "log"):
        pairs = inner_pairs(ops, named) if model == "reentrant-mutex" else set()
        left = [
            op for op in ops if (op.timeout_marker or op.error is None) and op.op_id not in pairs
        ]
        loose = [op if op.op_id in named or op.timeout_marker else loosened(op) for op in left]
        assert not explains(model, loose), (ops, named)


def test_custom_model() -> None:
    from checkers.lin.model import Call
    from checkers.linearizable import LinearizableModel

    class Saturating(Model):
        name = "saturating"
        op_types = ("inc", "read")
        initial = 0

        def step(self, state: int, call: Call) -> tuple[int, ...]:
            if call.op_type == "inc":
                return (min(state + 1, 2),)
            return (state,) if call.output == state else ()

        def pure(self, call: Call) -> bool:
            return call.op_type == "read"

    def op(i: int, kind: str, output: int | None = None) -> Op:
        return Op(op_id=i, process_id=0, invoke_ts=2 * i, complete_ts=2 * i + 1, op_type=kind,
                  output=output)  # fmt: skip

    checker = LinearizableModel(Saturating())
    good = [op(0, "inc"), op(1, "inc"), op(2, "inc"), op(3, "read", 2)]
    assert checker.check(together([good]), "saturating", Budget()).valid is True
    bad = [*good[:3], op(3, "read", 3)]
    result = checker.check(together([bad]), "saturating", Budget())
    assert result.valid is False
    (anomaly,) = result.anomalies["nonlinearizable"]
    assert anomaly.ops == [3]
    assert anomaly.explanation == (
        "No order explains the 1 operation of the witness. Not even the first completion can be "
        "placed. There the saturating can be: 0; 1; 2. Next completes read 3 (op 3, process 0), "
        "which is possible in none of these. Running then, or of unknown outcome: inc (op 0, "
        "process 0), inc (op 1, process 0), inc (op 2, process 0); none of them can make it fit."
    )


def test_errors_of_a_model_are_not_swallowed() -> None:
    class Broken(Model):
        name = "broken"
        op_types = ("x",)

        def step(self, state: Any, call: Any) -> tuple[Any, ...]:
            raise RuntimeError("no step")

    from checkers.linearizable import LinearizableModel

    one = Op(op_id=0, process_id=0, invoke_ts=0, complete_ts=1, op_type="x", output=1)
    with pytest.raises(RuntimeError, match="no step"):
        LinearizableModel(Broken()).check(together([[one]]), "broken", Budget())


def test_objects_tied_by_transactions_are_one() -> None:
    txn = [["w", "x", 1], ["r", "y", None]]
    ops = [
        Op(op_id=0, process_id=0, invoke_ts=0, complete_ts=1, op_type="txn", input=txn, output=txn),
        Op(op_id=1, process_id=0, invoke_ts=2, complete_ts=3, op_type="read", key="x", output=1),
        Op(op_id=2, process_id=0, invoke_ts=4, complete_ts=5, op_type="read", key="z", output=None),
    ]
    judged = objects.judge(catalogue.make("multi-register", {}), together([ops]), Budget())
    assert judged.keys == [["x", "y"], "z"]
    assert not judged.illegal
    assert not judged.undecided
