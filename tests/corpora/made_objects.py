"""Histories of simulated objects: registers, key-value maps, mutexes, and what Jepsen tests.

Every operation takes effect at one instant between its two events, so what an honest object does is
linearizable by construction. A lying object does one thing wrong, once; whether that shows depends
on what follows, so a lie counts only where brute force finds no order that explains the history.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from lin_oracle import explains, random_history

from dstest.core.op import FIELDS, Op

__all__ = ["MODELS", "Call", "Event", "edn", "files"]

CLIENTS = 5

Call = tuple[str, str | None, Any]
"""(function, key, argument)"""


@dataclass(frozen=True)
class Event:
    """One event of a history. `value` is the argument, or the answer where there is one."""

    type: str
    process: int
    f: str
    key: str | None
    value: Any


@dataclass
class Thing:
    """An object that answers (`ok` or `fail`, value). `lie` is what it does wrong, once."""

    dice: random.Random
    lie: str | None = None
    fresh: int = 0

    def new(self) -> int:
        self.fresh += 1
        return self.fresh

    def lies(self, kind: str) -> bool:
        """Whether now is the moment for a lie of this kind: in the middle of the history."""
        if self.lie != kind or self.fresh < 5 or self.dice.random() < 0.5:
            return False
        self.lie = None
        return True

    def draft(self, process: int) -> Call:
        raise NotImplementedError

    def run(self, call: Call, process: int) -> tuple[str, Any]:
        raise NotImplementedError


@dataclass
class Register(Thing):
    """`values`: how many different ones are written; 0 = all are different."""

    values: int = 0
    now: int | None = None
    before: int | None = None

    def draft(self, process: int) -> Call:
        self.fresh += 1
        value = self.dice.randrange(self.values) if self.values else self.fresh
        kind = self.dice.choice(("read", "read", "write", "cas"))
        if kind != "cas":
            return kind, None, value if kind == "write" else None
        guess = self.dice.randrange(self.values or 1)
        old = self.now if self.now is not None and self.dice.random() < 0.5 else guess
        return kind, None, [old, value]

    def run(self, call: Call, process: int) -> tuple[str, Any]:
        kind, _, asked = call
        if kind == "read":
            if self.lies("phantom"):
                return "ok", 77
            return "ok", self.before if self.lies("stale") else self.now
        if kind == "cas" and self.now != asked[0] and not self.lies("blind"):
            return "fail", asked
        if not self.lies("forget"):
            self.before, self.now = self.now, asked[1] if kind == "cas" else asked
        return "ok", asked


@dataclass
class Map(Thing):
    """Strings by key. What is not there is an empty string, as in Porcupine's logs."""

    texts: dict[str | None, str] = field(default_factory=dict)
    before: dict[str | None, str] = field(default_factory=dict)

    def draft(self, process: int) -> Call:
        kind = self.dice.choice(("get", "get", "append", "put"))
        return kind, str(self.dice.randrange(3)), None if kind == "get" else f"x{self.new()}y"

    def run(self, call: Call, process: int) -> tuple[str, Any]:
        kind, key, asked = call
        now = self.texts.get(key, "")
        if kind == "get":
            return "ok", self.before.get(key, "") if self.lies("stale") else now
        if not self.lies("forget"):
            self.before[key] = now
            self.texts[key] = now + asked if kind == "append" else asked
        return "ok", asked


@dataclass
class Mutex(Thing):
    holder: int | None = None

    def draft(self, process: int) -> Call:
        self.fresh += 1
        mine = self.holder == process
        return "release" if mine and self.dice.random() < 0.7 else "acquire", None, None

    def run(self, call: Call, process: int) -> tuple[str, Any]:
        if call[0] == "acquire":
            if self.holder is not None and not self.lies("double"):
                return "fail", None
            self.holder = process
        elif self.holder == process:
            self.holder = None
        else:
            return "fail", None
        return "ok", None


