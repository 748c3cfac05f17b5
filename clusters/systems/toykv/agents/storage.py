"""What a server keeps: `Around`, its files, clocks and random numbers (of a machine in `main.py`; a
simulation gives its own); `Disk`, what it must not forget; the members that its log names; and
`Journal`, what it says of each step.

A member is `[id, name, address, votes]`. It has a new id each time that its node joins with empty
data, so that it is never taken for one that has promised something. One member joins, leaves or
gets its vote at a time, and only when the change before is committed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = [
    "Around",
    "Disk",
    "Entry",
    "Journal",
    "Member",
    "Members",
    "Row",
    "majority",
    "nth_best",
    "row_of",
    "sums_of",
    "voters",
    "with_member",
    "with_vote",
    "without_member",
]

Entry = tuple[int, int, dict[str, Any]]
"""(term, stamp in ns of the replicated clock, command)."""

LAZY_S = 1.0
"""Between two syncs of a server with the bug `unsynced-loss`."""

Member = list[int | str | bool]
Members = list[Member]

Row = list[Any]
"""Of an entry: its term, the mark of the log up to it, and of one that changes the members the ids
of those that vote."""

TAIL = 500
"""Entries that a server tells of when it starts: no fewer than one message brings."""


@dataclass
class Around:
    """`die` ends the process with a code, at once. `spans`, `keep` and `audit` take a line for each
    span, each step of the protocol and each command that was applied, where they are wanted."""

    files: Any
    numbers: random.Random
    die: Callable[[int], None]
    now_s: Callable[[], float]
    wall_ns: Callable[[], int]
    write: Callable[[str], object]
    spans: Callable[[str], object] | None = None
    keep: Callable[[str], object] | None = None
    audit: Callable[[str], object] | None = None

    def say(self, text: str) -> None:
        """A line of the log."""
        self.write(f"toykv: {text}\n")


def _line(entry: Entry) -> bytes:
    text = json.dumps(entry, separators=(",", ":")).encode()
    return b"%08x %b\n" % (zlib.crc32(text), text)


def _entry(line: bytes) -> Entry | None:
    """None where the line is not whole."""
    text = line[9:]
    try:
        if int(line[:8], 16) != zlib.crc32(text):
            return None
        term, stamp, command = json.loads(text)
    except ValueError:
        return None
    return term, stamp, command


class Disk:
    """What a server must not forget: its term and vote, its identity, its starts, its log, whose
    entries are counted from 1.

    `meta` is one JSON object, replaced as a whole. `log` has a line per entry: eight hex digits of
    a checksum, a blank, `[term, stamp_ns, command]`. A line that a crash has cut short is cut off
    when the server starts; a bad line before good ones is damage, and ends it.

    The log is written and synced by one task, many entries at a time. `durable` is the last entry
    that is known to be on the disk. A server whose disk refuses ends: what was synced after an
    error counts for nothing.
    """

    def __init__(self, around: Around, bug: str = "none") -> None:
        self._around = around
        self._bug = bug
        self.meta: dict[str, Any] = {"term": 0, "vote": None, "id": 0}
        self.fresh = not around.files.exists("meta")
        if not self.fresh:
            self.meta = json.loads(around.files.read("meta"))
        self.entries: list[Entry] = []
        self.marks: list[int] = []
        """Of each entry a sum over it and all before: equal where the logs up to there are."""
        self._starts: list[int] = []
        self._size = 0
        self._log = around.files.open("log")
        self._load()
        self.durable = self.last
        self._work: list[bytes | int] = []
        self._cuts = 0
        self._dirty = asyncio.Event()
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._synced = 0.0

    def _load(self) -> None:
        data = self._around.files.read("log")
        lines = data.split(b"\n")
        for number, line in enumerate(lines[:-1]):
            entry = _entry(line)
            if entry is None:
                if any(_entry(later) for later in lines[number + 1 :]):
                    raise SystemExit(f"toykv: the log is damaged at line {number + 1}")
                break
            self._remember(entry, line + b"\n")
        if self._size < len(data):
            self._log.truncate(self._size)
        self._log.sync()

    def _remember(self, entry: Entry, line: bytes) -> None:
        self.entries.append(entry)
        self.marks.append(zlib.crc32(line, self.marks[-1] if self.marks else 0))
        self._starts.append(self._size)
        self._size += len(line)

    @property
    def last(self) -> int:
        """Index of the last entry, 0 without any."""
        return len(self.entries)

    def term_at(self, index: int) -> int:
        """The term of an entry; 0 before the first."""
        return self.entries[index - 1][0] if index else 0

    def save_meta(self, **changes: Any) -> None:
        """Returns when it is on the disk."""
        self.meta = {**self.meta, **changes}
        try:
            self._around.files.replace("meta", json.dumps(self.meta).encode())
        except OSError as error:
            self._give_up(error)

    def started(self) -> int:
        """Which start of this server it is, from 1 on; returns when that is on the disk."""
        self.save_meta(starts=self.meta.get("starts", 0) + 1)
        return int(self.meta["starts"])

    def append(self, entry: Entry) -> int:
        """Its index. It is in memory then, and soon on the disk."""
        line = _line(entry)
        self._remember(entry, line)
        self._work.append(line)
        self._dirty.set()
        return self.last

    def cut(self, index: int) -> None:
        """This entry and all behind it are gone."""
        self._size = self._starts[index - 1]
        del self.entries[index - 1 :], self.marks[index - 1 :], self._starts[index - 1 :]
        self._work.append(self._size)
        self._cuts += 1
        self.durable = min(self.durable, index - 1)
        self._dirty.set()

    async def wait_durable(self, index: int) -> None:
        """Returns when the log is on the disk up to there."""
        if self.durable < index:
            done = asyncio.get_running_loop().create_future()
            self._waiting.append((index, done))
            await done

    async def run(self, on_durable: Any) -> None:
        """Writes and syncs, for ever; calls `on_durable` after each sync."""
        loop = asyncio.get_running_loop()
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            work, self._work = self._work, []
            last, cuts = self.last, self._cuts
            try:
                await loop.run_in_executor(None, self._write, work)
            except OSError as error:
                self._give_up(error)
            if cuts == self._cuts:
                self.durable = last
                self._wake()
                on_durable()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for index, done in waiting:
            if index > self.durable:
                self._waiting.append((index, done))
            elif not done.done():
                done.set_result(None)

    def _write(self, work: list[bytes | int]) -> None:
        lines: list[bytes] = []
        for item in work:
            if isinstance(item, bytes):
                lines.append(item)
            else:
                self._log.write(b"".join(lines))
                lines = []
                self._log.truncate(item)
        self._log.write(b"".join(lines))
        if self._bug == "unsynced-loss":
            if self._around.now_s() - self._synced < LAZY_S:
                return
            self._synced = self._around.now_s()
        self._log.sync()

    def _give_up(self, error: OSError) -> None:
        self._around.say(f"the disk refuses: {error}")
        self._around.die(1)


def voters(members: Members) -> list[int]:
    """Their ids."""
    return [int(m[0]) for m in members if m[3]]


def majority(members: Members) -> int:
    """How many of the voters are more than half of them."""
    return len(set(voters(members))) // 2 + 1


def nth_best(values: Mapping[int, float], ids: list[int], count: int) -> float:
    """What at least `count` of these have reached; 0 where they are fewer."""
    reached = sorted((values.get(one, 0) for one in ids), reverse=True)
    return reached[count - 1] if count <= len(reached) else 0


def with_member(members: Members, new: Member, bug: str) -> Members:
    """With a member that asks to be one. Who is one already may ask again, from another address."""
    if bug == "membership-double-entry":
        return [*members, new]
    known = [m for m in members if m[0] == new[0]]
    if not known:
        return [*members, new]
    return [[*new[:3], m[3]] if m[0] == new[0] else m for m in members]


def without_member(members: Members, member: int) -> Members:
    """Without it."""
    return [m for m in members if m[0] != member]


def with_vote(members: Members, member: int) -> Members:
    """It votes."""
    return [[*m[:3], m[3] or m[0] == member] for m in members]


def row_of(entry: Entry, mark: str) -> Row:
    """What a line says of an entry."""
    term, _, command = entry
    ids = [voters(command["value"])] if command["op"] == "config" else []
    return [term, mark, *ids]


def sums_of(answers: Iterable[dict[str, Any]], before: int) -> list[int]:
    """A sum for each answer, over it and all before."""
    found = []
    for answer in answers:
        text = json.dumps(answer, sort_keys=True, separators=(",", ":"))
        before = zlib.crc32(text.encode(), before)
        found.append(before)
    return found


class Journal:
    """A line of JSON for each step of the protocol in one start of a server, written when the step
    is done. Without `write` nothing is kept, and messages say nothing.

        {"seq": 7, "wall_ns": 1700000000000000000, "kind": "vote", "term": 2, "candidate": 3, ..}

    The first line of a start says which `run` of which `server` begins; `seq` counts the lines of a
    run. A message between servers carries the name, run and seq of the last line of who sent it;
    `saw` of a line is what was heard so since the line before, by name, of each run the last. So
    the lines of all servers have an order in which no line stands before one that it may have come
    from, whatever their clocks show (Lamport, "Time, Clocks, and the Ordering of Events in a
    Distributed System", 1978).

    A run is told by the server and which of its starts it is, `3.2`. Starts are counted on the
    disk, so that no clock and no power cut makes two of them one; where the disk is wiped, who
    joins from there is another server. A line that cannot be written (a full disk) is left out and
    counted: a hole that a reader sees.
    """

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
        sums = sums_of(answers, 0 if first == 1 else self._sum)
        self._sum = sums[-1]
        self.note("apply", first=first, sums=sums)
