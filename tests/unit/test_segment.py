"""The event log: what was written is read back, damage is noticed, a torn tail is dropped."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raw_segments import append, read_segment

from dstest.core.errors import HistoryError
from dstest.history import segment
from dstest.history.segment import Damage, SegmentWriter, Succeeded, Writer

pytestmark = pytest.mark.slow

EVENTS = [["i", 1, 0, 10, "write", "k", 5, "n1"], ["o", 1, 20, None, "n1", None]]


def written(path: Path) -> bytes:
    writer = SegmentWriter(path, Writer(worker=0))
    for event in EVENTS:
        append(writer, event)
    writer.close()
    return path.read_bytes()


def test_round_trip(tmp_path: Path) -> None:
    written(tmp_path / "a.seg")
    head, *events = read_segment(tmp_path / "a.seg")
    assert head[0] == "h"
    assert head[1]["worker"] == 0
    assert events == EVENTS


def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    data = written(tmp_path / "a.seg")
    good = list(read_segment(tmp_path / "a.seg"))
    for at in range(len(data)):
        for bit in range(8):
            broken = bytearray(data)
            broken[at] ^= 1 << bit
            (tmp_path / "b.seg").write_bytes(broken)
            damage: list[Damage] = []
            seen = list(read_segment(tmp_path / "b.seg", damage))
            assert seen != good or damage[0].torn_tail
            assert damage[0].lines or damage[0].torn_tail
            assert all(event in good for event in seen)


def test_every_cut_keeps_what_came_before(tmp_path: Path) -> None:
    data = written(tmp_path / "a.seg")
    good = list(read_segment(tmp_path / "a.seg"))
    ends = [i + 1 for i, byte in enumerate(data) if byte == ord("\n")]
    for cut in range(len(data)):
        (tmp_path / "b.seg").write_bytes(data[:cut])
        damage: list[Damage] = []
        seen = list(read_segment(tmp_path / "b.seg", damage))
        assert seen == good[: sum(end <= cut for end in ends)]
        assert not damage[0].lines


def test_damage_without_a_place_to_count_it_raises(tmp_path: Path) -> None:
    data = written(tmp_path / "a.seg")
    (tmp_path / "b.seg").write_bytes(b"X" + data[1:])
    with pytest.raises(HistoryError, match="line 1"):
        list(read_segment(tmp_path / "b.seg"))


def test_a_full_disk_refuses_a_line_and_leaves_no_half_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.seg"
    writer = SegmentWriter(path, Writer())
    real = os.posix_fallocate

    def full(fd: int, at: int, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    long = ["i", 1, 0, 10, "write", "k", "x" * segment.ROOM_BYTES, "n1"]
    with pytest.raises(OSError, match="No space") as caught:
        append(writer, long)
    assert caught.value.errno == errno.ENOSPC
    append(writer, EVENTS[0])
    monkeypatch.setattr(os, "posix_fallocate", real)
    append(writer, long)
    append(writer, EVENTS[1])
    writer.close()
    assert list(read_segment(path))[1:] == [EVENTS[0], long, EVENTS[1]]


def test_lines_go_on_over_the_end_of_what_room_was_taken(tmp_path: Path) -> None:
    path = tmp_path / "a.seg"
    writer = SegmentWriter(path, Writer())
    many = [["i", n, 0, 10, "write", "k", "x" * (n % 700), "n1"] for n in range(2000)]
    for event in many:
        append(writer, event)
    writer.close()
    assert path.stat().st_size > 2 * segment.ROOM_BYTES
    damage: list[Damage] = []
    assert list(read_segment(path, damage))[1:] == many
    assert damage == [Damage([], False)]
    assert b"\0" not in path.read_bytes()


def test_what_a_killed_writer_had_appended_is_there(tmp_path: Path) -> None:
    path = tmp_path / "a.seg"
    child = os.fork()
    if not child:
        try:
            writer = SegmentWriter(path, Writer(worker=0))
            for event in EVENTS:
                append(writer, event)
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    damage: list[Damage] = []
    assert list(read_segment(path, damage))[1:] == EVENTS
    assert damage == [Damage([], False)]


@pytest.mark.parametrize("held", ["begin", "end", "both ends"])
def test_a_line_that_was_put_down_in_part_is_torn(tmp_path: Path, held: str) -> None:
    data = written(tmp_path / "a.seg")
    good = list(read_segment(tmp_path / "a.seg"))
    start = data[:-1].rindex(b"\n") + 1
    broken = bytearray(data + bytes(100))
    lost = {
        "begin": slice(start, start + 9),
        "end": slice(len(data) - 5, len(data)),
        "both ends": slice(start + 5, len(data) - 5),
    }[held]
    broken[lost] = bytes(lost.stop - lost.start)
    (tmp_path / "b.seg").write_bytes(broken)
    damage: list[Damage] = []
    assert list(read_segment(tmp_path / "b.seg", damage)) == good[:-1]
    assert damage == [Damage([], True)]


def test_a_segment_is_never_overwritten(tmp_path: Path) -> None:
    written(tmp_path / "a.seg")
    with pytest.raises(FileExistsError):
        SegmentWriter(tmp_path / "a.seg", Writer())


@settings(max_examples=200)
@given(st.lists(st.one_of(st.none(), st.integers(-(2**53), 2**53), st.text()), min_size=1))
def test_any_event_survives(event: list[object]) -> None:
    line = segment.encode_line(Succeeded(1, 2, event, None, None))
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_garbage_never_becomes_an_event(data: bytes) -> None:
    import tempfile

    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        assert list(read_segment(Path(file.name), [])) == []
