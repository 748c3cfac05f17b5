"""`Leading`: what a server does while it leads, in one term.

Its log goes to each other member, by one message at a time to each. An entry of this term that most
voters have on their disks is committed, with all before. A read is good when most voters have
answered a message that was sent after the read had come: until then nobody else can have led.
Source: Ongaro, "Consensus: Bridging Theory and Practice" (2014), sections 3, 4 and 6.4.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from clusters.systems.toykv.agents.machine import Answer
from clusters.systems.toykv.agents.storage import (
    Members,
    majority,
    nth_best,
    voters,
    with_member,
    with_vote,
    without_member,
)
from clusters.systems.toykv.agents.wire import CURRENT, Context

if TYPE_CHECKING:
    from clusters.systems.toykv.agents.consensus import Consensus

__all__ = ["Deposed", "Leading"]

HEARTBEAT_S = 0.1
APPEND_S = 1.0
BATCH = 500
"""Entries of one message."""

QUORUM_S = 1.5
"""A leader that most voters have not answered for so long stops: its clients are to hear of it."""

CAUGHT_UP = 50
"""A learner that lacks no more entries gets its vote."""

BLOCK = 100
"""Ids that are reserved at a time."""


class Deposed(Exception):
    """It does not lead any more: what was under way may be done or not."""


class Leading:
    """From `begin` to `end`."""

    def __init__(self, server: Consensus) -> None:
        self._server = server
        self._disk = server.disk
        self.term = server.term
        self._since = server.now()
        self._base_ns = self._disk.entries[-1][1] if self._disk.last else 0
        self._started = self._disk.last + 1
        self._next: dict[int, int] = {}
        self._match: dict[int, float] = {}
        self._heard: dict[int, float] = {}
        self._acked: dict[int, float] = {}
        self._round = 0
        self._round_open = False
        self._kicks: dict[int, asyncio.Event] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._answers: dict[int, asyncio.Future[Answer]] = {}
        self._reads: list[tuple[int, asyncio.Future[None]]] = []
        self._ids = (1, 1)
        self._reserving = asyncio.Lock()
        self._place = 0
        self._spans: dict[int, Context] = {}
        self._asks: Context | None = None
        self.ended = False

    def begin(self) -> None:
        """An entry of the new term commits those of terms before."""
        if self._server.bug == "sequence-reuse":
            self._ids = self._server.machine.reserved
        self._append({"op": "noop"})
        self._follow_members()

    def end(self) -> None:
        """Nothing that is under way will be answered for."""
        self.ended = True
        for task in self._tasks.values():
            task.cancel()
        pending: list[asyncio.Future[Any]] = [*self._answers.values()]
        pending += [done for _, done in self._reads]
        for waiting in pending:
            if not waiting.done():
                waiting.set_exception(Deposed("it does not lead any more"))
                waiting.exception()  # whoever waits gets it; nobody need

    def clock_ns(self) -> int:
        """The replicated clock: from the stamp of the last entry that this leader found on, it runs
        with the leader's monotonic clock. So no two stamps are further apart than the real time
        between them, whoever led."""
        return self._base_ns + int((self._server.now() - self._since) * 1e9)

    def _append(self, command: dict[str, Any]) -> int:
        index = self._server.append((self.term, self.clock_ns(), command))
        (row,) = self._server.rows(index)
        self._server.journal.note("append", term=self.term, index=index, row=row)
        self._kick()
        return index

    def propose(
        self, command: dict[str, Any], span: Context | None = None
    ) -> asyncio.Future[Answer]:
        """What the command is answered when it is applied; `Deposed` where nobody knows. `span` is
        the one that waits for it."""
        if span is not None:
            self._spans[self._disk.last + 1] = span
        if self._server.bug == "reorder-in-queue" and command["op"] == "enqueue":
            self._place += 1
            command = {**command, "place": self._place}
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._answers[self._append(command)] = answer
        return answer

    def _quorum(self) -> int:
        """How many voters have to have something."""
        members = self._server.members
        if self._server.bug == "split-brain-write":
            return len(self._alive(members)) // 2 + 1
        return majority(members)

    def _alive(self, members: Members) -> set[int]:
        since = self._server.now() - QUORUM_S
        return {v for v in voters(members) if v == self._server.id or self._heard.get(v, 0) > since}

    def advance(self) -> None:
        """Commit what most voters have on their disks."""
        self._match[self._server.id] = self._disk.durable
        self._server.journal.acked(self.term, self._disk.durable)
        index = int(nth_best(self._match, voters(self._server.members), self._quorum()))
        if self._server.bug == "acknowledged-before-replicated":
            index = self._disk.durable
        if index > self._server.commit and self._disk.term_at(index) == self.term:
            self._server.commit_to(index)
            self._kick()

    def on_applied(self, index: int, answer: Answer) -> None:
        """Answer whoever waits for it."""
        self._spans.pop(index, None)
        waiting = self._answers.pop(index, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)
        newest = index >= self._server.config_index
        if newest and self._server.id not in voters(self._server.members):
            self._server.step_down(self.term, "it is no member any more")

    def on_tick(self, now: float) -> None:
        """Stop where most voters are silent; let learners vote that have caught up."""
        members = self._server.members
        self._heard[self._server.id] = now
        heard = nth_best(self._heard, voters(members), self._quorum())
        if now - max(heard, self._since) > QUORUM_S:
            self._server.step_down(self.term, "most members do not answer")
            return
        for member in (int(m[0]) for m in members if not m[3]):
            lag = self._disk.last - self._match.get(member, 0)
            if lag <= CAUGHT_UP and member in self._match and self._may_change():
                self._change(with_vote(members, member))

    def _may_change(self) -> bool:
        """The change before, and an entry of this term, must be committed."""
        return self._server.commit >= max(self._server.config_index, self._started)

    def _change(self, members: Members) -> asyncio.Future[Answer]:
        done = self.propose({"op": "config", "value": members})
        self._follow_members()
        return done

    async def change(self, request: dict[str, Any]) -> Answer:
        """A member joins or leaves; refused while another change is under way."""
        members = self._server.members
        if request["op"] == "join":
            wanted = with_member(members, request["value"], self._server.bug)
        else:
            wanted = without_member(members, request["value"])
        if wanted == members:
            return {"ok": None}
        if not self._may_change():
            return {"no": "busy"}
        return await self._change(wanted)

    def _follow_members(self) -> None:
        """Send to each other member, and to nobody else."""
        others = {int(m[0]) for m in self._server.members} - {self._server.id}
        for gone in self._tasks.keys() - others:
            self._tasks.pop(gone).cancel()
        for member in others - self._tasks.keys():
            self._next[member] = self._disk.last + 1
            self._kicks[member] = asyncio.Event()
            self._tasks[member] = asyncio.ensure_future(self._send_to(member))

    def _kick(self) -> None:
        for kick in self._kicks.values():
            kick.set()

    async def _send_to(self, member: int) -> None:
        CURRENT.set(None)  # whatever it was that began this, what follows is not for it
        kick = self._kicks[member]
        while not self.ended:
            kick.clear()
            try:
                await self._send(member)
            except (OSError, TimeoutError):
                await asyncio.sleep(HEARTBEAT_S)
                continue
            if self._next[member] > self._disk.last and not kick.is_set():
                try:
                    async with asyncio.timeout(HEARTBEAT_S):
                        await kick.wait()
                except TimeoutError:
                    pass

    async def _send(self, member: int) -> None:
        peer = self._server.peer_of(member)
        if peer is None:
            return
        before, sent_at, number = self._next[member] - 1, self._server.now(), self._round
        self._round_open = False
        entries = self._disk.entries[before : before + BATCH]
        message = {
            "t": "append",
            "term": self.term,
            "from": self._server.id,
            "to": member,
            "before": [before, self._disk.term_at(before)],
            "entries": entries,
            "commit": self._server.commit,
        }
        span = self._first_span(before, len(entries))
        if span is None and number > self._acked.get(member, 0):
            span = self._asks
        said = await self._server.ask(peer, message, APPEND_S, span)
        if self.ended:
            return
        if said["term"] > self.term:
            self._server.step_down(said["term"], "a member knows a newer term")
            return
        if said["term"] < self.term:
            raise ConnectionError("another member is at this address now")
        self._heard[member] = sent_at
        self._acked[member] = max(number, self._acked.get(member, 0))
        if said["ok"]:
            self._match[member] = max(said["match"], self._match.get(member, 0))
            self._next[member] = said["match"] + 1
            self.advance()
        else:
            self._next[member] = max(1, min(said["hint"] + 1, before))
        self._release()

    def _first_span(self, before: int, count: int) -> Context | None:
        """For whom a message is sent that has these entries: the first that waits for one of them
        stands for all."""
        if self._spans and count:
            for index in range(before + 1, before + count + 1):
                if index in self._spans:
                    return self._spans[index]
        return None

    async def confirm(self, span: Context | None = None) -> int:
        """The index that a read which has come now must see; `Deposed` where another one leads.
        `span` is the one that waits for it."""
        await self._server.wait_applied(self._started)
        if self.ended:
            raise Deposed("it does not lead any more")
        index = self._server.commit
        if not self._round_open:
            self._asks = span
            self._round += 1
            self._round_open = True
            self._kick()
        done = asyncio.get_running_loop().create_future()
        self._reads.append((self._round, done))
        self._release()
        await done
        return index

    def _release(self) -> None:
        self._acked[self._server.id] = self._round
        good = nth_best(self._acked, voters(self._server.members), self._quorum())
        reads, self._reads = self._reads, []
        for number, done in reads:
            if number > good:
                self._reads.append((number, done))
            elif not done.done():
                done.set_result(None)

    async def generate(self) -> Answer:
        """An id of a block that this leader has reserved, when it is known that it still leads."""
        async with self._reserving:
            if self._ids[0] >= self._ids[1]:
                first, end = (await self.propose({"op": "reserve", "value": BLOCK}))["ok"]
                self._ids = (first, end)
            number, self._ids = self._ids[0], (self._ids[0] + 1, self._ids[1])
        await self.confirm()
        return {"ok": number}
