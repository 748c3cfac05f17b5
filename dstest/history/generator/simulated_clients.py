"""Clients of a true system in virtual time; `true_histories.py` says what they do."""

from __future__ import annotations

import contextlib
import heapq
import random
from collections.abc import Callable
from typing import Any

import msgspec

from dstest.core.history import Header, History
from dstest.core.op import Op

MS = 1_000_000


class Sim:
    """Clients in virtual time. `gone(slot)` is called after an unknown outcome, `answered` holds
    the last output by slot and key."""

    def __init__(self, seed: int, processes: int, unknown: float, fail: float) -> None:
        self.dice = random.Random(seed)
        self.ops: list[Op] = []
        self.processes = processes
        self.unknown, self.fail = unknown, fail
        self.ids = list(range(processes))
        self.now = 0
        self.options: dict[str, Any] = {}
        self.gone: Callable[[int], Any] = lambda slot: None
        self.answered: dict[tuple[int, Any], Any] = {}

    def run(self, count: int, step: Callable[[int, int, int], tuple[Any, ...]]) -> None:
        """`step(slot, start_ns, effect_ns)` -> (op_type, key, input, apply); `apply()` -> output,
        or raises Refused. All in order of effects."""
        dice = self.dice
        waiting = [self._plan(slot, self.now) for slot in range(self.processes)]
        heapq.heapify(waiting)
        for _ in range(count):
            effect, slot, start, end = heapq.heappop(waiting)
            op_type, key, asked, apply = step(slot, start, effect)
            luck = dice.random()
            output: Any = None
            error: str | None = None
            done: int | None = end
            if luck < self.unknown:
                if dice.random() < 0.5:
                    with contextlib.suppress(Refused):
                        apply()
                error, done = "timeout", None
            elif luck < self.unknown + self.fail:
                error = "refused"
            else:
                try:
                    output = apply()
                except Refused as refusal:
                    error = str(refusal)
            self._record(slot, start, done, op_type, key, asked, output, error)
            if done is None:
                self.ids[slot] += self.processes
                self.gone(slot)
            elif error is None:
                self.answered[slot, key] = output
            heapq.heappush(waiting, self._plan(slot, end))
            self.now = max(self.now, end)

    def _plan(self, slot: int, after: int) -> tuple[int, int, int, int]:
        dice = self.dice
        start = after + 1 + int(dice.random() * 2 * MS)
        effect = start + 1 + int(dice.random() * 3 * MS)
        return effect, slot, start, effect + 1 + int(dice.random() * 3 * MS)

    def _record(
        self,
        slot: int,
        start: int,
        done: int | None,
        op_type: str,
        key: Any,
        asked: Any,
        output: Any,
        error: str | None,
        node: str | None = None,
    ) -> None:
        self.ops.append(
            Op(
                op_id=len(self.ops),
                process_id=self.ids[slot],
                invoke_ts=start,
                complete_ts=done,
                op_type=op_type,
                key=key,
                input=asked,
                output=output,
                error=error,
                timeout_marker=done is None,
                node_seen=None if done is None else node or f"n{slot % 5 + 1}",
            )
        )

    def after(self, op_type: str, key: Any, asked: Any, output: Any, node: str = "n1") -> None:
        """One operation alone, after everything else."""
        start = self.now + 10 * MS
        self.now = start + MS
        self.ids[0] += self.processes
        self._record(0, start, self.now, op_type, key, asked, output, None, node)

    def history(self) -> History:
        ops = sorted(self.ops, key=lambda op: (op.invoke_ts, op.op_id))
        ops = [msgspec.structs.replace(op, op_id=n) for n, op in enumerate(ops)]
        return History(header=Header(options=self.options), ops=ops)


class Refused(Exception):
    """The system said no, definitely."""
