"""What the control process writes down of faults: its journal, and fault epochs, which are
announced to the load workers and journalled before a fault begins."""

from __future__ import annotations

from typing import Final

import msgspec

from dstest.core.clock import RunClock
from dstest.core.errors import DstestError
from dstest.core.evidence import LandingRecord
from dstest.history.segment import Event, Fault, Late, Note, SegmentWriter
from dstest.runner.board import Board

_LEAD_NS: Final = 5_000_000
"""A window is announced this long before it begins, so that no worker stamps by an old view."""


class Journal:
    """What the control process records: landing records and notes, into a segment of its own.

    A disk that refuses is remembered in `refused` and ends the run; healing goes on regardless.
    """

    def __init__(self, writer: SegmentWriter, clock: RunClock) -> None:
        self._writer = writer
        self._clock = clock
        self.refused: OSError | None = None

    def fault(self, record: LandingRecord) -> None:
        """Write the record as it is now; the newest one of a fault counts."""
        self._append(Fault(record))

    def late(self, epoch: str, edge_ns: int) -> None:
        """Write that a window's edge is told of now, when it has passed."""
        self._append(Late(epoch, edge_ns, self._clock.now_ns()))

    def note(self, **facts: object) -> None:
        """Write facts with the current run time."""
        self._append(Note(self._clock.now_ns(), facts))

    def _append(self, event: Event) -> None:
        try:
            self._writer.append(event)
        except OSError as error:
            self.refused = error

    def close(self) -> None:
        """After the last record: say that nothing is missing, where nothing is."""
        if self.refused is None:
            try:
                self._writer.finish()
            except OSError as error:
                self.refused = error
        self._writer.close()


class RunEpochs:
    """The Epochs of a run. `opened` is the last record whose epoch began."""

    def __init__(self, board: Board, clock: RunClock, journal: Journal) -> None:
        self._board = board
        self._clock = clock
        self._journal = journal
        self._index: dict[str, int] = {}
        self.opened: LandingRecord | None = None

    async def open(self, record: LandingRecord) -> LandingRecord:
        start_ns = self._clock.now_ns() + _LEAD_NS
        index = self._board.open_window(start_ns)
        epoch = f"f{index + 1}"
        self._index[epoch] = index
        self._announced(epoch, start_ns)
        record = msgspec.structs.replace(record, epoch=epoch, injected_at=start_ns)
        self._journal.fault(record)
        self.opened = record
        await self._clock.until(start_ns)
        return record

    async def close(self, record: LandingRecord) -> LandingRecord:
        end_ns = self._clock.now_ns() + _LEAD_NS
        self._board.close_window(self._index[record.epoch], end_ns)
        self._announced(record.epoch, end_ns)
        await self._clock.until(end_ns)
        return msgspec.structs.replace(record, healed_at=end_ns)

    def _announced(self, epoch: str, edge_ns: int) -> None:
        """Where this process did not run for so long that the edge had passed, say so: in between
        workers may have stamped by an old view."""
        if self._clock.now_ns() >= edge_ns:
            self._journal.late(epoch, edge_ns)


class NoEpochs:
    """The Epochs where there is no load: none can be opened."""

    opened: LandingRecord | None = None

    async def open(self, record: LandingRecord) -> LandingRecord:
        raise DstestError("a fault is to begin without a load")

    async def close(self, record: LandingRecord) -> LandingRecord:
        raise DstestError("a fault is to end without a load")
