"""A load worker: one process, one event loop, one task per logical process.

Started as `python -m dstest.runner.worker CONFIG.json`. An invocation is in the segment before its
request leaves, a completion is stamped after its response, both by this process's own clock. A
logical process keeps to one node; after an unknown outcome it goes on under a new id and with a new
connection: its old request may be on its way.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import itertools
import os
import signal
import sys
from collections.abc import Callable, Container
from pathlib import Path
from time import process_time
from typing import Any, Final

import msgspec
import uvloop

from dstest.core import registry, rng
from dstest.core.attach import system_of
from dstest.core.clock import RunClock
from dstest.core.errors import ConfigError
from dstest.core.history import RUN_END_NS
from dstest.core.op import FINAL_IDS, OPERATION, Outcome, trace_of
from dstest.core.processes import end_with_parent, quit_by
from dstest.core.protocols import (
    NOT_LISTED,
    Answer,
    Client,
    CountsCalls,
    Definite,
    Endpoint,
    Finishing,
    OpDraft,
    Reactive,
    Reply,
    Tapped,
)
from dstest.core.recordable import reply_fields, why_no_draft
from dstest.core.reusable_timeout import ReusableTimeout
from dstest.history.segment import (
    Completion,
    Event,
    Failed,
    Invoked,
    Note,
    SegmentWriter,
    Succeeded,
    Unknown,
    Writer,
)
from dstest.runner.board import FINISHING, LOADING, TROUBLE_CRASH, TROUBLE_DISK, WAITING, Board
from dstest.runner.tap import Tap
from dstest.runner.worker_config import STACK_SIGNAL, WorkerConfig, client_of, drawing, left_out

BEYOND_S: Final = 1.0
"""Seconds beyond its timeout that a client has to return; the audit of a history grants two."""

_OLDER_SWEEPS: Final = (100, 10)
"""Each so many sweeps the oldest and the middle generation are collected, too: what an operation
leaves that is under way at a sweep would stay for ever otherwise."""

_FAILURE_PAUSE_S: Final = 0.05
_AT_ONCE_NS: Final = 1_000_000
_BEAT_S: Final = 0.1

_BEHIND_NS: Final = 100_000_000
"""What is due for longer was not sent since nobody was free: a pause, and no jitter."""

_CATCH_UP: Final = 2.0
"""Times the rate at which what is overdue is sent after a pause."""

_TICK_S: Final = 0.001
"""Of the timers of uvloop, which does not wait at all for less than half of it."""

REMEMBERED_S: Final = 60.0
"""No operation outlives its timeout by so much."""


class BoundedClient:
    """Goes between a load worker and the client of a system, which may be the user's own.

    One that does not keep to its timeout is given up.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._timeout = ReusableTimeout()

    @property
    def seen(self) -> str | None:
        """The node that the last operation went to, where the client knows."""
        seen: str | None = getattr(self._client, "seen", None)
        return seen

    async def open(self) -> None:
        await self._client.open()

    async def invoke(self, op: OpDraft, timeout_s: float) -> Reply:
        """As the client does. Raises TimeoutError as well."""
        reply = self._client.invoke(op, timeout_s)
        return await self._timeout.wait_for(reply, timeout_s + BEYOND_S)

    async def close(self) -> None:
        await self._client.close()


class Garbage:
    """From its making on nothing is collected but by `sweep`.

    A worker sweeps at its own beats, so that no operation waits for it.
    """

    def __init__(self) -> None:
        self._sweeps = itertools.count(1)
        gc.collect()
        gc.freeze()
        gc.disable()

    def sweep(self) -> None:
        """Collect what is due."""
        gc.collect(generation(next(self._sweeps)))


def generation(sweep: int) -> int:
    """The oldest one that this sweep collects."""
    return next((2 - i for i, every in enumerate(_OLDER_SWEEPS) if sweep % every == 0), 0)


def not_listed(error: Definite, listed: Container[str]) -> str | None:
    """Why a failure that a client calls definite counts as unknown; None where it is listed."""
    return None if error.code in listed else f"{NOT_LISTED}{error}"[:300]


