"""Folding segments: outcomes, open invocations, epochs, counters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from raw_segments import append

from dstest.core.evidence import LandingRecord
from dstest.core.history import Header, History, epochs_of, windows_of
from dstest.core.op import Outcome
from dstest.history.jsonl import read_history, read_raw, write_history
from dstest.history.segment import SegmentWriter, Writer, fold

WORKER = Writer(worker=0)
CONTROL = Writer(control=True)


def segment(path: Path, events: list[list[Any]], by: Writer = WORKER) -> None:
    writer = SegmentWriter(path, by)
    for event in events:
        append(writer, event)
    writer.close()


def record(**changes: Any) -> list[Any]:
    base = LandingRecord(
        fault_id="f1", nemesis="partition", targets=["n1"], scheduled_at=100, epoch="f1"
    )
    return ["fault", msgspec.to_builtins(msgspec.structs.replace(base, **changes))]


def test_outcomes_and_order(tmp_path: Path) -> None:
    segment(
        tmp_path / "worker-0.seg",
        [
            ["i", 0, 0, 50, "write", "k", 1, "n1"],
            ["i", 2, 1, 20, "read", "k", None, "n2"],
            ["o", 0, 60, None, "n1", None],
            ["f", 2, 70, "not-connected", "n2", None],
            ["i", 4, 0, 80, "write", "k", 2, "n1"],
            ["u", 4, 95, "TimeoutError", None],
            ["i", 6, 1, 90, "read", "k", None, "n2"],
        ],
    )
    folded = fold(tmp_path)
    assert [op.op_id for op in folded.ops] == [2, 0, 4, 6]
    assert [op.outcome for op in folded.ops] == [
        Outcome.FAIL,
        Outcome.OK,
        Outcome.UNKNOWN,
        Outcome.UNKNOWN,
    ]
    unknown, unfinished = folded.ops[2:]
    assert unknown.complete_ts is None
    assert unknown.output is None
    assert unknown.error == "TimeoutError"
    assert unfinished.error == "unfinished"
    assert unfinished.timeout_marker
    assert folded.process_nodes == {0: "n1", 1: "n2"}
    assert folded.counters["invokes"] == 4
    assert folded.counters["completions"] == 3


def test_newest_record_of_a_fault_wins_and_open_ops_get_its_epoch(tmp_path: Path) -> None:
    segment(
        tmp_path / "control.seg",
        [
            record(injected_at=100),
            record(injected_at=100, landed="yes", landed_at=110),
            record(injected_at=100, landed="yes", landed_at=110, healed_at=200),
        ],
    )
    segment(
        tmp_path / "worker-0.seg",
        [
            ["i", 0, 0, 50, "write", "k", 1, "n1"],
            ["u", 0, 90, "timeout", None],
            ["i", 1, 1, 250, "write", "k", 2, "n1"],
        ],
    )
    folded = fold(tmp_path)
    assert len(folded.records) == 1
    assert folded.records[0].healed_at == 200
    before, after = folded.ops
    assert before.fault_epoch == "f1", "an unknown outcome lasts into the window"
    assert after.fault_epoch is None
    windows = windows_of(folded.records)
    for op in folded.ops:
        found = epochs_of(op, windows, 300)
        assert op.fault_epoch == (found[0] if found else None)


def test_damage_and_orphans_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "worker-0.seg"
    segment(
        path,
        [
            ["i", 0, 0, 50, "write", "k", 1, "n1"],
            ["i", 1, 1, 51, "write", "k", 1, "n1"],
            ["o", 0, 60, None, "n1", None],
            ["o", 1, 60, None, "n1", None],
        ],
    )
    lines = path.read_bytes().split(b"\n")
    lines[1] = b"0" + lines[1][1:]
    path.write_bytes(b"\n".join(lines) + b"1234")
    folded = fold(tmp_path)
    assert folded.counters["damaged_lines"] == 1
    assert folded.counters["torn_tails"] == 1
    assert folded.counters["orphan_completions"] == 1
    assert [op.op_id for op in folded.ops] == [1]


def test_sealed_history_round_trips_with_all_twelve_keys(tmp_path: Path) -> None:
    segment(
        tmp_path / "worker-0.seg",
        [["i", 0, 0, 50, "write", 'ключ\n"', [1, None, {"a": "b"}], "n1"]],
    )
    folded = fold(tmp_path)
    history = History(header=Header(seed=7), ops=folded.ops)
    write_history(tmp_path / "history.jsonl", history)
    assert read_history(tmp_path / "history.jsonl") == history
    assert [len(row) for row in read_raw(tmp_path / "history.jsonl")] == [12]


def late(edge_ns: int, told_ns: int, epoch: str = "f1") -> list[Any]:
    return ["late", epoch, edge_ns, told_ns]


STALE = [
    ["i", 0, 0, 150, "write", "k", 1, "n1"],
    ["o", 0, 160, None, "n1", "f1"],
    # After the heal at 200, by a worker that had not heard of it yet.
    ["i", 2, 0, 210, "write", "k", 2, "n1"],
    ["o", 2, 215, None, "n1", "f1"],
    ["i", 4, 0, 220, "write", "k", 3, "n1"],
    ["u", 4, 225, "TimeoutError", "f1"],
    # It had heard of it when this one ended, and is wrong.
    ["i", 6, 0, 235, "write", "k", 4, "n1"],
    ["o", 6, 295, None, "n1", "f1"],
]


def stamps(
    path: Path, said: list[list[Any]], by_worker: list[list[Any]], **record_: Any
) -> tuple[list[str | None], dict[str, int]]:
    path.mkdir()
    segment(path / "worker-0.seg", [*STALE, *by_worker])
    window = {"injected_at": 100, "healed_at": 200, **record_}
    segment(path / "control.seg", [record(**window), *said], CONTROL)
    folded = fold(path)
    return [op.fault_epoch for op in folded.ops], folded.counters


def test_a_stamp_by_an_old_view_is_corrected_only_while_the_edge_was_announced_late(
    tmp_path: Path,
) -> None:
    assert stamps(tmp_path / "silent", [], [])[0] == ["f1"] * 4
    found, counters = stamps(tmp_path / "late", [late(200, 240)], [])
    assert found == ["f1", None, None, "f1"]
    assert counters["malformed_events"] == 0


@pytest.mark.parametrize(
    ("said", "by_worker", "malformed"),
    [
        ([late(201, 240)], [], 0),
        ([late(200, 240, "f9")], [], 0),
        ([late(200, 199)], [], 0),
        ([late(0, 10**15)], [], 0),
        ([late(200, 10**30)], [], 0),
        ([late(200, 200 + 1_000_000_001)], [], 0),
        ([], [late(200, 240)], 1),
        ([["late", "f1", 200]], [], 1),
    ],
)
def test_what_was_no_late_edge_corrects_nothing(
    tmp_path: Path, said: list[list[Any]], by_worker: list[list[Any]], malformed: int
) -> None:
    found, counters = stamps(tmp_path / "run", said, by_worker)
    assert found == ["f1"] * 4
    assert counters["malformed_events"] == malformed


def test_a_stamp_of_no_window_is_not_corrected(tmp_path: Path) -> None:
    ops = [["i", 0, 0, 205, "write", "k", 1, "n1"], ["o", 0, 215, None, "n1", "f7"]]
    segment(tmp_path / "worker-0.seg", ops)
    events = [record(injected_at=100, healed_at=200), late(200, 240), late(200, 240)]
    segment(tmp_path / "control.seg", events, CONTROL)
    folded = fold(tmp_path)
    assert [op.fault_epoch for op in folded.ops] == ["f7"]
    assert len(folded.late) == 1


def test_what_ended_before_a_late_beginning_was_heard_of_is_in_the_window(tmp_path: Path) -> None:
    segment(
        tmp_path / "worker-0.seg",
        [
            ["i", 0, 0, 90, "write", "k", 1, "n1"],
            ["o", 0, 110, None, "n1", None],
            ["i", 2, 0, 91, "write", "k", 1, "n1"],
            ["o", 2, 99, None, "n1", None],
        ],
    )
    segment(tmp_path / "control.seg", [record(injected_at=100), late(100, 130)], CONTROL)
    assert [op.fault_epoch for op in fold(tmp_path).ops] == ["f1", None]


def test_what_ended_before_the_next_window_began_is_not_in_it(tmp_path: Path) -> None:
    ops = [["i", 0, 0, 205, "write", "k", 1, "n1"], ["o", 0, 215, None, "n1", "f1"]]
    segment(tmp_path / "worker-0.seg", ops)
    following = record(injected_at=230, fault_id="g2", epoch="f2")
    first = record(injected_at=100, healed_at=200)
    segment(tmp_path / "control.seg", [first, following, late(200, 240)], CONTROL)
    assert [op.fault_epoch for op in fold(tmp_path).ops] == [None]
