"""`Consensus`: one server's part in Raft, without what only a leader does.

Terms, votes, elections, the log that a leader sends, and commands that are committed and applied in
order. Source: Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm" (2014),
with the single-server membership changes of Ongaro's dissertation (2014), section 4.
"""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import Callable
from typing import Any

from clusters.systems.toykv.agents.leading import Leading
from clusters.systems.toykv.agents.machine import Answer, Machine
from clusters.systems.toykv.agents.storage import (
    TAIL,
    Around,
    Disk,
    Entry,
    Journal,
    Members,
    Row,
    majority,
    row_of,
    voters,
)
from clusters.systems.toykv.agents.wire import Context, Peer, Spans

__all__ = ["ELECTION_S", "TICK_S", "Consensus"]

ELECTION_S = 1.0
"""A voter that hears no leader for one to two of these asks to be elected."""

TICK_S = 0.05
STOOD_S = 0.5
"""A server that has stood still for so long listens first, to what the others have said since."""

VOTE_S = 0.5
GREET_S = 0.5
YIELD_EVERY = 200
"""Entries that are applied in one go."""

BULK = 200
"""From how many entries to apply on a follower with the bug `replica-divergence` takes a short
way."""


class Consensus:
    """`on_applied` is told of each command: index, entry, answer, was it replayed."""

    def __init__(
        self,
        disk: Disk,
        around: Around,
        name: str,
        bug: str,
        on_applied: Callable[[int, Entry, Answer, bool], None] = lambda *_: None,
    ) -> None:
        self.disk = disk
        self.around = around
        self.id = int(disk.meta["id"])
        self.name = name
        self.spans = Spans(name, around.wall_ns, around.spans)
        self.journal = Journal(name, self.id, disk.started(), around.wall_ns, around.keep)
        self.bug = bug
        self.machine = Machine(bug)
        self.leading: Leading | None = None
        self.leader: int | None = None
        self.commit = 0
        self.applied = 0
        self.ticks = 0
        self.heard = 0.0
        self._on_applied = on_applied
        self._followed = 0
        self._replayed_to = disk.last
        self._peers: dict[str, Peer] = {}
        self._deadline = 0.0
        self._to_apply = asyncio.Event()
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._configs: list[tuple[int, Members]] = []
        for index, entry in enumerate(disk.entries, 1):
            self._note_config(index, entry)

    @property
    def term(self) -> int:
        """The newest one that this server knows."""
        return int(self.disk.meta["term"])

    @property
    def members(self) -> Members:
        """As the newest entry has them that tells; empty where none does."""
        return self._configs[-1][1] if self._configs else []

    @property
    def config_index(self) -> int:
        """Where that entry is."""
        return self._configs[-1][0] if self._configs else 0

    def _note_config(self, index: int, entry: Entry) -> None:
        if entry[2]["op"] == "config":
            self._configs.append((index, entry[2]["value"]))

    def now(self) -> float:
        """Seconds on the monotonic clock."""
        return asyncio.get_running_loop().time()

    def peer(self, address: str) -> Peer:
        """The server at an address."""
        return self._peers.setdefault(address, Peer(address, self.spans))

    def peer_of(self, member: int) -> Peer | None:
        """A member's server; None where it is no member."""
        address = next((str(m[2]) for m in self.members if m[0] == member), None)
        return None if address is None else self.peer(address)

    def start(self, what: Any) -> None:
        """Run this beside."""
        task = asyncio.ensure_future(what)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        """A server in which something has failed ends, with a traceback in its log."""
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.around.write("".join(traceback.format_exception(task.exception())))
            self.around.die(1)

    def run(self) -> None:
        """Begin; returns at once."""
        first = max(1, self.disk.last + 1 - TAIL)
        self._note("start", vote=self.disk.meta["vote"], first=first, rows=self.rows(first))
        self._put_off()
        self.start(self.disk.run(self._on_durable))
        self.start(self._apply_all())
        self.start(self._ticks())
        self.start(self._greet())

    def _on_durable(self) -> None:
        if self.leading is not None:
            self.leading.advance()

    def _put_off(self) -> None:
        self._deadline = self.now() + ELECTION_S * (1 + self.around.numbers.random())

    async def _ticks(self) -> None:
        before = self.now()
        while True:
            self.ticks += 1
            now = self.now()
            if now - before > STOOD_S:
                self._put_off()
            before = now
            if self.leading is not None:
                self.leading.on_tick(now)
            elif now > self._deadline and self.id in voters(self.members):
                self._put_off()
                self.start(self._campaign())
            await asyncio.sleep(TICK_S)

    async def _greet(self) -> None:
        """Say something to each other member now and then, so that a connection which is dead is
        found before it is needed."""
        while True:
            for member in {int(m[0]) for m in self.members} - {self.id}:
                self.start(self._greeted(member))
            await asyncio.sleep(GREET_S)

    async def _greeted(self, member: int) -> None:
        peer = self.peer_of(member)
        if peer is not None:
            with contextlib.suppress(OSError, TimeoutError):
                await peer.ask({"t": "hello"}, GREET_S)

    def _note(self, kind: str, **fields: Any) -> None:
        self.journal.note(kind, term=self.term, **fields)

    def rows(self, first: int) -> list[Row]:
        """What the journal says of the entries from there on."""
        entries, marks = self.disk.entries[first - 1 :], self.disk.marks[first - 1 :]
        return [row_of(e, f"{mark:08x}") for e, mark in zip(entries, marks, strict=True)]

    async def ask(
        self, peer: Peer, message: dict[str, Any], wait_s: float, parent: Context | None = None
    ) -> dict[str, Any]:
        """As `Peer.ask`, in the order of the journals."""
        said = await peer.ask({**message, "by": self.journal.stamp}, wait_s, parent)
        self.journal.heard(said.get("by"))
        return said

    def append(self, entry: Entry) -> int:
        """The index of a new entry of the log."""
        index = self.disk.append(entry)
        self._note_config(index, entry)
        return index

    def step_down(self, term: int, why: str) -> None:
        """Follow from now on; a newer term is remembered before anything else is done in it."""
        newer = term > self.term
        if newer:
            self.disk.save_meta(term=term, vote=None)
            self.leader = None
            self._note("term")
        if self.leading is not None:
            self.around.say(f"leads no longer in term {self.leading.term}: {why}")
            self.leading.end()
            self.leading = self.leader = None
            if not newer:
                self._note("resign")
            self._put_off()

    async def _campaign(self) -> None:
        if self.leading is not None:
            return
        term = self.term + 1
        self.disk.save_meta(term=term, vote=self.id)
        self.leader = None
        last = self.disk.last
        self._note("campaign", last=[self.disk.term_at(last), last])
        await self.disk.wait_durable(last)
        ask = {"t": "vote", "term": term, "from": self.id}
        ask["last"] = [self.disk.term_at(last), last]
        granted = {self.id}
        with self.spans.root("campaign", f"{self.name}-term-{term}"):
            for member in set(voters(self.members)) - granted:
                self.start(self._canvass(member, ask, granted))
        self._count(term, granted)

    async def _canvass(self, member: int, ask: dict[str, Any], granted: set[int]) -> None:
        peer = self.peer_of(member)
        if peer is None:
            return
        try:
            said = await self.ask(peer, {**ask, "to": member}, VOTE_S)
        except (OSError, TimeoutError):
            return
        if said["term"] > self.term:
            self.step_down(said["term"], "a voter knows a newer term")
        elif said["granted"]:
            granted.add(member)
            self._count(ask["term"], granted)

    def _count(self, term: int, granted: set[int]) -> None:
        """Lead where most voters have granted it."""
        if self.term != term or self.disk.meta["vote"] != self.id or self.leading is not None:
            return
        votes = sum(1 for one in voters(self.members) if one in granted)
        if votes >= majority(self.members) and self.leader is None:
            self.around.say(
                f"leads in term {term}, elected by {votes} of {len(voters(self.members))}"
            )
            self.leader = self.id
            self._note("lead", votes=sorted(granted))
            self.leading = Leading(self)
            self.leading.begin()

    def on_vote(self, message: dict[str, Any]) -> dict[str, Any]:
        """Grant one vote in a term, to a member whose log has all that ours has."""
        refused = {"granted": False}
        if message["to"] != self.id or message["from"] not in [m[0] for m in self.members]:
            return {"term": 0, **refused}
        if message["term"] > self.term:
            self.step_down(message["term"], "another one wants to be elected")
        if message["term"] < self.term or self.disk.meta["vote"] not in (None, message["from"]):
            return {"term": self.term, **refused}
        mine = [self.disk.term_at(self.disk.last), self.disk.last]
        behind = message["last"] < mine
        if self.bug == "lost-update-on-heal":
            behind = message["last"][0] < mine[0]
        if behind:
            return {"term": self.term, **refused}
        self.disk.save_meta(vote=message["from"])
        self._note("vote", candidate=message["from"], last=message["last"])
        self._put_off()
        return {"term": self.term, "granted": True}

    async def on_append(self, message: dict[str, Any]) -> dict[str, Any]:
        """Entries of a leader, or none, behind one that both have."""
        term = message["term"]
        if message["to"] != self.id:
            return {"term": 0, "ok": False, "hint": 0}
        if term < self.term:
            return {"term": self.term, "ok": False, "hint": 0}
        self.step_down(term, "another one leads")
        self._follow(message["from"])
        before, of_term = message["before"]
        if before > self.disk.last or self.disk.term_at(before) != of_term:
            return {"term": term, "ok": False, "hint": self._hint(before)}
        first = 0
        for index, entry in enumerate(message["entries"], before + 1):
            if index <= self.disk.last:
                if self.disk.term_at(index) == entry[0]:
                    continue
                self._cut(index)
            first = first or index
            self.append((entry[0], entry[1], entry[2]))
        if first:
            self._note("accept", leader=message["from"], first=first, rows=self.rows(first))
        match = before + len(message["entries"])
        with self.spans.span("sync", "internal"):
            await self.disk.wait_durable(match)
        if self.term != term:
            return {"term": self.term, "ok": False, "hint": 0}
        self.journal.acked(term, match)
        self.commit_to(min(message["commit"], match))
        return {"term": term, "ok": True, "match": match}

    def _follow(self, leader: int) -> None:
        """What was asked of the leader before is not waited for: it may be gone for long."""
        before = self.peer_of(self._followed)
        if self._followed != leader and before is not None:
            before.give_up("another one leads now")
        self.leader = self._followed = leader
        self.heard = self.now()
        self._put_off()

    def _hint(self, before: int) -> int:
        """The last entry that the leader may have too: before those of the term that differs."""
        if before > self.disk.last:
            return self.disk.last
        wrong = self.disk.term_at(before)
        while before and self.disk.term_at(before) == wrong:
            before -= 1
        return before

    def _cut(self, index: int) -> None:
        """Entries that no leader has any more go. None of them was applied, or the state is made
        again from the entries before."""
        self.around.say(f"entries {index} to {self.disk.last} were never committed, and go")
        self.disk.cut(index)
        self._configs = [row for row in self._configs if row[0] < index]
        if index <= self.applied:
            self.around.say(
                f"{self.applied - index + 1} of them had been applied: the state is made anew"
            )
            self.machine, self.applied = Machine(self.bug), 0
        self.commit = min(self.commit, index - 1)
        self._replayed_to = min(self._replayed_to, index - 1)

    def commit_to(self, index: int) -> None:
        """All entries up to this one are committed."""
        if index > self.commit:
            self.commit = index
            self._note("commit" if self.leading is not None else "learn", index=index)
            self._to_apply.set()

    async def wait_applied(self, index: int) -> None:
        """Returns when the state has this entry."""
        if self.applied < index:
            done = asyncio.get_running_loop().create_future()
            self._waiting.append((index, done))
            await done

    async def _apply_all(self) -> None:
        while True:
            await self._to_apply.wait()
            self._to_apply.clear()
            while self.applied < self.commit:
                await self._apply_some()
                await asyncio.sleep(0)

    async def _apply_some(self) -> None:
        end = min(self.commit, self.applied + YIELD_EVERY)
        skip, first, answers = 0, self.applied + 1, list[Answer]()
        if self.bug == "replica-divergence" and self.leading is None:
            skip = end if end - self.applied >= BULK else 0
        while self.applied < end:
            index = self.applied + 1
            entry = self.disk.entries[index - 1]
            replayed = index <= self._replayed_to
            answer: Answer = {"ok": None}
            if index != skip:
                answer = await self._apply(index, entry)
            if self.applied + 1 != index:
                return  # the state is being made anew
            self.applied = index
            answers.append(answer)
            if self.leading is not None:
                self.leading.on_applied(index, answer)
            self._on_applied(index, entry, answer, replayed)
        self.journal.applied(first, answers)
        self._wake()

    async def _apply(self, index: int, entry: Entry) -> Answer:
        _, stamp, command = entry
        if self.bug == "dirty-read" and command["op"] == "transfer":
            steps = self.machine.transfer(command)
            next(steps)
            await asyncio.sleep(0)
            return next(steps)
        answer = self.machine.apply(index, stamp, command)
        if self.bug == "duplicate-on-retry-after-restart" and index == self._replayed_to:
            self.machine.done.clear()
        return answer

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for index, done in waiting:
            if index > self.applied:
                self._waiting.append((index, done))
            elif not done.done():
                done.set_result(None)
