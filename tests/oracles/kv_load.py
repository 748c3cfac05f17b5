"""A load on a map of strings as in Porcupine's tests: each client puts, appends and gets without
pause, the strings name client and number, and rounds use the same strings again."""

from __future__ import annotations

import heapq
import random

from msgspec.structs import replace

from dstest.core.history import Header, History
from dstest.core.op import Key, Op

__all__ = ["falsified", "kv_load"]


def kv_load(
    seed: int, clients: int, keys: int, per_client: int, rounds: int = 1, unknown: float = 0.0
) -> History:
    """What a real map does: each operation at one instant of its interval. An `unknown` part of the
    outcomes is not known; half of those took effect."""
    dice = random.Random(seed)
    state: dict[Key, str | None] = {}
    ops: list[Op] = []
    start = 0
    for _ in range(rounds):
        agenda = [(start + dice.randrange(100), client, 0) for client in range(clients)]
        heapq.heapify(agenda)
        effects: list[tuple[int, int]] = []
        while agenda:
            now, client, number = heapq.heappop(agenda)
            end = now + dice.randint(2, 200)
            kind = dice.choices(["get", "append", "put"], [45, 50, 5])[0]
            asked = None if kind == "get" else f"x {client} {number} y"
            effects.append((dice.randint(now, end), len(ops)))
            ops.append(Op(op_id=0, process_id=client, invoke_ts=now, complete_ts=end, op_type=kind,
                          key=str(dice.randrange(keys)), input=asked))  # fmt: skip
            if number + 1 < per_client:
                heapq.heappush(agenda, (end + dice.randint(1, 3), client, number + 1))
            start = max(start, end + 1)
        for _, at in sorted(effects):
            op, lost = ops[at], dice.random() < unknown
            if lost:
                ops[at] = replace(op, complete_ts=None, timeout_marker=True)
            if op.op_type == "get" and not lost:
                ops[at] = replace(op, output=state.get(op.key))
            elif op.op_type != "get" and not (lost and dice.random() < 0.5):
                before = (state.get(op.key) or "") if op.op_type == "append" else ""
                state[op.key] = before + op.input
    ops.sort(key=lambda op: op.invoke_ts)
    return History(header=Header(), ops=[replace(op, op_id=i) for i, op in enumerate(ops)])


def falsified(history: History, seed: int, lies: int = 1) -> History:
    """Some gets return another value: an older one, or a piece is lost, twice there, or
    has changed places with its neighbour. As a rule nothing explains that."""
    dice = random.Random(seed)
    ops = list(history.ops)
    places = [i for i, op in enumerate(ops) if op.op_type == "get" and op.output is not None]
    for place in dice.sample(places, min(lies, len(places))):
        pieces = [piece + "y" for piece in ops[place].output.split("y")[:-1]]
        at = dice.randrange(len(pieces))
        what = dice.choice(["lost", "twice", "swapped", "stale"])
        if what == "stale":
            before = [op.output for op in ops[: place + 1] if op.key == ops[place].key]
            pieces = [piece + "y" for piece in (dice.choice(before) or "").split("y")[:-1]]
        elif what == "lost":
            del pieces[at]
        elif what == "twice":
            pieces.insert(at, pieces[at])
        else:
            pieces[at - 1], pieces[at] = pieces[at], pieces[at - 1]
        ops[place] = replace(ops[place], output="".join(pieces) or None)
    return History(header=history.header, ops=ops)
