"""The choice among longest reads that contradict each other."""

from __future__ import annotations

import random

from checkers.second.elle import _hash, path
from checkers.txn.api import check, value_hashes
from checkers.txn.plugin import from_op_maps


def test_hashes_are_clojures() -> None:
    # (hash 1), (hash 0), (hash -1), (hash "a") of Clojure 1.11
    assert value_hashes([1, 0, -1, "a"]).tolist() == [
        1392991556, 0, 1651860712, 1455541201,
    ]  # fmt: skip


def test_hashes_agree_with_the_oracle() -> None:
    rng = random.Random(7)
    values = [rng.randrange(-(2**63), 2**63) for _ in range(200)] + ["", "x", "añ€", "𝄞"]
    assert value_hashes(values).tolist() == [_hash(v) for v in values]


def _events(reads: list[list[int]]) -> list[dict[str, object]]:
    written = sorted({v for read in reads for v in read})
    txns = [[["append", "x", v]] for v in written] + [[["r", "x", read]] for read in reads]
    return [
        {"index": 2 * i + j, "type": kind, "process": i, "f": "txn", "value": txn}
        for i, txn in enumerate(txns)
        for j, kind in enumerate(("invoke", "ok"))
    ]


def test_the_winner_does_not_depend_on_the_order_of_the_history() -> None:
    for seed in range(50):
        rng = random.Random(seed)
        reads = [rng.sample(range(1, 5), 4) for _ in range(3)]
        winner = max(map(tuple, reads), key=path)
        answers = []
        for order in (reads, reads[::-1]):
            history = from_op_maps(_events(order))
            result = check(history, "list-append", ["serializable"])
            assert result.valid is False
            answers.append(result.anomaly_types)
        alone = check(from_op_maps(_events([list(winner)])), "list-append", ["serializable"])
        assert alone.valid is not False
        assert answers[0] == answers[1]
