"""Every injectable anomaly, once among 10,000 clean transactions, over a hundred seeds; and a
thousand clean histories of each workload, at the levels and options that must accept them.

Left out of `make test`, whose own small editions are test_txn_detection.py and test_generate.py.
"""

from __future__ import annotations

from itertools import cycle, islice

import pytest

from checkers.txn.api import check
from checkers.txn.ingest import load
from dstest.core.check import CheckResult
from dstest.history.generator.histories import GADGETS, LEVELS, NEED_WFR, Spec, events, lines

TXNS = 10_000
SEEDS = 100
CLEAN = 1_000
WITNESS_MAX = 6
WORKLOADS = ("list-append", "rw-register")
OPTIONS: dict[str, tuple[dict[str, bool], ...]] = {
    "strict-serializable": (
        {},
        {"wfr-keys?": True},
        {"sequential-keys?": True},
        {"linearizable-keys?": True},
        {"wfr-keys?": True, "sequential-keys?": True, "linearizable-keys?": True},
    ),
    "strong-session-serializable": ({}, {"wfr-keys?": True}),
    "serializable": ({}, {"wfr-keys?": True}),
}

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]


def judged(spec: Spec, model: str, opts: dict[str, bool]) -> CheckResult:
    text = b"".join(lines(events(spec), spec, "jsonl"))
    return check(load(text, "dstest"), spec.workload, [model], opts)


@pytest.mark.parametrize(("workload", "name"), [(w, n) for w in WORKLOADS for n in GADGETS[w]])
def test_one_anomaly_among_ten_thousand(workload: str, name: str) -> None:
    model = "strong-session-serializable" if name.endswith("-process") else "strict-serializable"
    opts = {"wfr-keys?": True} if workload == "rw-register" and name in NEED_WFR else {}
    missed, longest = [], 0
    for seed in range(SEEDS):
        spec = Spec(workload=workload, txns=TXNS, inject={name: 1}, seed=seed)
        result = judged(spec, model, opts)
        size = min((len(a.ops) for a in result.anomalies.get(name, ())), default=WITNESS_MAX + 1)
        longest = max(longest, size)
        if result.valid is not False or size > WITNESS_MAX:
            missed.append(seed)
    print(f"{workload} {name}: {SEEDS - len(missed)} of {SEEDS}, witness at most {longest}")  # noqa: T201
    assert missed == []


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_thousand_clean_histories_pass(workload: str) -> None:
    kinds = [
        (level, opts)
        for level in LEVELS
        for opts in (OPTIONS.get(level, ({},)) if workload == "rw-register" else ({},))
    ]
    alarms = []
    for seed, (level, opts) in enumerate(islice(cycle(kinds), CLEAN)):
        spec = Spec(workload=workload, txns=TXNS, level=level, seed=seed, concurrency=1 + seed % 50)
        result = judged(spec, level, opts)
        if result.valid is not True:
            alarms.append((seed, level, opts, result.valid, result.anomaly_types))
    print(f"{workload}: {CLEAN} clean histories, {len(alarms)} false alarms")  # noqa: T201
    assert alarms == []
