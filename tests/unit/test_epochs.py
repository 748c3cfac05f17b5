"""Fault windows: announced before they begin and end, and what is said where that came too late."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dstest.core.evidence import LandingRecord
from dstest.history.segment import Late, SegmentWriter, Writer, fold
from dstest.runner.board import Board
from dstest.runner.epochs import Journal, RunEpochs

RECORD = LandingRecord(fault_id="f1", nemesis="kill", targets=["n1"], scheduled_at=0, epoch="f0")
MS = 1_000_000


class Clock:
    """Gives the times it was given, one after the other; waits for nothing."""

    def __init__(self, times_ms: list[int]) -> None:
        self.times = [time * MS for time in times_ms]

    def now_ns(self) -> int:
        return self.times.pop(0) if len(self.times) > 1 else self.times[0]

    async def until(self, time_ns: int) -> None:
        pass


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    made = Board(tmp_path / "board", 1, 1, create=True)
    yield made
    made.close()


def told(tmp_path: Path, board: Board, times_ms: list[int]) -> list[Late]:
    clock: Any = Clock(times_ms)
    journal = Journal(SegmentWriter(tmp_path / "control.seg", Writer(control=True)), clock)
    epochs = RunEpochs(board, clock, journal)

    async def window() -> None:
        journal.fault(await epochs.close(await epochs.open(RECORD)))

    asyncio.run(window())
    journal.close()
    folded = fold(tmp_path)
    assert folded.counters["malformed_events"] == 0
    return folded.late


def test_a_window_that_was_announced_in_time_needs_no_word(tmp_path: Path, board: Board) -> None:
    assert told(tmp_path, board, [10, 14, 50, 54]) == []


def test_an_edge_that_passes_as_it_is_announced_is_late(tmp_path: Path, board: Board) -> None:
    assert told(tmp_path, board, [10, 15, 15, 50, 54]) == [Late("f1", 15 * MS, 15 * MS)]


def test_a_process_that_stood_between_the_two_says_of_which_edge(
    tmp_path: Path, board: Board
) -> None:
    said = told(tmp_path, board, [10, 30, 31, 50, 95, 96])
    assert said == [Late("f1", 15 * MS, 31 * MS), Late("f1", 55 * MS, 96 * MS)]
