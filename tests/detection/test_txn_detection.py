"""Each anomaly, injected once into a clean history of a simulated store, is found and named; clean
histories pass."""

from __future__ import annotations

import pytest

from checkers.txn.api import check
from checkers.txn.columns import TxnColumns
from checkers.txn.ingest import load
from dstest.core.check import CheckResult
from dstest.history.generator.histories import Spec, events, lines

pytestmark = pytest.mark.slow

TXNS = 2_000
SEEDS = 3

PLAIN = ("G1a", "G1b", "G1c", "G-single-item", "G-nonadjacent-item", "G2-item", "garbage-read")
LISTS = (
    "G0", "lost-update", "internal", "duplicate-elements", "incompatible-order", "dirty-update",
    "future-read",
)  # fmt: skip
REALTIME = ("G1c", "G-single-item", "G-nonadjacent-item", "G2-item")


def history(spec: Spec) -> TxnColumns:
    return load(b"".join(lines(events(spec), spec, "jsonl")), "dstest")


def found(workload: str, name: str, seed: int) -> CheckResult:
    spec = Spec(workload=workload, txns=TXNS, seed=seed, inject={name: 1})
    return check(history(spec), workload)


@pytest.mark.parametrize(
    ("workload", "name"),
    [
        *(("list-append", n) for n in (*PLAIN, *LISTS, *(f"{r}-realtime" for r in REALTIME))),
        *(("rw-register", n) for n in PLAIN),
    ],
)
def test_injected_anomaly_is_found(workload: str, name: str) -> None:
    for seed in range(SEEDS):
        result = found(workload, name, seed)
        assert result.valid is False
        assert name in result.anomaly_types
        assert len(result.anomalies[name][0].ops) <= 6


@pytest.mark.parametrize(
    ("level", "opts"),
    [
        ("strict-serializable", {}),
        ("strict-serializable", {"linearizable-keys?": True, "wfr-keys?": True}),
        ("strict-serializable", {"sequential-keys?": True}),
        ("strong-session-serializable", {}),
        ("serializable", {}),
        ("strong-snapshot-isolation", {}),
        ("strong-session-snapshot-isolation", {}),
        ("snapshot-isolation", {}),
        ("read-committed", {}),
    ],
)
@pytest.mark.parametrize("workload", ["list-append", "rw-register"])
def test_clean_history_passes(workload: str, level: str, opts: dict[str, bool]) -> None:
    for seed in range(SEEDS):
        columns = history(Spec(workload=workload, txns=500, level=level, seed=seed))
        result = check(columns, workload, [level], opts)
        assert result.valid is True, result
