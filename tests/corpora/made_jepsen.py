"""Histories of what Jepsen tests besides registers, in its notations: a set, a counter, a bank,
a queue and long forks.

Each object does what it is asked at one instant between the two events of a call. The bad ones do
one wrong thing that no order of the calls can explain, whatever else happens: the comments below
say why.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from made_objects import edn

__all__ = ["KINDS", "TOTAL", "files"]

Event = dict[str, Any]
Step = Callable[[], tuple[str, Any, Callable[[], tuple[Any, str]]]]
"""Draws a call: (function, argument, what it does -> answer and type of the completion)."""

CLIENTS = 4
COUNT = 40
ACCOUNTS = 4
TOTAL = 100


class Run:
    """Concurrent clients of one object; nothing of unknown outcome, so that nothing is excused."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.events: list[Event] = []
        self.now = 0

    def emit(self, kind: str, process: int, f: str, value: Any) -> None:
        self.now += self.dice.randint(1, 2_000_000)
        self.events.append(
            {"type": kind, "f": f, "value": value, "process": process, "time": self.now,
             "index": len(self.events)}
        )  # fmt: skip

    def load(self, step: Step, count: int = COUNT) -> None:
        pending: dict[int, list[Any]] = {}
        while count or pending:
            client = self.dice.randrange(CLIENTS)
            if client not in pending:
                if count:
                    f, asked, act = step()
                    pending[client] = [f, act, None]
                    self.emit("invoke", client, f, asked)
                    count -= 1
                continue
            call = pending[client]
            if call[2] is None:
                call[2] = call[1]()
                continue
            told, kind = call[2]
            self.emit(kind, client, call[0], told)
            del pending[client]

    def alone(self, f: str, asked: Any, told: Any) -> None:
        self.emit("invoke", 0, f, asked)
        self.emit("ok", 0, f, told)


def _set(run: Run, bad: bool) -> None:
    """Bad: the last read lacks an element whose addition was acknowledged before it began."""
    elements: list[int] = []
    fresh = iter(range(COUNT))

    def step() -> Any:
        value = next(fresh)

        def add() -> tuple[Any, str]:
            elements.append(value)
            return value, "ok"

        return "add", value, add

    run.load(step)
    run.alone("read", None, [v for v in elements if not bad or v != elements[3]])


def _counter(run: Run, bad: bool) -> None:
    """Bad: the last read is above the sum of all that was ever added."""
    total = [0]

    def step() -> Any:
        if run.dice.random() < 0.3:
            return "read", None, lambda: (total[0], "ok")
        delta = run.dice.randint(1, 5)

        def add() -> tuple[Any, str]:
            total[0] += delta
            return delta, "ok"

        return "add", delta, add

    run.load(step)
    run.alone("read", None, total[0] + (1 if bad else 0))


def _bank(run: Run, bad: bool) -> None:
    """Bad: one read saw money that nobody has."""
    balance = {n: TOTAL if n == 0 else 0 for n in range(ACCOUNTS)}
    lies = iter([False, False, bad])

    def look() -> tuple[Any, str]:
        seen = dict(balance)
        if next(lies, False):
            seen[1] += 1
        return seen, "ok"

    def step() -> Any:
        if run.dice.random() < 0.4:
            return "read", None, look
        a, b = run.dice.sample(sorted(balance), 2)
        asked = {"from": a, "to": b, "amount": run.dice.randint(1, 9)}

        def move() -> tuple[Any, str]:
            if balance[a] < asked["amount"]:
                return asked, "fail"
            balance[a] -= asked["amount"]
            balance[b] += asked["amount"]
            return asked, "ok"

        return "transfer", asked, move

    run.load(step)
    run.alone("read", None, dict(balance))


def _queue(run: Run, bad: bool) -> None:
    """Bad: an element that was acknowledged never comes out, though the queue is emptied."""
    waiting: list[int] = []
    fresh = iter(range(COUNT))

    def take() -> tuple[Any, str]:
        return (waiting.pop(0), "ok") if waiting else (None, "fail")

    def step() -> Any:
        if run.dice.random() < 0.4:
            return "dequeue", None, take
        value = next(fresh)

        def put() -> tuple[Any, str]:
            if not bad or value != 5:
                waiting.append(value)
            return value, "ok"

        return "enqueue", value, put

    run.load(step)
    while waiting:
        run.alone("dequeue", None, waiting.pop(0))
    run.alone("dequeue", None, None)


def _long_fork(run: Run, bad: bool) -> None:
    """Bad: of two independent writes one reader saw only the first, another only the second, and
    both keys were written once."""
    state: dict[int, int | None] = dict.fromkeys(range(8))
    todo = list(state)

    def step() -> Any:
        if todo and run.dice.random() < 0.4:
            key = todo.pop()

            def write() -> tuple[Any, str]:
                state[key] = 1
                return [["w", key, 1]], "ok"

            return "write", [["w", key, 1]], write
        pair = run.dice.choice([(0, 1), (2, 3), (4, 5), (6, 7)])

        def look() -> tuple[Any, str]:
            return [["r", k, state[k]] for k in pair], "ok"

        return "read", [["r", k, None] for k in pair], look

    run.load(step)
    if bad:
        for process, key in ((0, 8), (1, 9)):
            run.emit("invoke", process, "write", [["w", key, 1]])
        for process, seen in ((2, (1, None)), (3, (None, 1))):
            run.emit("invoke", process, "read", [["r", 8, None], ["r", 9, None]])
            run.emit("ok", process, "read", [["r", 8, seen[0]], ["r", 9, seen[1]]])
        for process, key in ((0, 8), (1, 9)):
            run.emit("ok", process, "write", [["w", key, 1]])


KINDS: dict[str, Callable[[Run, bool], None]] = {
    "bank": _bank,
    "counter": _counter,
    "long-fork": _long_fork,
    "queue": _queue,
    "set": _set,
}


def _edn(events: list[Event]) -> str:
    def value(e: Event) -> str:
        given = e["value"]
        if e["f"] == "transfer":
            return "{" + ", ".join(f":{k} {edn(v)}" for k, v in given.items()) + "}"
        return edn(given)

    return "".join(
        f"{{:type :{e['type']}, :f :{e['f']}, :process {e['process']}, :time {e['time']}, "
        f":index {e['index']}, :value {value(e)}}}\n"
        for e in events
    )


def files() -> Iterator[tuple[str, str]]:
    """(path, text) of every history, good and bad, in both notations."""
    for kind, fill in KINDS.items():
        for bad in (False, True):
            run = Run(random.Random(f"jepsen/{kind}/{bad}"))
            fill(run, bad)
            path = f"jepsen/{'bad' if bad else 'good'}/{kind}"
            yield f"{path}.edn", _edn(run.events)
            rows = [json.dumps(e, separators=(",", ":")) + "\n" for e in run.events]
            yield f"{path}.json", "".join(rows)
