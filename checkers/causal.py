"""`causal`: is a history of unique writes and reads causally consistent?

    {"op_type": "write", "process_id": 3, "key": "x", "input": 7}
    {"op_type": "read",  "process_id": 4, "key": "x", "output": 7}

Causal order is the smallest that holds the order of each process and puts a write before every read
of its value. A history of unique values is causally consistent if and only if it has none of the
bad patterns (Bouajjani, Enea, Guerraoui and Hamza, POPL 2017):

| anomaly | bad pattern |
|---|---|
| thin-air-read | ThinAirRead: the value was never written |
| failed-but-applied | the value's only write failed definitely |
| future-read | CyclicCO: read before its write began |
| write-co-init-read | null was read, though a write of the key came causally before |
| write-co-read | an overwritten value was read: w1 before w2 before the read |

On one clock no cycle is possible but by a read that ends before its write begins, so that pattern
takes CyclicCO's place. Vector clocks: memory is writes times processes, time is reads times the
processes that wrote the key, both per component of processes that share keys; a component too big
for the budget is undecided.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from checkers._findings import Decide, Findings, Part, PerKey, end_of, in_one
from checkers.columns import Interner
from dstest.core.check import Budget, CheckResult
from dstest.core.history import History
from dstest.core.op import Op
from dstest.core.words import quoted

I32 = npt.NDArray[np.int32]

BYTES_MAX: Final = 1 << 30
"""Of vector clocks; above it the history is undecided instead of eating the memory."""


@dataclass(slots=True)
class _Write:
    op: Op
    session: int
    index: int
    clock: I32


@dataclass(slots=True)
class _State:
    """What the sweep over time has seen. `log` holds, per key and session, the writes in order."""

    clocks: dict[int, I32] = field(default_factory=dict)
    written: dict[tuple[int, int], _Write] = field(default_factory=dict)
    log: dict[int, dict[int, list[_Write]]] = field(default_factory=dict)


def _newest_before(writes: list[_Write], limit: int) -> _Write | None:
    """The last of one session's writes whose index is at most `limit`."""
    low, high = 0, len(writes)
    while low < high:
        middle = (low + high) // 2
        if writes[middle].index <= limit:
            low = middle + 1
        else:
            high = middle
    return writes[low - 1] if low else None


def _read(op: Op, key: int, seen: _Write | None, clock: I32, state: _State, f: Findings) -> None:
    """A read whose causal past, `clock`, holds a write that it should have seen instead."""
    for session, writes in state.log.get(key, {}).items():
        over = _newest_before(writes, int(clock[session]))
        if over is None or over is seen:
            continue
        if seen is None:
            why = f"though write (op {over.op.op_id}) came before it"
            message = f"read (op {op.op_id}) found nothing, {why}"
            f.anomaly("write-co-init-read", op.key, [over.op, op], message)
            return
        if over.clock[seen.session] >= seen.index:
            message = (
                f"read (op {op.op_id}) returned the value of write (op {seen.op.op_id}), which "
                f"write (op {over.op.op_id}) had overwritten in its causal past"
            )
            f.anomaly("write-co-read", op.key, [seen.op, over.op, op], message)
            return


def _sources(part: Part, keys: Interner, values: Interner) -> dict[str, Any]:
    attempts: dict[tuple[int, int], Op] = {}
    for op in part.maybe("write"):
        attempts.setdefault((keys.id_of(op.key), values.id_of(op.input)), op)
    refused = {(keys.id_of(op.key), values.id_of(op.input)): op for op in part.refused("write")}
    return {"attempts": attempts, "refused": refused}


def _strange(op: Op, where: tuple[int, int], names: dict[str, Any], findings: Findings) -> bool:
    """Is the read's value one that cannot be? Reported here."""
    attempt = names["attempts"].get(where)
    if attempt is not None and attempt.invoke_ts <= end_of(op):
        return False
    if attempt is not None:
        began = f"before write (op {attempt.op_id}) began"
        message = f"read (op {op.op_id}) returned {quoted(op.output)} {began}"
        findings.anomaly("future-read", op.key, [attempt, op], message, element=op.output)
    elif where in names["refused"]:
        who = f"read (op {op.op_id})"
        message = f"{quoted(op.output)} was refused definitely, yet {who} returned it"
        ops = [names["refused"][where], op]
        findings.anomaly("failed-but-applied", op.key, ops, message, element=op.output)
    else:
        message = f"read (op {op.op_id}) returned {quoted(op.output)}, which nobody wrote"
        findings.anomaly("thin-air-read", op.key, [op], message, element=op.output)
    return True