def simulate(thing: Thing, count: int, doubts: int = 3) -> list[Event]:
    """`count` calls of concurrent clients. Of up to `doubts` of them nobody learns the outcome;
    such a client goes on as another process."""
    dice = thing.dice
    process = list(range(CLIENTS))
    pending: dict[int, tuple[Call, tuple[str, Any] | None]] = {}
    events: list[Event] = []
    while count or pending:
        client = dice.randrange(CLIENTS)
        if client not in pending:
            if count:
                call = thing.draft(process[client])
                pending[client] = call, None
                events.append(Event("invoke", process[client], *call))
                count -= 1
            continue
        call, answer = pending[client]
        if answer is not None:
            events.append(Event(answer[0], process[client], call[0], call[1], answer[1]))
            del pending[client]
        elif doubts and dice.random() < 0.06:
            doubts -= 1
            if dice.random() < 0.5:
                thing.run(call, process[client])
            events.append(Event("info", process[client], *call))
            process[client] += CLIENTS
            del pending[client]
        else:
            pending[client] = call, thing.run(call, process[client])
    return events


def as_ops(events: list[Event], failed: str) -> list[Op]:
    """The events as the oracle reads them. `failed` says what a failure means: `differs` (an
    answer, false) or `nothing` (no effect)."""
    rows: list[dict[str, Any]] = []
    open_: dict[int, dict[str, Any]] = {}
    for at, event in enumerate(events):
        if event.type == "invoke":
            row: dict[str, Any] = {"op_id": len(rows), "process_id": event.process}
            row |= {"invoke_ts": at, "op_type": event.f, "key": event.key, "input": event.value}
            open_[event.process] = row | {"timeout_marker": True}
            rows.append(open_[event.process])
            continue
        row = open_.pop(event.process)
        if event.type == "info":
            continue
        row |= {"complete_ts": at, "timeout_marker": False}
        if event.type == "fail":
            row |= {"error": "refused"} if failed == "nothing" else {"output": False}
        elif event.f in ("read", "get"):
            row["output"] = event.value
        elif event.f in ("cas", "acquire", "release"):
            row["output"] = True
    return [Op(**row) for row in rows]


def holds(model: str, ops: list[Op]) -> bool:
    """By brute force, one key after another."""
    by_key: dict[Any, list[Op]] = {}
    for op in ops:
        by_key.setdefault(op.key, []).append(op)
    return all(explains(model, of_key) for of_key in by_key.values())


def with_verdict(
    make: Callable[[random.Random, str | None], tuple[list[Event], bool]],
    name: str,
    lie: str | None,
) -> list[Event]:
    """The first history of its name with the verdict that its construction promises."""
    for attempt in range(200):
        events, good = make(random.Random(f"{name}/{lie}/{attempt}"), lie)
        if good == (lie is None):
            return events
        assert lie is not None, f"{name}: an honest object was refused by the oracle"
    raise AssertionError(f"{name}: no lie of the kind {lie} ever showed")


def _registers(values: int, failed: str, count: int) -> Any:
    def make(dice: random.Random, lie: str | None) -> tuple[list[Event], bool]:
        events = simulate(Register(dice, lie, values=values), count)
        return events, holds("cas-register", as_ops(events, failed))

    return make


def _maps(dice: random.Random, lie: str | None) -> tuple[list[Event], bool]:
    events = simulate(Map(dice, lie), 60)
    ops = as_ops(events, "differs")
    told = [op if op.output != "" else _without_output(op) for op in ops]
    return events, holds("kv-map", told)


def _without_output(op: Op) -> Op:
    return Op(**{name: getattr(op, name) for name in Op.__struct_fields__} | {"output": None})


def _mutexes(dice: random.Random, lie: str | None) -> tuple[list[Event], bool]:
    events = simulate(Mutex(dice, lie), 40, doubts=2)
    return events, holds("mutex", as_ops(events, "nothing"))


