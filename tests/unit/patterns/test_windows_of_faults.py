"""What a fault stands for: from when it was asked for, if it landed, and for what was lost then."""

from __future__ import annotations

from pathlib import Path

import msgspec
from planted_runs import LOAD_S, S, op, ops_of, partition, planted

from dstest.core.evidence import LandingRecord
from dstest.debug.patterns.diagnosis import diagnose
from dstest.debug.patterns.history import quiet_seconds
from dstest.debug.patterns.scene import RunScene


def proven_late(begin: float, landed: float, end: float) -> LandingRecord:
    """A partition that dropped packets from its begin on, and was proven seconds later."""
    record = partition(begin, end)
    return msgspec.structs.replace(record, landed_at=int(landed * S))


def lost_adds(path: Path, record: LandingRecord) -> Path:
    """n1 acknowledges what no last read shows, between the begin of a fault and its proof."""
    ops = [op(n, n / 10, op_type="add", key="s", input=n, node_seen="n1") for n in range(700)]
    left = [n for n in range(700) if not 45 <= n < 60]
    ops.append(op(900, 75, op_type="read", key="s", output=left, node_seen="n2"))
    return planted(path, ops, records=[record])


def test_what_was_lost_before_the_proof_was_lost_in_the_fault(tmp_path: Path) -> None:
    found = diagnose(lost_adds(tmp_path / "run", proven_late(4.4, 7.3, 11)))
    first = found.hypotheses[0]
    assert first.number == 21 and first.alarm, first
    gone = next(one for one in first.detections if one.sign == "gone")
    assert (gone.window, gone.nodes, gone.at_ns) == ("f1", ["n1"], int(4.505 * S)), gone
    assert not gone.expected, "nothing excuses a loss"


def test_a_fault_that_did_not_land_explains_nothing(tmp_path: Path) -> None:
    run = lost_adds(tmp_path / "run", partition(4.4, 11, landed="no"))
    found = diagnose(run)
    gone = next(d for h in found.hypotheses for d in h.detections if d.sign == "gone")
    assert gone.window == "no fault", gone


def test_no_fault_stood_is_one_question(tmp_path: Path) -> None:
    for landed, calm in (("yes", False), ("no", True)):
        run = planted(tmp_path / landed, ops_of(), records=[partition(20, 40, landed=landed)])
        scene = RunScene(run)
        assert scene.quiet(30 * S) is quiet_seconds(scene)[30] is calm
        assert scene.quiet(60 * S) is quiet_seconds(scene)[60] is True
        assert len(quiet_seconds(scene)) == LOAD_S