class Worker:
    """The loop of one worker process. `make` and `tap` are what a simulation has others of."""

    def __init__(self, config: WorkerConfig, make: Any = client_of, tap: type[Tap] = Tap) -> None:
        self._config, self._make, self._tap = config, make, tap
        self._board = Board(Path(config.board), config.workers, len(config.endpoints), create=False)
        self._segment = SegmentWriter(
            Path(config.segment), Writer(worker=config.worker, workers=config.workers)
        )
        self._generator = registry.load("workloads", config.workload).generator(
            config.seed, config.worker, len(config.slots), config.options
        )
        # Asked once: a check of a protocol takes as long as an operation.
        reactive = isinstance(self._generator, Reactive)
        self._next_for = self._generator.next_for if reactive else None
        self._next = drawing(self._generator, left_out(config.options), config.workload)
        self._system = system_of(config.system, attach=config.attach)
        self._next_op = config.worker
        self._clock = RunClock(0)
        self._arrival_rng = rng.stream(config.seed, "arrivals", config.worker)
        self._next_arrival_ns = 0
        self._next_overdue_ns = 0
        self._unsent = 0
        self._ended_ns = RUN_END_NS
        self._failed = False
        self._cpu_began_s = 0.0
        self._taps: list[Tap] = []
        self._dialed: list[Endpoint] = []
        """The endpoints as the tapped client has them; none without a tap."""
        self._tapped: list[Client] = []

    async def run(self) -> None:
        """Wait for the start, load until told to stop, then let what is in flight end."""
        config, board = self._config, self._board
        clients = await self.open_clients()
        while board.state == WAITING:
            if os.getppid() != config.parent_pid:
                return
            board.beat(config.worker, 1, 0, 0)
            await asyncio.sleep(0.01)
        self._clock = RunClock(board.origin_ns)
        self._cpu_began_s = process_time()
        beat = asyncio.create_task(self._beat())
        try:
            await self.load(clients)
        finally:
            beat.cancel()
            self.end()

    async def open_clients(self) -> list[Client]:
        """A client for each logical process, opened, and the tap for the first of them."""
        await self._open_tap()
        clients = [self._client(node, slot) for slot, node in self._config.slots]
        await asyncio.gather(*(client.open() for client in clients))
        return clients

    async def load(self, clients: list[Client]) -> None:
        """All that these clients do, until the board says that it is over."""
        tasks = [
            asyncio.create_task(self._process(slot, node, client))
            for (slot, node), client in zip(self._config.slots, clients, strict=True)
        ]
        for used in await asyncio.gather(*tasks):
            await used.close()
        self._note_unsent()
        if self._board.state == FINISHING and isinstance(self._generator, Finishing):
            await self._finish(self._generator)
        await self._note_wire()
        if not self._failed:
            self._segment.finish()

    def end(self) -> None:
        """Nothing more is recorded."""
        # What is left to do here takes as long as the disk, and the client's own threads, take.
        self._board.done(self._config.worker)
        self._segment.sync()
        self._segment.close()

    def _client(self, node: int, slot: int | None = None) -> Client:
        """A client at this endpoint; that of the first slot goes through the tap."""
        tapped = bool(self._dialed) and slot == self._config.slots[0][0]
        every = self._dialed if tapped else self._config.endpoints
        config = self._config
        client = self._make(self._system, config.capability, every[node], every, config.options)
        if tapped:
            self._tapped.append(client)
        return BoundedClient(client)

    async def _opened(self, node: int, slot: int | None = None) -> Client:
        client = self._client(node, slot)
        await client.open()
        return client

    async def _open_tap(self) -> None:
        """Put a tap before each node that the first slot's client may connect to.

        Without one the audit says what is missing.
        """
        config, system = self._config, self._system
        if not isinstance(system, Tapped) or not config.slots:
            return
        dialed = list(config.endpoints)
        for index, end in enumerate(dialed):
            if end.pinned and index != config.slots[0][1]:
                continue
            tap = self._tap(end.address, system.client_port or end.port, system.request_counter)
            try:
                address = await tap.open(config.worker * len(dialed) + index)
            except OSError as error:
                sys.stderr.write(f"no tap: {error}\n")
                return
            self._taps.append(tap)
            dialed[index] = msgspec.structs.replace(end, dial=address)
        self._dialed = dialed

    async def _note_wire(self) -> None:
        """Record what the tap saw, and what the tapped clients had asked for."""
        taps = self._taps
        if not self._dialed or not all(isinstance(c, CountsCalls) for c in self._tapped):
            return
        for tap in taps:
            await tap.close()
        calls = sum(client.calls for client in self._tapped if isinstance(client, CountsCalls))
        wire = {
            "worker": self._config.worker,
            "node": self._config.endpoints[self._config.slots[0][1]].node,
            "calls": calls,
            "requests": sum(tap.requests for tap in taps),
            "connections": sum(tap.connections for tap in taps),
            "known": all(tap.known for tap in taps),
        }
        self._write(Note(self._clock.now_ns(), {"wire": wire}))

    async def _beat(self) -> None:
        garbage = Garbage()
        remembered_ns = int((self._config.op_timeout_s + REMEMBERED_S) * 1e9)
        while True:
            due_ns = self._clock.now_ns() + int(_BEAT_S * 1e9)
            await asyncio.sleep(_BEAT_S)
            now_ns = self._clock.now_ns()
            cpu_ms = int((process_time() - self._cpu_began_s) * 1000)
            self._board.beat(self._config.worker, now_ns, max(0, now_ns - due_ns), cpu_ms)
            self._board.forget_before(now_ns - remembered_ns)
            garbage.sweep()
            self._loading()

    def _loading(self) -> bool:
        going = self._board.state == LOADING and not self._failed
        if not going:
            self._ended_ns = min(self._ended_ns, self._clock.now_ns())
        return going

    async def _arrival(self) -> int:
        """Wait for the next arrival of the open loop; returns the time it was due. What is overdue
        after a pause is sent in its order, at most at `_CATCH_UP` times the rate: no clients would
        send all of it at once."""
        rate = self._config.rate
        if rate is None:
            return self._clock.now_ns()
        per_s = rate / self._config.workers
        due_ns = self._draw_arrival(per_s)
        sent_ns, now_ns = due_ns, self._clock.now_ns()
        if now_ns - due_ns > _BEHIND_NS and not self._config.catch_up:
            sent_ns = max(now_ns, self._next_overdue_ns)
            self._next_overdue_ns = sent_ns + int(1e9 / (per_s * _CATCH_UP))
        if not (await self._until(sent_ns) and self._loading()) and due_ns < self._ended_ns:
            self._unsent += 1
        return due_ns

    def _draw_arrival(self, per_s: float) -> int:
        due_ns = self._next_arrival_ns
        self._next_arrival_ns += int(self._arrival_rng.expovariate(per_s) * 1e9)
        return due_ns

    def _note_unsent(self) -> None:
        """Record how many operations were due in an open load and never sent, since it ended."""
        rate = self._config.rate
        if rate is None:
            return
        while self._draw_arrival(rate / self._config.workers) < self._ended_ns:
            self._unsent += 1
        self._write(Note(self._clock.now_ns(), {"unsent": self._unsent}))

    async def _until(self, due_ns: int, going: Callable[[], bool] | None = None) -> bool:
        """False where the load, or what is `going` on instead of it, ends first."""
        while (going or self._loading)():
            wait_ns = due_ns - self._clock.now_ns()
            if wait_ns <= 0:
                return True
            await asyncio.sleep(min(max(wait_ns / 1e9, _TICK_S), 0.2))
        return False

    async def _process(self, slot: int, node: int, client: Client) -> Client:
        """One logical process: one operation at a time until the load stops. What it holds it gives
        up with its client, when the last operation of the others has ended."""
        process_id = slot
        last: Answer | None = None
        while self._loading():
            due_ns = await self._arrival()
            if not self._loading():
                break
            draft_ns = self._clock.now_ns()
            draft = self._draft(slot, last)
            busy_ns = draft.after_ns if isinstance(draft, OpDraft) else 0
            if busy_ns and not await self._until(draft_ns + busy_ns):
                break
            began_ns = self._clock.now_ns()
            planned_ns = None if self._config.rate is None else due_ns + busy_ns
            late_ns = began_ns - due_ns - busy_ns
            last = await self._operation(draft, process_id, node, client, late_ns, planned_ns)
            if last.kind == Outcome.UNKNOWN:
                process_id += self._config.concurrency
                await client.close()
                client = await self._opened(node, slot)
            if last.kind != Outcome.OK and self._clock.now_ns() - began_ns < _AT_ONCE_NS:
                # Refused without being asked: do not spin. A slow answer needs no pause.
                await asyncio.sleep(_FAILURE_PAUSE_S)
        return client

    def _draft(self, slot: int, last: Answer | None) -> OpDraft:
        draft: OpDraft = self._next_for(slot, last) if self._next_for else self._next()
        return draft

    async def _finish(self, generator: Finishing) -> None:
        """The final phase, node after node; what fails or stays unknown is the generator's to ask
        again, until the time is up."""
        config = self._config
        end_ns = self._clock.now_ns() + int(config.final_s * 1e9)

        def going() -> bool:
            return self._board.state == FINISHING and self._clock.now_ns() < end_ns

        for node in range(len(config.endpoints)):
            process_id = FINAL_IDS + config.worker * len(config.endpoints) + node
            client = await self._opened(node)
            last: Answer | None = None
            while going():
                draft = generator.final(node, last)
                if draft is None:
                    break
                busy_ns = draft.after_ns if isinstance(draft, OpDraft) else 0
                if busy_ns and not await self._until(self._clock.now_ns() + busy_ns, going):
                    break
                last = await self._operation(draft, process_id, node, client)
                if last.kind == Outcome.UNKNOWN:
                    process_id += 1 << 20
                    await client.close()
                    client = await self._opened(node)
                if last.kind != Outcome.OK:
                    await asyncio.sleep(_FAILURE_PAUSE_S)
            await client.close()

    async def _operation(
        self,
        draft: OpDraft,
        process_id: int,
        node: int,
        client: Client,
        late_ns: int = 0,
        due_ns: int | None = None,
    ) -> Answer:
        config = self._config
        if wrong := why_no_draft(draft):
            raise ConfigError(
                f"workload {config.workload}: its generator gave {wrong}",
                remedy="an OpDraft of what JSON can hold",
            )
        op_id = self._next_op
        self._next_op += config.workers
        invoke_ns = self._clock.now_ns()
        name = config.endpoints[node].node
        asked = (draft.op_type, draft.key, draft.input)
        if not self._write(Invoked(op_id, process_id, invoke_ns, *asked, name, due_ns)):
            return Answer(draft, Outcome.FAIL)
        self._board.invoked(config.worker, node, late_ns)
        event: Completion
        output, seen = None, None
        outcome: Outcome
        OPERATION.set(trace_of(op_id))
        try:
            reply = await client.invoke(draft, config.op_timeout_s)
            output, seen = reply_fields(reply)
        except Definite as error:
            now_ns = self._clock.now_ns()
            epoch = self._epoch(invoke_ns, now_ns)
            if unlisted := not_listed(error, self._system.definite_errors):
                outcome, event = Outcome.UNKNOWN, Unknown(op_id, now_ns, unlisted, epoch)
            else:
                outcome, event = Outcome.FAIL, Failed(op_id, now_ns, str(error), name, epoch)
        except asyncio.CancelledError:
            raise
        except (Exception, SystemExit) as error:
            # Whatever we do not know to be definite is unknown: never guess an outcome.
            text = f"{type(error).__name__}: {error}"
            now_ns = self._clock.now_ns()
            epoch = self._epoch(invoke_ns, now_ns)
            outcome, event = Outcome.UNKNOWN, Unknown(op_id, now_ns, text[:300], epoch)
        else:
            now_ns = self._clock.now_ns()
            epoch = self._epoch(invoke_ns, now_ns)
            outcome, event = Outcome.OK, Succeeded(op_id, now_ns, output, seen, epoch)
        if self._write(event):
            went_to = seen if outcome is Outcome.OK else getattr(client, "seen", None)
            elsewhere = went_to is not None and went_to != name
            self._board.completed(config.worker, node, outcome, elsewhere=elsewhere)
        return Answer(draft, outcome, output)

    def _epoch(self, invoke_ns: int, now_ns: int) -> str | None:
        index = self._board.first_window(invoke_ns, now_ns)
        return None if index is None else f"f{index + 1}"

    def _write(self, event: Event) -> bool:
        """False where the disk refused: the operation is not sent, or stays open (unknown)."""
        try:
            self._segment.append(event)
        except OSError:
            self._failed = True
            self._board.trouble(self._config.worker, TROUBLE_DISK)
            return False
        return True

    def crashed(self) -> None:
        """Tell the control process."""
        self._board.trouble(self._config.worker, TROUBLE_CRASH)


def main() -> None:
    """Entry of the worker process; its only argument is the path of a WorkerConfig as JSON."""
    config = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=WorkerConfig)
    # A worker must never outlive the control process: nobody would heal behind its load.
    end_with_parent()
    if os.getppid() != config.parent_pid:
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.register(STACK_SIGNAL)  # into its log, whatever it is doing
    try:
        _load(Worker(config))
    except SystemExit as end:
        # Its last words are what the run says of its death.
        raise quit_by(end) from end


def _load(worker: Worker) -> None:
    try:
        uvloop.run(worker.run())
    except BaseException:
        worker.crashed()
        raise


if __name__ == "__main__":
    main()
