"""Second judges of what a checker found: they agree where it is right, and not where it lies."""

from __future__ import annotations

import random
from io import BytesIO
from typing import Any

import msgspec
import pytest
from lin_oracle import MODELS, PERMITS, explains, random_history

from checkers.linearizable import CHECKER as LINEARIZABLE
from checkers.second.judges import OBJECTS, OfTransactions, linearizable
from checkers.second.specimens import object_histories
from checkers.txn.plugin import LIST_APPEND, RW_REGISTER
from dstest.core.check import Anomaly, Budget
from dstest.core.history import Header, History
from dstest.core.op import Op
from dstest.history.generator.histories import Spec, events, lines
from dstest.history.jsonl import read_stream

STEPS = 200_000
TXN = {"list-append": LIST_APPEND, "rw-register": RW_REGISTER}


@pytest.mark.parametrize("model", sorted(MODELS))
def test_porcupine_agrees_with_brute_force(model: str) -> None:
    dice = random.Random(model)
    seen = set()
    for _ in range(300):
        ops = random_history(model, dice, 7, "k")
        good = explains(model, ops)
        assert linearizable(model, ops, permits=PERMITS, steps_max=STEPS) is good, ops
        seen.add(good)
    assert seen == {True, False}


def test_steps_are_limited() -> None:
    ops = [
        Op(op_id=n, process_id=n, invoke_ts=0, complete_ts=9, op_type="write", key="k", input=n)
        for n in range(8)
    ]
    late = Op(op_id=9, process_id=9, invoke_ts=10, complete_ts=11, op_type="read", output=99)
    assert linearizable("register", [*ops, late], steps_max=50) is None
    assert linearizable("register", [*ops, late], steps_max=STEPS) is False


def register(*rows: tuple[str, Any, int, int]) -> History:
    ops = [
        Op(
            op_id=n,
            process_id=n,
            invoke_ts=start,
            complete_ts=end,
            op_type=kind,
            key="k",
            input=value if kind == "write" else None,
            output=value if kind == "read" else None,
        )
        for n, (kind, value, start, end) in enumerate(rows)
    ]
    return History(header=Header(model="register"), ops=ops)


STALE = register(("write", 1, 0, 1), ("write", 2, 2, 3), ("read", 1, 4, 5))
FRESH = register(("write", 1, 0, 1), ("write", 2, 2, 3), ("read", 2, 4, 5))


def test_it_agrees_with_a_real_violation() -> None:
    result = LINEARIZABLE.check(STALE, "register", Budget())
    (anomalies,) = result.anomalies.values()
    found = OBJECTS.look(STALE, "register", anomalies[0], STEPS)
    assert found.valid is False
    assert "3 operations" in found.said


def test_it_finds_what_a_lying_checker_flagged_in_order() -> None:
    lie = Anomaly(type="stale-read", key="k", ops=[0, 2])
    found = OBJECTS.look(FRESH, "register", lie, STEPS)
    assert found.valid is True
    assert "brute force" in found.said


def test_what_it_cannot_judge_it_leaves_open() -> None:
    lie = Anomaly(type="stale-read", key="k", ops=[0, 2])
    begun = msgspec.structs.replace(FRESH, header=Header(options={"initial": 7}))
    for history, model in ((FRESH, "my-own"), (begun, "register")):
        assert OBJECTS.look(history, model, lie, STEPS).valid == "unknown"
    assert OBJECTS.look(FRESH, "register", lie, 1).valid == "unknown"


def generated(workload: str, level: str, inject: dict[str, int]) -> History:
    spec = Spec(workload=workload, txns=120, concurrency=4, level=level, seed=5, inject=inject)
    return read_stream(BytesIO(b"".join(lines(events(spec), spec, "jsonl"))))


@pytest.mark.parametrize(
    ("workload", "model", "kind"),
    [
        ("list-append", "strict-serializable", "G-single-item"),
        ("list-append", "snapshot-isolation", "G1c"),
        ("list-append", "strict-serializable", "G-single-item-realtime"),
        ("rw-register", "serializable", "G1a"),
        ("rw-register", "serializable", "lost-update"),
    ],
)
def test_elle_agrees_with_a_real_violation(workload: str, model: str, kind: str) -> None:
    history = generated(workload, "strict-serializable", {kind: 1})
    result = TXN[workload].check(history, model, Budget())
    assert result.valid is False
    anomaly = next(iter(result.anomalies.values()))[0]
    assert OfTransactions(workload).look(history, model, anomaly, STEPS).valid is False


@pytest.mark.parametrize("workload", sorted(TXN))
@pytest.mark.parametrize("model", ["strict-serializable", "snapshot-isolation"])
def test_elle_finds_what_a_lying_checker_flagged_in_order(workload: str, model: str) -> None:
    history = generated(workload, "strict-serializable", {})
    assert TXN[workload].check(history, model, Budget()).valid is True
    writes = [op.op_id for op in history.ops if op.output and all(m[0] != "r" for m in op.output)]
    found = OfTransactions(workload).look(history, model, Anomaly(type="G0", ops=writes[:2]), STEPS)
    assert found.valid is True
    assert "brute force" in found.said


@pytest.mark.parametrize("model", sorted(MODELS))
def test_specimens_of_objects_are_what_they_are_said_to_be(model: str) -> None:
    right, wrong = object_histories(model, random.Random(3), 20)
    assert len(right) == len(wrong) == 20
    assert all(explains(model, ops) for ops in right)
    assert not any(explains(model, ops) for ops in wrong)
