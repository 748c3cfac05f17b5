"""The final phase of a worker: what is waited for, and for how long."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from dstest.core.clock import RunClock
from dstest.core.protocols import Answer, OpDraft
from dstest.runner.board import FINISHING, STOPPING
from dstest.runner.worker import Worker

MS = 1_000_000


class _Client:
    async def open(self) -> None: ...

    async def close(self) -> None: ...


def finished(
    drafts: list[OpDraft], stops_after: int = -1, final_s: float = 20.0
) -> list[tuple[str, float]]:
    """What was invoked, and when in ms, where the generator gives these drafts at one node; the
    board says to stop after so many of them were drafted."""
    board = SimpleNamespace(state=FINISHING)
    left = list(drafts)
    done: list[tuple[str, float]] = []
    worker: Any = Worker.__new__(Worker)
    worker._config = SimpleNamespace(endpoints=[None], worker=0, final_s=final_s)
    worker._board = board
    worker._clock = RunClock(0)
    worker._client = lambda node, slot=None: _Client()
    began = worker._clock.now_ns()

    def final(node: int, last: Answer | None) -> OpDraft | None:
        if len(drafts) - len(left) == stops_after:
            board.state = STOPPING
        return left.pop(0) if left else None

    async def operation(draft: OpDraft, *_: Any) -> Answer:
        done.append((draft.op_type, (worker._clock.now_ns() - began) / MS))
        return Answer(draft, "ok")

    worker._operation = operation
    asyncio.run(worker._finish(SimpleNamespace(final=final)))
    return done


def test_a_final_operation_is_waited_for() -> None:
    late = OpDraft("collect", "q", after_ns=300 * MS)
    done = finished([OpDraft("dequeue", "q"), late, OpDraft("collect", "q")])
    assert [kind for kind, _ in done] == ["dequeue", "collect", "collect"]
    assert done[0][1] < done[1][1] - 290
    assert done[1][1] >= 300


def test_nothing_is_waited_for_beyond_the_end() -> None:
    drafts = [OpDraft("a", "q"), OpDraft("b", "q", after_ns=10**12)]
    assert [kind for kind, _ in finished(drafts, final_s=0.3)] == ["a"]
    assert [kind for kind, _ in finished(drafts, stops_after=1)] == ["a"]
