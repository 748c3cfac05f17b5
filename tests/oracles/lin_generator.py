"""Long histories of real objects: seeded clients, each operation at one true instant.

Clients work one operation at a time; one whose outcome is unknown comes back as another process, as
in Jepsen. Written values are unique except where a model is not about values.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from typing import Any

from dstest.core.history import Header, History
from dstest.core.op import Op

__all__ = ["MODELS", "PERMITS", "generate"]

PERMITS = 3

Draft = tuple[str, Any]


class _Object:
    """Draws what a client asks for and does it. `known` is the client's own memory."""

    quiet_types: tuple[str, ...] = ()
    """Of unknown outcome these never (or always) take effect, lest everybody waits for ever."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.fresh = 0

    def new(self) -> int:
        self.fresh += 1
        return self.fresh

    def draft(self, memory: dict[str, Any]) -> Draft:
        raise NotImplementedError

    def run(self, kind: str, asked: Any, process: int) -> Any:
        raise NotImplementedError

    def lazy(self, kind: str) -> bool:
        """Does an operation of unknown outcome not take effect?"""
        return self.dice.random() < 0.5


class _Register(_Object):
    names = ("read", "write", "cas")

    def __init__(self, dice: random.Random, cas: float = 0.0, names: Any = None) -> None:
        super().__init__(dice)
        self.value: Any = None
        self.cas = cas
        self.names = names or self.names

    def draft(self, memory: dict[str, Any]) -> Draft:
        x = self.dice.random()
        if x < self.cas:
            old = self.value if self.dice.random() < 0.6 else self.dice.randrange(self.fresh + 1)
            return self.names[2], [old or None, self.new()]
        return (self.names[0], None) if x < 0.6 else (self.names[1], self.new())

    def run(self, kind: str, asked: Any, process: int) -> Any:
        if kind == self.names[0]:
            return self.value
        if kind == self.names[1]:
            self.value = asked
            return None
        if self.value != asked[0]:
            return False
        self.value = asked[1]
        return True


class _Registers(_Object):
    """Transactions on pairs of registers."""

    def __init__(self, dice: random.Random) -> None:
        super().__init__(dice)
        self.values: dict[str, Any] = {}

    def draft(self, memory: dict[str, Any]) -> Draft:
        pair = self.dice.randrange(50)
        rows = []
        for name in self.dice.sample([f"x{pair}", f"y{pair}"], self.dice.randint(1, 2)):
            write = self.dice.random() < 0.4
            rows.append(["w", name, self.new()] if write else ["r", name, None])
        return "txn", rows

    def run(self, kind: str, asked: Any, process: int) -> Any:
        told = []
        for f, name, value in asked:
            if f == "w":
                self.values[name] = value
            told.append([f, name, self.values.get(name)])
        return told


class _Lock(_Object):
    def __init__(self, dice: random.Random, depth: int = 1, tokens: bool = False) -> None:
        super().__init__(dice)
        self.owner: int | None = None
        self.depth, self.most, self.tokens = 0, depth, tokens

    def draft(self, memory: dict[str, Any]) -> Draft:
        held = memory.get("held", 0)
        if held and (held == self.most or self.dice.random() < 0.6):
            return "release", None
        return "acquire", None

    def run(self, kind: str, asked: Any, process: int) -> Any:
        if kind == "acquire":
            if self.owner is not None and (self.owner != process or self.depth == self.most):
                return False
            self.owner = process
            self.depth += 1
            return self.new() if self.tokens else True
        self.depth -= 1
        self.owner = self.owner if self.depth else None
        return True

    def lazy(self, kind: str) -> bool:
        return kind == "acquire"


class _Semaphore(_Object):
    def __init__(self, dice: random.Random) -> None:
        super().__init__(dice)
        self.free = PERMITS

    def draft(self, memory: dict[str, Any]) -> Draft:
        if memory.get("held"):
            return "release", memory["permits"]
        memory["permits"] = self.dice.choice([1, 1, 2])
        return "acquire", memory["permits"]

    def run(self, kind: str, asked: Any, process: int) -> Any:
        if kind == "acquire":
            if self.free < asked:
                return False
            self.free -= asked
        else:
            self.free += asked
        return True

    def lazy(self, kind: str) -> bool:
        return kind == "acquire"


class _Container(_Object):
    def __init__(self, dice: random.Random, put: str, take: str) -> None:
        super().__init__(dice)
        self.put, self.take = put, take
        self.items: Any = [] if put == "insert" else deque()

    def draft(self, memory: dict[str, Any]) -> Draft:
        if self.dice.random() < 0.5:
            return self.take, None
        if self.put == "insert":
            return self.put, self.dice.randrange(1000) * 10**7 + self.new()
        return self.put, self.new()

    def run(self, kind: str, asked: Any, process: int) -> Any:
        if kind == self.put:
            heapq.heappush(self.items, asked) if kind == "insert" else self.items.append(asked)
            return None
        if not self.items:
            return None
        if kind == "dequeue":
            return self.items.popleft()
        return heapq.heappop(self.items) if kind == "delete-min" else self.items.pop()

    def lazy(self, kind: str) -> bool:
        return kind == self.take


class _Deque(_Object):
    def __init__(self, dice: random.Random) -> None:
        super().__init__(dice)
        self.items: deque[int] = deque()

    def draft(self, memory: dict[str, Any]) -> Draft:
        what = self.dice.choice(["push", "push", "pop", "pop", "peek"])
        kind = f"{what}-{self.dice.choice(['left', 'right'])}"
        return kind, self.new() if what == "push" else None

    def run(self, kind: str, asked: Any, process: int) -> Any:
        what, end = kind.split("-")
        if what == "push":
            self.items.appendleft(asked) if end == "left" else self.items.append(asked)
        elif self.items and what == "pop":
            return self.items.popleft() if end == "left" else self.items.pop()
        elif self.items:
            return self.items[0 if end == "left" else -1]
        return None

    def lazy(self, kind: str) -> bool:
        return not kind.startswith("push")


class _Set(_Object):
    def __init__(self, dice: random.Random) -> None:
        super().__init__(dice)
        self.items: set[int] = set()

    def draft(self, memory: dict[str, Any]) -> Draft:
        kind = self.dice.choice(["add", "remove", "contains", "contains"])
        return kind, self.dice.randrange(1000)

    def run(self, kind: str, asked: Any, process: int) -> Any:
        there = asked in self.items
        if kind == "contains":
            return there
        if kind == "add":
            self.items.add(asked)
        else:
            self.items.discard(asked)
        return there != (kind == "add")


class _Counter(_Object):
    value = 0

    def draft(self, memory: dict[str, Any]) -> Draft:
        kind = self.dice.choice(["inc", "dec", "read"])
        return kind, None if kind == "read" else self.dice.choice([1, 1, 2, 5])

    def run(self, kind: str, asked: Any, process: int) -> Any:
        self.value += {"inc": 1, "dec": -1, "read": 0}[kind] * (asked or 0)
        return self.value if kind == "read" or self.dice.random() < 0.5 else None


class _Log(_Object):
    def __init__(self, dice: random.Random) -> None:
        super().__init__(dice)
        self.items: list[int] = []

    def draft(self, memory: dict[str, Any]) -> Draft:
        if self.dice.random() < 0.5:
            return "append", self.new()
        return "read", memory.get("next", 0)

    def run(self, kind: str, asked: Any, process: int) -> Any:
        if kind == "append":
            self.items.append(asked)
            return len(self.items) - 1
        return [[o, self.items[o]] for o in range(asked, min(len(self.items), asked + 5))]


MODELS: dict[str, Callable[[random.Random], _Object]] = {
    "register": _Register,
    "cas-register": lambda dice: _Register(dice, 0.2),
    "multi-register": _Registers,
    "kv-map": lambda dice: _Register(dice, 0.2, ("get", "put", "cas")),
    "mutex": _Lock,
    "reentrant-mutex": lambda dice: _Lock(dice, 3),
    "fencing-lock": lambda dice: _Lock(dice, 1, tokens=True),
    "semaphore": _Semaphore,
    "fifo-queue": lambda dice: _Container(dice, "enqueue", "dequeue"),
    "priority-queue": lambda dice: _Container(dice, "insert", "delete-min"),
    "stack": lambda dice: _Container(dice, "push", "pop"),
    "deque": _Deque,
    "set": _Set,
    "counter": _Counter,
    "log": _Log,
}


def _remember(memory: dict[str, Any], kind: str, output: Any) -> None:
    if kind == "acquire" and output is not False:
        memory["held"] = memory.get("held", 0) + 1
    elif kind == "release":
        memory["held"] -= 1
    elif kind == "read" and isinstance(output, list) and output:
        memory["next"] = output[-1][0] + 1


def generate(
    model: str, seed: int, count: int, *, processes: int = 10, crash: float = 0.01, keys: int = 1
) -> History:
    """`count` operations. Keys are independent objects; models about locks have one process per
    key and client."""
    dice = random.Random(f"{model}{seed}")
    objects = [MODELS[model](dice) for _ in range(keys)]
    memories: list[dict[str, Any]] = [{} for _ in range(processes)]
    number = list(range(processes))
    pending: list[list[Any]] = [[] for _ in range(processes)]
    ops: list[Op] = []
    # (time, client, phase): 0 invokes, 1 takes effect, 2 completes
    events = [(dice.randrange(40), client, 0) for client in range(processes)]
    heapq.heapify(events)
    while events:
        at, client, phase = heapq.heappop(events)
        at += 1  # no two events at once
        if phase == 0:
            if len(ops) == count:
                continue
            memory = memories[client]
            key = memory.setdefault("key", 0) if memory.get("held") else dice.randrange(keys)
            memory["key"] = key
            kind, asked = objects[key].draft(memory)
            unknown = dice.random() < crash
            pending[client] = [kind, asked, key, at, None, unknown, len(ops)]
            ops.append(None)  # type: ignore[arg-type]
            heapq.heappush(events, (at + dice.randint(1, 12), client, 1))
        elif phase == 1:
            kind, asked, key, _, _, unknown, _ = row = pending[client]
            if not (unknown and objects[key].lazy(kind)):
                row[4] = objects[key].run(kind, asked, number[client])
            heapq.heappush(events, (at + dice.randint(1, 12), client, 2))
        else:
            kind, asked, key, begin, output, unknown, place = pending[client]
            ops[place] = Op(
                op_id=place,
                process_id=number[client],
                invoke_ts=begin,
                complete_ts=None if unknown else at,
                op_type=kind,
                key=f"k{key}" if keys > 1 else None,
                input=asked,
                output=None if unknown else output,
                timeout_marker=unknown,
            )
            if unknown:
                number[client] += processes
                memories[client] = {}
            else:
                _remember(memories[client], kind, output)
            heapq.heappush(events, (at + dice.randint(1, 30), client, 0))
    ops.sort(key=lambda op: op.invoke_ts)
    return History(header=Header(options={"permits": PERMITS}), ops=ops)
