"""The checker against brute force, and its promises about witnesses and garbage."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from checkers import _core
from checkers.columns import (
    CAS_FALSE,
    CAS_TRUE,
    CAS_UNKNOWN,
    ILLEGAL,
    NEVER,
    OK,
    READ,
    U8,
    WRITE,
    WRITE_UNKNOWN,
    Decision,
    Limits,
    check_registers,
)
from checkers.lin.monitor import UNFIT
from checkers.linearizable import CHECKER
from dstest.core.check import Budget
from dstest.core.history import Header, History
from dstest.core.op import Op

pytestmark = pytest.mark.slow

Row = tuple[int, int, int, int, int]
"""(kind, a, b, invoke, complete)"""

ROUNDS = int(os.environ.get("DSTEST_ROUNDS", "2000"))
LIMITS = Limits(time_ns=60 * 10**9, memory_bytes=2**28)
MIXES = [
    (4, 4, 0, 0, 0, 0),
    (4, 3, 0, 0, 3, 0),
    (3, 2, 2, 1, 1, 2),
    (2, 1, 1, 2, 2, 3),
    (3, 3, 1, 3, 3, 1),
    (4, 4, 2, 2, 0, 0),
    (5, 2, 3, 0, 2, 4),
    (1, 3, 0, 3, 0, 3),
    (1, 2, 1, 4, 0, 4),
]


def explains(rows: Sequence[Row]) -> bool:
    """Brute force: is there an order of all ok and some unknown operations? Any initial is 0."""
    count = len(rows)
    must = sum(1 << i for i in range(count) if rows[i][0] < WRITE_UNKNOWN)
    before = [sum(1 << j for j in range(count) if rows[j][4] < rows[i][3]) for i in range(count)]
    seen = set()
    stack = [(0, 0)]
    while stack:
        at = stack.pop()
        if at in seen:
            continue
        seen.add(at)
        done, value = at
        if done & must == must:
            return True
        for i, (kind, a, b, _, _) in enumerate(rows):
            if done >> i & 1 or before[i] & ~done:
                continue
            if kind in (WRITE, WRITE_UNKNOWN):
                stack.append((done | 1 << i, a))
            elif kind == CAS_FALSE:
                if value != a:
                    stack.append((done | 1 << i, value))
            elif value == a:
                stack.append((done | 1 << i, value if kind == READ else b))
    return False


def arbitrary(rng: random.Random, most: int) -> list[Row]:
    """Operations with random results: mostly contradictions."""
    values, span, mix = rng.randint(2, 5), rng.choice([4, 8, 14, 30]), rng.choice(MIXES)
    rows = []
    for _ in range(rng.randint(1, most)):
        kind = rng.choices(range(6), mix)[0]
        invoke = rng.randint(0, span)
        complete = NEVER if kind >= WRITE_UNKNOWN else invoke + rng.randint(0, 10)
        rows.append((kind, rng.randrange(values), rng.randrange(values), invoke, complete))
    return sorted(rows, key=lambda r: r[3])


def plausible(rng: random.Random, most: int) -> list[Row]:
    """Operations of a real register, one result in sixteen falsified: mostly explainable."""
    values, spread, mix = rng.randint(2, 4), rng.choice([1, 3, 6, 12, 30]), rng.choice(MIXES)
    rows, now = [], 0
    for at in range(0, 2 * rng.randint(1, most), 2):
        kind = rng.choices(range(6), mix)[0]
        a, b = rng.randrange(values), rng.randrange(values)
        invoke, complete = at - rng.randint(0, spread), at + rng.randint(0, spread)
        lazy = kind >= WRITE_UNKNOWN and rng.random() < 0.5
        if kind >= WRITE_UNKNOWN:
            complete, invoke = NEVER, at - rng.randint(0, 3 * spread)
        if kind == READ:
            a = now
        elif kind in (WRITE, WRITE_UNKNOWN):
            now = now if lazy else a
        else:
            a = now if rng.random() < 0.6 else a
            if kind != CAS_UNKNOWN:
                kind = CAS_TRUE if a == now else CAS_FALSE
            now = b if a == now and not lazy else now
        if rng.random() < 0.06:
            a = rng.randrange(values)
        rows.append((kind, a, b, invoke, complete))
    return sorted(rows, key=lambda r: r[3])


def decide(histories: Sequence[Sequence[Row]], limits: Limits = LIMITS) -> Decision:
    """One call for many histories, each as a key of its own."""
    table = np.array([row for rows in histories for row in rows], np.int64).reshape(-1, 5)
    return check_registers(
        table[:, 0].astype(np.uint8),
        table[:, 1].astype(np.int32),
        table[:, 2].astype(np.int32),
        np.ascontiguousarray(table[:, 3]),
        np.ascontiguousarray(table[:, 4]),
        np.cumsum([0] + [len(rows) for rows in histories], dtype=np.int64),
        n_values=16,
        limits=limits,
    )


def as_history(rows: Sequence[Row]) -> History:
    """The same operations as a recorded history; value 0 is the initial None."""
    ops = []
    for i, (kind, a, b, invoke, complete) in enumerate(rows):
        unknown = kind >= WRITE_UNKNOWN
        named = [None if v == 0 else f"v{v}" for v in (a, b)]
        name = "read" if kind == READ else "write" if kind in (WRITE, WRITE_UNKNOWN) else "cas"
        output = {READ: named[0], CAS_TRUE: True, CAS_FALSE: False}.get(kind)
        ops.append(
            Op(
                op_id=i,
                process_id=i,
                invoke_ts=invoke,
                complete_ts=None if unknown else complete,
                op_type=name,
                input={"read": None, "write": named[0], "cas": named}[name],
                output=output,
                timeout_marker=unknown,
            )
        )
    return History(header=Header(), ops=ops)


@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_brute_force(seed: int) -> None:
    rng = random.Random(seed)
    histories = [(arbitrary if i % 2 else plausible)(rng, 7) for i in range(12_000)]
    histories += [plausible(rng, 11) for _ in range(1_000)]
    got = decide(histories).verdict
    exact = decide(histories, Limits(60 * 10**9, 2**28, exact_states=True)).verdict
    expected = np.array([OK if explains(rows) else ILLEGAL for rows in histories])
    wrong = np.flatnonzero((got != expected) | (exact != expected))
    assert not len(wrong), f"{len(wrong)} differ, first {histories[wrong[0]]}"
    assert 0.1 < (expected == OK).mean() < 0.9


def unique(rng: random.Random, most: int) -> list[Row]:
    """Operations of a real register, every stored value new, some results or times falsified."""
    spread, mix, lies = rng.choice([1, 3, 6, 12, 30]), rng.choice(MIXES), rng.choice([0, 0.1, 0.3])
    rows, now = [], 0
    count = rng.randint(1, most)
    for at in range(count):
        kind = rng.choices(range(6), mix)[0]
        old = rng.randrange(at + 1) if rng.random() < lies else now
        if kind in (CAS_FALSE, CAS_UNKNOWN) and rng.random() < 0.7:
            old = rng.randrange(count + 1)
        new = at + 1 if rng.random() < 0.98 else rng.randrange(count + 1)
        lazy = kind >= WRITE_UNKNOWN and rng.random() < 0.5
        invoke, complete = 2 * at - rng.randint(0, spread), 2 * at + rng.randint(0, spread)
        if kind >= WRITE_UNKNOWN:
            complete, invoke = NEVER, 2 * at - rng.randint(0, 3 * spread)
        a = new if kind in (WRITE, WRITE_UNKNOWN) else old
        rows.append((kind, a, 0 if kind == READ else new, invoke, complete))
        stores = kind in (WRITE, WRITE_UNKNOWN, CAS_TRUE) or (kind == CAS_UNKNOWN and old == now)
        now = new if stores and not lazy else now
    return sorted(rows, key=lambda r: r[3])


def chained(histories: Sequence[Sequence[Row]]) -> U8:
    """The verdicts of the monitor of unique values."""
    table = np.array([row for rows in histories for row in rows], np.int64).reshape(-1, 5)
    verdict = np.zeros(len(histories), np.uint8)
    _core.chains(
        table[:, 0].astype(np.uint8),
        table[:, 1].astype(np.int32),
        table[:, 2].astype(np.int32),
        np.ascontiguousarray(table[:, 3]),
        np.ascontiguousarray(table[:, 4]),
        np.cumsum([0] + [len(rows) for rows in histories], dtype=np.int64),
        verdict,
        np.zeros(1, np.int32),
        16,
        2**28,
    )
    return verdict


@pytest.mark.timeout(900)
def test_chains_agree_with_brute_force() -> None:
    """Where values are unique; it may decline, and seldom does."""
    rng = random.Random(12)
    histories = [unique(rng, 9) for _ in range(10 * ROUNDS)]
    expected = np.array([OK if explains(rows) else ILLEGAL for rows in histories])
    got = chained(histories)
    wrong = np.flatnonzero((got != UNFIT) & (got != expected))
    assert not len(wrong), f"{len(wrong)} differ, first {histories[wrong[0]]}"
    assert 0.7 < (expected == OK).mean() < 0.95
    for verdict in (OK, ILLEGAL):
        assert (got[expected == verdict] == verdict).mean() > 0.5
    assert (decide(histories).verdict == expected).all()


def test_whole_checker_agrees_with_brute_force() -> None:
    rng = random.Random(11)
    for i in range(3_000):
        rows = (plausible if i % 2 else unique)(rng, 7)
        result = CHECKER.check(as_history(rows), "cas-register", Budget())
        tested = any(r[0] in (READ, CAS_TRUE, CAS_FALSE) for r in rows)
        assert result.valid == ((True if tested else "unknown") if explains(rows) else False)
        assert result.ops.consumed == len(rows)


def test_witness_is_a_contradiction_and_minimal() -> None:
    """Its operations contradict each other, and no observer in it can be left out."""
    rng = random.Random(5)
    found = 0
    while found < 300:
        rows = rng.choice([plausible, unique])(rng, 9)
        result = CHECKER.check(as_history(rows), "cas-register", Budget())
        if result.valid is not False:
            continue
        found += 1
        (anomaly,) = result.anomalies["nonlinearizable"]
        kept = [rows[int(i)] for i in anomaly.ops]
        assert anomaly.minimal
        assert not explains(kept)
        assert anomaly.witness[0]["op_id"] == anomaly.ops[0]
        for i, row in enumerate(kept):
            if row[0] == READ:
                rest = kept[:i] + kept[i + 1 :]
                end = max(r[4] for r in kept if r[4] != NEVER)
                assert row[4] < end or explains(rest), anomaly


def test_cutting_the_history_short_keeps_it_linearizable() -> None:
    """Prefix closure: what the search accepts it accepts at any earlier end."""
    rng = random.Random(3)
    cuts = []
    for rows in (plausible(rng, 11) for _ in range(4_000)):
        if decide([rows]).verdict[0] != OK:
            continue
        end = rng.choice(rows)[3]
        early = [r for r in rows if r[3] <= end]
        cuts.append([r for r in early if r[4] <= end or r[0] >= WRITE_UNKNOWN])
        lost = {WRITE: WRITE_UNKNOWN, CAS_TRUE: CAS_UNKNOWN}
        cuts[-1] += [
            (lost[r[0]], r[1], r[2], r[3], NEVER)
            for r in early
            if end < r[4] < NEVER and r[0] in lost
        ]
        cuts[-1].sort(key=lambda r: r[3])
    assert len(cuts) > 1_000
    assert (decide(cuts).verdict == OK).all()


def test_garbage_is_refused_or_judged() -> None:
    rng = np.random.default_rng(1)
    refused = 0
    for _ in range(3_000):
        n, keys = int(rng.integers(0, 12)), int(rng.integers(0, 4))
        invoke = np.sort(rng.integers(0, 50, n))
        kind = rng.integers(0, 7, n).astype(np.uint8)
        complete = np.where(kind >= WRITE_UNKNOWN, NEVER, invoke + rng.integers(0, 9, n))
        offsets = np.sort(np.append(rng.integers(0, n + 1, keys), [0, n]))[: keys + 1]
        offsets[-1] = n
        columns: list[Any] = [
            kind,
            rng.integers(0, 4, n),
            rng.integers(0, 4, n),
            invoke,
            complete,
            offsets,
        ]
        types = [np.uint8, np.int32, np.int32, np.int64, np.int64, np.int64]
        columns = [np.array(c, t) for c, t in zip(columns, types, strict=True)]
        if rng.random() < 0.7:
            hit = columns[int(rng.integers(0, 6))]
            if len(hit):
                noise = rng.integers(-(2**63), 2**63 - 1, 1).view(np.uint8)
                hit[int(rng.integers(0, len(hit)))] = noise.view(hit.dtype)[0]
        if rng.random() < 0.1:
            at = int(rng.integers(0, 6))
            columns[at] = columns[at][: max(0, len(columns[at]) - 1)]
        try:
            answer = check_registers(*columns, n_values=4, limits=LIMITS)
        except ValueError as error:
            refused += 1
            assert str(error)
        else:
            assert set(answer.verdict.tolist()) <= {OK, ILLEGAL}
    assert 500 < refused < 2_900


def test_wrong_buffers_are_refused() -> None:
    u8, i32, i64 = np.zeros(1, np.uint8), np.zeros(1, np.int32), np.zeros(1, np.int64)
    offsets = np.array([0, 1], np.int64)
    good: list[Any] = [
        u8,
        i32,
        i32,
        i64,
        i64,
        offsets,
        u8.copy(),
        i64.copy(),
        i64.copy(),
        i64.copy(),
    ]
    good += [np.zeros(2, np.int32), np.zeros(1, np.int32)]
    _core.check_registers(*good, 1, 0, 10**9, 2**20, 0, False)  # type: ignore[call-arg]
    for at in range(len(good)):
        wrong: list[Any] = [good[at].astype(np.float64), good[at].astype(np.int16), "x", None]
        wrong += [good[at].reshape(1, -1), np.zeros(4, good[at].dtype)[::2]]
        for bad in wrong:
            columns = [*good[:at], bad, *good[at + 1 :]]
            with pytest.raises((ValueError, TypeError, BufferError)):
                _core.check_registers(*columns, 1, 0, 10**9, 2**20, 0, False)  # type: ignore[call-arg]
    for at in (6, 7, 8, 9, 10):
        frozen = good[at].copy()
        frozen.flags.writeable = False
        columns = [*good[:at], frozen, *good[at + 1 :]]
        with pytest.raises((ValueError, BufferError)):
            _core.check_registers(*columns, 1, 0, 10**9, 2**20, 0, False)  # type: ignore[call-arg]
