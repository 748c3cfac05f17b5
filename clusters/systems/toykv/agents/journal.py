"""`Journal`: a line of JSON for each step of the protocol, written when the step is done.

    {"seq": 7, "wall_ns": 1700000000000000000, "kind": "vote", "term": 2, "candidate": 3, ..}

The first line of a start says which `run` of which `server` begins; `seq` counts the lines of a
run. A message between servers carries the name, run and seq of the last line of who sent it; `saw`
of a line is what was heard so since the line before, by name, of each run the last. So the lines of
all servers have an order in which no line stands before one that it may have come from, whatever
their clocks show.

A run is told by the server and which of its starts it is, `3.2`. Starts are counted on the disk, so
that no clock and no power cut makes two of them one; where the disk is wiped, who joins from there
is another server. Nothing is said by which of two runs is the later one.

Source: Lamport, "Time, Clocks, and the Ordering of Events in a Distributed System" (1978).

A line that cannot be written (a full disk) is left out and counted: a hole that a reader sees.
"""

from __future__ import annotations

import contextlib
import json
import zlib
from collections.abc import Callable, Iterable
from typing import Any

from clusters.systems.toykv.agents.disk import Entry
from clusters.systems.toykv.agents.membership import voters

__all__ = ["Journal", "Row", "row_of", "said"]

Row = list[Any]
"""Of an entry: its term, the mark of the log up to it, and of one that changes the members the ids
of those that vote."""

TAIL = 500
"""Entries that a server tells of when it starts: no fewer than one message brings."""


def row_of(entry: Entry, mark: str) -> Row:
    """What a line says of an entry."""
    term, _, command = entry
    ids = [voters(command["value"])] if command["op"] == "config" else []
    return [term, mark, *ids]


def said(answers: Iterable[dict[str, Any]], before: int) -> list[int]:
    """A sum for each answer, over it and all before."""
    found = []
    for answer in answers:
        text = json.dumps(answer, sort_keys=True, separators=(",", ":"))
        before = zlib.crc32(text.encode(), before)
        found.append(before)
    return found


class Journal:
    """Of one start of a server, by its number. Without `write` nothing is kept, and messages say
    nothing."""

    def __init__(
        self,
        name: str,
        server: int,
        start: int,
        now_ns: Callable[[], int],
        write: Callable[[str], Any] | None,
    ) -> None:
        self._name, self._server, self._now_ns, self._write = name, server, now_ns, write
        self._run = f"{server}.{start}"
        self._seq = 0
        self._heard: dict[str, dict[str, int]] = {}
        self._acked = (0, 0)
        self._sum = 0

    @property
    def stamp(self) -> list[Any] | None:
        """What a message carries: the last line of this server."""
        return None if self._write is None else [self._name, self._run, self._seq]

    def heard(self, stamp: list[Any] | None) -> None:
        """A message with this stamp has come."""
        if stamp and self._write is not None:
            name, run, seq = stamp
            runs = self._heard.setdefault(name, {})
            runs[run] = max(seq, runs.get(run, 0))

    def note(self, kind: str, **fields: Any) -> None:
        """A step that has been done."""
        if self._write is None:
            return
        self._seq += 1
        row = {"seq": self._seq, "wall_ns": self._now_ns(), "kind": kind, **fields}
        if self._seq == 1:
            row |= {"run": self._run, "server": self._server}
        if self._heard:
            row["saw"], self._heard = self._heard, {}
        # A number that is missing in the file is seen by whoever reads it.
        with contextlib.suppress(OSError):
            self._write(json.dumps(row, separators=(",", ":")))

    def acked(self, term: int, index: int) -> None:
        """This server says in a term that it has the leader's log on its disk up to there."""
        if (term, index) > self._acked and index:
            self._acked = (term, index)
            self.note("ack", term=term, index=index)

    def applied(self, first: int, answers: list[dict[str, Any]]) -> None:
        """Entries from `first` on were applied, and gave these answers."""
        if self._write is None or not answers:
            return
        sums = said(answers, 0 if first == 1 else self._sum)
        self._sum = sums[-1]
        self.note("apply", first=first, sums=sums)