def edn(value: Any) -> str:
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + " ".join(map(edn, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{edn(k)} {edn(v)}" for k, v in value.items()) + "}"
    return f":{value}" if isinstance(value, str) else str(value)


def as_log(events: list[Event]) -> str:
    """Jepsen's log of 2013."""
    return "".join(
        f"INFO  jepsen.util - {e.process}\t:{e.type}\t:{e.f}\t"
        f"{':timed-out' if e.type == 'info' else edn(e.value)}\n"
        for e in events
    )


def as_edn(events: list[Event]) -> str:
    rows = [
        f"{{:process {e.process}, :type :{e.type}, :f :{e.f}, :value {edn(e.value)}, :index {at}}}"
        for at, e in enumerate(events)
    ]
    return "[" + "\n ".join(rows) + "]\n"


def as_map_log(events: list[Event]) -> str:
    rows = []
    for e in events:
        if e.type == "info":
            continue
        asked = "nil" if e.f == "get" and e.type == "invoke" else f'"{e.value}"'
        who = f":process {e.process}, :type :{e.type}"
        rows.append(f'{{{who}, :f :{e.f}, :key "{e.key}", :value {asked}}}\n')
    return "".join(rows)


def as_ours(model: str, ops: list[Op]) -> str:
    """`dstest.history/1`, written without the code that reads it."""
    lines: list[dict[str, Any]] = [
        {"schema": "dstest.history/1", "model": model, "options": {"permits": 2}}
    ]
    lines += [{name: getattr(op, name) for name in FIELDS} for op in ops]
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


REGISTER_LIES = ("stale", "phantom", "blind", "forget")


def _logs() -> Iterator[tuple[str, str]]:
    verdicts = []
    for number in range(24):
        lie = None if number % 2 else REGISTER_LIES[number // 2 % len(REGISTER_LIES)]
        name = f"jepsen/made_{number:02d}.log"
        make = _registers(5 if number % 3 else 0, "differs", 30 + 2 * number)
        yield f"porcupine/{name}", as_log(with_verdict(make, name, lie))
        expected = "illegal" if lie else "ok"
        verdicts.append({"file": name, "model": "etcd-cas-register", "expected": expected})
    yield "porcupine/verdicts.json", json.dumps(verdicts, indent=1) + "\n"
    for number in range(4):
        for lie, verdict in ((None, "ok"), (("stale", "forget")[number % 2], "bad")):
            name = f"porcupine/kv/made{number}-{verdict}.txt"
            yield name, as_map_log(with_verdict(_maps, name, lie))


def _edn() -> Iterator[tuple[str, str]]:
    for number in range(8):
        make = _registers(5 if number % 2 else 0, "nothing", 30 + 5 * number)
        for lie, folder in ((None, "good"), (REGISTER_LIES[number % 4], "bad")):
            name = f"knossos/cas-register/{folder}/made-{number}.edn"
            yield name, as_edn(with_verdict(make, name, lie))
    for number in range(3):
        for lie, folder in ((None, "good"), ("double", "bad")):
            name = f"knossos/mutex/{folder}/made-{number}.edn"
            yield name, as_edn(with_verdict(_mutexes, name, lie))


MODELS = {
    "register": "", "cas-register": "", "multi-register": "", "kv-map": "", "mutex": "",
    "reentrant-mutex": "", "fencing-lock": "", "semaphore": "", "fifo-queue": "",
    "priority-queue": "", "stack": "", "set": "", "counter": "", "log": "log",
    "deque": "",
}  # fmt: skip
"""Model -> how its key must begin."""


def _one_at_a_time(ops: list[Op]) -> bool:
    """No process has two calls at once, or goes on after an unknown outcome."""
    free: dict[Any, int] = {}
    for op in ops:
        if op.invoke_ts <= free.get(op.process_id, op.invoke_ts - 1):
            return False
        free[op.process_id] = 1 << 62 if op.complete_ts is None else op.complete_ts
    return True


def _ours() -> Iterator[tuple[str, str]]:
    """Small histories of every model, all of whose orders were tried."""
    for model, prefix in MODELS.items():
        left = {True: 5, False: 5}
        for attempt in range(20_000):
            dice = random.Random(f"ours/{model}/{attempt}")
            ops = random_history(model, dice, 7, f"{prefix}k")
            answers = sum(op.output is not None for op in ops)
            if len(ops) < 5 or answers < 2 or not _one_at_a_time(ops):
                continue
            good = explains(model, ops)
            if not left[good]:
                continue
            left[good] -= 1
            folder = "good" if good else "bad"
            yield f"ours/{model}/{folder}/made-{left[good]}.jsonl", as_ours(model, ops)
            if not any(left.values()):
                break
        assert not any(left.values()), model


def files() -> Iterator[tuple[str, str]]:
    """(path, text) of every history of an object."""
    yield from _logs()
    yield from _edn()
    yield from _ours()
