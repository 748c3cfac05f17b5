"""Folding segments: outcomes, open invocations, epochs, counters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from raw_segments import append

from dstest.core.evidence import LandingRecord
from dstest.core.history import Header, History, epochs_of
from dstest.core.op import Outcome
from dstest.store.events import Writer
from dstest.store.jsonl import read_history, read_raw, write_history
from dstest.store.seal import fold, windows_of
from dstest.store.segment import SegmentWriter


def segment(path: Path, events: list[list[Any]]) -> None:
    writer = SegmentWriter(path, Writer(worker=0))
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


def late(from_ns: int, until_ns: int) -> list[Any]:
    return [
        "note",
        until_ns,
        {"announced_late": {"epoch": "f1", "from_ns": from_ns, "until_ns": until_ns}},
    ]


STALE = [
    ["i", 0, 0, 150, "write", "k", 1, "n1"],
    ["o", 0, 160, None, "n1", "f1"],
    # After the heal at 200, by a worker that had not heard of it yet.
    ["i", 2, 0, 210, "write", "k", 2, "n1"],
    ["o", 2, 215, None, "n1", "f1"],
    ["i", 4, 0, 220, "write", "k", 3, "n1"],
    ["u", 4, 225, "TimeoutError", "f1"],
    ["i", 6, 0, 290, "write", "k", 4, "n1"],
    ["o", 6, 295, None, "n1", "f1"],
]


def stamps(path: Path, notes: list[list[Any]]) -> tuple[list[str | None], dict[str, int]]:
    segment(path / "worker-0.seg", STALE)
    segment(path / "control.seg", [record(injected_at=100, healed_at=200), *notes])
    folded = fold(path)
    return [op.fault_epoch for op in folded.ops], folded.counters


def test_a_stamp_by_an_old_view_is_corrected_only_while_the_edge_was_announced_late(
    tmp_path: Path,
) -> None:
    for name in ("silent", "late", "broken"):
        (tmp_path / name).mkdir()
    assert stamps(tmp_path / "silent", [])[0] == ["f1"] * 4
    assert stamps(tmp_path / "late", [late(200, 240)])[0] == ["f1", None, None, "f1"]
    broken, counters = stamps(tmp_path / "broken", [["note", 1, {"announced_late": 7}]])
    assert broken == ["f1"] * 4
    assert counters["malformed_events"] == 1


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
    segment(tmp_path / "control.seg", [record(injected_at=100), late(100, 130)])
    assert [op.fault_epoch for op in fold(tmp_path).ops] == ["f1", None]
