"""What checkers found that no pattern speaks of is told; data is told from sentences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from planted_runs import op, planted

from dstest.core.check import Anomaly, CheckResult
from dstest.debug.patterns.diagnosis import Diagnosis, diagnose
from dstest.history.layout import RunDir


def found_by(path: Path, *anomalies: Anomaly, **how: Any) -> Diagnosis:
    """A run in which a checker found these."""
    run = planted(path, **how)
    kinds = {one.type: [two for two in anomalies if two.type == one.type] for one in anomalies}
    result = CheckResult(
        checker="set-full", valid=False, anomaly_types=sorted(kinds), anomalies=kinds
    )
    told = {"verdict": "FAIL", "checkers": {"set-full": msgspec.to_builtins(result)}}
    RunDir(run).write_json("verdict.json", told)
    return diagnose(run)


@pytest.mark.parametrize("kind", ["cut", "found"])
def test_a_kind_that_is_part_of_a_sentence_is_not_claimed_by_it(kind: str, tmp_path: Path) -> None:
    ops = [op(n, n / 10, op_type="add", key="s", input=n) for n in range(20)]
    ops.append(op(30, 60, op_type="read", key="s", output=list(range(19))))
    lost = Anomaly(type="lost", ops=[19, 30])
    found = found_by(tmp_path / "run", lost, Anomaly(type=kind, ops=[3]), ops=ops)
    assert found.unclaimed == [f"set-full: {kind}"]
    claims = [d.kinds for h in found.hypotheses for d in h.detections if d.sign == "judged"]
    assert claims == [["lost"]]


def test_a_loss_that_was_acknowledged_is_a_lost_update_first(tmp_path: Path) -> None:
    ops = [op(n, n / 10, op_type="enqueue", key="q", input=n) for n in range(20)]
    ops.append(op(30, 60, op_type="dequeue", key="q", output=3))
    witness = [msgspec.to_builtins(one) for one in (ops[19], ops[20])]
    lost = Anomaly(type="lost", ops=[19, 30], witness=witness)
    found = found_by(tmp_path / "run", lost, ops=ops)
    one, other = (next(h for h in found.hypotheses if h.number == n) for n in (21, 6))
    assert one.total == other.total and one.rank < other.rank
    assert "availability" not in one.scores["impact"].why
