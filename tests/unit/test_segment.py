"""The event log: what was written is read back, damage is noticed, a torn tail is dropped."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raw_segments import append, read_segment

from dstest.core.errors import HistoryError
from dstest.store import segment
from dstest.store.events import Succeeded, Writer
from dstest.store.segment import Damage, SegmentWriter

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


def test_a_refused_write_leaves_no_half_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.seg"
    writer = SegmentWriter(path, Writer())
    real = os.pwrite

    def short(fd: int, data: bytes, at: int) -> int:
        return real(fd, data[:7], at)

    monkeypatch.setattr(os, "pwrite", short)
    with pytest.raises(OSError, match="no space") as caught:
        append(writer, EVENTS[0])
    assert caught.value.errno == errno.ENOSPC
    monkeypatch.setattr(os, "pwrite", real)
    append(writer, EVENTS[1])
    writer.close()
    assert list(read_segment(path))[1:] == [EVENTS[1]]


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