def _own_writes(part: Part) -> dict[int, int]:
    """By read: how many writes its process had begun before it, also where time stamps tie."""
    before: dict[int, int] = {}
    count: dict[Any, int] = {}
    for op in sorted((*part.ok, *part.unknown), key=lambda op: (op.invoke_ts, end_of(op))):
        if op.op_type == "write":
            count[op.process_id] = count.get(op.process_id, 0) + 1
        else:
            before[id(op)] = count.get(op.process_id, 0)
    return before


def _components(part: Part) -> list[Part]:
    """Processes that share no key, not even by way of others, know nothing of each other: each
    such component is judged alone, with clocks of its own size."""
    above: dict[Any, Any] = {}

    def root(name: Any) -> Any:
        while above.setdefault(name, name) != name:
            above[name] = name = above[above[name]]
        return name

    keys = Interner()
    everything = (part.ok, part.unknown, part.failed)
    for op in (op for ops in everything for op in ops):
        above[root(("process", op.process_id))] = root(("key", keys.id_of(op.key)))
    pieces: dict[Any, Part] = {}
    for kind, ops in zip(("ok", "unknown", "failed"), everything, strict=True):
        for op in ops:
            piece = pieces.setdefault(root(("process", op.process_id)), Part(part.key))
            getattr(piece, kind).append(op)
    return list(pieces.values())


def decide(part: Part, findings: Findings) -> int:
    """All bad patterns; the number of reads tested."""
    return sum(_decide(piece, findings) for piece in _components(part))


def _decide(part: Part, findings: Findings) -> int:
    """Those of one component."""
    keys, values, sessions = Interner(), Interner(), Interner()
    writes = part.maybe("write")
    names = _sources(part, keys, values)
    if len(names["attempts"]) < len(writes):
        findings.undecide(part.key, "a value was written twice to a key")
        return 0
    count = len({op.process_id for op in (*part.ok, *part.unknown)}) + 1
    if (len(writes) + count) * count * 4 > BYTES_MAX:
        findings.undecide(part.key, f"{len(writes)} writes by {count} processes: too many clocks")
        return 0
    state = _State()
    own_before = _own_writes(part)
    events = [(op.invoke_ts, 0, n, op) for n, op in enumerate(writes)]
    events += [(end_of(op), 1, n, op) for n, op in enumerate(part.of("read"))]
    tested = 0
    for _, is_read, _, op in sorted(events, key=lambda e: e[:3]):
        findings.tick()
        session, key = sessions.id_of(op.process_id), keys.id_of(op.key)
        clock = state.clocks.get(session)
        clock = np.zeros(count, np.int32) if clock is None else clock
        if not is_read:
            clock = clock.copy()
            clock[session] += 1
            write = _Write(op, session, int(clock[session]), clock)
            state.clocks[session] = clock
            state.written[key, values.id_of(op.input)] = write
            state.log.setdefault(key, {}).setdefault(session, []).append(write)
            continue
        tested += 1
        where = (key, values.id_of(op.output))
        if op.output is not None and _strange(op, where, names, findings):
            continue
        seen = None if op.output is None else state.written[where]
        clock = clock if seen is None else np.maximum(clock, seen.clock)
        state.clocks[session] = clock
        past = clock.copy()
        past[session] = min(int(past[session]), own_before[id(op)])
        _read(op, key, seen, past, state, findings)
    findings.count(reads=tested, writes=len(writes), sessions=count - 1)
    return tested if writes else 0


class _Causal(PerKey):
    """Takes Jepsen's notation as well: `read-init` is the first read of a register that starts with
    0."""

    def __init__(self, name: str, decide: Decide, **said: Any) -> None:
        super().__init__(name, decide, **said)
        self.op_types = dict.fromkeys(self.models, frozenset({"read", "read-init", "write"}))

    def check(self, history: History, model: str, budget: Budget) -> CheckResult:
        """As `PerKey.check`."""
        if any(op.op_type == "read-init" for op in history.ops):
            zero = not any(op.op_type == "write" and op.input == 0 for op in history.ops)
            history = replace(history, ops=[_ours(op, zero) for op in history.ops])
        return super().check(history, model, budget)


def _ours(op: Op, zero: bool) -> Op:
    """A read that is called as ours; `zero`: 0 is what nobody has written yet."""
    if op.op_type not in ("read", "read-init"):
        return op
    output = None if zero and op.output == 0 and op.output is not False else op.output
    return replace(op, op_type="read", input=None, output=output)


CHECKER: Final = _Causal(
    "causal",
    decide,
    models=("causal",),
    types=frozenset({"read", "write"}),
    prefix_closed=True,
    vacuous="no completed read, or no write",
    key_of=in_one,
)
