"""Transactional workloads: streams, what a transaction on etcd computes, and their canaries."""

from __future__ import annotations

import random
from typing import Any

import pytest

from clusters.systems.etcd.clients.register import _apply
from dstest.core.history import Header, History
from dstest.core.op import Op
from dstest.judge.mutants.transactions import KINDS, txn_mutants
from workloads.txn import LIST_APPEND, RW_REGISTER, TxnWorkload

DEFAULTS = {key: option.default for key, option in LIST_APPEND.options.items()}


@pytest.mark.parametrize("workload", [LIST_APPEND, RW_REGISTER])
def test_streams(workload: TxnWorkload) -> None:
    one, two = (workload.generator(3, 1, 10, DEFAULTS) for _ in range(2))
    drafts = [one.next() for _ in range(3000)]
    assert drafts == [two.next() for _ in range(3000)]
    micro_ops = [m for draft in drafts for m in draft.input]
    writes = [(m[1], m[2]) for m in micro_ops if m[0] != "r"]
    assert len(set(writes)) == len(writes), "values are unique per key"
    assert {len(draft.input) for draft in drafts} == {1, 2, 3, 4}
    assert max(value for _, value in writes) == DEFAULTS["writes_per_key"]
    assert 0.4 < len(writes) / len(micro_ops) < 0.6
    other = workload.generator(3, 2, 10, DEFAULTS)
    keys = {m[1] for _ in range(500) for m in other.next().input}
    assert keys.isdisjoint({m[1] for m in micro_ops}), "a key belongs to one worker"


def test_the_first_live_key_is_chosen_most() -> None:
    options = {**DEFAULTS, "write_ratio": 0.0, "key_count": 4}
    generator = LIST_APPEND.generator(1, 0, 10, options)
    counts: dict[Any, int] = {}
    for _ in range(4000):
        for _, key, _ in generator.next().input:
            counts[key] = counts.get(key, 0) + 1
    ordered = [counts[key] for key in sorted(counts)]
    assert ordered == sorted(ordered, reverse=True)
    assert ordered[0] > 1.7 * ordered[1]


def test_micro_ops_see_the_transactions_own_writes() -> None:
    output, changed = _apply(
        [["r", 1, None], ["append", 1, 7], ["r", 1, None], ["w", 2, 5], ["r", 2, None]],
        {1: [3], 2: None},
    )
    assert output == [["r", 1, [3]], ["append", 1, 7], ["r", 1, [3, 7]], ["w", 2, 5], ["r", 2, 5]]
    assert changed == {1: [3, 7], 2: 5}


def serial(kind: str, seed: int) -> History:
    """A history of one client after the other: as clean as can be."""
    write = "append" if kind == "list-append" else "w"
    dice, state, ops = random.Random(seed), {}, []  # type: ignore[var-annotated]
    for i in range(200):
        asked = [
            ["r", k, None] if dice.random() < 0.5 else [write, k, i * 8 + j]
            for j, k in enumerate(dice.choices(range(12), k=dice.randint(1, 3)))
        ]
        output, changed = _apply(asked, {m[1]: state.get(m[1]) for m in asked})
        state |= changed
        ops.append(
            Op(op_id=i, process_id=i % 5, invoke_ts=10 * i, complete_ts=10 * i + 5, op_type="txn",
               input=asked, output=output, node_seen="n1")
        )  # fmt: skip
    return History(header=Header(workload=kind), ops=ops)


@pytest.mark.parametrize("kind", ["list-append", "rw-register"])
def test_mutants_change_one_key_of_a_history(kind: str) -> None:
    history = serial(kind, 5)
    made = [mutant for mutant in txn_mutants(history, 1) if mutant.kind in KINDS]
    kinds = {mutant.kind for mutant in made}
    assert kinds == (set(KINDS) if kind == "list-append" else {"phantom-element", "aborted-read"})
    for mutant in made:
        assert len({m[1] for op in mutant.history.ops for m in op.input}) == 1
        assert mutant.history.ops != history.ops
