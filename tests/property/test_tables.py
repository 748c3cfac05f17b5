"""Operations that were read in C, against those that msgspec reads.

DSTEST_ROUNDS is the number of histories per model (default 2,000, of which a tenth is taken here).
"""

from __future__ import annotations

import io
import os
import random
from typing import Any, cast

import msgspec
import numpy as np
import pytest
from lin_generator import MODELS as LONG
from lin_generator import generate
from lin_oracle import MODELS, PERMITS, random_history
from msgspec.structs import replace

from checkers.lin.catalogue import make
from checkers.lin.model import freeze, plain
from checkers.lin.tables import coded_of, columns_of
from checkers.linearizable import CHECKER
from checkers.ops.table import OpTable, table_of
from dstest.check.source import history_of, require_sound
from dstest.core.check import Budget, CheckResult
from dstest.core.errors import HistoryError
from dstest.core.history import Header, History
from dstest.core.op import Op
from dstest.history.jsonl import read_stream

pytestmark = pytest.mark.slow

ROUNDS = max(100, int(os.environ.get("DSTEST_ROUNDS", "2000")) // 10)
HEADER = Header(options={"permits": PERMITS})
STRAIGHT = ("register", "cas-register", "kv-map", "set", "fifo-queue", "stack", "priority-queue",
            "log")  # fmt: skip
"""Models that read tables; of the others each operation is read by itself."""


def text_of(ops: list[Op]) -> bytes:
    lines = [msgspec.json.encode(HEADER), *map(msgspec.json.encode, ops)]
    return b"".join(line + b"\n" for line in lines)


def several(model: str, dice: random.Random) -> list[Op]:
    """Objects at a time, processes of their own each; numbered in order of invocation."""
    prefix = "log" if model == "log" else "k"
    keys = [f"{prefix}{i}" for i in range(dice.randint(1, 3))]
    made = [
        replace(op, process_id=f"{key} {op.process_id} {i}" if model in STRAIGHT else op.process_id)
        for key in keys
        for i, op in enumerate(random_history(model, dice, 7, key))
    ]
    made.sort(key=lambda op: op.invoke_ts)
    return [replace(op, op_id=i) for i, op in enumerate(made)]


def said(result: CheckResult) -> tuple[Any, ...]:
    # Which of several minimal witnesses is found may depend on the numbers of values.
    found = [plain(freeze(a.key)) for group in result.anomalies.values() for a in group]
    return (
        *(result.valid, result.reason, result.ops, result.keys.total, result.keys.decided),
        sorted(map(repr, result.keys.undecided)),
        sorted(map(repr, found)),
    )


def table_with(text: bytes, threads: int = 1) -> OpTable:
    table = table_of(text, 100, threads)
    assert table is not None
    return table


def judged(ops: Any, model: str) -> CheckResult:
    return CHECKER.check(History(header=HEADER, ops=ops), model, Budget())


@pytest.mark.parametrize("model", list(MODELS))
def test_a_table_is_judged_as_the_list_is(model: str) -> None:
    dice = random.Random(f"tables {model}")
    answers, straight = set(), 0
    for _ in range(ROUNDS):
        ops = several(model, dice)
        table = table_of(text_of(ops), 100)
        if table is None:
            continue  # one process at two things: left to the other reader
        assert list(table) == ops
        kept = columns_of(model, table) or coded_of(make(model, HEADER.options), table)
        straight += kept is not None
        answer = judged(table, model)
        assert said(answer) == said(judged(ops, model)), ops
        answers.add(answer.valid)
    assert {True, False} <= answers
    assert model not in STRAIGHT or straight > ROUNDS / 20


def floated(value: Any, dice: random.Random, odd: float) -> Any:
    """Some integers as floats that equal them, or are nearly equal."""
    if type(value) is int and dice.random() < 0.3:
        return value + 0.5 if dice.random() < odd else float(value)
    return [floated(v, dice, odd) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize("odd", [0.0, 0.2])
@pytest.mark.parametrize("model", list(MODELS))
def test_whole_floats_are_integers(model: str, odd: float) -> None:
    dice = random.Random(f"floats {model} {odd}")
    for _ in range(ROUNDS // 2):
        ops = several(model, dice)
        told = [
            replace(o, input=floated(o.input, dice, odd), output=floated(o.output, dice, odd))
            for o in ops
        ]
        table = table_of(text_of(told), 100)
        if table is not None:
            assert said(judged(table, model)) == said(judged(told, model)), told
        if not odd:
            assert said(judged(told, model)) == said(judged(ops, model)), told


@pytest.mark.parametrize("model", [m for m in STRAIGHT if m in LONG])
def test_long_histories_too(model: str) -> None:
    for seed in range(5):
        history = generate(model, seed, 400)
        table = table_of(text_of(history.ops), 100)
        if table is not None:
            assert said(judged(table, model)) == said(judged(history.ops, model))


PIECES = (
    *(b"", b" ", b",", b'"', b"null", b"1.0", b"-0", b"[1, 2]", b"[1,2]", b"{}", b"\\u0041"),
    *(b"\n", b"1e3", b"true", b"\xff", b"[1.0]", b"9" * 20),
)


def mutated(text: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(text))
    piece = dice.choice([*PIECES, text[at : at + 9]])
    size = dice.choice([0, 1, 4, len(piece)])
    return text[:at] + piece + text[at + size :]


def as_read(text: bytes) -> list[Op] | None:
    """The operations of a sound history whose records lack nothing, as the other reader has it."""
    weak: list[str] = []
    try:
        history = read_stream(io.BytesIO(text), weak)
        weak += require_sound(history, weak)
    except HistoryError:
        return None
    return None if weak else history.ops


def test_what_is_read_in_c_the_other_reader_takes_as_well() -> None:
    dice = random.Random("mutations")
    accepted = refused = 0
    for _ in range(ROUNDS * 20):
        ops = several(dice.choice(list(MODELS)), dice)
        text = mutated(text_of(ops), dice)
        history = history_of(text, 100)
        if history is None:
            refused += 1
            continue
        accepted += 1
        table = cast(OpTable, history.ops)
        assert list(table) == as_read(text), text
        for column in ("key", "input", "output"):
            values = [table.values[i] for i in getattr(table, column).tolist()]
            assert values == [getattr(op, column) for op in ops_of(text)], text
    assert min(accepted, refused) > ROUNDS


def ops_of(text: bytes) -> list[Op]:
    return read_stream(io.BytesIO(text)).ops


def test_equal_values_have_one_number() -> None:
    values = [1, 1.0, True, "1", [1, "a"], [1, "a"], [True, "a"], None, 2.5, 2.5, -3, -3.0, "é", ""]
    ops = [
        Op(op_id=i, process_id=i, invoke_ts=i, complete_ts=i + 1, op_type="write", input=v)
        for i, v in enumerate(values)
    ]
    numbers = table_with(text_of(ops)).input.tolist()
    assert numbers[0] == numbers[1] and numbers[4] == numbers[5]
    assert numbers[8] == numbers[9] and numbers[10] == numbers[11] and numbers[7] == 0
    assert len(set(numbers)) == len(values) - 4


def test_two_threads_read_what_one_reads() -> None:
    history = generate("fifo-queue", 3, 12_000)
    text = text_of(history.ops)
    assert len(text) > 2 << 20
    one, two = table_with(text, 1), table_with(text, 2)
    assert list(one) == list(two) == history.ops
    for table in (one, two):
        assert [table.values[i] for i in table.input.tolist()] == [o.input for o in history.ops]
    cut = text[: len(text) * 3 // 4]
    assert table_of(cut, 100, 2) is None and table_of(cut, 100, 1) is None


def test_too_little_memory_is_left_to_the_other_reader() -> None:
    text = text_of(generate("fifo-queue", 3, 3_000).ops)
    assert table_of(text, 0) is None
    assert table_of(text, 100) is not None


def test_operations_that_overlap_in_a_process_are_left_to_the_other_reader() -> None:
    def op(i: int, process: int, begin: int, end: int | None) -> Op:
        return Op(op_id=i, process_id=process, invoke_ts=begin, complete_ts=end, op_type="read",
                  timeout_marker=end is None)  # fmt: skip

    assert table_of(text_of([op(0, 1, 0, 5), op(1, 1, 5, 6)]), 100) is not None
    assert table_of(text_of([op(0, 1, 0, 5), op(1, 1, 4, 6)]), 100) is None
    assert table_of(text_of([op(0, 1, 0, None), op(1, 1, 4, 6)]), 100) is None
    assert table_of(text_of([op(0, 1, 4, 5), op(1, 2, 0, 6)]), 100) is None
    assert table_of(text_of([op(0, 1, 0, 5), op(0, 2, 5, 6)]), 100) is None


def test_columns_cannot_be_written_to() -> None:
    table = table_with(text_of(generate("set", 1, 50).ops))
    for column in vars(table).values():
        if isinstance(column, np.ndarray):
            assert not column.flags.writeable
