"""Whether an operation ran inside a fault window has one answer, whoever is asked."""

from __future__ import annotations

import random

import msgspec
from made_moments import fault, op, stamped
from made_report import S, report

from checkers._spread import Spreads, epochs_met
from dstest.core.history import RUN_END_NS, History, ran_during
from dstest.core.op import Op
from dstest.notebook.frames import windows_of
from dstest.report.service import reasons

FAULTS = [fault("f1", 10, 15), fault("f2", 14, 16), fault("f3", 60, None)]


def made_ops() -> list[Op]:
    rng = random.Random(5)
    times = [float(n) for n in (9.99, 10, 14, 15, 15.001, 16, 16.001, 59.99, 60)]
    times += [rng.uniform(0, 80) for _ in range(300)]
    made = [op(n, at) for n, at in enumerate(times)]
    open_ = [
        op(1000 + n, at, complete_ts=None, timeout_marker=True) for n, at in enumerate(times[::9])
    ]
    return stamped([*made, *open_], FAULTS)


def test_all_say_the_same() -> None:
    for one in made_ops():
        inside = [f.epoch for f in FAULTS if f.met_by(one)]
        assert " ".join(inside) == windows_of(one, FAULTS)
        assert inside == epochs_met([one], FAULTS, RUN_END_NS)
        assert one.fault_epoch == next(iter(inside), None)


def test_counts_by_window_and_reasons_agree_with_it() -> None:
    ops = made_ops()
    spreads = Spreads()
    for one in ops:
        spreads.add("lost", "k", [one], one)
    first = [next((f.epoch for f in FAULTS if f.met_by(one)), "none") for one in ops]
    counted = spreads.stats["anomalies_by_epoch"]["lost"]
    assert counted == {epoch: first.count(epoch) for epoch in counted}
    assert sum(counted.values()) == len(ops)
    failed = [msgspec.structs.replace(one, error="refused") for one in ops]
    rows = reasons(History(header=report().history.header, ops=failed))
    assert sum(row.during for row in rows) == len(ops) - first.count("none")


def test_what_never_completed_runs_to_the_end_and_the_edges_count() -> None:
    open_ = op(1, 1.0, complete_ts=None, timeout_marker=True)
    assert all(f.met_by(open_) for f in FAULTS)
    done = op(2, 9.99, complete_ts=10 * S)
    assert ran_during(done, 10 * S, 15 * S)
    assert ran_during(op(3, 15.0), 10 * S, 15 * S)
    assert not ran_during(op(4, 16.0), 10 * S, 15 * S)
