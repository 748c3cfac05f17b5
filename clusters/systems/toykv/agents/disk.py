"""What a server must not forget: its term and vote, its identity, its starts, its log.

`meta` is one JSON object, replaced as a whole. `log` has a line per entry: eight hex digits
of a checksum, a blank, `[term, stamp_ns, command]`. The first line is entry 1. A line that a crash
has cut short is cut off when the server starts; a bad line before good ones is damage, and ends it.

The log is written and synced by one task, many entries at a time. `durable` is the last entry that
is known to be on the disk. A server whose disk refuses ends: what was synced after an error counts
for nothing.
"""

from __future__ import annotations

import asyncio
import json
import zlib
from typing import Any

from clusters.systems.toykv.agents.around import Around

__all__ = ["Disk", "Entry"]

Entry = tuple[int, int, dict[str, Any]]
"""(term, stamp in ns of the replicated clock, command)."""

LAZY_S = 1.0
"""Between two syncs of a server with the bug `unsynced-loss`."""


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
    """Entries are counted from 1."""

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
